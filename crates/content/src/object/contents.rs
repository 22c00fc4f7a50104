//! The contents of the tiers that a configuration names, for `penstock cache`.

use std::io;
use std::path::PathBuf;

use penstock_cache::inspect;
use penstock_config::Cache;

use crate::object::metadata::StoredObject;

pub use penstock_cache::inspect::Depth;

/// One directory of a tier.
#[derive(Debug)]
pub struct TierContents {
    /// Where it is.
    pub directory: PathBuf,
    /// Whether it is on a disk, and not in memory.
    pub is_disk: bool,
    /// Bytes that it may take.
    pub size: u64,
    /// The contents, or why they cannot be read.
    pub contents: io::Result<inspect::Contents>,
}

/// Looks at the tiers, the memory tier first. It reads files, and may take as long as that does.
pub fn look(cache: &Cache, depth: Depth) -> Vec<TierContents> {
    let memory = TierContents {
        directory: cache.memory.directory.clone(),
        is_disk: false,
        size: cache.memory.size,
        contents: inspect::memory(&cache.memory.directory, depth),
    };
    let disks = cache.disks.iter().map(|disk| TierContents {
        directory: disk.directory.clone(),
        is_disk: true,
        size: disk.size,
        contents: inspect::disk(&disk.directory, depth),
    });
    std::iter::once(memory).chain(disks).collect()
}

/// An object, by its metadata in the tiers.
#[derive(Clone, Debug)]
pub struct CachedObject {
    /// Its metadata.
    pub written: StoredObject,
    /// Its length in bytes, if known.
    pub length: Option<u64>,
    /// Bytes of it in memory.
    pub memory_bytes: u64,
    /// Bytes of it on disks.
    pub disk_bytes: u64,
}

/// The objects in these tiers, as [`Depth::Metadata`] finds them: newest versions only, the largest first.
pub fn objects(tiers: Vec<TierContents>) -> Vec<CachedObject> {
    let mut found: Vec<(bool, inspect::StoredObject)> = Vec::new();
    for tier in tiers {
        let objects = tier.contents.map(|contents| contents.objects).unwrap_or_default();
        found.extend(objects.into_iter().map(|object| (tier.is_disk, object)));
    }
    // Those of one key stand together, the newest first.
    found.sort_unstable_by(|(_, one), (_, other)| (one.key, other.id).cmp(&(other.key, one.id)));
    let mut objects = Vec::new();
    for versions in found.chunk_by(|(_, one), (_, other)| one.key == other.key) {
        let Some((_, newest)) = versions.first() else { continue };
        let places = || versions.iter().filter(|(_, object)| object.id == newest.id);
        let written = places().find_map(|(_, object)| StoredObject::decode(&object.metadata));
        let Some(written) = written else { continue };
        let bytes = |disk: bool| {
            places().filter(|(is_disk, _)| *is_disk == disk).map(|(_, object)| object.bytes).sum()
        };
        let length = places().filter_map(|(_, object)| object.length).max();
        objects.push(CachedObject { written, length, memory_bytes: bytes(false), disk_bytes: bytes(true) });
    }
    objects.sort_by_key(|object| std::cmp::Reverse(object.memory_bytes.max(object.disk_bytes)));
    objects
}
