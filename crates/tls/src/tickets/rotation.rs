//! Commands of the operator on a directory of keys: add a key, remove old ones, list them.

use std::ffi::OsString;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use penstock_sys::ssl::TicketKey;

use super::directory::{Complaint, DirectoryLimits, KeyFile, KeyFileListing, TicketDirectory};
use super::key_file;
use super::policy::TicketPolicy;
use super::shared_keys::{Clocks, SharedKeys};
use crate::random::fill;

/// The result of a rotation.
#[derive(Debug)]
pub struct Rotated {
    /// The file of the new key.
    pub added: OsString,
    /// Files that were removed, oldest last.
    pub removed: Vec<OsString>,
    /// Warnings for the operator.
    pub complaints: Vec<Complaint>,
}

/// Adds a key of 80 bytes, and removes the oldest key files beyond `keep`; other files are left alone.
///
/// The file appears whole, readable by its owner only, under a name that sorts by time. The directory is made if it is
/// missing.
///
/// # Errors
/// The error of the system. The new key exists before an old one is removed.
pub fn rotate(path: &Path, keep: usize, limits: DirectoryLimits, now: SystemTime) -> io::Result<Rotated> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)?;
    let added = add(path, now)?;
    remove_leftovers(path, now);
    let listing = TicketDirectory::new(path, limits).read()?;
    let mut removed = Vec::new();
    let others = listing.files.iter().filter(|file| file.name != added);
    for file in others.skip(keep.saturating_sub(1)) {
        match fs::remove_file(path.join(&file.name)) {
            Ok(()) => removed.push(file.name.clone()),
            // A concurrent rotation removed it.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    File::open(path)?.sync_all()?;
    let listing = TicketDirectory::new(path, limits).read()?;
    let complaints = complaints(path, &listing, &added)?;
    Ok(Rotated { added, removed, complaints })
}

/// Use of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyUse {
    /// It opens tickets, and will seal them soon.
    Introduced,
    /// It seals tickets and opens them.
    Seals,
    /// It opens tickets.
    Opens,
    /// Too many newer keys are kept.
    Dropped,
}

/// Uses of the keys in these files if a server started now; newest first.
pub fn uses(
    files: &[Arc<KeyFile>],
    policy: &TicketPolicy,
    now: SystemTime,
) -> Vec<(Arc<KeyFile>, Arc<TicketKey>, KeyUse)> {
    let instant = Instant::now();
    let mut shared = SharedKeys::default();
    shared.set(files, policy.introduction, Clocks { instant, time: now });
    let opening = shared.opening(policy.keep, instant);
    let use_of = |place: usize| match place {
        place if place < opening.sealing => KeyUse::Introduced,
        place if place == opening.sealing => KeyUse::Seals,
        place if place < opening.keys.len() => KeyUse::Opens,
        _ => KeyUse::Dropped,
    };
    shared.all().enumerate().map(|(place, (file, key))| (file, key, use_of(place))).collect()
}

fn add(path: &Path, now: SystemTime) -> io::Result<OsString> {
    let mut random = [0; 4];
    fill(&mut random).map_err(io::Error::other)?;
    let key = key_file::generate().map_err(io::Error::other)?;
    let seconds = now.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let name = format!("{seconds:010}-{:08x}{SUFFIX}", u32::from_be_bytes(random));
    let temporary = path.join(format!(".{name}{TEMPORARY}"));
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&temporary)?;
    let written = file.write_all(key.expose()).and_then(|()| file.sync_all());
    let renamed = written.and_then(|()| fs::rename(&temporary, path.join(&name)));
    if renamed.is_err() {
        // Nothing more can be done about it here; the next rotation tries again.
        drop(fs::remove_file(&temporary));
    }
    renamed?;
    Ok(name.into())
}

const SUFFIX: &str = ".key";
const TEMPORARY: &str = ".tmp";

/// Age at which a temporary file was left behind by a crash.
const LEFTOVER: Duration = Duration::from_secs(3600);

/// Keys that a crash kept from being renamed.
fn remove_leftovers(path: &Path, now: SystemTime) {
    let ending = [SUFFIX, TEMPORARY].concat();
    for entry in fs::read_dir(path).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let is_ours = name.as_bytes().starts_with(b".") && name.as_bytes().ends_with(ending.as_bytes());
        let modified = entry.metadata().and_then(|metadata| metadata.modified());
        let age = modified.ok().and_then(|modified| now.duration_since(modified).ok());
        if is_ours && age.is_some_and(|age| age > LEFTOVER) {
            // Left behind for the next time.
            drop(fs::remove_file(entry.path()));
        }
    }
}

