//! Objects in slices, and slices in two tiers of files: memory and disks.
//!
//! An [`Index`] finds an [`Object`] by key. A reader claims a slice of it and gets a [`Lease`], and with it the place of
//! the bytes to send; a missing slice is filled by one [`SliceFill`], which other readers follow. The bytes lie in the
//! files of [`Tiers`] and are never copied to be sent. This crate knows no HTTP, no socket and no origin: the meaning of
//! an object is the caller's [`Metadata`].
//!
//! ```
//! # use std::{sync::Arc, time::SystemTime};
//! # use penstock_cache::*;
//! # let directory = tempfile::tempdir_in("/dev/shm")?;
//! # let limits = TierLimits { bytes: 1 << 20, slice_bytes: 1 << 16, scrub_bytes_per_second: 0 };
//! let (memory, restored) = MemoryTier::open(directory.path(), limits, SystemTime::now())?;
//! let tiers = Tiers::new(memory, None);
//! let index = Index::new(Arc::new(Budget::new(64 << 20)), restored);
//! let IndexEntry::Claimed(claim) = index.get_or_claim(&[7; 16]) else { panic!("the cache is empty") };
//! let object = Object::new(&[7; 16], (), Some(5), tiers);
//! claim.keep(&object);
//! let SliceClaim::Missing(mut fill) = object.claim_slice(0) else { panic!("no slice is there") };
//! fill.append(b"hello")?;
//! fill.finish();
//! let SliceClaim::Ready(lease) = object.claim_slice(0) else { panic!("it was filled") };
//! assert_eq!(lease.extent(1..5).map(|extent| extent.len), Some(4));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]

mod budget;
mod contents;
mod disk;
mod draining;
mod event;
mod filling;
#[cfg(any(test, feature = "fuzz"))]
mod fuzz;
mod index;
pub mod inspect;
mod key;
mod lease;
mod memory;
mod metadata;
mod not_copied;
mod numbers;
mod object;
pub mod purge;
mod s3_fifo;
#[cfg(any(test, feature = "fuzz"))]
mod scratch;
mod slice_fill;
mod tiers;

pub use budget::Budget;
pub use disk::{DiskError, DiskLimits, Disks};
pub use event::{Report, TierEvent};
pub use filling::{FillError, Follower, Progress};
#[cfg(any(test, feature = "fuzz"))]
#[doc(hidden)]
pub use fuzz::fuzz_cache_files;
pub use index::{ClaimResult, Index, IndexEntry, ObjectClaim, Pending};
pub use key::Key;
pub use lease::Lease;
pub use memory::{BusySlots, Demand, GivenTier, MemoryTier, Restored, TierError, TierLimits, TierWarning};
pub use metadata::Metadata;
pub use object::{Object, Presence, SliceCopy};
pub use penstock_metrics::{DiskCounters, TierCounters};
pub use slice_fill::{SliceClaim, SliceFill};
pub use tiers::{OpenError, OpenedTiers, TierOptions, Tiers};
