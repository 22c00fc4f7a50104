//! One slice: being filled by one, followed by many, then leased by whoever sends from it.

use std::fmt;
use std::io;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

use penstock_sys::file::Extent;
use tokio::sync::watch;

use crate::Describe;
use crate::disk::{DiskLease, DiskSlice};
use crate::memory::{MemoryTier, Slot};
use crate::object::Object;

/// How far a fill has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Bytes of the slice that can be sent.
    pub bytes: u32,
    /// Whether there are no more to come.
    pub complete: bool,
    /// Whether the fill has failed; what is there stays good.
    pub failed: bool,
}

/// Why bytes could not be kept.
#[derive(Debug)]
pub enum FillError {
    /// Everything in the tier is being sent or filled.
    NoRoom,
    /// What the system said.
    Io(io::Error),
}

impl fmt::Display for FillError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoRoom => f.write_str("there is no room in the cache"),
            Self::Io(error) => write!(f, "cannot write to the cache: {error}"),
        }
    }
}

impl std::error::Error for FillError {}

/// Where a slice is.
#[derive(Clone)]
pub(crate) enum Holding {
    Memory(Arc<Slot>),
    Disk(Arc<DiskSlice>),
}

/// A slice while it is filled: what the fill and its followers share.
pub(crate) struct Filling {
    place: OnceLock<Holding>,
    progress: watch::Sender<Progress>,
}

impl Filling {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self { place: OnceLock::new(), progress: watch::Sender::new(Progress::default()) })
    }

    /// A request wants it while it comes.
    pub(crate) fn count_request(&self) {
        if let Some(Holding::Memory(slot)) = self.place.get() {
            slot.count_request();
        }
    }

    pub(crate) fn follow(self: &Arc<Self>) -> Follower {
        Follower { filling: Arc::clone(self), progress: self.progress.subscribe() }
    }
}

/// The right to send from a slice that is there. The bytes stay until it is dropped.
#[derive(Clone, Debug)]
pub struct Lease(Held);

#[derive(Clone, Debug)]
enum Held {
    Memory(Arc<Slot>),
    Disk(DiskLease),
}

impl Lease {
    pub(crate) fn of_slot(slot: &Arc<Slot>) -> Self {
        Self(Held::Memory(Arc::clone(slot)))
    }

    /// `None` if it has gone from its disk.
    pub(crate) fn of_disk(slice: &DiskSlice) -> Option<Self> {
        slice.lease().map(|lease| Self(Held::Disk(lease)))
    }

    /// Bytes of the slice.
    pub fn length(&self) -> u32 {
        match &self.0 {
            Held::Memory(slot) => slot.written(),
            Held::Disk(lease) => lease.length(),
        }
    }

    /// Where these bytes of the slice lie; `None` if it does not have them.
    pub fn extent(&self, range: Range<u32>) -> Option<Extent> {
        match &self.0 {
            Held::Memory(slot) => slot.extent(range),
            Held::Disk(lease) => lease.extent(range),
        }
    }
}

/// A reader of a slice that is being filled.
pub struct Follower {
    filling: Arc<Filling>,
    progress: watch::Receiver<Progress>,
}

impl Follower {
    /// How far the fill has come.
    pub fn progress(&mut self) -> Progress {
        *self.progress.borrow_and_update()
    }

    /// How many readers follow this fill, this one included.
    pub fn followers(&self) -> usize {
        self.filling.progress.receiver_count()
    }

    /// What can be sent already; `None` before the first byte.
    pub fn lease(&self) -> Option<Lease> {
        match self.filling.place.get()? {
            Holding::Memory(slot) => Some(Lease::of_slot(slot)),
            Holding::Disk(slice) => Lease::of_disk(slice),
        }
    }

