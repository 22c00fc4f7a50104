//! The memory tier: one sparse file on tmpfs, cut into slots of one slice each.
//!
//! The bytes of a slot are written once. Before a slot is used again, its pages are given back to the system
//! (`FALLOC_FL_PUNCH_HOLE`), so the next bytes lie in other pages: pages that a socket still holds keep the old bytes
//! until the kernel has sent them.
//!
//! The file has more slots than fit, in a few sizes ([`layout`]), and counts the pages that are written. It belongs to the
//! user of the process alone ([`files`]). Every slice has a checksum: it is compared before a slice of an earlier process
//! is used, after the file was truncated, and in the background ([`scrub`]).
//!
//! Kept slices are recorded beside the bytes ([`record`]), so that the next process finds them ([`restore`]),
//! and the popular ones are named at the end ([`queue_file`]).

mod demand;
mod files;
#[cfg(any(test, feature = "fuzz"))]
mod fuzz;
mod holder;
mod inspect;
mod layout;
mod limits;
mod predecessor;
mod queue_file;
mod record;
mod record_file;
mod restore;
mod scrub;
mod slice_file;
mod slot;
mod slots;
mod space_watch;
mod tier;

pub use demand::Demand;
#[cfg(any(test, feature = "fuzz"))]
pub(crate) use fuzz::fuzz_records;
pub(crate) use holder::{ExpectedBytes, Holder};
pub(crate) use inspect::inspect;
pub use limits::{TierError, TierLimits, TierWarning};
pub(crate) use limits::{remedy, slice_length};
pub use predecessor::{BusySlots, GivenTier};
pub(crate) use record::SlotRecord;
pub use restore::Restored;
pub(crate) use restore::{Dormant, OBJECT_MAX, RestoredSlice};
pub(crate) use scrub::Scrubber;
pub(crate) use slice_file::WriteError;
pub(crate) use slot::{Note, Slot, ghost};
pub use tier::MemoryTier;
