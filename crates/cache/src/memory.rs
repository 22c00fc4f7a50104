//! The memory tier: one sparse file on tmpfs, cut into slots of one slice each.
//!
//! A slot's bytes are written once. Before a slot is used again its pages are given back to the system
//! (`FALLOC_FL_PUNCH_HOLE`), so what is written next lies in other pages: pages that a socket still holds keep the old
//! bytes until the kernel has sent them.
//!
//! What is kept is written down beside the slices ([`record`]), so that the next process finds it again ([`restore`]).

mod fuzz;
mod inspect;
mod record;
mod restore;
mod slot;

use std::fmt;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::thread;

use penstock_sys::file::OpenFile;
use rustix::fs::{FallocateFlags, fallocate};

use crate::Key;
use crate::admission::{Admission, Candidate, Uses};
use crate::disk::Disks;

pub(crate) use fuzz::fuzz_records;
pub(crate) use inspect::inspect;
pub(crate) use record::SlotRecord;
pub use restore::Restored;
pub(crate) use restore::{Dormant, Left, slice_length};
pub(crate) use slot::{Note, Slot};

/// Behind the bytes of each slot, for the description of their object. Memory is taken only for what is written.
const DESCRIPTION_ROOM_BYTES: usize = 16 * 1024;
/// What the system gives and takes memory in.
const PAGE_BYTES: u64 = 4096;
/// Slots for each slice that fits: small objects fill a slot with a page or two.
const SLOTS_PER_SLICE: u64 = 8;
/// Slices sent away for one that wants room, before that one is told that there is none.
const DEPARTURES_MAX: usize = 64;

/// How large a tier may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TierLimits {
    /// Bytes of all slices together, counted in whole pages.
    pub bytes: u64,
    /// Bytes of one slice, a multiple of the page size.
    pub slice_bytes: u32,
}

/// Why a tier cannot be used.
#[derive(Debug)]
pub enum TierError {
    /// The directory or the file in it could not be made or opened.
    Unusable {
        /// The directory or file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Another process uses the directory.
    InUse(PathBuf),
    /// The file system cannot give back parts of a file.
    NoHoles(PathBuf),
}

impl fmt::Display for TierError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unusable { path, source } => {
                write!(f, "the memory tier cannot use {}: {source}", path.display())
            }
            Self::InUse(path) => {
                write!(f, "another process uses the memory tier in {}; give each its own", path.display())
            }
            Self::NoHoles(path) => {
                write!(f, "the file system of {} cannot punch holes; use tmpfs", path.display())
            }
        }
    }
}

impl std::error::Error for TierError {}

/// What happened in a tier since it was opened, and how full it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TierCounters {
    /// Bytes in use, in whole pages.
    pub bytes: u64,
    /// Slices kept.
    pub slices: u64,
    /// Slices that had to go for others.
    pub evictions: u64,
    /// Slices that found no room.
    pub refusals: u64,
}

/// Who holds a slice and can let go of it.
pub(crate) trait Holder: Send + Sync {
    /// The slice has to go. Whoever sends from it may finish.
    fn let_go(&self, slice: u32);

    /// Whether others may still find the object.
    fn is_kept(&self) -> bool;
}

/// A tier of slices on tmpfs.
pub struct MemoryTier {
    limits: TierLimits,
    reading: Arc<OpenFile>,
    writing: File,
    records: File,
    next_object: AtomicU64,
    /// Whether this process is about to end and nothing is given back any more.
    leaving: AtomicBool,
    /// Where slices may go on, if anywhere.
    disks: OnceLock<Arc<Disks>>,
    uses: Box<[Uses]>,
    /// Where slices go that are dropped by another thread, if there ever were any.
    dropping: OnceLock<Option<Sender<Vec<Arc<Slot>>>>>,
    bytes: AtomicU64,
    evictions: AtomicU64,
    refusals: AtomicU64,
    state: Mutex<State>,
}

