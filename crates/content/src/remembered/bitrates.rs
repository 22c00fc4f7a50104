//! Bitrates of films, looked for once in each version of a file or of a cached object.

use std::cell::RefCell;
use std::fmt;
use std::num::NonZeroU64;

use lru::LruCache;
use penstock_config::limits;

use super::source::{Name, Version};

/// Bytes in a second of a film; `None` if it does not say how long it lasts.
type Bitrate = Option<NonZeroU64>;

/// Bitrates of one worker.
#[derive(Default)]
pub struct Bitrates(RefCell<Option<LruCache<Name, (Version, Bitrate)>>>);

impl Bitrates {
    /// What is known of a film; `None` if nothing is.
    pub(crate) fn get(&self, (name, version): &(Name, Version)) -> Option<Bitrate> {
        let mut films = self.0.borrow_mut();
        let (known, bitrate) = films.as_mut()?.get(name)?;
        known.ptr_eq(version).then_some(*bitrate)
    }

    pub(crate) fn put(&self, (name, version): (Name, Version), bitrate: Bitrate) {
        let mut films = self.0.borrow_mut();
        let films = films.get_or_insert_with(LruCache::unbounded);
        films.put(name, (version, bitrate));
        if films.len() > limits::PACE_FILMS {
            films.pop_lru();
        }
    }
}

impl fmt::Debug for Bitrates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let known = self.0.borrow().as_ref().map_or(0, LruCache::len);
        f.debug_struct("Bitrates").field("known", &known).finish_non_exhaustive()
    }
}
