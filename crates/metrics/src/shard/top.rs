//! What is asked for most, and by whom.

use std::cell::OnceCell;
use std::fmt::{Display, Write as _};
use std::sync::{Arc, Mutex};

use crate::keyed_hash::KeyedHash;
use crate::labels::ClientKind;
use crate::limits;
use crate::lock::lock;
use crate::players::{Audience, PlayerSaid};
use crate::shard::Shard;
use crate::titles::TitleCounts;
use crate::top::{Ranking, TopSnapshot, TopTable};

/// The tables of one worker. The worker takes the lock for each response, a reader for the time of a copy of one table without texts.
#[derive(Debug, Default)]
pub(crate) struct TopCounters(Mutex<TopTables>);

#[derive(Debug)]
struct TopTables {
    /// Keyed, so that clients cannot choose two keys with the same hash.
    hashes: KeyedHash,
    kinds: KnownKinds,
    titles: [TopTable<TitleCounts>; TITLE_TOPS.len()],
    others: [TopTable<()>; OTHER_TOPS.len()],
}

/// The tables of titles: their names in `/status.json`, and what they rank by.
pub(crate) const TITLE_TOPS: [(&str, Ranking); 3] = [
    ("titles", Ranking::Bytes),
    ("titles_by_requests", Ranking::Requests),
    ("starved_titles", Ranking::Requests),
];

/// The other tables.
pub(crate) const OTHER_TOPS: [(&str, Ranking); 3] =
    [("not_found", Ranking::Requests), ("networks", Ranking::Bytes), ("user_agents", Ranking::Requests)];

impl Default for TopTables {
    fn default() -> Self {
        Self {
            hashes: KeyedHash::default(),
            kinds: KnownKinds::default(),
            titles: TITLE_TOPS.map(|(_, ranking)| TopTable::new(ranking)),
            others: OTHER_TOPS.map(|(_, ranking)| TopTable::new(ranking)),
        }
    }
}

/// A response and its client, as the tables of the most frequent ones count it.
#[derive(Clone, Copy)]
pub struct Asked<'a> {
    /// The name of the site.
    pub site: &'a str,
    /// What belongs together on the site: the beginning of the path, or the name that players give it.
    pub title: &'a str,
    /// What the player says of itself.
    pub player: Option<&'a PlayerSaid>,
    /// The path, if the status is 4xx.
    pub refused_path: Option<&'a str>,
    /// The client's network: a number that no other network has, and its name.
    pub network: Option<(u64, &'a dyn Display)>,
    /// What tells the kind of the client.
    pub client: ClientMarks<'a>,
    /// Bytes of the body.
    pub bytes: u64,
}

/// What tells the kind of a client.
#[derive(Clone, Copy)]
pub struct ClientMarks<'a> {
    /// `User-Agent`
    pub user_agent: Option<&'a str>,
    /// The fingerprint of its TLS, if the kind depends on it.
    pub ja4: Option<&'a str>,
    /// A hash of the table of kinds.
    pub table: u64,
    /// Looks into the table, which takes longer than everything else here.
    pub kind: &'a dyn Fn() -> ClientKind,
}

/// The kinds of clients that were looked up last, by the hash of what tells them. The last bits of a cell are the kind.
#[derive(Debug)]
struct KnownKinds(Box<[u64; limits::KNOWN_KINDS]>);

impl Default for KnownKinds {
    fn default() -> Self {
        Self(Box::new([Self::KIND; limits::KNOWN_KINDS]))
    }
}

impl KnownKinds {
    /// The bits of the kind; all of them are no kind.
    const KIND: u64 = 7;

    fn find(&mut self, hash: u64, look_up: impl FnOnce() -> ClientKind) -> ClientKind {
        let place = (hash >> 32) as usize % limits::KNOWN_KINDS;
        let Some(cell) = self.0.get_mut(place) else { return look_up() };
        let known = ClientKind::ALL.get((*cell & Self::KIND) as usize);
        match known {
            Some(kind) if *cell | Self::KIND == hash | Self::KIND => *kind,
            _ => {
                let kind = look_up();
                *cell = hash & !Self::KIND | kind as u64;
                kind
            }
        }
    }
}

const _: () =
    assert!(ClientKind::ALL.len() as u64 <= KnownKinds::KIND, "a kind fits into the bits of a cell");

impl TopTables {
    /// Counts a response, and returns the kind of its client.
    fn count(&mut self, asked: &Asked<'_>) -> ClientKind {
        let Self {
            hashes,
            kinds,
            titles: [titles, by_requests, starved],
            others: [not_found, networks, agents],
        } = self;
        let Asked { site, title, player, refused_path, network, client, bytes } = *asked;
        let user_agent = client.user_agent.map(cut);
        let agent = hashes.of(user_agent.as_slice());
        let marks = client.ja4.map_or(agent, |ja4| hashes.with(agent, ja4.as_bytes()));
        let kind = kinds.find(marks ^ client.table, client.kind);
        let audience = &Audience { kind, said: player };
        let title = cut(title);
        let hash = hashes.of(&[site, title]);
        // Made once, for the tables that have no entry.
        let made = OnceCell::new();
        let named = || Arc::clone(made.get_or_init(|| key(&[site, gap(title), title])));
        titles.count(hash, bytes, audience, named);
        by_requests.count(hash, bytes, audience, named);
        if player.is_some_and(|player| player.starved) {
            starved.count(hash, bytes, audience, named);
        }
        if let Some(path) = refused_path.map(cut) {
            not_found.count(hashes.of(&[site, path]), bytes, audience, || key(&[site, path]));
        }
        if let Some((number, name)) = network {
            networks.count(hashes.of_number(number), bytes, audience, || {
                let mut text = String::new();
                // Writing to a String cannot fail.
                write!(text, "{name}").unwrap_or_default();
                key(&[&text])
            });
        }
        if let Some(name) = user_agent {
            agents.count(agent, bytes, audience, || key(&[name]));
        }
        kind
    }
}