struct State {
    free: Vec<u32>,
    generation: u32,
    entries: Box<[Option<Entry>]>,
    admission: Admission<(u32, u32), u64>,
    kept: u64,
}

struct Entry {
    generation: u32,
    holder: Weak<dyn Holder>,
    slice: u32,
}

impl MemoryTier {
    /// Bytes of one slice.
    pub fn slice_bytes(&self) -> u32 {
        self.limits.slice_bytes
    }

    /// How many whole slices it holds.
    pub fn slices_max(&self) -> u64 {
        self.limits.bytes / u64::from(self.limits.slice_bytes)
    }

    /// Whether one more slice drives out another.
    pub fn is_full(&self) -> bool {
        self.bytes.load(Ordering::Relaxed) + u64::from(self.limits.slice_bytes) > self.limits.bytes
    }

    /// What happened so far.
    pub fn counters(&self) -> TierCounters {
        TierCounters {
            bytes: self.bytes.load(Ordering::Relaxed),
            slices: self.state().kept,
            evictions: self.evictions.load(Ordering::Relaxed),
            refusals: self.refusals.load(Ordering::Relaxed),
        }
    }

    /// The process is about to end: what is here stays, for the next one.
    pub fn leave(&self) {
        self.leaving.store(true, Ordering::Relaxed);
    }

    /// What is asked for again may go to these disks, and come back from there. Only the first call counts.
    pub fn set_disks(&self, disks: Arc<Disks>) {
        // Whoever is asked for once while a disk is written from end to end has earned a place there.
        self.state().admission.remember_at_least(disks.slices_max());
        self.disks.get_or_init(|| disks);
    }

    /// The disks behind this tier, if it has any.
    pub fn disks(&self) -> Option<&Arc<Disks>> {
        self.disks.get()
    }

    /// A number for a new object, greater than those of all before it.
    pub(crate) fn next_object(&self) -> u64 {
        self.next_object.fetch_add(1, Ordering::Relaxed)
    }

    /// Room for `bytes` of one slice; others have to go for it. `None` if even that does not help.
    pub(crate) fn reserve(self: &Arc<Self>, bytes: u32) -> Option<Arc<Slot>> {
        let bytes = u64::from(bytes.min(self.limits.slice_bytes)).next_multiple_of(PAGE_BYTES);
        for _ in 0..DEPARTURES_MAX {
            if let Some(slot) = self.take_free(bytes) {
                return Some(slot);
            }
            let Some((holder, slice)) = self.choose_departure() else { break };
            self.evictions.fetch_add(1, Ordering::Relaxed);
            // Without the lock: letting go ends in `Slot::drop`, which takes it.
            if let Some(holder) = holder.upgrade() {
                holder.let_go(slice);
            }
        }
        self.refusals.fetch_add(1, Ordering::Relaxed);
        None
    }

    fn take_free(self: &Arc<Self>, bytes: u64) -> Option<Arc<Slot>> {
        let mut state = self.state();
        if self.bytes.load(Ordering::Relaxed) + bytes > self.limits.bytes {
            return None;
        }
        let number = state.free.pop()?;
        state.generation = state.generation.wrapping_add(1);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        let generation = state.generation;
        drop(state);
        Some(Slot::empty(self, number, generation, bytes))
    }

    fn choose_departure(&self) -> Option<(Weak<dyn Holder>, u32)> {
        let mut state = self.state();
        let State { entries, admission, kept, .. } = &mut *state;
        let (number, _) = admission.leave(|(number, generation)| {
            let entry = entries.get(number as usize).and_then(Option::as_ref);
            match entry.filter(|entry| entry.generation == generation) {
                Some(_) => Candidate::Kept(&self.uses[number as usize]),
                None => Candidate::Gone,
            }
        })?;
        let entry = entries.get_mut(number as usize)?.take()?;
        *kept -= 1;
        Some((entry.holder, entry.slice))
    }

