//! Gives files of root to the user that the server becomes, without giving away any other.
//!
//! A path can mean another file a moment later, if another user may write to one of its directories. So each step opens
//! the next directory below the one before it, and owners are changed through descriptors. Names are trusted only in
//! directories that root alone can write to; what lies below other directories is made by the user itself, or stays.

use std::collections::VecDeque;
use std::ffi::{CStr, OsStr, OsString};
use std::fmt;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::{Component, Path, PathBuf};

use penstock_config::User;
use rustix::fs::{
    AtFlags, CWD, Dir, FileType, Gid, Mode, OFlags, Stat, Uid, chownat, fstat, mkdirat, openat, readlinkat,
};
use rustix::io::Errno;

/// Levels of directories below a directory that is given.
const LEVELS: usize = 4;
/// Links on the way to a directory, as the kernel's own limit.
const LINKS_MAX: usize = 40;

/// Opens a place without reading or writing it, and without following a link.
const AT_PLACE: OFlags = OFlags::PATH.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// The mode of directories that are made on the way, before the umask.
const SEARCHABLE: Mode = Mode::RWXU.union(Mode::RWXG).union(Mode::RWXO);

/// What is done about a directory that is missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Missing {
    /// It is made.
    Make,
    /// It stays missing.
    Leave,
}

/// A file or directory that root does not give to the user, because the name could mean another one.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct NotGiven {
    /// The directory on the way that others than root can change.
    closed_by: PathBuf,
    /// Its owner.
    owner: u32,
}

impl NotGiven {
    /// Whether the user can make what is missing there.
    pub(super) fn belongs_to(&self, user: &User) -> bool {
        self.owner == user.uid
    }
}

impl fmt::Display for NotGiven {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "others than root can change {}", self.closed_by.display())
    }
}

/// Why a place was not reached.
#[derive(Debug)]
enum Stopped {
    NotRoots(NotGiven),
    /// It cannot be used either, and the tier or log says why when it is opened.
    Unreachable,
}

impl From<Errno> for Stopped {
    fn from(_: Errno) -> Self {
        Self::Unreachable
    }
}

/// Who can change the names in a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Writers {
    Root,
    /// Others can add names, and change only their own.
    Sticky,
    Others,
}

impl Writers {
    fn of(directory: &Stat) -> Self {
        let mode = Mode::from_raw_mode(directory.st_mode);
        if directory.st_uid != 0 {
            Self::Others
        } else if !mode.intersects(Mode::WGRP | Mode::WOTH) {
            Self::Root
        } else if mode.contains(Mode::SVTX) {
            Self::Sticky
        } else {
            Self::Others
        }
    }
}

/// A name in a directory that was reached without passing one that others than root can change.
struct NameInDirectory {
    directory: OwnedFd,
    writers: Writers,
    name: OsString,
    /// The path of the directory, for messages.
    path: PathBuf,
    owner: u32,
}

impl NameInDirectory {
    fn not_roots(&self) -> NotGiven {
        NotGiven { closed_by: self.path.clone(), owner: self.owner }
    }
}

/// Makes a directory and gives it to the user, with what is in it, as far as it belongs to root.
///
/// # Errors
/// When the system refuses to change the owner.
pub(super) fn give_directory(path: &Path, user: &User, missing: Missing) -> Result<Option<NotGiven>, Errno> {
    let place = match reach(path, missing) {
        Ok(place) => place,
        Err(Stopped::NotRoots(why)) => return Ok(Some(why)),
        Err(Stopped::Unreachable) => return Ok(None),
    };
    if place.writers == Writers::Others {
        return Ok(Some(place.not_roots()));
    }
    let Ok(found) = open_step(&place.directory, &place.name, missing, Mode::RWXU) else { return Ok(None) };
    give_found(&found, user, LEVELS)?;
    Ok(None)
}

/// Makes a log and gives it to the user; gives one that exists if it belongs to root. A link or a pipe stays as it is.
///
/// # Errors
/// When the system refuses to change the owner.
pub(super) fn give_log(path: &Path, user: &User) -> Result<Option<NotGiven>, Errno> {
    let place = match reach(path, Missing::Leave) {
        Ok(place) => place,
        Err(Stopped::NotRoots(why)) => return Ok(Some(why)),
        Err(Stopped::Unreachable) => return Ok(None),
    };
    let new = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mode = Mode::RUSR | Mode::WUSR | Mode::RGRP;
    // A new file is given wherever it is: the descriptor is that of the file that was made here.
    if let Ok(made) = openat(&place.directory, &place.name, new, mode) {
        return give(&made, user).map(|()| None);
    }
    let Ok(found) = openat(&place.directory, &place.name, AT_PLACE, Mode::empty()) else { return Ok(None) };
    match fstat(&found)? {
        stat if stat.st_uid != 0 || FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile => {}
        // Others may have moved another file of root here.
        _ if place.writers != Writers::Root => return Ok(Some(place.not_roots())),
        _ => give_found(&found, user, 0)?,
    }
    Ok(None)
}

