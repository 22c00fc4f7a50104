//! The right to send from a slice.

use std::ops::Range;
use std::sync::Arc;

use penstock_sys::file::Extent;

use crate::disk::{DiskLease, DiskSlice};
use crate::memory::{Demand, Slot};

/// The right to send from a slice. The bytes do not change until it is dropped.
#[derive(Clone, Debug)]
pub struct Lease(Leased);

#[derive(Clone, Debug)]
enum Leased {
    Memory(Arc<Slot>),
    Disk(DiskLease),
}

impl Lease {
    pub(crate) fn of_slot(slot: Arc<Slot>) -> Self {
        Self(Leased::Memory(slot))
    }

    /// Its slot, if it is in memory.
    pub(crate) fn slot(&self) -> Option<&Arc<Slot>> {
        match &self.0 {
            Leased::Memory(slot) => Some(slot),
            Leased::Disk(_) => None,
        }
    }

    /// `None` if the slice was dropped from its disk.
    pub(crate) fn of_disk(slice: &DiskSlice) -> Option<Self> {
        slice.lease().map(|lease| Self(Leased::Disk(lease)))
    }

    /// Bytes of the slice.
    pub fn length(&self) -> u32 {
        match &self.0 {
            Leased::Memory(slot) => slot.written(),
            Leased::Disk(lease) => lease.length(),
        }
    }

    /// Reports that sending from the slice has failed, as it does when the file was truncated. Its bytes are compared with
    /// their checksum before they are used again.
    pub fn report_failure(&self) {
        match &self.0 {
            Leased::Memory(slot) => slot.distrust(),
            Leased::Disk(lease) => lease.report_failure(),
        }
    }

    /// How much others need the memory that this keeps in use.
    pub fn demand(&self) -> Demand {
        match &self.0 {
            Leased::Memory(slot) => slot.demand(),
            Leased::Disk(_) => Demand::None,
        }
    }

    /// The place of these bytes of the slice; `None` if it does not have them or may have lost them.
    pub fn extent(&self, range: Range<u32>) -> Option<Extent> {
        match &self.0 {
            Leased::Memory(slot) => slot.extent(range),
            Leased::Disk(lease) => lease.extent(range),
        }
    }
}
