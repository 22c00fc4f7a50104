//! The state that the threads of a run share.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use penstock_sys::lock::Unpoisoned;

use crate::latencies::Latencies;
use crate::plan::Plan;
use crate::tally::Tally;
use crate::workload::Checksum;

/// The most objects whose checksums are kept; others are not compared.
const CHECKSUMS_MAX: usize = 1_000_000;

/// The shared state of a run.
pub(crate) struct RunState {
    pub(crate) began: Instant,
    deadline: Option<Instant>,
    left: AtomicU64,
    backlog: AtomicU64,
    tallies: Vec<Mutex<Tally>>,
    ended: (Mutex<usize>, Condvar),
    checksums: Mutex<std::collections::HashMap<String, [u8; 32]>>,
}

impl RunState {
    pub(crate) fn new(plan: &Plan) -> Self {
        let began = Instant::now();
        Self {
            began,
            deadline: plan.duration.and_then(|duration| began.checked_add(duration)),
            left: AtomicU64::new(plan.operations.unwrap_or(u64::MAX)),
            backlog: AtomicU64::new(0),
            tallies: (0..plan.threads).map(|_| Mutex::default()).collect(),
            ended: Default::default(),
            checksums: Mutex::default(),
        }
    }

    /// Takes one more operation. Returns false if none is left or the duration is over.
    pub(crate) fn take(&self) -> bool {
        let take_one = |left: u64| if left == u64::MAX { Some(left) } else { left.checked_sub(1) };
        !self.is_over() && self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take_one).is_ok()
    }

    /// Whether the duration is over.
    pub(crate) fn is_over(&self) -> bool {
        self.deadline.is_some_and(|deadline| Instant::now() >= deadline)
    }

    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.deadline
    }

    /// The counters of a thread. Only `look` and `sum` hold them besides, for a moment.
    pub(crate) fn tally(&self, thread: usize) -> MutexGuard<'_, Tally> {
        self.tallies[thread].lock().unpoisoned()
    }

    /// The counters so far.
    pub(crate) fn sum(&self) -> Tally {
        let mut sum = Tally::default();
        for thread in 0..self.tallies.len() {
            sum.add(&self.tally(thread));
        }
        sum
    }

    /// The counters so far, and the latencies and live distances since the last look.
    pub(crate) fn look(&self) -> (Tally, Latencies, Latencies) {
        let mut sum = Tally::default();
        let mut recent = Latencies::default();
        let mut distance = Latencies::default();
        for thread in 0..self.tallies.len() {
            let mut tally = self.tally(thread);
            recent.move_from(&mut tally.recent);
            distance.move_from(&mut tally.recent_distance);
            sum.add(&tally);
        }
        (sum, recent, distance)
    }

    /// Notes that a thread has ended, with this many starts that were due and never began.
    pub(crate) fn end(&self, backlog: u64) {
        self.backlog.fetch_add(backlog, Ordering::Relaxed);
        *self.ended.0.lock().unpoisoned() += 1;
        self.ended.1.notify_all();
    }

    /// Waits until all threads have ended, at most until the limit.
    pub(crate) fn wait_for_end(&self, limit: Duration, threads: usize) {
        let ended = self.ended.0.lock().unpoisoned();
        drop(self.ended.1.wait_timeout_while(ended, limit, |ended| *ended < threads));
    }

    pub(crate) fn backlog(&self) -> u64 {
        self.backlog.load(Ordering::Relaxed)
    }

    /// Whether a body has the right checksum.
    pub(crate) fn is_right_body(&self, wanted: Checksum, object: &str, found: [u8; 32]) -> bool {
        match wanted {
            Checksum::Off => true,
            Checksum::Exactly(wanted) => wanted == found,
            Checksum::Consistent => {
                let mut known = self.checksums.lock().unpoisoned();
                match known.get(object) {
                    Some(wanted) => *wanted == found,
                    None if known.len() >= CHECKSUMS_MAX => true,
                    None => known.insert(object.to_owned(), found).is_none(),
                }
            }
        }
    }
}
