//! Responses under way by client. The table has only clients that have any, so it is bounded by their number.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};

use penstock_sys::lock::Unpoisoned;

use super::bandwidth::{Bandwidth, Share};
use super::rates::Rates;

/// Counts by client. Workers share it: a lock is held for one look at the table.
#[derive(Debug, Default)]
pub(super) struct UnderWay(Mutex<HashMap<u128, u64>>);

/// Responses that are counted as under way until this is dropped.
#[derive(Debug, Default)]
pub struct Permit {
    entries: Vec<UnderWayEntry>,
    /// Boxed: few sites have one.
    bandwidth: Option<Box<Bandwidth>>,
}

/// One that is counted.
#[derive(Debug)]
pub(super) struct UnderWayEntry {
    table: Arc<UnderWay>,
    client: u128,
}

impl Permit {
    /// Whether nothing is counted.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Takes the bandwidth that the body of the response shares.
    pub(crate) fn take_bandwidth(&mut self) -> Option<Box<Bandwidth>> {
        self.bandwidth.take()
    }

    pub(super) fn push(&mut self, entry: UnderWayEntry) {
        self.entries.push(entry);
    }

    pub(super) fn share(&mut self, rates: &Arc<Rates>, share: Share) {
        self.bandwidth.get_or_insert_with(|| Box::new(Bandwidth::new(rates))).push(share);
    }
}

impl UnderWay {
    /// Counts one more of a client; `None` if it has `most` already.
    pub(super) fn enter(self: &Arc<Self>, client: u128, most: u64) -> Option<UnderWayEntry> {
        let mut counts = self.counts();
        let count = counts.entry(client).or_insert(0);
        if *count >= most {
            return None;
        }
        *count += 1;
        drop(counts);
        Some(UnderWayEntry { table: Arc::clone(self), client })
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.counts().is_empty()
    }

    fn counts(&self) -> MutexGuard<'_, HashMap<u128, u64>> {
        self.0.lock().unpoisoned()
    }
}

impl Drop for UnderWayEntry {
    fn drop(&mut self) {
        let mut counts = self.table.counts();
        if let Some(count) = counts.get_mut(&self.client) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&self.client);
            }
        }
    }
}
