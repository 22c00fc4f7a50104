//! The interface that a tier requires of the owner of a slice.

/// The owner of slices: an object, or what an earlier process left of one.
pub(crate) trait Holder: Send + Sync {
    /// Gives up a slice, which is evicted. Its readers may finish.
    fn release_slice(&self, slice: u32);

    /// The name of a slice after its eviction.
    fn ghost(&self, slice: u32) -> Option<u64>;

    /// Whether requests may still find the object.
    fn is_kept(&self) -> bool;

    /// The expected bytes of a slice; `None` if the holder does not have it.
    fn expected(&self, slice: u32) -> Option<ExpectedBytes>;
}

/// Length and checksum of a slice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ExpectedBytes {
    pub(crate) length: u32,
    pub(crate) checksum: u32,
}
