//! Looking at what lies in a tier's directory from outside, also while a server uses it. Nothing is changed.

use std::collections::HashMap;
use std::io;
use std::path::Path;

use crate::Key;

/// How closely to look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Depth {
    /// Count what is there.
    Count,
    /// Also read what is written about each object.
    Describe,
    /// Compare all checksums; reads everything.
    Verify,
}

/// What lies in a tier.
#[derive(Debug, Default)]
pub struct Contents {
    /// Slices that would be found.
    pub slices: u64,
    /// Bytes of those.
    pub bytes: u64,
    /// Segments of a disk; 0 in memory.
    pub segments: u64,
    /// Bytes that its files take.
    pub file_bytes: u64,
    /// Slices and segments that are not what they should be, as far as was looked.
    pub damaged: u64,
    /// The objects, in no order.
    pub objects: Vec<Found>,
}

/// What lies there of one object.
#[derive(Debug)]
pub struct Found {
    /// What it is found by.
    pub key: Key,
    /// Of two versions of an object the one with the greater number is the newer.
    pub id: u64,
    /// Length of the whole object; `None` while that is not known, or was not looked at.
    pub length: Option<u64>,
    /// Slices of it.
    pub slices: u64,
    /// Bytes of those.
    pub bytes: u64,
    /// What is written about it; empty where that was not looked at, or is damaged.
    pub description: Vec<u8>,
}

/// What lies in the directory of a memory tier.
///
/// # Errors
/// What the system said.
pub fn memory(directory: &Path, depth: Depth) -> io::Result<Contents> {
    crate::memory::inspect(directory, depth)
}

/// What lies in a directory of the disk tier.
///
/// # Errors
/// What the system said.
pub fn disk(directory: &Path, depth: Depth) -> io::Result<Contents> {
    crate::disk::inspect(directory, depth)
}

/// Objects as they are put together from their slices.
#[derive(Default)]
pub(crate) struct Gathered(HashMap<Key, Found>);

impl Gathered {
    /// The object of a slice; `None` if a newer version of it is there.
    pub(crate) fn object(&mut self, key: Key, id: u64) -> Option<&mut Found> {
        let new = || Found { key, id, length: None, slices: 0, bytes: 0, description: Vec::new() };
        let found = self.0.entry(key).or_insert_with(new);
        if found.id < id {
            *found = new();
        }
        (found.id == id).then_some(found)
    }

    pub(crate) fn into_contents(self, contents: &mut Contents) {
        for (_, found) in self.0.into_iter().filter(|(_, found)| found.slices > 0) {
            contents.slices += found.slices;
            contents.bytes += found.bytes;
            contents.objects.push(found);
        }
    }
}
