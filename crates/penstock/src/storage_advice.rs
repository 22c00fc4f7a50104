//! Warnings of `penstock check` about the directories of the cache: what a start would fail on, or make slow.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use penstock_config::{Config, Fault};
use rustix::fs::{Access, access, statfs, statvfs};

use crate::advice::TMPFS_MAGIC;

/// All warnings about the tiers of a configuration that uses the cache.
pub(crate) fn advise(config: &Config) -> Vec<Fault> {
    if !config.uses_cache() {
        return Vec::new();
    }
    let cache = &config.cache;
    let disks = cache.disks.iter().map(|disk| disk.directory.as_path());
    let unusable = std::iter::once(cache.memory.directory.as_path()).chain(disks).filter_map(unusable);
    let said = unusable.chain(not_in_memory(&cache.memory.directory)).chain(too_large(config));
    said.map(|(what, instead)| Fault { instead, ..config.fault_at(None, what) }).collect()
}

/// A fault and its remedy.
type Said = (String, String);

/// The directory itself, or the nearest one above it that exists.
fn existing(directory: &Path) -> &Path {
    directory.ancestors().find(|path| path.symlink_metadata().is_ok()).unwrap_or_else(|| Path::new("/"))
}

/// A directory that this user cannot make or write.
fn unusable(directory: &Path) -> Option<Said> {
    let (found, shown) = (existing(directory), directory.display());
    if !found.is_dir() {
        let what = format!("cache: {shown} cannot be made, since {} is not a directory", found.display());
        return Some((what, "remove that file, or write the path of another directory".to_owned()));
    }
    let error = access(found, Access::WRITE_OK | Access::EXEC_OK).err()?;
    let verb = if found == directory { "written" } else { "made" };
    let why = match error {
        rustix::io::Errno::ROFS => "its file system is read-only".to_owned(),
        _ => format!("{} may not be written by this user", found.display()),
    };
    let instead = format!(
        "run install -d -o USER -m 0700 {shown} as root, with the user of the server, or write another path"
    );
    Some((format!("cache: {shown} cannot be {verb}: {why}"), instead))
}

/// A memory tier on a disk.
fn not_in_memory(directory: &Path) -> Option<Said> {
    let found = statfs(existing(directory)).ok()?;
    (found.f_type != TMPFS_MAGIC).then(|| {
        let what = format!(
            "cache: the memory tier in {} is not on tmpfs: each of its bytes is written to a disk too",
            directory.display()
        );
        (
            what,
            "write a directory on tmpfs such as /dev/shm/penstock, or use cache.disk for a disk".to_owned(),
        )
    })
}

/// Disk tiers that are larger than what their file system has for them, those on the same one together.
fn too_large(config: &Config) -> Vec<Said> {
    let mut tiers: BTreeMap<u64, (&Path, u64, u64)> = BTreeMap::new();
    for disk in &config.cache.disks {
        let found = existing(&disk.directory);
        let (Ok(about), Ok(space)) = (fs::metadata(found), statvfs(found)) else { continue };
        let free = space.f_bavail.saturating_mul(space.f_frsize);
        let (_, size, available) = tiers.entry(about.dev()).or_insert((&disk.directory, 0, free));
        *size += disk.size;
        *available += own_bytes(&disk.directory);
    }
    let large = tiers.into_values().filter(|(_, size, available)| size > available);
    large
        .map(|(directory, size, available)| {
            let what = format!(
                "cache: the disk tier in {} may have {} MiB, and its file system has space for {} MiB",
                directory.display(),
                size >> 20,
                available >> 20
            );
            (what, "write a smaller size, or free space there".to_owned())
        })
        .collect()
}

/// Bytes that a tier has already.
fn own_bytes(directory: &Path) -> u64 {
    const BLOCK: u64 = 512;
    let entries = fs::read_dir(directory).into_iter().flatten().filter_map(Result::ok);
    entries.filter_map(|entry| entry.metadata().ok()).map(|found| found.blocks() * BLOCK).sum()
}
