//! The origins of all sites, for whoever asks how they are.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use penstock_origin::http::{HttpOrigin, TargetSeen};

use super::{Observatory, exposition, lock};

/// The origins of the configuration in force.
#[derive(Debug, Default)]
pub(super) struct Origins(Mutex<Vec<Arc<HttpOrigin>>>);

impl Observatory {
    /// The origins whose state is shown from now on.
    pub(crate) fn set_origins<'o>(&self, origins: impl Iterator<Item = &'o Arc<HttpOrigin>>) {
        *lock(&self.origins.0) = origins.cloned().collect();
    }

    /// A number of each target. Sites may share one: it is up if it is so for all of them.
    pub(super) fn targets(&self, number: impl Fn(&TargetSeen) -> u64, out: &mut exposition::Family<'_>) {
        let mut targets: BTreeMap<String, TargetSeen> = BTreeMap::new();
        // A site is listed once for each of its hosts.
        let mut origins = lock(&self.origins.0).clone();
        origins.sort_by_key(Arc::as_ptr);
        origins.dedup_by(|one, other| Arc::ptr_eq(one, other));
        for seen in origins.iter().flat_map(|origin| origin.seen()) {
            match targets.get_mut(&seen.url) {
                Some(known) => {
                    known.up &= seen.up;
                    known.connections += seen.connections;
                    known.waiting += seen.waiting;
                }
                None => drop(targets.insert(seen.url.clone(), seen)),
            }
        }
        for (url, seen) in &targets {
            out.sample(&[url], number(seen));
        }
    }
}
