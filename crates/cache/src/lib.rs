//! Objects, kept in slices; slices, kept in tiers of files.
//!
//! A body is never carried: what a reader gets is a [`Lease`] on a slice, and with it an extent to send from. What is
//! missing is filled by exactly one [`SliceFill`], which belongs to no reader; readers follow it and are woken after
//! every chunk.
//!
//! This crate has never seen HTTP, a socket, or an origin. What an object *is* comes from outside as `D`, its
//! description.
#![forbid(unsafe_code)]

mod admission;
mod disk;
mod fuzz;
mod index;
pub mod inspect;
mod keyed;
mod memory;
mod numbers;
mod object;
pub mod purge;
mod slice;

pub use disk::{DiskCounters, DiskError, DiskEvent, DiskLimits, Disks, Report};
#[doc(hidden)]
pub use fuzz::fuzz_cache_files;
pub use index::{Index, LookUp, ObjectFill, Pending, Resolved};
pub use memory::{MemoryTier, Restored, TierCounters, TierError, TierLimits};
pub use object::{Object, Part};
pub use slice::{FillError, Follower, Lease, Progress, SliceFill};

/// What an object is found by: a digest of site, path and whatever else distinguishes it, made by the caller.
pub type Key = [u8; 16];

/// What an object is, as far as this crate must know: how it is written down for the next process.
///
/// What comes back is to be read with suspicion: another version of the program may have written it.
pub trait Describe: Send + Sync + 'static {
    /// Appends everything there is to know.
    fn encode(&self, out: &mut Vec<u8>);
}

/// There is nothing to know.
impl Describe for () {
    fn encode(&self, _out: &mut Vec<u8>) {}
}
