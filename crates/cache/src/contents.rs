//! The report of an inspection of a tier's directory.

use std::collections::HashMap;

use crate::key::Key;

/// How thorough an inspection is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Depth {
    /// Counts slices and bytes.
    Count,
    /// Also reads the metadata of each object.
    Metadata,
    /// Compares all checksums; reads everything.
    Verify,
}

/// The contents of a tier.
#[derive(Debug, Default)]
pub struct Contents {
    /// Slices that a server would find.
    pub slices: u64,
    /// Bytes of those.
    pub bytes: u64,
    /// Segments of a disk; 0 in memory.
    pub segments: u64,
    /// Bytes that the tier's files take.
    pub file_bytes: u64,
    /// Damaged slices and segments, as far as they were examined.
    pub damaged: u64,
    /// The objects, in no order.
    pub objects: Vec<StoredObject>,
}

/// The part of one object that a tier holds.
#[derive(Debug)]
pub struct StoredObject {
    /// The object's key.
    pub key: Key,
    /// Of two versions of an object, the one with the greater number is newer.
    pub id: u64,
    /// Length of the whole object; `None` if it is unknown or was not read.
    pub length: Option<u64>,
    /// Slices of it.
    pub slices: u64,
    /// Bytes of those.
    pub bytes: u64,
    /// The object's metadata; empty if it was not read or is damaged.
    pub metadata: Vec<u8>,
}

/// Objects, put together from their slices.
#[derive(Default)]
pub(crate) struct Gathered(HashMap<Key, StoredObject>);

impl Gathered {
    /// The object of a slice; `None` if a newer version of it was seen.
    pub(crate) fn object(&mut self, key: Key, id: u64) -> Option<&mut StoredObject> {
        let new = || StoredObject { key, id, length: None, slices: 0, bytes: 0, metadata: Vec::new() };
        let stored = self.0.entry(key).or_insert_with(new);
        if stored.id < id {
            *stored = new();
        }
        (stored.id == id).then_some(stored)
    }

    pub(crate) fn into_contents(self, contents: &mut Contents) {
        for (_, stored) in self.0.into_iter().filter(|(_, stored)| stored.slices > 0) {
            contents.slices += stored.slices;
            contents.bytes += stored.bytes;
            contents.objects.push(stored);
        }
    }
}
