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
mod index;
mod memory;
mod object;
mod slice;

pub use index::{Index, LookUp, ObjectFill, Pending, Resolved};
pub use memory::{MemoryTier, TierCounters, TierError, TierLimits};
pub use object::{Object, Part};
pub use slice::{FillError, Follower, Lease, Progress, SliceFill};

/// What an object is found by: a digest of site, path and whatever else distinguishes it, made by the caller.
pub type Key = [u8; 16];
