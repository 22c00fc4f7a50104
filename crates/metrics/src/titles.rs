//! What is counted of one title, by kind of client.

use serde_json::{Map, Value as Json, json};

use crate::distinct::Registers;
use crate::labels::ClientKind;
use crate::players::{Audience, thousandths};
use crate::top::EntryCounts;

/// Registers for the sessions of a title on one kind of client: the standard error is 13 %, of all kinds together too.
const SESSION_REGISTERS: usize = 64;

/// Upper bounds of the lengths of buffers of a title's players, in milliseconds; one more bucket has no bound.
pub(crate) const BUFFERS: [u64; 4] = [1_000, 5_000, 10_000, 30_000];
/// Upper bounds of the throughput of a title's players as a multiple of the bitrate, in thousandths; one more has no bound.
pub(crate) const THROUGHPUTS: [u64; 3] = [1_000, 1_500, 3_000];

/// The requests for one title, in little memory: there is one for each entry of a table of titles.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct TitleCounts {
    clients: [ClientsOfTitle; ClientKind::ALL.len()],
    buffer: [u32; BUFFERS.len() + 1],
    throughput: [u32; THROUGHPUTS.len() + 1],
}

/// The requests of clients of one kind for one title.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct ClientsOfTitle {
    bytes: u64,
    requests: u32,
    /// Those whose player said something of itself.
    said: u32,
    starved: u32,
    startup: u32,
    sessions: Registers<SESSION_REGISTERS>,
}

impl EntryCounts for TitleCounts {
    fn count(&mut self, bytes: u64, &Audience { kind, said }: &Audience<'_>) {
        let clients = &mut self.clients[kind as usize];
        clients.bytes = clients.bytes.saturating_add(bytes);
        clients.requests = clients.requests.saturating_add(1);
        let Some(said) = said else { return };
        clients.said = clients.said.saturating_add(1);
        clients.starved = clients.starved.saturating_add(u32::from(said.starved));
        clients.startup = clients.startup.saturating_add(u32::from(said.startup));
        if let Some(session) = said.session {
            clients.sessions.add(session);
        }
        let add = |buckets: &mut [u32], bounds: &[u64], value: u64| {
            if let Some(bucket) = buckets.get_mut(bounds.partition_point(|bound| *bound < value)) {
                *bucket = bucket.saturating_add(1);
            }
        };
        if let Some(buffer) = said.buffer {
            add(&mut self.buffer, &BUFFERS, u64::try_from(buffer.as_millis()).unwrap_or(u64::MAX));
        }
        if let Some(ratio) = said.throughput.and_then(|(measured, encoded)| thousandths(measured, encoded)) {
            add(&mut self.throughput, &THROUGHPUTS, ratio);
        }
    }

    fn add(&mut self, other: &Self) {
        let sum = |one: &mut u32, other: u32| *one = one.saturating_add(other);
        for (one, other) in self.clients.iter_mut().zip(&other.clients) {
            one.bytes = one.bytes.saturating_add(other.bytes);
            sum(&mut one.requests, other.requests);
            sum(&mut one.said, other.said);
            sum(&mut one.starved, other.starved);
            sum(&mut one.startup, other.startup);
            one.sessions.merge(&other.sessions);
        }
        self.buffer.iter_mut().zip(other.buffer).for_each(|(one, other)| sum(one, other));
        self.throughput.iter_mut().zip(other.throughput).for_each(|(one, other)| sum(one, other));
    }

