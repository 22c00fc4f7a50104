//! The disk tier: directories of segments that survive everything but their disks.
//!
//! A slice is copied here from the memory tier when it is requested again, and is dropped with its segment, the oldest
//! first. An I/O thread reads and checks it, then it is sent from the page cache; requested again, it returns to memory.
//! No worker waits for a disk, and a disk that fails is taken out of service.

mod admission;
mod device;
mod disks;
mod format;
#[cfg(any(test, feature = "fuzz"))]
mod fuzz;
mod index;
mod inspect;
mod limits;
mod maintenance;
mod segment;
mod shared;
mod slice;
mod threads;
mod writer;

pub(crate) use admission::is_promoted;
pub use disks::Disks;
#[cfg(any(test, feature = "fuzz"))]
pub(crate) use fuzz::fuzz_segment;
pub(crate) use index::Versions;
pub(crate) use inspect::inspect;
pub use limits::{DiskError, DiskLimits};
pub(crate) use slice::{DiskLease, DiskSlice, SliceName};
pub(crate) use writer::SliceJob;