    /// From now on the slice is kept until it has to go. `ghost` names it also after it has gone; whether it had to go
    /// lately and is back.
    pub(crate) fn keep(&self, slot: &Slot, holder: Weak<dyn Holder>, slice: u32, ghost: u64) -> bool {
        let mut state = self.state();
        let generation = slot.generation;
        state.entries[slot.number as usize] = Some(Entry { generation, holder, slice });
        state.kept += 1;
        state.admission.enter((slot.number, generation), ghost)
    }

    /// An object has taken over a slice that another held.
    pub(crate) fn hand_over(&self, slot: &Slot, holder: Weak<dyn Holder>) {
        let mut state = self.state();
        let entry = state.entries.get_mut(slot.number as usize).and_then(Option::as_mut);
        if let Some(entry) = entry.filter(|entry| entry.generation == slot.generation) {
            entry.holder = holder;
        }
    }

    /// Drops slices without holding up the caller: giving back the pages of a large object takes milliseconds.
    pub(crate) fn drop_later(&self, slots: Vec<Arc<Slot>>) {
        let sender = self.dropping.get_or_init(|| {
            let (sender, slots) = channel::<Vec<Arc<Slot>>>();
            // It ends with the tier, whose sender is the only one.
            let thread = thread::Builder::new().name("memory-drop".to_owned());
            thread.spawn(move || slots.into_iter().for_each(drop)).is_ok().then_some(sender)
        });
        if let Some(sender) = sender {
            // What nobody takes comes back and is dropped here.
            drop(sender.send(slots));
        }
    }

    fn release(&self, slot: &Slot) {
        if self.leaving.load(Ordering::Relaxed) {
            return;
        }
        // Before the bytes go: a record never speaks of what is not there.
        slot.strike_out();
        // Its pages may still be on their way to a client; they live on without us.
        let punched = punch(&self.writing, slot.start(), self.stride());
        let mut state = self.state();
        let entry = state.entries.get_mut(slot.number as usize);
        if entry.and_then(|entry| entry.take_if(|entry| entry.generation == slot.generation)).is_some() {
            state.kept -= 1;
        }
        // A slot that keeps its pages is lost rather than written over.
        if punched.is_ok() {
            self.bytes.fetch_sub(slot.reserved.load(Ordering::Relaxed), Ordering::Relaxed);
            state.free.push(slot.number);
        }
    }

    fn stride(&self) -> u64 {
        stride(self.limits.slice_bytes)
    }

    /// Counts what a slice takes, which was thought to be `before`.
    fn account(&self, before: u64, now: u64) {
        self.bytes.fetch_add(now, Ordering::Relaxed);
        self.bytes.fetch_sub(before, Ordering::Relaxed);
    }

    fn write(&self, bytes: &[u8], at: u64) -> io::Result<()> {
        self.writing.write_all_at(bytes, at)
    }

    fn read(&self, bytes: &mut [u8], at: u64) -> io::Result<()> {
        self.writing.read_exact_at(bytes, at)
    }

    /// A record that cannot be written is missing at the next start, and no more.
    fn write_record(&self, slot: u32, record: &[u8; record::RECORD_BYTES]) {
        drop(self.records.write_all_at(record, record::place(slot)));
    }

    fn clear_record(&self, slot: u32) {
        self.write_record(slot, &[0; record::RECORD_BYTES]);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for MemoryTier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryTier").field("limits", &self.limits).finish_non_exhaustive()
    }
}

fn punch(file: &File, offset: u64, len: u64) -> io::Result<()> {
    Ok(fallocate(file, FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE, offset, len)?)
}

/// From one slot to the next.
fn stride(slice_bytes: u32) -> u64 {
    u64::from(slice_bytes) + DESCRIPTION_ROOM_BYTES as u64
}

/// What a slice is remembered by when it has gone.
pub(crate) fn ghost(key: &Key, slice: u32) -> u64 {
    let (first, _) = key.split_first_chunk().expect("a key is longer than eight bytes");
    u64::from_ne_bytes(*first).wrapping_add(u64::from(slice))
}
