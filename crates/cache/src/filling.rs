//! A slice that is being filled, as its fill and its readers share it.

use std::fmt;
use std::io;
use std::sync::{Arc, Mutex, OnceLock};

use penstock_sys::lock::Unpoisoned;
use tokio::sync::watch;

use crate::disk::DiskSlice;
use crate::lease::Lease;
use crate::memory::{Slot, WriteError};

/// The state of a fill.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Bytes of the slice that can be sent.
    pub bytes: u32,
    /// Whether the slice is complete.
    pub complete: bool,
    /// Whether the fill has failed; the bytes so far stay valid.
    pub failed: bool,
}

/// Why bytes could not be kept.
#[derive(Debug)]
pub enum FillError {
    /// All of the tier is being sent or filled, or its file system is full.
    NoSpace,
    /// The file of the tier was truncated, and with it the bytes so far.
    Lost,
    /// The error of the system.
    Io(io::Error),
}

impl fmt::Display for FillError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoSpace => f.write_str("there is no space in the cache"),
            Self::Lost => f.write_str("the file of the cache was truncated"),
            Self::Io(error) => write!(f, "cannot write to the cache: {error}"),
        }
    }
}

impl std::error::Error for FillError {}

impl From<WriteError> for FillError {
    fn from(error: WriteError) -> Self {
        match error {
            WriteError::Full => Self::NoSpace,
            WriteError::Lost => Self::Lost,
            WriteError::System(error) => Self::Io(error),
        }
    }
}

/// The place that a fill has found for its slice.
#[derive(Clone)]
pub(crate) enum FillPlace {
    Memory(Arc<Slot>),
    Disk(Arc<DiskSlice>),
}

/// A slice that is being filled.
pub(crate) struct Filling {
    pub(crate) place: OnceLock<FillPlace>,
    pub(crate) progress: watch::Sender<Progress>,
    /// A slice of an earlier process that was not compared with its checksum yet.
    unverified: Mutex<Option<Arc<Slot>>>,
}

impl Filling {
    pub(crate) fn new(unverified: Option<Arc<Slot>>) -> Arc<Self> {
        Arc::new(Self {
            place: OnceLock::new(),
            progress: watch::Sender::new(Progress::default()),
            unverified: Mutex::new(unverified),
        })
    }

    /// Takes the slice that is to be verified, if there is one.
    pub(crate) fn take_unverified(&self) -> Option<Arc<Slot>> {
        self.unverified.lock().unpoisoned().take()
    }

    /// Counts a request for the slice.
    pub(crate) fn count_request(&self) {
        if let Some(FillPlace::Memory(slot)) = self.place.get() {
            slot.count_request();
        }
    }

    pub(crate) fn follow(self: &Arc<Self>) -> Follower {
        Follower { filling: Arc::clone(self), progress: self.progress.subscribe() }
    }
}

/// A reader of a slice that is being filled.
pub struct Follower {
    filling: Arc<Filling>,
    progress: watch::Receiver<Progress>,
}

impl Follower {
    /// The state of the fill.
    pub fn progress(&mut self) -> Progress {
        *self.progress.borrow_and_update()
    }

    /// Readers that follow this fill, this one included.
    pub fn followers(&self) -> usize {
        self.filling.progress.receiver_count()
    }

    /// The bytes so far; `None` before the first.
    pub fn lease(&self) -> Option<Lease> {
        match self.filling.place.get()? {
            // After the file was truncated its bytes may be lost; the fill fails with its next bytes.
            FillPlace::Memory(slot) => slot.is_trusted().then(|| Lease::of_slot(Arc::clone(slot))),
            FillPlace::Disk(slice) => Lease::of_disk(slice),
        }
    }

    /// Waits until the state differs from the last answer of [`Self::progress`].
    pub async fn further(&mut self) {
        // A fill always reports its end before it is dropped, so a closed channel brings no news.
        if self.progress.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}
