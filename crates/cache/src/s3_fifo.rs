//! Eviction order of slices: S3-FIFO, as a pure policy over slot numbers.
//!
//! New slices enter a small queue. A slice that is not requested again on its way through is evicted from there, so that
//! one-time requests do not push out popular slices. A requested one moves to the main queue, where each further request
//! earns another round. A reader only raises a small counter, so a hit takes no lock of this policy.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicU8, Ordering};

/// Counted uses; more of them earn no more rounds.
const USES_MAX: u8 = 3;

/// Requests for a slice since the policy last examined it.
#[derive(Debug, Default)]
pub(crate) struct Uses(AtomicU8);

impl Uses {
    /// Counts a use. Two at the same time may count as one.
    pub(crate) fn add(&self) {
        let uses = self.0.load(Ordering::Relaxed);
        if uses < USES_MAX {
            self.0.store(uses + 1, Ordering::Relaxed);
        }
    }

    fn take_all(&self) -> u8 {
        self.0.swap(0, Ordering::Relaxed)
    }

    fn take_one(&self) -> bool {
        let uses = self.0.load(Ordering::Relaxed);
        self.0.store(uses.saturating_sub(1), Ordering::Relaxed);
        uses > 0
    }
}

/// The eviction order. `N` names a slice while it is kept, `G` also after its eviction.
#[derive(Debug)]
pub(crate) struct S3Fifo<N, G> {
    small: VecDeque<N>,
    main: VecDeque<N>,
    /// Recent evictions from the small queue and their time: a slice that returns was evicted too early.
    ghosts: HashMap<G, u64>,
    ghost_order: VecDeque<(G, u64)>,
    evictions: u64,
    /// Ghosts to keep, if that is more than there are slices.
    ghosts_min: usize,
}

/// A slice that is to be evicted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Victim<N> {
    pub(crate) name: N,
    /// Whether nothing asked for it again: the caller gives its name after the eviction to [`S3Fifo::remember`].
    pub(crate) is_to_be_remembered: bool,
}

/// The state of a candidate for eviction.
pub(crate) enum Candidate<'u> {
    /// It is kept; its uses.
    Kept(&'u Uses),
    /// It was removed in another way.
    Gone,
}

impl<N: Copy, G: Copy + Eq + std::hash::Hash> S3Fifo<N, G> {
    pub(crate) fn new() -> Self {
        Self {
            small: VecDeque::new(),
            main: VecDeque::new(),
            ghosts: HashMap::new(),
            ghost_order: VecDeque::new(),
            evictions: 0,
            ghosts_min: 0,
        }
    }

    /// Remembers at least `ghosts` evictions, for a larger tier behind this one.
    pub(crate) fn remember_at_least(&mut self, ghosts: usize) {
        self.ghosts_min = ghosts;
    }

    /// Adds a slice. Returns whether it was evicted before, as far as is remembered.
    pub(crate) fn insert(&mut self, name: N, ghost: G) -> bool {
        let evicted = self.ghosts.remove(&ghost);
        // Only a recent eviction was too early.
        let lately = evicted.is_some_and(|evicted| self.evictions - evicted < self.ghosts_max() as u64);
        let queue = if lately { &mut self.main } else { &mut self.small };
        queue.push_back(name);
        evicted.is_some()
    }

    /// Removes the next slice to evict; `None` if there is none.
    ///
    /// `look` is called at most [`USES_MAX`] + 2 times for each slice, so this ends.
    pub(crate) fn evict<'u>(&mut self, mut look: impl FnMut(N) -> Candidate<'u>) -> Option<Victim<N>> {
        loop {
            let small_share = self.small.len() * 10 >= self.small.len() + self.main.len();
            if small_share && let Some(name) = self.small.pop_front() {
                match look(name) {
                    Candidate::Gone => {}
                    Candidate::Kept(uses) if uses.take_all() > 0 => self.main.push_back(name),
                    Candidate::Kept(_) => return Some(Victim { name, is_to_be_remembered: true }),
                }
            } else if let Some(name) = self.main.pop_front() {
                match look(name) {
                    Candidate::Gone => {}
                    Candidate::Kept(uses) if uses.take_one() => self.main.push_back(name),
                    Candidate::Kept(_) => return Some(Victim { name, is_to_be_remembered: false }),
                }
            } else if self.small.is_empty() {
                return None;
            }
        }
    }

    /// Number of slices, with those that were removed in another way and not met since.
    pub(crate) fn len(&self) -> usize {
        self.small.len() + self.main.len()
    }

    /// Removes all slices but those that `is_kept` accepts.
    pub(crate) fn retain(&mut self, is_kept: impl Fn(N) -> bool) {
        self.small.retain(|name| is_kept(*name));
        self.main.retain(|name| is_kept(*name));
    }

    /// Number of ghosts to keep: as many as slices, and a few more for a small cache.
    fn ghosts_max(&self) -> usize {
        self.main.len() + self.small.len() + 16
    }

    /// Remembers a slice that was evicted.
    pub(crate) fn remember(&mut self, ghost: G) {
        self.evictions += 1;
        self.ghosts.insert(ghost, self.evictions);
        self.ghost_order.push_back((ghost, self.evictions));
        let most = self.ghosts_max().max(self.ghosts_min);
        while self.ghost_order.len() > most {
            let Some((oldest, evicted)) = self.ghost_order.pop_front() else { break };
            if self.ghosts.get(&oldest) == Some(&evicted) {
                self.ghosts.remove(&oldest);
            }
        }
    }
}

#[cfg(test)]
mod tests;