fn complaints(path: &Path, listing: &KeyFileListing, added: &OsString) -> io::Result<Vec<Complaint>> {
    let mut complaints = listing.complaints(path);
    let shown = path.display();
    if path.metadata()?.mode() & 0o007 != 0 {
        let what = format!("{shown} is open to every user of this machine");
        complaints.push(Complaint { what, instead: "run chmod 700 on it, or 750 for a group of its own" });
    }
    let newest = listing.files.first().map(|file| &file.name);
    if let Some(newest) = newest.filter(|newest| *newest != added) {
        let what =
            format!("{} is dated later than the new key and goes on to seal", path.join(newest).display());
        complaints.push(Complaint { what, instead: "set its time right with touch, or remove it" });
    }
    Ok(complaints)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use tempfile::TempDir;

    use super::*;

    const LIMITS: DirectoryLimits = DirectoryLimits { files: 64, file_bytes: 1024, keys: 64 };

    fn rotate_in(path: &Path, keep: usize) -> Rotated {
        rotate(path, keep, LIMITS, SystemTime::now()).unwrap()
    }

    fn mode(path: &Path) -> u32 {
        path.metadata().unwrap().mode() & 0o7777
    }

    fn date(path: &Path, name: &OsString, seconds_ago: u64) {
        let time = SystemTime::now() - Duration::from_secs(seconds_ago);
        File::options().write(true).open(path.join(name)).unwrap().set_modified(time).unwrap();
    }

    #[test]
    fn a_key_is_added_in_a_directory_for_its_owner_alone() {
        let parent = TempDir::new().unwrap();
        let path = parent.path().join("new/keys");
        let rotated = rotate_in(&path, 3);
        assert_eq!((mode(&path), mode(&path.join(&rotated.added))), (0o700, 0o600));
        assert_eq!((rotated.removed.len(), rotated.complaints), (0, vec![]));
        let listing = TicketDirectory::new(&path, LIMITS).read().unwrap();
        assert_eq!(listing.files[0].keys[0].bits(), 256);
        assert_eq!(fs::read_dir(&path).unwrap().count(), 1, "nothing temporary is left");
    }

    #[test]
    fn the_oldest_beyond_those_kept_are_removed_and_nothing_else() {
        let directory = TempDir::new().unwrap();
        fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o700)).unwrap();
        let path = directory.path();
        fs::write(path.join("README"), "keys").unwrap();
        let names: Vec<OsString> = (0..4_u64)
            .map(|number| {
                let added = rotate_in(path, 9).added;
                date(path, &added, 1000 - 100 * number);
                added
            })
            .collect();
        let rotated = rotate_in(path, 3);
        assert_eq!(rotated.removed, [names[1].clone(), names[0].clone()]);
        let mut left: Vec<OsString> =
            fs::read_dir(path).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        left.sort();
        let mut expected = vec![names[2].clone(), names[3].clone(), rotated.added, "README".into()];
        expected.sort();
        assert_eq!(left, expected);
        assert_eq!(rotated.complaints.len(), 1, "the README is named: {:?}", rotated.complaints);
    }

    #[test]
    fn one_kept_key_is_the_new_one() {
        let directory = TempDir::new().unwrap();
        let first = rotate_in(directory.path(), 1).added;
        let second = rotate_in(directory.path(), 1);
        assert_eq!(second.removed, [first]);
        assert!(directory.path().join(second.added).exists());
    }

    #[test]
    fn an_open_directory_and_a_file_from_the_future_are_named() {
        let directory = TempDir::new().unwrap();
        let path = directory.path();
        let future = rotate_in(path, 3).added;
        let time = SystemTime::now() + Duration::from_secs(3600);
        File::options().write(true).open(path.join(&future)).unwrap().set_modified(time).unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
        let rotated = rotate_in(path, 1);
        let said: Vec<&str> = rotated.complaints.iter().map(|complaint| complaint.what.as_str()).collect();
        assert!(said[0].ends_with("is open to every user of this machine"), "{said:?}");
        // It was removed, so that is settled.
        assert_eq!((rotated.removed, said.len()), (vec![future], 1));
    }

    #[test]
    fn temporary_files_of_a_crash_are_removed_in_time() {
        let directory = TempDir::new().unwrap();
        for (name, age) in [(".1-a.key.tmp", 7200), (".2-b.key.tmp", 60), (".other", 7200)] {
            fs::write(directory.path().join(name), "secret").unwrap();
            date(directory.path(), &name.into(), age);
        }
        rotate_in(directory.path(), 3);
        let exists = |name: &str| directory.path().join(name).exists();
        assert!(!exists(".1-a.key.tmp") && exists(".2-b.key.tmp") && exists(".other"));
    }

    #[test]
    fn each_key_is_told_what_it_is_good_for() {
        let directory = TempDir::new().unwrap();
        let path = directory.path();
        for age in [4000, 3000, 2000, 0] {
            let added = rotate_in(path, 9).added;
            date(path, &added, age);
        }
        let policy = TicketPolicy {
            rotate: Duration::from_secs(3600),
            keep: 2,
            introduction: Duration::from_secs(600),
        };
        let listing = TicketDirectory::new(path, LIMITS).read().unwrap();
        let uses = uses(&listing.files, &policy, SystemTime::now());
        let uses: Vec<KeyUse> = uses.into_iter().map(|(_, _, one)| one).collect();
        assert_eq!(uses, [KeyUse::Introduced, KeyUse::Seals, KeyUse::Opens, KeyUse::Dropped]);
    }
}
