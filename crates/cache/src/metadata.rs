//! The interface that the cache requires of the metadata of an object.

/// The caller's metadata of an object: how it is persisted, what it weighs, and whether it is still of use.
///
/// Another version of the program may have written persisted metadata, so reading it back must not trust it.
pub trait Metadata: Send + Sync + 'static {
    /// Appends the persisted form. An empty one keeps the object out of the disk tier.
    fn encode(&self, out: &mut Vec<u8>);

    /// Bytes of heap memory that this metadata owns, beside its own size.
    fn heap_bytes(&self) -> usize {
        0
    }

    /// Whether the object may not be served without asking its origin. Stale objects without slices are evicted first.
    fn is_stale(&self) -> bool {
        false
    }
}

/// An object without metadata.
impl Metadata for () {
    fn encode(&self, _out: &mut Vec<u8>) {}
}
