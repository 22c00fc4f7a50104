//! What a viewer will ask for next: the segment behind this one, as the playlist has them.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use penstock_cache::{Key, LookUp};
use penstock_config::limits;
use penstock_http::manifest::{Manifest, resolve};

use super::HttpSite;
use super::find::Search;
use crate::metrics::Prefetched;
use crate::task;

/// Which segment comes behind which, by the playlists of one site.
#[derive(Debug, Default)]
pub(super) struct Successors(Mutex<Known>);

#[derive(Debug, Default)]
struct Known {
    next: HashMap<Key, Arc<str>>,
    /// In the order they came; the oldest goes when there are too many.
    order: VecDeque<Key>,
}

impl Successors {
    fn put(&self, pairs: impl Iterator<Item = (Key, Arc<str>)>) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for (key, next) in pairs {
            if known.next.insert(key, next).is_none() {
                known.order.push_back(key);
            }
            if known.order.len() > limits::SUCCESSORS
                && let Some(oldest) = known.order.pop_front()
            {
                known.next.remove(&oldest);
            }
        }
    }

    fn of(&self, key: &Key) -> Option<Arc<str>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).next.get(key).cloned()
    }
}

impl HttpSite {
    /// Learns from a playlist at `target` what comes behind what. Of a live one, whose start is known already, only the
    /// end is read.
    pub(super) fn learn(&self, target: &str, manifest: &Manifest) {
        let Some(playlist) = manifest.media().filter(|_| self.prefetch > 0) else { return };
        let most =
            if playlist.ended { limits::SUCCESSORS_OF_A_PLAYLIST } else { limits::SUCCESSORS_WHILE_LIVE };
        let segments = &playlist.segments;
        let start = if playlist.ended { 0 } else { segments.len().saturating_sub(most) };
        let targets = segments[start..].iter().take(most).filter_map(|uri| resolve(target, uri));
        let asked: Vec<_> = targets.map(|target| self.asked_in_manifest(&target, 0)).collect();
        self.next.put(asked.windows(2).map(|two| (two[0].key, two[1].target.as_str().into())));
    }
}

impl Search {
    /// Fetches the next segments, as many as the site wants, unless somebody has them.
    pub(super) fn prefetch_next(&self) {
        let mut key = self.asked.key;
        for _ in 0..self.site.prefetch {
            let Some(target) = self.site.next.of(&key) else { return };
            let asked = self.site.asked_for(target.to_string(), false, self.asked.moment);
            key = asked.key;
            let search = Self { asked, held: None, in_advance: true, wants_all: true, ..self.clone() };
            search.fetch_in_advance();
        }
    }

    fn fetch_in_advance(self) {
        let prefetches = Arc::clone(&self.store.prefetches);
        if self.store.index.known(&self.asked.key).is_some() || !prefetches.begin(limits::PREFETCHES) {
            return;
        }
        let LookUp::Missing(claim) = self.store.index.look_up(&self.asked.key) else {
            prefetches.end();
            return;
        };
        task::begin(async move {
            self.fetch_for_nobody(claim).await;
            prefetches.end();
        });
    }

    /// A viewer has got the object: counts whether it had been fetched for that, and looks ahead if this is news.
    pub(super) fn look_ahead(&self, is_new: bool, was_in_advance: bool) {
        if self.site.prefetch > 0 && (is_new || was_in_advance) {
            self.prefetch_next();
        }
    }
}

impl crate::metrics::Prefetches {
    /// Whether one more may be under way.
    fn begin(&self, most: usize) -> bool {
        let room = self.under_way.fetch_add(1, std::sync::atomic::Ordering::SeqCst) < most;
        if !room {
            self.end();
            self.add(Prefetched::SegmentSkipped, 1);
        }
        room
    }

    fn end(&self) {
        self.under_way.fetch_sub(1, std::sync::atomic::Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn successors_are_bounded_and_the_oldest_goes() {
        let successors = Successors::default();
        let key = |number: usize| {
            let mut key = Key::default();
            key[..8].copy_from_slice(&number.to_le_bytes());
            key
        };
        let next: Arc<str> = "/next".into();
        successors.put((0..limits::SUCCESSORS + 10).map(|number| (key(number), Arc::clone(&next))));
        assert_eq!(successors.of(&key(9)), None);
        assert_eq!(successors.of(&key(10)), Some(next));
        assert_eq!(successors.0.lock().unwrap().next.len(), limits::SUCCESSORS);
    }
}
