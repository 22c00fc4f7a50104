//! How much others need the memory of a slice that a reader holds.

/// How much others need the memory of a slice that a reader holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Demand {
    /// Not at all: the slice is still kept for requests, or lies on a disk.
    None,
    /// The slice was evicted, and only its readers keep it in memory.
    Some,
    /// It was evicted, and so were others that readers hold: together more than a quarter of the tier.
    Urgent,
}
