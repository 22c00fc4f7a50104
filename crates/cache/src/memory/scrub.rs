//! The thread that looks after a memory tier: verifies slices before their first use, checks the files, and compares all
//! slices with their checksums, slowly.

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Weak};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use tokio::sync::oneshot;

use super::slot::Slot;
use super::space_watch::{SpaceChange, SpaceWatch};
use super::tier::MemoryTier;
use crate::event::{Report, TierEvent};

/// How often the files are checked and the scrub continues.
const TICK: Duration = Duration::from_secs(1);

/// Slots whose pages could not be given back that are tried again in each tick.
const PUNCHED_AGAIN_MAX: usize = 4096;

/// A slice to verify, and where the answer goes.
type Job = (Arc<Slot>, oneshot::Sender<bool>);

/// The thread that looks after a memory tier. It ends with this.
pub(crate) struct Scrubber(Option<(Sender<Job>, JoinHandle<()>)>);

impl Scrubber {
    pub(crate) fn start(tier: &Arc<MemoryTier>, report: Report) -> Self {
        let (sender, jobs) = channel();
        let watch = SpaceWatch::new(tier.bytes_max());
        let tier = Arc::downgrade(tier);
        let thread = thread::Builder::new().name("memory-scrub".to_owned());
        Self(thread.spawn(move || run(&tier, &jobs, watch, &report)).ok().map(|thread| (sender, thread)))
    }

    /// Compares a slice with its checksum on the thread; marks it as verified if it is right.
    pub(crate) async fn verify(&self, slot: &Arc<Slot>) -> bool {
        let (answer, verified) = oneshot::channel();
        match &self.0 {
            Some((jobs, _)) if jobs.send((Arc::clone(slot), answer)).is_ok() => {
                verified.await.unwrap_or(false)
            }
            // Without a thread it takes a moment here.
            _ => slot.verify(),
        }
    }
}

impl Drop for Scrubber {
    /// Waits for the thread, which may hold the files for a moment: the next process must be able to lock them.
    fn drop(&mut self) {
        let Some((jobs, thread)) = self.0.take() else { return };
        drop(jobs);
        // The thread itself may be the last to hold an object, and with it this.
        if thread.thread().id() != thread::current().id() {
            // A panic of it was reported already.
            drop(thread.join());
        }
    }
}

fn run(tier: &Weak<MemoryTier>, jobs: &Receiver<Job>, mut watch: SpaceWatch, report: &Report) {
    let mut due = Instant::now() + TICK;
    let mut cursor = 0;
    loop {
        match jobs.recv_timeout(due.saturating_duration_since(Instant::now())) {
            Ok((slot, answer)) => {
                let is_right = slot.verify();
                // Who waits drops a damaged slice, and with it its record, before the next process looks for it.
                drop(slot);
                // A waiter that has left needs no answer.
                let _has_left = answer.send(is_right).is_err();
            }
            Err(RecvTimeoutError::Disconnected) => return,
            Err(RecvTimeoutError::Timeout) => {
                let Some(tier) = tier.upgrade() else { return };
                tier.recover();
                tier.adapt_to_space();
                say_space(&tier, &mut watch, report);
                tier.punch_again(PUNCHED_AGAIN_MAX);
                cursor = scrub(&tier, cursor);
                due = Instant::now() + TICK;
            }
        }
    }
}

/// Reports that other files have taken space of the tier, or that it is there again.
fn say_space(tier: &MemoryTier, watch: &mut SpaceWatch, report: &Report) {
    // A tier without a directory has no neighbours.
    let Some(directory) = tier.directory() else { return };
    let available = tier.bytes_max();
    match watch.note(available) {
        Some(SpaceChange::Short { before }) => {
            report(TierEvent::MemoryShort { directory, available, before })
        }
        Some(SpaceChange::Enough) => report(TierEvent::MemoryEnough { directory, available }),
        None => {}
    }
}

/// Checks as much as is due in one tick, from a slot on. Returns the slot to continue with.
fn scrub(tier: &MemoryTier, mut from: u32) -> u32 {
    let due = tier.limits().scrub_bytes_per_second;
    let (mut done, first) = (0, from);
    let mut wrapped = false;
    while done < due {
        let Some(kept) = tier.next_kept(from).filter(|kept| !wrapped || kept.slot < first) else {
            if wrapped || first == 0 {
                return 0;
            }
            (from, wrapped) = (0, true);
            continue;
        };
        from = kept.slot + 1;
        // A short slice costs a call as well.
        done += tier.scrub(&kept).max(4096);
    }
    from
}
