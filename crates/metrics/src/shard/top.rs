//! What is asked for most, and by whom.

use std::cell::OnceCell;
use std::fmt::{Display, Write as _};
use std::sync::{Arc, Mutex};

use crate::keyed_hash::KeyedHash;
use crate::limits;
use crate::lock::lock;
use crate::players::PlayerSaid;
use crate::shard::Shard;
use crate::top::{Ranking, TopSnapshot, TopTable};

/// The tables of one worker. The worker takes the lock for each response, a reader for the time of a copy without texts.
#[derive(Debug, Default)]
pub(crate) struct TopCounters(Mutex<TopTables>);

#[derive(Debug)]
struct TopTables {
    /// Keyed, so that clients cannot choose two keys with the same hash.
    hashes: KeyedHash,
    tables: [TopTable; TOPS.len()],
}

/// The tables: their names in `/status.json`, and what they rank by.
pub(crate) const TOPS: [(&str, Ranking); 6] = [
    ("titles", Ranking::Bytes),
    ("titles_by_requests", Ranking::Requests),
    ("starved_titles", Ranking::Requests),
    ("not_found", Ranking::Requests),
    ("networks", Ranking::Bytes),
    ("user_agents", Ranking::Requests),
];

impl Default for TopTables {
    fn default() -> Self {
        Self { hashes: KeyedHash::default(), tables: TOPS.map(|(_, ranking)| TopTable::new(ranking)) }
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
    pub player: Option<&'a PlayerSaid<'a>>,
    /// The path, if the status is 4xx.
    pub refused_path: Option<&'a str>,
    /// The client's network: a number that no other network has, and its name.
    pub network: Option<(u64, &'a dyn Display)>,
    /// `User-Agent`
    pub user_agent: Option<&'a str>,
    /// Bytes of the body.
    pub bytes: u64,
}

impl TopTables {
    fn count(&mut self, asked: &Asked<'_>) {
        let Self { hashes, tables: [titles, by_requests, starved_titles, not_found, networks, user_agents] } =
            self;
        let Asked { site, title, player, refused_path, network, user_agent, bytes } = *asked;
        let title = cut(title);
        let hash = hashes.of(&[site, title]);
        // Made once, for the tables that have no entry.
        let made = OnceCell::new();
        let named = || Arc::clone(made.get_or_init(|| key(&[site, gap(title), title])));
        titles.count_played(hash, (bytes, player), named);
        by_requests.count(hash, bytes, named);
        if player.is_some_and(|player| player.starved) {
            starved_titles.count_played(hash, (bytes, player), named);
        }
        if let Some(path) = refused_path.map(cut) {
            not_found.count(hashes.of(&[site, path]), bytes, || key(&[site, path]));
        }
        if let Some((number, name)) = network {
            networks.count(hashes.of_number(number), bytes, || {
                let mut text = String::new();
                // Writing to a String cannot fail.
                write!(text, "{name}").unwrap_or_default();
                key(&[&text])
            });
        }
        if let Some(name) = user_agent.map(cut) {
            user_agents.count(hashes.of(&[name]), bytes, || key(&[name]));
        }
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
    /// Counts a response in the tables of the most frequent titles, networks and clients.
    pub fn asked(&self, asked: &Asked<'_>) {
        self.expect_own_thread();
        lock(&self.top.0).count(asked);
    }
}

impl TopCounters {
    /// Copies of the tables, in the order of [`TOPS`].
    pub(crate) fn snapshots(&self) -> [TopSnapshot; TOPS.len()] {
        let tables = lock(&self.0);
        std::array::from_fn(|place| tables.tables[place].snapshot())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::top::merged;

    #[test]
    fn long_paths_that_begin_alike_are_one_key_and_their_error_is_small() {
        let mut tables = TopTables::default();
        let begin = "/x".repeat(limits::TOP_KEY_BYTES);
        // Others fill the table between them, so that each new key takes the place of another one.
        for number in 0..4 * limits::TOP_KEYS {
            for path in [format!("{begin}{number}"), format!("/{number}")] {
                tables.count(&Asked {
                    site: "a",
                    title: &path,
                    player: None,
                    refused_path: Some(&path),
                    network: None,
                    user_agent: Some(&path),
                    bytes: 1,
                });
            }
        }
        let requests = 4 * limits::TOP_KEYS as u64;
        let by_text = TOPS.iter().enumerate().filter(|(place, _)| [0, 1, 3, 5].contains(place));
        for (place, (name, ranking)) in by_text {
            let keys = merged(&[tables.tables[place].snapshot()], *ranking, 1);
            assert_eq!((keys[0].requests, keys[0].error), (requests, 0), "{name}");
        }
    }
}