    /// Waits until the fill has come further than [`Self::progress`] last said.
    pub async fn further(&mut self) {
        // A fill always says how it ended before it goes, so a closed channel brings no news.
        if self.progress.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

/// The one fill of a slice. Dropped unfinished it has failed, and the next reader gets to try.
pub struct SliceFill<D: Describe> {
    object: Arc<Object<D>>,
    slice: u32,
    filling: Arc<Filling>,
    /// Bytes that nobody has been woken for.
    untold: usize,
    ended: bool,
}

impl<D: Describe> SliceFill<D> {
    pub(crate) fn new(object: Arc<Object<D>>, slice: u32, filling: Arc<Filling>) -> Self {
        Self { object, slice, filling, untold: 0, ended: false }
    }

    /// The number of the slice in its object.
    pub fn slice(&self) -> u32 {
        self.slice
    }

    /// The object it belongs to.
    pub fn object(&self) -> &Arc<Object<D>> {
        &self.object
    }

    /// Follows this very fill.
    pub fn follow(&self) -> Follower {
        self.filling.follow()
    }

    /// Keeps bytes, as many as still belong to this slice, and wakes who waits for them. Returns how many.
    ///
    /// # Errors
    /// See [`FillError`]; the fill is then good for dropping.
    pub fn append(&mut self, bytes: &[u8]) -> Result<usize, FillError> {
        let kept = self.add(bytes)?;
        self.tell();
        Ok(kept)
    }

    /// Keeps bytes as [`Self::append`] does, and wakes nobody; who looks finds them all the same. [`Self::tell`] has to
    /// follow, or the end of the fill.
    ///
    /// # Errors
    /// As [`Self::append`].
    pub fn add(&mut self, bytes: &[u8]) -> Result<usize, FillError> {
        let slot = self.slot()?;
        let kept = slot.append(bytes).map_err(FillError::Io)?;
        let bytes = slot.written();
        self.filling.progress.send_if_modified(|progress| {
            progress.bytes = bytes;
            false
        });
        self.untold += kept;
        Ok(kept)
    }

    /// Wakes who waits for what has been added.
    pub fn tell(&mut self) {
        if std::mem::take(&mut self.untold) > 0 {
            self.filling.progress.send_modify(|_| ());
        }
    }

    /// Bytes that nobody has been woken for.
    pub fn untold(&self) -> usize {
        self.untold
    }

    /// How many read while it comes.
    pub fn followers(&self) -> usize {
        self.filling.progress.receiver_count()
    }

    /// Whether the slice has all its bytes; a slice at an end that is not known yet never has.
    pub fn is_full(&self) -> bool {
        self.written() == self.object.slice_length(self.slice)
    }

    /// Bytes that have been kept so far.
    pub fn written(&self) -> u32 {
        self.filling.place.get().map_or(0, |place| match place {
            Holding::Memory(slot) => slot.written(),
            Holding::Disk(slice) => slice.length(),
        })
    }

    /// The slice is complete and may be kept.
    pub fn finish(mut self) {
        self.ended = true;
        match self.filling.place.get() {
            Some(Holding::Memory(slot)) => {
                slot.settle();
                self.object.filled(self.slice, slot);
            }
            Some(Holding::Disk(slice)) => self.object.is_on_disk(self.slice, slice),
            None => self.object.not_filled(self.slice),
        }
        self.filling.progress.send_modify(|progress| progress.complete = true);
    }

    /// Finds the slice on a disk, if one has it. The bytes are checked and in the page cache then, and the fill is
    /// done; otherwise it is given back.
    ///
    /// # Errors
    /// No disk has it: the bytes have to come from elsewhere.
    pub async fn from_disk(self) -> Result<(), Self> {
        let Some(disks) = self.object.tier().disks().map(Arc::clone) else { return Err(self) };
        let Some(slice) = disks.read(self.object.wanted(self.slice)).await else { return Err(self) };
        if slice.length() != self.object.slice_length(self.slice) {
            return Err(self);
        }
        let (filling, length) = (Arc::clone(&self.filling), slice.length());
        if filling.place.set(Holding::Disk(Arc::new(slice))).is_err() {
            return Err(self);
        }
        filling.progress.send_modify(|progress| progress.bytes = length);
        self.finish();
        Ok(())
    }

    fn slot(&self) -> Result<Arc<Slot>, FillError> {
        match self.filling.place.get() {
            Some(Holding::Memory(slot)) => return Ok(Arc::clone(slot)),
            // It is full, and nobody appends to it.
            Some(Holding::Disk(_)) => return Err(FillError::NoRoom),
            None => {}
        }
        let tier: &Arc<MemoryTier> = self.object.tier();
        let slot = tier.reserve(self.object.slice_length(self.slice)).ok_or(FillError::NoRoom)?;
        // Only this one fill sets it.
        drop(self.filling.place.set(Holding::Memory(Arc::clone(&slot))));
        Ok(slot)
    }
}

impl<D: Describe> Drop for SliceFill<D> {
    fn drop(&mut self) {
        if !self.ended {
            self.object.not_filled(self.slice);
            self.filling.progress.send_modify(|progress| progress.failed = true);
        }
    }
}
