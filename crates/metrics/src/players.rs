//! What players say of themselves, by kind of client.

use std::time::Duration;

use serde_json::{Value as Json, json};

use crate::cells::{Counter, Histogram, Multiple};
use crate::distinct::Distinct;
use crate::labels::ClientKind;

/// What players of one site said. A worker has 3 KiB for each site to whose players it listened.
#[derive(Debug, Default)]
pub(crate) struct PlayerCounters {
    pub(crate) kinds: [KindOfPlayer; ClientKind::ALL.len()],
    pub(crate) sessions: Distinct,
}

/// What players of one kind said.
#[derive(Debug, Default)]
pub(crate) struct KindOfPlayer {
    pub(crate) requests: Counter,
    pub(crate) starved: Counter,
    pub(crate) startup: Counter,
    pub(crate) malformed: Counter,
    pub(crate) buffer: Histogram,
    pub(crate) throughput: Histogram<Multiple>,
}

/// What a player said of itself with a request (CTA-5004).
#[derive(Clone, Copy, Debug)]
pub struct PlayerSaid<'a> {
    /// The kind of client.
    pub kind: ClientKind,
    /// The name of its session.
    pub session: Option<&'a str>,
    /// How much it has in its buffer.
    pub buffer: Option<Duration>,
    /// Whether its buffer has run empty.
    pub starved: bool,
    /// Whether it needs the object to start.
    pub startup: bool,
    /// Whether a part of it is malformed, and was not read.
    pub malformed: bool,
    /// The throughput that it has measured, and the encoded bitrate of the object, in the same unit.
    pub throughput: Option<(u64, u64)>,
}

/// Upper bounds of the lengths of buffers of a title's players, in milliseconds; one more bucket has no bound.
const BUFFERS: [u64; 4] = [1_000, 4_000, 10_000, 30_000];
/// Upper bounds of the throughput of a title's players as a multiple of the bitrate, in thousandths; one more has no bound.
const THROUGHPUTS: [u64; 3] = [1_000, 1_500, 3_000];

/// What players of one title said, in little memory: there is one for each entry of a table of what is asked for most.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct TitlePlayers {
    requests: u32,
    starved: u32,
    buffer: [u32; BUFFERS.len() + 1],
    throughput: [u32; THROUGHPUTS.len() + 1],
}

impl TitlePlayers {
    pub(crate) fn count(&mut self, said: &PlayerSaid<'_>) {
        self.requests = self.requests.saturating_add(1);
        self.starved = self.starved.saturating_add(u32::from(said.starved));
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

    /// Adds what another worker has heard.
    pub(crate) fn add(&mut self, other: &Self) {
        let sum = |one: &mut u32, other: u32| *one = one.saturating_add(other);
        sum(&mut self.requests, other.requests);
        sum(&mut self.starved, other.starved);
        self.buffer.iter_mut().zip(other.buffer).for_each(|(one, other)| sum(one, other));
        self.throughput.iter_mut().zip(other.throughput).for_each(|(one, other)| sum(one, other));
    }

    /// For `/status.json`; null if no player has said anything. A bucket has its upper bound, the last one none.
    pub(crate) fn status(&self) -> Option<Json> {
        let buckets = |counts: &[u32], bounds: &[u64], unit: &str| {
            let below = |place: usize| bounds.get(place).map(|bound| *bound as f64 / 1000.0);
            let bucket = |(place, count): (usize, &u32)| json!({unit: below(place), "requests": count});
            counts.iter().enumerate().map(bucket).collect::<Vec<_>>()
        };
        (self.requests > 0).then(|| {
            json!({
                "requests": self.requests,
                "starved": self.starved,
                "buffer": buckets(&self.buffer, &BUFFERS, "seconds_max"),
                "throughput": buckets(&self.throughput, &THROUGHPUTS, "ratio_max"),
            })
        })
    }
}

impl PlayerCounters {
    pub(crate) fn count(&self, said: &PlayerSaid<'_>) {
        let kind = &self.kinds[said.kind as usize];
        kind.requests.add(1);
        kind.starved.add(u64::from(said.starved));
        kind.startup.add(u64::from(said.startup));
        kind.malformed.add(u64::from(said.malformed));
        if let Some(buffer) = said.buffer {
            kind.buffer.observe(buffer);
        }
        if let Some(ratio) = said.throughput.and_then(|(measured, encoded)| thousandths(measured, encoded)) {
            kind.throughput.observe_parts(ratio);
        }
        if let Some(session) = said.session {
            self.sessions.add(session);
        }
    }
}

fn thousandths(part: u64, whole: u64) -> Option<u64> {
    let ratio = u128::from(part).checked_mul(1_000)?.checked_div(u128::from(whole))?;
    Some(u64::try_from(ratio).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(buffer: u64, starved: bool, throughput: (u64, u64)) -> PlayerSaid<'static> {
        PlayerSaid {
            kind: ClientKind::Browser,
            session: None,
            buffer: Some(Duration::from_millis(buffer)),
            starved,
            startup: false,
            throughput: Some(throughput),
            malformed: false,
        }
    }

    #[test]
    fn players_of_a_title_are_counted_by_buffer_and_throughput_and_added_over_workers() {
        let (mut one, mut other) = (TitlePlayers::default(), TitlePlayers::default());
        assert_eq!(one.status(), None);
        one.count(&said(0, true, (500, 1_000)));
        one.count(&said(1_000, false, (1_000, 1_000)));
        other.count(&said(1_001, false, (2_000, 1_000)));
        other.count(&said(100_000, false, (1, 0)));
        one.add(&other);
        let status = one.status().unwrap();
        assert_eq!((&status["requests"], &status["starved"]), (&4.into(), &1.into()));
        let counts = |name: &str| -> Vec<u64> {
            status[name]
                .as_array()
                .unwrap()
                .iter()
                .map(|bucket| bucket["requests"].as_u64().unwrap())
                .collect()
        };
        assert_eq!(counts("buffer"), [2, 1, 0, 0, 1]);
        assert_eq!(counts("throughput"), [2, 0, 1, 0], "a bitrate of nothing says nothing");
        assert_eq!(status["buffer"][0]["seconds_max"], 1.0);
        assert!(status["buffer"][4]["seconds_max"].is_null());
    }
}
