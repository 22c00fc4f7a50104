//! The section `top` of `/status.json`: what is asked for most, and by whom.

use serde_json::{Map, Value as Json, json};

use crate::limits;
use crate::registry::Metrics;
use crate::shard::{OTHER_TOPS, TITLE_TOPS};
use crate::top::{EntryCounts, Ranking, TopKey, TopSnapshot, merged};

impl Metrics {
    /// The most frequent keys of each table.
    pub(super) fn top(&self) -> Map<String, Json> {
        let mut titles = TITLE_TOPS.map(|_| Vec::new());
        let mut others = OTHER_TOPS.map(|_| Vec::new());
        for shard in &self.shards {
            let snapshots = shard.top.snapshots();
            titles.iter_mut().zip(snapshots.titles).for_each(|(table, snapshot)| table.push(snapshot));
            others.iter_mut().zip(snapshots.others).for_each(|(table, snapshot)| table.push(snapshot));
        }
        let titles = TITLE_TOPS.into_iter().zip(&titles).map(|(name, snapshots)| list(name, snapshots));
        titles
            .chain(OTHER_TOPS.into_iter().zip(&others).map(|(name, snapshots)| list(name, snapshots)))
            .collect()
    }
}

fn list<C: EntryCounts>((name, ranking): (&str, Ranking), snapshots: &[TopSnapshot<C>]) -> (String, Json) {
    let keys = merged(snapshots, ranking, limits::TOP_KEYS_SHOWN);
    (name.to_owned(), keys.iter().map(TopKey::status).collect())
}

impl<C: EntryCounts> TopKey<C> {
    pub(crate) fn status(&self) -> Json {
        let Self { key, requests, bytes, error, more } = self;
        let mut status = Map::new();
        status.insert("key".to_owned(), json!(&**key));
        for (name, number) in [("requests", requests), ("bytes", bytes), ("error", error)] {
            status.insert(name.to_owned(), json!(number));
        }
        more.show(&mut status);
        status.into()
    }
}