/// What stands between a site and a title that is no path.
fn gap(title: &str) -> &'static str {
    if title.starts_with('/') { "" } else { " " }
}

/// The key of these parts.
fn key(parts: &[&str]) -> Arc<str> {
    Arc::from(parts.concat())
}

/// A text of a client, cut to its bound before it is hashed: keys that are shown alike are one.
fn cut(text: &str) -> &str {
    if text.len() <= limits::TOP_KEY_BYTES {
        return text;
    }
    let end = (0..=limits::TOP_KEY_BYTES).rev().find(|end| text.is_char_boundary(*end));
    &text[..end.unwrap_or(0)]
}

impl Shard {
    /// Counts a response in the tables of the most frequent titles, networks and clients. Returns the kind of its client.
    pub fn asked(&self, asked: &Asked<'_>) -> ClientKind {
        self.expect_own_thread();
        lock(&self.top.0).count(asked)
    }
}

/// Copies of the tables of one worker.
#[derive(Debug)]
pub(crate) struct TopSnapshots {
    /// In the order of [`TITLE_TOPS`].
    pub(crate) titles: [TopSnapshot<TitleCounts>; TITLE_TOPS.len()],
    /// In the order of [`OTHER_TOPS`].
    pub(crate) others: [TopSnapshot<()>; OTHER_TOPS.len()],
}

impl TopCounters {
    /// Copies the tables, and lets the worker go on after each.
    pub(crate) fn snapshots(&self) -> TopSnapshots {
        TopSnapshots {
            titles: std::array::from_fn(|place| lock(&self.0).titles[place].snapshot()),
            others: std::array::from_fn(|place| lock(&self.0).others[place].snapshot()),
        }
    }

    /// The bytes of the tables, without those of keys.
    #[cfg(test)]
    pub(crate) fn bytes(&self) -> usize {
        let tables = lock(&self.0);
        let titles: usize = tables.titles.iter().map(TopTable::bytes).sum();
        titles + tables.others.iter().map(TopTable::bytes).sum::<usize>() + size_of_val(&*tables.kinds.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::top::{EntryCounts, merged};

    fn client<'a>(user_agent: &'a str, kind: &'a dyn Fn() -> ClientKind) -> ClientMarks<'a> {
        ClientMarks { user_agent: Some(user_agent), ja4: None, table: 1, kind }
    }

    fn asked<'a>(title: &'a str, client: ClientMarks<'a>) -> Asked<'a> {
        Asked { site: "a", title, player: None, refused_path: Some(title), network: None, client, bytes: 1 }
    }

    #[test]
    fn long_paths_that_begin_alike_are_one_key_and_their_error_is_small() {
        let mut tables = TopTables::default();
        let begin = "/x".repeat(limits::TOP_KEY_BYTES);
        // Others fill the table between them, so that each new key takes the place of another one.
        for number in 0..4 * limits::TOP_KEYS {
            for path in [format!("{begin}{number}"), format!("/{number}")] {
                tables.count(&asked(&path, client(&path, &|| ClientKind::Other)));
            }
        }
        fn check<C: EntryCounts>(table: &TopTable<C>, (name, ranking): (&str, Ranking)) {
            let keys = merged(&[table.snapshot()], ranking, 1);
            assert_eq!((keys[0].requests, keys[0].error), (4 * limits::TOP_KEYS as u64, 0), "{name}");
        }
        [0, 1].iter().for_each(|place| check(&tables.titles[*place], TITLE_TOPS[*place]));
        [0, 2].iter().for_each(|place| check(&tables.others[*place], OTHER_TOPS[*place]));
    }

    #[test]
    fn the_kind_of_a_client_is_looked_up_once_for_what_tells_it() {
        let mut tables = TopTables::default();
        let looks = std::cell::Cell::new(0);
        let phone = || {
            looks.set(looks.get() + 1);
            ClientKind::Phone
        };
        let phone = client("phone", &phone);
        for _ in 0..3 {
            assert_eq!(tables.count(&asked("/a", phone)), ClientKind::Phone);
        }
        assert_eq!(looks.get(), 1);
        for (number, other) in [
            ClientMarks { ja4: Some("t13d1516h2_8daaf6152771_e5627efa2ab1"), ..phone },
            ClientMarks { ja4: Some("t13d1516h2_8daaf6152771_e5627efa2ab2"), ..phone },
            ClientMarks { table: 2 << 32, ..phone },
            ClientMarks { user_agent: None, ..phone },
        ]
        .into_iter()
        .enumerate()
        {
            tables.count(&asked("/a", other));
            assert_eq!(looks.get(), number + 2);
        }
        // Many others: each is counted as what it is, also if it takes the place of another one.
        for number in 0..3 * limits::KNOWN_KINDS {
            let kind = ClientKind::ALL[number % ClientKind::ALL.len()];
            let agent = format!("agent {number}");
            assert_eq!(tables.count(&asked("/a", client(&agent, &|| kind))), kind);
        }
    }

    #[test]
    fn a_title_is_counted_by_kind_of_client() {
        let mut tables = TopTables::default();
        for (agent, kind) in
            [("one", ClientKind::Tool), ("two", ClientKind::Browser), ("one", ClientKind::Tool)]
        {
            tables.count(&asked("/a", client(agent, &|| kind)));
        }
        let keys = merged(&[tables.titles[0].snapshot()], Ranking::Bytes, 1);
        let clients = &keys[0].status()["clients"];
        assert_eq!((&clients["tool"]["requests"], &clients["browser"]["bytes"]), (&2.into(), &1.into()));
    }
}
