//! A directory of key files.
//!
//! Reading may block for long on a network file system, so only the control side reads, never a worker.

use std::collections::{HashMap, HashSet};
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::fs::{self, Metadata};
use std::io::{self, ErrorKind};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use penstock_metrics::IgnoredTicketFile;
use penstock_sys::small_file::{self, SmallFileError};
use penstock_sys::ssl::TicketKey;
use penstock_sys::traffic::Secret;

use super::key_file::{self, NotAKey};

/// How much of a directory is read.
#[derive(Clone, Copy, Debug)]
pub struct DirectoryLimits {
    /// Files looked at.
    pub files: usize,
    /// Bytes of a file; a larger one is no key file.
    pub file_bytes: u64,
    /// Keys in all files together; the files with the oldest ones are left out.
    pub keys: usize,
}

/// The contents of a directory.
#[derive(Clone, Debug, Default)]
pub struct KeyFileListing {
    /// Files with keys, newest first: by time of modification, then by name.
    pub files: Vec<Arc<KeyFile>>,
    /// Entries that are no key files, in order of names.
    pub ignored: Vec<Ignored>,
}

impl KeyFileListing {
    /// Complaints for the operator, each with its remedy. `directory` is the path to print.
    pub fn complaints(&self, directory: &Path) -> Vec<Complaint> {
        let mut complaints: Vec<Complaint> = Vec::new();
        for Ignored { name, why } in &self.ignored {
            let what = format!("{} {why}", directory.join(name).display());
            complaints.push(Complaint { what, instead: "it is ignored: remove or replace it" });
        }
        for file in self.files.iter().filter(|file| file.is_readable_by_others) {
            let shown = directory.join(&file.name);
            let what = format!("{} may be read by every user of this machine", shown.display());
            complaints.push(Complaint { what, instead: "run chmod 600 on it; its holder can read traffic" });
        }
        if self.files.is_empty() {
            let what = format!("there is no ticket key in {}", directory.display());
            let instead = "until there is one a random key seals, which no other machine has: run penstock tickets \
                           rotate on the directory";
            complaints.push(Complaint { what, instead });
        }
        complaints
    }
}

/// Something an operator should know.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Complaint {
    /// The fault and its place.
    pub what: String,
    /// The consequence and the remedy.
    pub instead: &'static str,
}

impl fmt::Display for Complaint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}; {}", self.what, self.instead)
    }
}

/// A file with keys.
#[derive(Clone, Debug)]
pub struct KeyFile {
    /// Its name in the directory.
    pub name: OsString,
    /// When it was last written.
    pub modified: SystemTime,
    /// Whether users other than its owner and group may read it.
    pub is_readable_by_others: bool,
    /// Its keys, oldest first; at least one.
    pub keys: Vec<Arc<TicketKey>>,
    /// Whether the last key only opens tickets until another one follows.
    pub last_is_introduced: bool,
}

/// A file, or a line of one, that is not used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ignored {
    /// Its name in the directory.
    pub name: OsString,
    /// The fault.
    pub why: IgnoredReason,
}

/// Why a file is not used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IgnoredReason {
    /// The error of the system.
    Unreadable(ErrorKind),
    /// The content instead of a key.
    NotAKey(NotAKey),
    /// A directory, a pipe, a device.
    NotAFile,
    /// It is larger than any key file.
    TooLarge,
    /// Too many files come before it.
    TooMany,
}

impl IgnoredReason {
    /// As the label of a metric.
    pub fn label(&self) -> IgnoredTicketFile {
        match self {
            Self::Unreadable(_) => IgnoredTicketFile::Unreadable,
            Self::NotAKey(_) | Self::NotAFile | Self::TooLarge => IgnoredTicketFile::NotAKey,
            Self::TooMany => IgnoredTicketFile::TooMany,
        }
    }
}

