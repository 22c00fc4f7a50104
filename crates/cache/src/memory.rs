//! The memory tier: one sparse file on tmpfs, cut into slots of one slice each.
//!
//! A slot's bytes are written once. Before a slot is used again its pages are given back to the system
//! (`FALLOC_FL_PUNCH_HOLE`), so what is written next lies in other pages: pages that a socket still holds keep the old
//! bytes until the kernel has sent them.

use std::fmt;
use std::fs::{DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use penstock_sys::file::{Extent, OpenFile};
use rustix::fs::{FallocateFlags, FlockOperation, fallocate, flock};

use crate::admission::{Admission, Candidate, Uses};

/// The file in the tier's directory.
const FILE_NAME: &str = "slices";
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
}

/// A tier of slices on tmpfs.
pub struct MemoryTier {
    limits: TierLimits,
    reading: Arc<OpenFile>,
    writing: File,
    uses: Box<[Uses]>,
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
    /// Opens the tier in `directory`, which is made if it is missing. What an earlier process left there is dropped.
    ///
    /// # Errors
    /// See [`TierError`].
    pub fn open(directory: &Path, limits: TierLimits) -> Result<Arc<Self>, TierError> {
        let path = directory.join(FILE_NAME);
        let unusable = |path: &Path| {
            let path = path.to_owned();
            move |source| TierError::Unusable { path, source }
        };
        DirBuilder::new().recursive(true).mode(0o700).create(directory).map_err(unusable(directory))?;
        let mut options = OpenOptions::new();
        let options = options.read(true).write(true).create(true).truncate(false).mode(0o600);
        let writing = options.open(&path).map_err(unusable(&path))?;
        flock(&writing, FlockOperation::NonBlockingLockExclusive)
            .map_err(|_| TierError::InUse(directory.to_owned()))?;
        let slice_bytes = u64::from(limits.slice_bytes);
        let slots = (limits.bytes / slice_bytes).max(1).saturating_mul(SLOTS_PER_SLICE);
        let slots = u32::try_from(slots).unwrap_or(u32::MAX);
        writing.set_len(0).map_err(unusable(&path))?;
        writing.set_len(u64::from(slots) * slice_bytes).map_err(unusable(&path))?;
        punch(&writing, 0, PAGE_BYTES).map_err(|_| TierError::NoHoles(directory.to_owned()))?;
        let reading = File::open(&path).map_err(unusable(&path))?;
        let reading = OpenFile::from_fd(reading.into()).map_err(unusable(&path))?;
        Ok(Arc::new(Self {
            limits,
            reading: Arc::new(reading),
            writing,
            uses: (0..slots).map(|_| Uses::default()).collect(),
            bytes: AtomicU64::new(0),
            evictions: AtomicU64::new(0),
            refusals: AtomicU64::new(0),
            state: Mutex::new(State {
                free: (0..slots).rev().collect(),
                generation: 0,
                entries: (0..slots).map(|_| None).collect(),
                admission: Admission::new(),
                kept: 0,
            }),
        }))
    }

    /// Bytes of one slice.
    pub fn slice_bytes(&self) -> u32 {
        self.limits.slice_bytes
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
        Some(Arc::new(Slot {
            tier: Arc::clone(self),
            number,
            generation,
            reserved: AtomicU64::new(bytes),
            written: AtomicU32::new(0),
        }))
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

    /// From now on the slice is kept until it has to go. `ghost` names it also after it has gone.
    pub(crate) fn keep(&self, slot: &Slot, holder: Weak<dyn Holder>, slice: u32, ghost: u64) {
        let mut state = self.state();
        let generation = slot.generation;
        state.entries[slot.number as usize] = Some(Entry { generation, holder, slice });
        state.admission.enter((slot.number, generation), ghost);
        state.kept += 1;
    }

    fn release(&self, slot: &Slot) {
        // Its pages may still be on their way to a client; they live on without us.
        let start = u64::from(slot.number) * u64::from(self.limits.slice_bytes);
        let punched = punch(&self.writing, start, u64::from(self.limits.slice_bytes));
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

/// The place of one slice. Its bytes stay as they are for as long as anybody holds it.
pub(crate) struct Slot {
    tier: Arc<MemoryTier>,
    number: u32,
    generation: u32,
    reserved: AtomicU64,
    written: AtomicU32,
}

impl Slot {
    /// Writes behind what is written already, as much as has room. Only the one fill of the slice calls this.
    pub(crate) fn append(&self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.written.load(Ordering::Relaxed);
        let room = (self.tier.limits.slice_bytes - written) as usize;
        let bytes = &bytes[..bytes.len().min(room)];
        let start = self.start() + u64::from(written);
        let mut done = 0;
        while done < bytes.len() {
            match rustix::io::pwrite(&self.tier.writing, &bytes[done..], start + done as u64) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(count) => done += count,
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        let total = written + u32::try_from(done).unwrap_or(u32::MAX);
        self.written.store(total, Ordering::Release);
        Ok(done)
    }

    /// Gives back what was reserved and not written.
    pub(crate) fn settle(&self) {
        let needed = u64::from(self.written()).next_multiple_of(PAGE_BYTES);
        let reserved = self.reserved.swap(needed, Ordering::Relaxed);
        self.tier.bytes.fetch_sub(reserved.saturating_sub(needed), Ordering::Relaxed);
    }

    pub(crate) fn written(&self) -> u32 {
        self.written.load(Ordering::Acquire)
    }

    /// Bytes of the slice in the tier's file; `None` if they are not written.
    pub(crate) fn extent(&self, range: std::ops::Range<u32>) -> Option<Extent> {
        if range.start > range.end || range.end > self.written() {
            return None;
        }
        let offset = self.start() + u64::from(range.start);
        Extent::new(Arc::clone(&self.tier.reading), offset, u64::from(range.end - range.start))
    }

    pub(crate) fn used(&self) {
        self.tier.uses[self.number as usize].add();
    }

    fn start(&self) -> u64 {
        u64::from(self.number) * u64::from(self.tier.limits.slice_bytes)
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.tier.clone().release(self);
    }
}

impl fmt::Debug for Slot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Slot").field("number", &self.number).finish_non_exhaustive()
    }
}
