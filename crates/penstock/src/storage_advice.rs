//! Warnings of `penstock check` about the directories of the cache: what a start would fail on, or make slow.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use penstock_config::{Config, ConfigPart, Fault};
use rustix::fs::{Access, access, statfs, statvfs};

use crate::advice::TMPFS_MAGIC;

/// All warnings about the tiers of a configuration that uses the cache.
pub(crate) fn advise(config: &Config) -> Vec<Fault> {
    if !config.uses_cache() {
        return Vec::new();
    }
    let cache = &config.cache;
    let disks = cache.disks.iter().enumerate();
    let disks = disks.map(|(number, disk)| (ConfigPart::DiskTier(number), disk.directory.as_path()));
    let memory = (ConfigPart::MemoryTier, cache.memory.directory.as_path());
    let unusable =
        [memory].into_iter().chain(disks).filter_map(|(place, path)| Some((place, unusable(path)?)));
    let misplaced = not_in_memory(&cache.memory.directory).map(|said| (ConfigPart::MemoryTier, said));
    let said = unusable.chain(misplaced).chain(too_large(config));
    said.map(|(place, (what, instead))| Fault { instead, ..config.fault_of(place, what) }).collect()
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
fn too_large(config: &Config) -> Vec<(ConfigPart, Said)> {
    let mut tiers: BTreeMap<u64, (usize, u64, u64)> = BTreeMap::new();
    for (number, disk) in config.cache.disks.iter().enumerate() {
        let found = existing(&disk.directory);
        let (Ok(about), Ok(space)) = (fs::metadata(found), statvfs(found)) else { continue };
        let free = space.f_bavail.saturating_mul(space.f_frsize);
        let (_, size, available) = tiers.entry(about.dev()).or_insert((number, 0, free));
        *size += disk.size;
        *available += own_bytes(&disk.directory);
    }
    let large = tiers.into_values().filter(|(_, size, available)| size > available);
    large
        .filter_map(|(number, size, available)| {
            let what = format!(
                "cache: the disk tier in {} may have {} MiB, and its file system has space for {} MiB",
                config.cache.disks.get(number)?.directory.display(),
                size >> 20,
                available >> 20
            );
            Some((
                ConfigPart::DiskTier(number),
                (what, "write a smaller size, or free space there".to_owned()),
            ))
        })
        .collect()
}

/// Bytes that a tier has already.
fn own_bytes(directory: &Path) -> u64 {
    const BLOCK: u64 = 512;
    let entries = fs::read_dir(directory).into_iter().flatten().filter_map(Result::ok);
    entries.filter_map(|entry| entry.metadata().ok()).map(|found| found.blocks() * BLOCK).sum()
}
