//! What an earlier process left, or memory had no room for: found again by whoever asks for it first.

use std::sync::Arc;
use std::time::{Instant, SystemTime};

use penstock_cache::Object;

use super::Description;
use super::description::Quality;
use super::find::{Announce, Outcome, Search};

/// Who still waits to hear, and what is known and old, if anything.
pub(super) type ToFetch = (Announce, Option<Arc<Object<Description>>>);

impl Search {
    /// Announces the object that is on a disk or that an earlier process left, if it is good enough. Otherwise the announcement is still to
    /// be made, and what was found is good for a condition.
    pub(super) async fn recall(&self, announce: Announce) -> Result<(), ToFetch> {
        if !announce.is_for_all() {
            return Err((announce, None));
        }
        let now = (Instant::now(), SystemTime::now());
        let read = |bytes: &[u8]| {
            let description = Description::decode(bytes, &self.site, now)?;
            // It may have been purged by an earlier process, or by this one while it lay there.
            (!self.store.is_gone(&description)).then_some(description)
        };
        let recalled = self.store.index.recall(&self.asked.key, &self.store.tier, read).await;
        match recalled {
            Some(object) if object.description().quality(now.0) != Quality::Old => {
                announce.keep(&object, Outcome::Hit);
                Ok(())
            }
            recalled => Err((announce, recalled)),
        }
    }
}