impl From<SmallFileError> for IgnoredReason {
    fn from(error: SmallFileError) -> Self {
        match error {
            SmallFileError::Unreadable(error) => Self::Unreadable(error.kind()),
            SmallFileError::Directory | SmallFileError::NotRegular => Self::NotAFile,
            SmallFileError::TooLarge(_) => Self::TooLarge,
            SmallFileError::NotText => Self::Unreadable(ErrorKind::InvalidData),
        }
    }
}

impl fmt::Display for IgnoredReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreadable(ErrorKind::PermissionDenied) => f.write_str("may not be read by this user"),
            Self::Unreadable(ErrorKind::NotFound) => f.write_str("is a link to nothing"),
            Self::Unreadable(kind) => write!(f, "cannot be read ({kind})"),
            Self::NotAKey(what) => what.fmt(f),
            Self::NotAFile => f.write_str("is not a regular file"),
            Self::TooLarge => f.write_str("is larger than any key file"),
            Self::TooMany => f.write_str("is one file too many"),
        }
    }
}

/// A directory of key files.
#[derive(Debug)]
pub struct TicketDirectory {
    path: PathBuf,
    limits: DirectoryLimits,
    known: HashMap<OsString, KnownFile>,
    /// Whether it has been read before: then what is new may still be being written.
    is_known: bool,
}

/// State of a file at its last read.
#[derive(Debug)]
struct KnownFile {
    /// `None` if the metadata could not be read.
    version: Option<FileVersion>,
    found: Result<KeyFileContent, IgnoredReason>,
    last_good: Option<KeyFileContent>,
    /// How often in a row it was no key file.
    faults: u32,
}

#[derive(Clone, Debug)]
struct KeyFileContent {
    file: Arc<KeyFile>,
    broken_line: Option<NotAKey>,
}

/// Metadata that changes with the content of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct FileVersion {
    device: u64,
    inode: u64,
    bytes: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

/// Failed reads before a file is reported: at the first one it may still be being written.
const FAULTS_BELIEVED: u32 = 2;

impl TicketDirectory {
    /// Reads nothing yet.
    pub fn new(path: &Path, limits: DirectoryLimits) -> Self {
        Self { path: path.to_owned(), limits, known: HashMap::new(), is_known: false }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Looks at every file, and reads those that have changed.
    ///
    /// # Errors
    /// When the directory itself cannot be listed.
    pub fn read(&mut self) -> io::Result<KeyFileListing> {
        let (names, too_many) = self.names()?;
        let present: HashSet<&OsStr> = names.iter().map(OsString::as_os_str).collect();
        self.known.retain(|name, _| present.contains(name.as_os_str()));
        let mut listing = KeyFileListing::default();
        for name in names {
            self.look_at(name, &mut listing);
        }
        listing.ignored.extend(too_many.map(|name| Ignored { name, why: IgnoredReason::TooMany }));
        listing.files.sort_by(|one, two| (two.modified, &two.name).cmp(&(one.modified, &one.name)));
        leave_out_oldest(&mut listing, self.limits.keys);
        listing.ignored.sort_by(|one, two| one.name.cmp(&two.name));
        self.is_known = true;
        Ok(listing)
    }

    /// The names of what may be key files, in order, and one beyond the limit.
    fn names(&self) -> io::Result<(Vec<OsString>, Option<OsString>)> {
        let mut names = Vec::new();
        for entry in fs::read_dir(&self.path)? {
            let name = entry?.file_name();
            if is_temporary(&name) {
                continue;
            }
            if names.len() == self.limits.files {
                return Ok((names, Some(name)));
            }
            names.push(name);
        }
        names.sort();
        Ok((names, None))
    }

    fn look_at(&mut self, name: OsString, listing: &mut KeyFileListing) {
        let path = self.path.join(&name);
        let before = self.known.remove(&name);
        let now = path.metadata();
        let version = now.as_ref().ok().map(FileVersion::of);
        let known = match before {
            Some(known)
                if known.version == version && !matches!(known.found, Err(IgnoredReason::Unreadable(_))) =>
            {
                known.again()
            }
            before => {
                let found = now.map_err(|error| IgnoredReason::Unreadable(error.kind()));
                let found = found.and_then(|now| read_file(&path, &name, &now, self.limits.file_bytes));
                KnownFile::after(before, version, found)
            }
        };
        if let Some(content) = known.content() {
            listing.files.push(Arc::clone(&content.file));
        }
        let may_be_half_written = self.is_known && known.faults < FAULTS_BELIEVED;
        if let Some(why) = known.fault().filter(|_| !may_be_half_written) {
            listing.ignored.push(Ignored { name: name.clone(), why });
        }
        self.known.insert(name, known);
    }
}

impl KnownFile {
    fn after(
        before: Option<Self>,
        version: Option<FileVersion>,
        found: Result<KeyFileContent, IgnoredReason>,
    ) -> Self {
        let faults = before.as_ref().map_or(0, |known| known.faults);
        let is_whole = matches!(&found, Ok(content) if content.broken_line.is_none());
        let last_good = match &found {
            Ok(content) => Some(content.clone()),
            Err(_) => before.and_then(|known| known.last_good),
        };
        Self { version, found, last_good, faults: if is_whole { 0 } else { faults.saturating_add(1) } }
    }

