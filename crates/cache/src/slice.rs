//! One slice: being filled by one, followed by many, then leased by whoever sends from it.

use std::fmt;
use std::io;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

use penstock_sys::file::Extent;
use tokio::sync::watch;

use crate::Describe;
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

/// A slice while it is filled: what the fill and its followers share.
pub(crate) struct Filling {
    slot: OnceLock<Arc<Slot>>,
    progress: watch::Sender<Progress>,
}

impl Filling {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self { slot: OnceLock::new(), progress: watch::Sender::new(Progress::default()) })
    }

    pub(crate) fn follow(self: &Arc<Self>) -> Follower {
        Follower { filling: Arc::clone(self), progress: self.progress.subscribe() }
    }
}

/// The right to send from a slice that is there. The bytes stay until it is dropped.
#[derive(Clone, Debug)]
pub struct Lease(Arc<Slot>);

impl Lease {
    pub(crate) fn new(slot: &Arc<Slot>) -> Self {
        slot.used();
        Self(Arc::clone(slot))
    }

    /// Bytes of the slice.
    pub fn length(&self) -> u32 {
        self.0.written()
    }

    /// Where these bytes of the slice lie; `None` if it does not have them.
    pub fn extent(&self, range: Range<u32>) -> Option<Extent> {
        self.0.extent(range)
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

    /// What can be sent already; `None` before the first byte.
    pub fn lease(&self) -> Option<Lease> {
        self.filling.slot.get().map(Lease::new)
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
    ended: bool,
}

impl<D: Describe> SliceFill<D> {
    pub(crate) fn new(object: Arc<Object<D>>, slice: u32, filling: Arc<Filling>) -> Self {
        Self { object, slice, filling, ended: false }
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
        let slot = self.slot()?;
        let kept = slot.append(bytes).map_err(FillError::Io)?;
        let bytes = slot.written();
        self.filling.progress.send_modify(|progress| progress.bytes = bytes);
        Ok(kept)
    }

    /// Whether the slice has all its bytes; a slice at an end that is not known yet never has.
    pub fn is_full(&self) -> bool {
        let written = self.filling.slot.get().map_or(0, |slot| slot.written());
        written == self.object.slice_length(self.slice)
    }

    /// The slice is complete and may be kept.
    pub fn finish(mut self) {
        self.ended = true;
        if let Some(slot) = self.filling.slot.get() {
            slot.settle();
            self.object.filled(self.slice, slot);
        } else {
            self.object.not_filled(self.slice);
        }
        self.filling.progress.send_modify(|progress| progress.complete = true);
    }

    fn slot(&self) -> Result<Arc<Slot>, FillError> {
        if let Some(slot) = self.filling.slot.get() {
            return Ok(Arc::clone(slot));
        }
        let tier: &Arc<MemoryTier> = self.object.tier();
        let slot = tier.reserve(self.object.slice_length(self.slice)).ok_or(FillError::NoRoom)?;
        Ok(Arc::clone(self.filling.slot.get_or_init(|| slot)))
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
