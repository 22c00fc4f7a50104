//! The storage directory: accounts, certificates with their keys, failed orders, answers to challenges, and a lock.
//!
//! Several machines may share it. Files are replaced by renaming, have mode 0600, and the directories 0700.

use std::fmt;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use penstock_config::{Acme, limits};
use penstock_fleet::NoAnswer;
use penstock_sys::small_file::{self, SmallFileError};
use penstock_tls::certificate::RenewalFacts;
use rustix::fs::{FlockOperation, flock};

use crate::last_failure::LastFailure;
use crate::last_order::LastOrder;

/// The storage cannot be used.
#[derive(Debug)]
pub struct StorageError {
    /// What was done.
    action: &'static str,
    path: PathBuf,
    source: io::Error,
}

impl StorageError {
    /// The store of the fleet has not answered.
    pub(crate) fn unanswered(action: &'static str, error: NoAnswer) -> Self {
        Self { action, path: "the store of the fleet".into(), source: io::Error::other(error) }
    }

    /// Whether it is the store of the fleet that does not answer, which it may do soon.
    pub(crate) fn is_of_store(&self) -> bool {
        self.source.get_ref().is_some_and(|source| source.is::<NoAnswer>())
    }

    /// The error of the system.
    pub fn source(&self) -> &io::Error {
        &self.source
    }
}

impl fmt::Display for StorageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { action, path, source } = self;
        write!(f, "acme: cannot {action} {}: {source}", path.display())
    }
}

impl std::error::Error for StorageError {}

fn fault<'p>(action: &'static str, path: &'p Path) -> impl FnOnce(io::Error) -> StorageError + 'p {
    move |source| StorageError { action, path: path.to_owned(), source }
}

/// The storage directory of an authority.
#[derive(Clone, Debug)]
pub struct Storage {
    settings: Acme,
}

/// The right to order, held by one process of those that share the storage. The end of the process gives it up.
#[derive(Debug)]
pub(crate) struct OrderLock {
    _file: File,
}

/// A stored certificate.
#[derive(Debug)]
pub(crate) struct Stored {
    pub(crate) facts: RenewalFacts,
    /// When it was written.
    pub(crate) written: SystemTime,
    /// The order that it is from; `None` if that was made by an older version of this program, or by another one.
    pub(crate) order: Option<LastOrder>,
}

impl Stored {
    /// The time for which it is valid.
    pub(crate) fn life(&self) -> Duration {
        self.facts.not_after.duration_since(self.facts.not_before).unwrap_or_default()
    }
}

impl Storage {
    /// Makes the directories that do not exist.
    ///
    /// # Errors
    /// [`StorageError`].
    pub fn open(settings: &Acme) -> Result<Self, StorageError> {
        let storage = Self { settings: settings.clone() };
        for path in [settings.certificates(), settings.challenges(), storage.accounts()] {
            let made = DirBuilder::new().recursive(true).mode(0o700).create(&path);
            made.map_err(fault("make the directory", &path))?;
        }
        Ok(storage)
    }

