//! Purges: how many were ordered, and what they met.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex};

use penstock_cache::purge::Purges;

use super::{Observatory, lock};
use crate::cached::{PurgeOrder, PurgeWhat};

/// What is purged, as label values, in the order of their counters.
pub(super) const KINDS: &[&str] = &["url", "prefix", "tag", "everything"];

/// Counted by the console's thread.
#[derive(Debug, Default)]
pub(super) struct PurgeCounters {
    pub(super) orders: [AtomicU64; KINDS.len()],
    pub(super) objects: AtomicU64,
    list: Mutex<Option<Arc<Purges>>>,
}

impl Observatory {
    /// Somebody ordered a purge, and it met so many objects.
    pub(crate) fn purged(&self, order: &PurgeOrder, objects: usize) {
        let kind = match order.what {
            PurgeWhat::Url(_) => 0,
            PurgeWhat::Prefix(_) => 1,
            PurgeWhat::Tag(_) => 2,
            PurgeWhat::Everything => 3,
        };
        self.purges.orders[kind].fetch_add(1, Relaxed);
        self.purges.objects.fetch_add(objects as u64, Relaxed);
    }

    /// The list of purges whose length is shown.
    pub(crate) fn set_purges(&self, list: Arc<Purges>) {
        *lock(&self.purges.list) = Some(list);
    }

    /// How long the list of purges is, if there is one.
    pub(super) fn purges_listed(&self) -> Option<usize> {
        lock(&self.purges.list).as_ref().map(|list| list.len())
    }
}
