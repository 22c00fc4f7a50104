//! Which slice has to go when there is no room: S3-FIFO, as a pure policy over slot numbers.
//!
//! New slices enter a small queue. Who is not asked for again while it passes through leaves from there, so that
//! things asked for once do not wash out what is asked for all the time; who is, moves to the main queue, where each
//! further use earns another round. A reader only raises a small counter: a hit takes no lock here.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicU8, Ordering};

/// Uses that count; more earn no more rounds.
const USES_MAX: u8 = 3;

/// How often a slice was asked for since the policy last looked.
#[derive(Debug, Default)]
pub(crate) struct Uses(AtomicU8);

impl Uses {
    /// Counts a use. Two at the same moment may count as one.
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

/// The order in which slices leave. `N` names a slice for as long as it is kept, `G` also after it has gone.
#[derive(Debug)]
pub(crate) struct Admission<N, G> {
    small: VecDeque<(N, G)>,
    main: VecDeque<(N, G)>,
    /// Those that left the small queue lately, and when: they were worth more than we thought if they come back.
    ghosts: HashMap<G, u64>,
    ghost_order: VecDeque<(G, u64)>,
    departures: u64,
    /// Ghosts to be kept if that is more than there are slices.
    ghosts_min: usize,
}

/// What the policy makes of a candidate.
pub(crate) enum Candidate<'u> {
    /// It is kept, and these are its uses.
    Kept(&'u Uses),
    /// It left by another way.
    Gone,
}

impl<N: Copy, G: Copy + Eq + std::hash::Hash> Admission<N, G> {
    pub(crate) fn new() -> Self {
        Self {
            small: VecDeque::new(),
            main: VecDeque::new(),
            ghosts: HashMap::new(),
            ghost_order: VecDeque::new(),
            departures: 0,
            ghosts_min: 0,
        }
    }

    /// Remembers at least so many that had to go: a tier behind this one asks about more than would fit here.
    pub(crate) fn remember_at_least(&mut self, ghosts: usize) {
        self.ghosts_min = ghosts;
    }

    /// A slice that is kept from now on. Whether it was here before, as far as is remembered.
    pub(crate) fn enter(&mut self, name: N, ghost: G) -> bool {
        let departure = self.ghosts.remove(&ghost);
        // Only who left lately had to go too soon.
        let lately = departure.is_some_and(|departure| self.departures - departure < self.room() as u64);
        let queue = if lately { &mut self.main } else { &mut self.small };
        queue.push_back((name, ghost));
        departure.is_some()
    }

    /// Chooses who leaves next, and forgets it; `None` if nobody is kept.
    ///
    /// `look` is asked about candidates. Each is asked about at most [`USES_MAX`] + 2 times, so this ends.
    pub(crate) fn leave<'u>(&mut self, mut look: impl FnMut(N) -> Candidate<'u>) -> Option<N> {
        loop {
            let small_share = self.small.len() * 10 >= self.small.len() + self.main.len();
            if small_share && let Some((name, ghost)) = self.small.pop_front() {
                match look(name) {
                    Candidate::Gone => {}
                    Candidate::Kept(uses) if uses.take_all() > 0 => self.main.push_back((name, ghost)),
                    Candidate::Kept(_) => {
                        self.remember(ghost);
                        return Some(name);
                    }
                }
            } else if let Some((name, ghost)) = self.main.pop_front() {
                match look(name) {
                    Candidate::Gone => {}
                    Candidate::Kept(uses) if uses.take_one() => self.main.push_back((name, ghost)),
                    Candidate::Kept(_) => return Some(name),
                }
            } else if self.small.is_empty() {
                return None;
            }
        }
    }

    /// As many as are kept, and a few more so that a small cache has any.
    fn room(&self) -> usize {
        self.main.len() + self.small.len() + 16
    }

    fn remember(&mut self, ghost: G) {
        self.departures += 1;
        self.ghosts.insert(ghost, self.departures);
        self.ghost_order.push_back((ghost, self.departures));
        let room = self.room().max(self.ghosts_min);
        while self.ghost_order.len() > room {
            let Some((oldest, departure)) = self.ghost_order.pop_front() else { break };
            if self.ghosts.get(&oldest) == Some(&departure) {
                self.ghosts.remove(&oldest);
            }
        }
    }
}

#[cfg(test)]
mod tests;