    /// The same file, looked at once more.
    fn again(mut self) -> Self {
        if self.fault().is_some() {
            self.faults = self.faults.saturating_add(1);
        }
        self
    }

    /// The content in use: the previous one while the file is being written or cannot be read.
    fn content(&self) -> Option<&KeyFileContent> {
        match &self.found {
            Ok(content) => Some(content),
            Err(IgnoredReason::Unreadable(kind))
                if !matches!(kind, ErrorKind::NotFound | ErrorKind::PermissionDenied) =>
            {
                self.last_good.as_ref()
            }
            Err(_) => self.last_good.as_ref().filter(|_| self.faults < FAULTS_BELIEVED),
        }
    }

    fn fault(&self) -> Option<IgnoredReason> {
        match &self.found {
            Ok(content) => content.broken_line.map(IgnoredReason::NotAKey),
            Err(why) => Some(why.clone()),
        }
    }
}

impl FileVersion {
    fn of(metadata: &Metadata) -> Self {
        Self {
            device: metadata.dev(),
            inode: metadata.ino(),
            bytes: metadata.size(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        }
    }
}

fn leave_out_oldest(listing: &mut KeyFileListing, most_keys: usize) {
    let mut keys = 0;
    let fit = listing.files.iter().take_while(|file| {
        keys += file.keys.len();
        keys <= most_keys
    });
    let beyond = listing.files.split_off(fit.count());
    let left_out = beyond.iter().map(|file| Ignored { name: file.name.clone(), why: IgnoredReason::TooMany });
    listing.ignored.extend(left_out);
}

/// Names of temporary files of editors, rsync and the generator of this project, and of links of secret stores.
fn is_temporary(name: &OsStr) -> bool {
    let name = name.as_bytes();
    name.starts_with(b".") || [&b"~"[..], b".tmp", b".swp", b".part"].iter().any(|end| name.ends_with(end))
}

fn read_file(
    path: &Path,
    name: &OsStr,
    metadata: &Metadata,
    most_bytes: u64,
) -> Result<KeyFileContent, IgnoredReason> {
    let content = Secret::new(small_file::read(path, most_bytes)?);
    let parsed = key_file::parse(&content).map_err(IgnoredReason::NotAKey)?;
    let file = KeyFile {
        name: name.to_owned(),
        modified: modified(metadata),
        is_readable_by_others: metadata.mode() & 0o004 != 0,
        keys: parsed.keys.into_iter().map(Arc::new).collect(),
        last_is_introduced: parsed.last_is_introduced,
    };
    Ok(KeyFileContent { file: Arc::new(file), broken_line: parsed.fault })
}

fn modified(metadata: &Metadata) -> SystemTime {
    metadata.modified().unwrap_or_else(|_| {
        let seconds = u64::try_from(metadata.mtime()).unwrap_or(0);
        UNIX_EPOCH + Duration::from_secs(seconds)
    })
}

#[cfg(test)]
mod tests;