/// Gives what a descriptor refers to, and first what is in it. A directory that others than root can change stays as it
/// is, and so does a file with several names.
fn give_found(found: &OwnedFd, user: &User, levels: usize) -> Result<(), Errno> {
    let stat = fstat(found)?;
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::Directory if Writers::of(&stat) == Writers::Root => {
            if levels > 0 {
                give_content(found, user, levels - 1)?;
            }
            // Last: once it is the user's, the names in it are too.
            give(found, user)
        }
        FileType::RegularFile if stat.st_uid == 0 && stat.st_nlink == 1 => give(found, user),
        _ => Ok(()),
    }
}

fn give_content(directory: &OwnedFd, user: &User, levels: usize) -> Result<(), Errno> {
    let reading = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    for entry in Dir::new(openat(directory, c".", reading, Mode::empty())?)? {
        let entry = entry?;
        let name: &CStr = entry.file_name();
        if name == c"." || name == c".." {
            continue;
        }
        match openat(directory, name, AT_PLACE, Mode::empty()) {
            Ok(found) => give_found(&found, user, levels)?,
            Err(Errno::NOENT) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn give(found: impl AsFd, user: &User) -> Result<(), Errno> {
    let (uid, gid) = (Uid::from_raw(user.uid), Gid::from_raw(user.gid));
    chownat(found, c"", Some(uid), Some(gid), AtFlags::EMPTY_PATH)
}

/// Opens the directory of a path step by step. Links are followed as long as root alone can change all directories on the
/// way.
fn reach(path: &Path, missing: Missing) -> Result<NameInDirectory, Stopped> {
    let mut left = names(path);
    let mut place = root()?;
    let (mut links, mut only_roots) = (0, true);
    while let Some(name) = left.pop_front() {
        if left.is_empty() && name != ".." {
            return Ok(NameInDirectory { name, ..place });
        }
        if place.writers == Writers::Others {
            return Err(Stopped::NotRoots(place.not_roots()));
        }
        only_roots &= place.writers == Writers::Root;
        match open_step(&place.directory, &name, missing, SEARCHABLE) {
            Ok(next) => {
                let path = if name == ".." { place.path.join("..") } else { place.path.join(&name) };
                place = at(next, path)?;
            }
            // With both flags a link to a directory gives either.
            Err(Errno::NOTDIR | Errno::LOOP) if links < LINKS_MAX => {
                let target = readlinkat(&place.directory, &name, Vec::new())?;
                if !only_roots {
                    return Err(Stopped::NotRoots(place.not_roots()));
                }
                let target = PathBuf::from(OsString::from_vec(target.into_bytes()));
                links += 1;
                if target.is_absolute() {
                    place = root()?;
                }
                names(&target).into_iter().rev().for_each(|name| left.push_front(name));
            }
            Err(error) => return Err(error.into()),
        }
    }
    // A path without a last name.
    Err(Stopped::Unreachable)
}

fn open_step(directory: &OwnedFd, name: &OsStr, missing: Missing, mode: Mode) -> Result<OwnedFd, Errno> {
    let open = || openat(directory, name, AT_PLACE | OFlags::DIRECTORY, Mode::empty());
    match open() {
        Err(Errno::NOENT) if missing == Missing::Make => {
            mkdirat(directory, name, mode)?;
            open()
        }
        opened => opened,
    }
}

fn root() -> Result<NameInDirectory, Errno> {
    at(openat(CWD, c"/", AT_PLACE | OFlags::DIRECTORY, Mode::empty())?, PathBuf::from("/"))
}

fn at(directory: OwnedFd, path: PathBuf) -> Result<NameInDirectory, Errno> {
    let stat = fstat(&directory)?;
    Ok(NameInDirectory {
        writers: Writers::of(&stat),
        owner: stat.st_uid,
        directory,
        name: OsString::new(),
        path,
    })
}

/// The names of a path, whose first directory is known.
fn names(path: &Path) -> VecDeque<OsString> {
    let name = |component| match component {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some("..".into()),
        Component::RootDir | Component::CurDir | Component::Prefix(_) => None,
    };
    path.components().filter_map(name).collect()
}

#[cfg(test)]
mod tests;
