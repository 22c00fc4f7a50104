//! The section `top` of `/status.json`: what is asked for most, and by whom.

use serde_json::{Map, Value as Json, json};

use crate::limits;
use crate::registry::Metrics;
use crate::shard::TOPS;
use crate::top::{Ranking, TopKey, TopSnapshot, merged};

impl Metrics {
    /// The most frequent keys of each table.
    pub(super) fn top(&self) -> Map<String, Json> {
        let mut tables = TOPS.map(|_| Vec::new());
        for shard in &self.shards {
            tables.iter_mut().zip(shard.top.snapshots()).for_each(|(table, snapshot)| table.push(snapshot));
        }
        let list = |((name, ranking), snapshots): ((&str, Ranking), Vec<TopSnapshot>)| {
            let keys = merged(&snapshots, ranking, limits::TOP_KEYS_SHOWN);
            (name.to_owned(), keys.iter().map(TopKey::status).collect())
        };
        TOPS.into_iter().zip(tables).map(list).collect()
    }
}

impl TopKey {
    fn status(&self) -> Json {
        let Self { key, requests, bytes, error, players } = self;
        let mut status = json!({"key": &**key, "requests": requests, "bytes": bytes, "error": error});
        if let Some(players) = players.status() {
            status["players"] = players;
        }
        status
    }
}