    /// Takes the right to order; `None` if another process has it.
    pub(crate) fn lock(&self) -> Result<Option<OrderLock>, StorageError> {
        let path = self.settings.storage.join("lock");
        let opened = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(&path);
        let file = opened.map_err(fault("open", &path))?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Some(OrderLock { _file: file })),
            Err(rustix::io::Errno::WOULDBLOCK) => Ok(None),
            Err(error) => Err(fault("lock", &path)(error.into())),
        }
    }

    /// The account in JSON; `None` if there is none.
    pub(crate) fn account(&self) -> Result<Option<Vec<u8>>, StorageError> {
        read(&self.account_path())
    }

    /// Stores the account.
    pub(crate) fn set_account(&self, json: &[u8]) -> Result<(), StorageError> {
        write(&self.account_path(), json)
    }

    /// Sets an account aside that the authority does not know any more.
    pub(crate) fn forget_account(&self) -> Result<(), StorageError> {
        let path = self.account_path();
        fs::rename(&path, path.with_extension("unknown")).map_err(fault("rename", &path))
    }

    /// The certificate of a name; `None` if there is none that can be read.
    pub(crate) fn certificate(&self, name: &str) -> Option<Stored> {
        let path = self.settings.certificate(name);
        let pem = read(&path).ok()??;
        let facts = RenewalFacts::from_pem(&pem).ok()?;
        // A file that was changed by hand may be for other names.
        let written = path.metadata().ok()?.modified().ok()?;
        let order = LastOrder::find(&pem);
        facts.summary.names().iter().any(|covered| covered == name).then_some(Stored {
            facts,
            written,
            order,
        })
    }

    /// The file of a certificate with its key.
    pub(crate) fn certificate_pem(&self, name: &str) -> Option<Vec<u8>> {
        read(&self.settings.certificate(name)).ok()?
    }

    /// Replaces that file.
    pub(crate) fn replace_certificate(&self, name: &str, pem: &[u8]) -> Result<(), StorageError> {
        write(&self.settings.certificate(name), pem)
    }

    /// Stores a certificate with its key and its order, in one file: no reader finds one without the others.
    pub(crate) fn set_certificate(
        &self,
        name: &str,
        chain: &str,
        key: &str,
        order: LastOrder,
    ) -> Result<(), StorageError> {
        let all = format!("{}\n{}\n{}", chain.trim_end(), key.trim_end(), order.line());
        write(&self.settings.certificate(name), all.as_bytes())
    }

    /// The last failed order of a name; `None` if there is none that can be read.
    pub(crate) fn failure(&self, name: &str) -> Option<LastFailure> {
        LastFailure::find(&read(&self.settings.failure(name)).ok()??)
    }

    /// Keeps a failed order, or one that is under way.
    pub(crate) fn keep_failure(&self, name: &str, failure: &LastFailure) -> Result<(), StorageError> {
        let path = self.settings.failure(name);
        let directory = path.parent().unwrap_or(&path);
        let made = DirBuilder::new().recursive(true).mode(0o700).create(directory);
        made.map_err(fault("make the directory", directory))?;
        write(&path, failure.text().as_bytes())
    }

    /// Removes what was kept of a failed order.
    pub(crate) fn forget_failure(&self, name: &str) -> Result<(), StorageError> {
        let path = self.settings.failure(name);
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(fault("remove", &path)(error)),
            _ => Ok(()),
        }
    }

    /// Writes an answer to a challenge.
    pub(crate) fn set_answer(&self, path: &Path, answer: &[u8]) -> Result<(), StorageError> {
        write(path, answer)
    }

    /// The directory of answers.
    pub(crate) fn challenges(&self) -> PathBuf {
        self.settings.challenges()
    }

    /// The name of the authority.
    pub(crate) fn label(&self) -> String {
        self.settings.label()
    }

    /// Removes answers that a process left when it ended. To be called with the lock.
    pub(crate) fn sweep_answers(&self, now: SystemTime) {
        let old = Duration::from_secs(limits::ACME_ANSWER_SECONDS);
        let Ok(entries) = fs::read_dir(self.settings.challenges()) else { return };
        for entry in entries.flatten() {
            let modified = entry.metadata().and_then(|found| found.modified());
            if modified.is_ok_and(|modified| now.duration_since(modified).is_ok_and(|age| age > old)) {
                // What cannot be removed is tried again with the next order.
                let _removed = fs::remove_file(entry.path());
            }
        }
    }

    fn accounts(&self) -> PathBuf {
        self.settings.storage.join("accounts")
    }

    fn account_path(&self) -> PathBuf {
        self.accounts().join(format!("{}.json", self.settings.label()))
    }
}

/// Reads a file of bounded size; `None` if it does not exist.
fn read(path: &Path) -> Result<Option<Vec<u8>>, StorageError> {
    match small_file::read(path, limits::PEM_FILE_BYTES) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(SmallFileError::Unreadable(error)) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(fault("read", path)(error.into())),
    }
}

/// Replaces a file: a reader finds the old content or the new one, also after a crash.
fn write(path: &Path, bytes: &[u8]) -> Result<(), StorageError> {
    let directory = path.parent().unwrap_or(path);
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    // Directories of certificates leave out names that begin with a dot.
    let new = directory.join(format!(".{name}.new"));
    let written = || -> io::Result<()> {
        match fs::remove_file(&new) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&new)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        fs::rename(&new, path)?;
        File::open(directory)?.sync_all()
    };
    written().map_err(fault("write", path))
}
