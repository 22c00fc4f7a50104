//! The files of one certificate.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use penstock_sys::small_file::{self, SmallFileError};
use penstock_tls::certificate::{Certificate, CertificateError, Summary};

use crate::limits;

/// The files of one certificate; both are the same for a file that holds chain and key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateFiles {
    /// The chain, leaf first.
    pub chain: PathBuf,
    /// The private key.
    pub key: KeyFile,
}

/// The file of a private key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeyFile {
    /// The key is in this file.
    Path(PathBuf),
    /// The key is elsewhere, with a copy in this file if there is one.
    Elsewhere(Option<PathBuf>),
}

impl KeyFile {
    /// The file with the key or its copy; `None` if there is none.
    pub fn path(&self) -> Option<&Path> {
        match self {
            Self::Path(path) | Self::Elsewhere(Some(path)) => Some(path),
            Self::Elsewhere(None) => None,
        }
    }
}

/// Identity and time of change of two files; another stamp means other contents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp([Option<FileStamp>; 2]);

/// Device, inode, size and time of change.
type FileStamp = (u64, u64, u64, i64, i64);

/// A certificate found in a directory. Its key has not been read.
#[derive(Debug)]
pub struct FoundCertificate {
    /// Its files.
    pub files: CertificateFiles,
    /// Names and validity of its leaf.
    pub summary: Arc<Summary>,
    /// The stamp of its files when they were read.
    pub stamp: Stamp,
}

impl CertificateFiles {
    /// Reads both files and proves that they belong together.
    ///
    /// # Errors
    /// The fault and its file; see [`CertificateError`].
    pub fn load(&self) -> Result<Certificate, CertificateError> {
        let chain = self.read_chain()?;
        let key = self.key.path().map(|path| {
            read(path).map_err(|error| CertificateError::KeyUnreadable {
                path: path.to_owned(),
                source: error.into(),
            })
        });
        let key = key.transpose()?;
        match (&self.key, key) {
            (KeyFile::Path(_), Some(key)) => Certificate::from_pem(&chain, &key),
            (_, key) => Certificate::without_key(&chain, key.as_deref()),
        }
    }

    /// The stamp of the files now.
    pub fn stamp(&self) -> Stamp {
        Stamp([stamp_of(&self.chain), self.key.path().and_then(stamp_of)])
    }

    /// Whether every user of this machine may read the key.
    pub fn key_is_open(&self) -> bool {
        self.key.path().is_some_and(is_open)
    }

    /// The contents of both files; `None` if one cannot be read.
    pub(crate) fn read_both(&self) -> Option<(Vec<u8>, Vec<u8>)> {
        Some((read(&self.chain).ok()?, read(self.key.path()?).ok()?))
    }

    pub(super) fn read_chain(&self) -> Result<Vec<u8>, CertificateError> {
        read(&self.chain).map_err(|error| CertificateError::ChainUnreadable {
            path: self.chain.clone(),
            source: error.into(),
        })
    }
}

/// Whether every user of this machine may read the file.
pub(crate) fn is_open(path: &Path) -> bool {
    const READABLE_BY_OTHERS: u32 = 0o004;
    path.metadata().is_ok_and(|found| found.mode() & READABLE_BY_OTHERS != 0)
}

fn stamp_of(path: &Path) -> Option<FileStamp> {
    let found = path.metadata().ok()?;
    Some((found.dev(), found.ino(), found.size(), found.mtime(), found.mtime_nsec()))
}

fn read(path: &Path) -> Result<Vec<u8>, SmallFileError> {
    small_file::read(path, limits::PEM_FILE_BYTES)
}
