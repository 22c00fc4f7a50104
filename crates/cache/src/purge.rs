//! Purges: objects from before some time are not to be used any more.
//!
//! A purge is an entry of a short list; it does not search for its objects. A request that finds an object compares the
//! time up to which that was judged with the newest purge, which is one number, and examines the list only if there is
//! a newer one. So a purge is in force in all workers at once, also for objects that are still on their way, and, because
//! the list lies in files beside the objects, for those that a later process restores.
//!
//! Times are in nanoseconds since 1970 and never go back: a purge is later than all before it, whatever the clock says.

mod deliveries;
mod file;
#[cfg(any(test, feature = "fuzz"))]
mod fuzz;
mod list;
mod pattern;
mod target;
mod undelivered;

pub use deliveries::{Deliveries, Delivery, DeliveryLimits};
#[cfg(any(test, feature = "fuzz"))]
pub(crate) use fuzz::fuzz_purges;
pub use list::{PurgeLimits, Purges};
pub use pattern::{NotKept, Pattern, PurgeEffect, Subject};
pub use target::{PurgeOrder, PurgeTarget};
pub use undelivered::UndeliveredPurge;
