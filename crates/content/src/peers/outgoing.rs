//! Blocks of objects that this node is asking other nodes for.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Arc, Mutex, MutexGuard};

use penstock_config::limits;
use penstock_sys::lock::Unpoisoned;

use super::Route;

/// The blocks, with the number of requests for each.
#[derive(Debug, Default)]
pub(super) struct Outgoing(Mutex<HashMap<Route, usize>>);

impl Outgoing {
    /// Notes a request for a block for as long as the entry lives; `None` if there are too many blocks.
    pub(super) fn enter(self: &Arc<Self>, route: Route) -> Option<OutgoingEntry> {
        let mut blocks = self.lock();
        let is_full = blocks.len() >= limits::PEER_OUTGOING;
        match blocks.entry(route) {
            Entry::Occupied(mut entry) => *entry.get_mut() += 1,
            Entry::Vacant(_) if is_full => return None,
            Entry::Vacant(entry) => {
                entry.insert(1);
            }
        }
        drop(blocks);
        Some(OutgoingEntry { outgoing: Arc::clone(self), route })
    }

    pub(super) fn has(&self, route: Route) -> bool {
        self.lock().contains_key(&route)
    }

    /// The data is whole at every moment, so a panic elsewhere does not spoil it.
    fn lock(&self) -> MutexGuard<'_, HashMap<Route, usize>> {
        self.0.lock().unpoisoned()
    }
}

/// A block that another node is asked for.
pub(crate) struct OutgoingEntry {
    outgoing: Arc<Outgoing>,
    route: Route,
}

impl Drop for OutgoingEntry {
    fn drop(&mut self) {
        if let Entry::Occupied(mut entry) = self.outgoing.lock().entry(self.route) {
            *entry.get_mut() -= 1;
            if *entry.get() == 0 {
                entry.remove();
            }
        }
    }
}