    /// Adds `clients`, and `players` if one has said anything. A bucket has its upper bound, the last one none.
    fn show(&self, entry: &mut Map<String, Json>) {
        let of_kind = |(kind, clients): (&ClientKind, &ClientsOfTitle)| {
            let ClientsOfTitle { bytes, requests, said, starved, startup, sessions } = clients;
            let mut shown = json!({"requests": requests, "bytes": bytes});
            if *said > 0 {
                let sessions = sessions.estimate();
                shown["players"] =
                    json!({"requests": said, "starved": starved, "startup": startup, "sessions": sessions});
            }
            (*requests > 0).then(|| (kind.label().to_owned(), shown))
        };
        let by_kind: Map<_, _> = ClientKind::ALL.iter().zip(&self.clients).filter_map(of_kind).collect();
        entry.insert("clients".to_owned(), by_kind.into());
        let sum =
            |count: fn(&ClientsOfTitle) -> u32| self.clients.iter().map(count).map(u64::from).sum::<u64>();
        let said = sum(|clients| clients.said);
        if said > 0 {
            // A viewer who goes on with another kind of client has one session, if the player keeps its id.
            let mut sessions = Registers::<SESSION_REGISTERS>::default();
            self.clients.iter().for_each(|clients| sessions.merge(&clients.sessions));
            let players = json!({
                "requests": said,
                "starved": sum(|clients| clients.starved),
                "startup": sum(|clients| clients.startup),
                "sessions": sessions.estimate(),
                "buffer": buckets(&self.buffer, &BUFFERS, "seconds_max"),
                "throughput": buckets(&self.throughput, &THROUGHPUTS, "ratio_max"),
            });
            entry.insert("players".to_owned(), players);
        }
    }
}

fn buckets(counts: &[u32], bounds: &[u64], unit: &str) -> Vec<Json> {
    let below = |place: usize| bounds.get(place).map(|bound| *bound as f64 / 1000.0);
    let bucket = |(place, count): (usize, &u32)| json!({unit: below(place), "requests": count});
    counts.iter().enumerate().map(bucket).collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::distinct::NameHash;
    use crate::players::PlayerSaid;

    /// Counts a request of a session whose buffer, starvation and throughput are these.
    fn count(counts: &mut TitleCounts, kind: ClientKind, said: Option<(u32, u64, bool, (u64, u64))>) {
        let said = said.map(|(session, buffer, starved, throughput)| PlayerSaid {
            session: Some(NameHash::of_number(session)),
            buffer: Some(Duration::from_millis(buffer)),
            starved,
            startup: starved,
            throughput: Some(throughput),
            malformed: false,
        });
        counts.count(100, &Audience { kind, said: said.as_ref() });
    }

    fn shown(counts: &TitleCounts) -> Json {
        let mut entry = Map::new();
        counts.show(&mut entry);
        entry.into()
    }

    #[test]
    fn requests_for_a_title_are_counted_by_kind_of_client_and_its_players_are_added_over_workers() {
        let (mut one, mut other) = (TitleCounts::default(), TitleCounts::default());
        count(&mut one, ClientKind::Tool, None);
        assert_eq!(shown(&one), json!({"clients": {"tool": {"requests": 1, "bytes": 100}}}));
        count(&mut one, ClientKind::Browser, Some((1, 0, true, (500, 1_000))));
        count(&mut one, ClientKind::Browser, Some((2, 1_000, false, (1_000, 1_000))));
        count(&mut other, ClientKind::Browser, Some((1, 1_001, false, (2_000, 1_000))));
        count(&mut other, ClientKind::Phone, Some((1, 100_000, true, (1, 0))));
        one.add(&other);
        let shown = shown(&one);
        let clients = json!({
            "browser": {
                "requests": 3,
                "bytes": 300,
                "players": {"requests": 3, "starved": 1, "startup": 1, "sessions": 2},
            },
            "phone": {
                "requests": 1,
                "bytes": 100,
                "players": {"requests": 1, "starved": 1, "startup": 1, "sessions": 1},
            },
            "tool": {"requests": 1, "bytes": 100},
        });
        assert_eq!(shown["clients"], clients);
        let players = &shown["players"];
        assert_eq!((&players["requests"], &players["starved"]), (&4.into(), &2.into()));
        assert_eq!(
            (&players["startup"], &players["sessions"]),
            (&2.into(), &2.into()),
            "one of them on two kinds"
        );
        let counts = |name: &str| -> Vec<u64> {
            let buckets = players[name].as_array().unwrap();
            buckets.iter().map(|bucket| bucket["requests"].as_u64().unwrap()).collect()
        };
        assert_eq!(counts("buffer"), [2, 1, 0, 0, 1]);
        assert_eq!(counts("throughput"), [2, 0, 1, 0], "a bitrate of nothing says nothing");
        assert_eq!(players["buffer"][0]["seconds_max"], 1.0);
        assert!(players["buffer"][4]["seconds_max"].is_null());
    }
}
