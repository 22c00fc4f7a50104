//! A slice on a disk, as objects and readers hold it.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Arc, Weak};

use penstock_sys::file::{Extent, OpenFile};

use super::index::RecordPlace;
use super::segment::Segment;
use crate::key::Key;

/// A slice on a disk whose checksum was right.
pub(crate) struct DiskSlice {
    pub(super) segment: Weak<Segment>,
    pub(super) start: u64,
    pub(super) length: u32,
    pub(crate) place: RecordPlace,
    /// Requests since it was read.
    pub(crate) requests: AtomicU8,
    /// Whether it is being copied to memory.
    pub(crate) promoting: AtomicBool,
}

/// The right to send from a slice on a disk.
#[derive(Clone, Debug)]
pub(crate) struct DiskLease {
    file: Arc<OpenFile>,
    segment: Weak<Segment>,
    start: u64,
    length: u32,
}

impl DiskSlice {
    /// The right to send from it; `None` if it was dropped, or its file is closed.
    pub(crate) fn lease(&self) -> Option<DiskLease> {
        let file = self.segment.upgrade()?.file_if_open()?;
        // A file that was opened again may be shorter than when the slice was read.
        if self.start + u64::from(self.length) > file.len() {
            return None;
        }
        Some(DiskLease { file, segment: Weak::clone(&self.segment), start: self.start, length: self.length })
    }

    pub(crate) fn length(&self) -> u32 {
        self.length
    }

    /// Has later requests copy it to memory, after it was not copied now.
    pub(crate) fn try_promoting_again(&self) {
        self.requests.store(0, Ordering::Relaxed);
        self.promoting.store(false, Ordering::Relaxed);
    }
}

impl DiskLease {
    /// Closes the segment, so that its slices are read and checked again before they are used.
    pub(crate) fn report_failure(&self) {
        if let Some(segment) = self.segment.upgrade() {
            segment.close();
        }
    }

    pub(crate) fn length(&self) -> u32 {
        self.length
    }

    pub(crate) fn extent(&self, range: Range<u32>) -> Option<Extent> {
        if range.start > range.end || range.end > self.length {
            return None;
        }
        let offset = self.start + u64::from(range.start);
        Extent::new(Arc::clone(&self.file), offset, u64::from(range.end - range.start))
    }
}

/// The name of a slice: object, version and number.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SliceName {
    pub(crate) key: Key,
    pub(crate) object: u64,
    pub(crate) slice: u32,
}
