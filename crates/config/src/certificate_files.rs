//! Certificates as files: one chain with its key, or a directory of many.

mod directory;

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use penstock_tls::certificate::{Certificate, CertificateError, Summary};

use crate::limits;

pub use directory::{Scan, Unusable, scan};

/// The files of one certificate; both are the same for a file that holds chain and key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateFiles {
    /// The chain, leaf first.
    pub chain: PathBuf,
    /// The private key.
    pub key: PathBuf,
}

/// What the system says about two files; another stamp means other contents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp([Option<FileStamp>; 2]);

/// Device, inode, size and time of change.
type FileStamp = (u64, u64, u64, i64, i64);

/// A certificate whose files lie in a directory. Its key has not been read.
#[derive(Debug)]
pub struct Found {
    /// Where it lies.
    pub files: CertificateFiles,
    /// What its leaf says about itself.
    pub summary: Arc<Summary>,
    /// Of the files when they were looked at.
    pub stamp: Stamp,
}

impl CertificateFiles {
    /// Reads both and makes sure that they belong together.
    ///
    /// # Errors
    /// What is wrong and with which file; see [`CertificateError`].
    pub fn load(&self) -> Result<Certificate, CertificateError> {
        let chain = self.read_chain()?;
        let key = read(&self.key)
            .map_err(|source| CertificateError::KeyUnreadable { path: self.key.clone(), source })?;
        Certificate::from_pem(&chain, &key)
    }

    /// What the system says about them now.
    pub fn stamp(&self) -> Stamp {
        Stamp([stamp_of(&self.chain), stamp_of(&self.key)])
    }

    fn read_chain(&self) -> Result<Vec<u8>, CertificateError> {
        read(&self.chain)
            .map_err(|source| CertificateError::ChainUnreadable { path: self.chain.clone(), source })
    }
}

fn stamp_of(path: &Path) -> Option<FileStamp> {
    let found = path.metadata().ok()?;
    Some((found.dev(), found.ino(), found.size(), found.mtime(), found.mtime_nsec()))
}

/// Reads a file that may be a PEM file: a device or a pipe could go on for ever.
fn read(path: &Path) -> io::Result<Vec<u8>> {
    let found = path.metadata()?;
    if found.is_dir() {
        return Err(io::ErrorKind::IsADirectory.into());
    }
    if !found.is_file() {
        return Err(io::Error::other("not a regular file"));
    }
    let mut bytes = Vec::with_capacity(usize::try_from(found.len().min(limits::PEM_FILE_BYTES)).unwrap_or(0));
    File::open(path)?.take(limits::PEM_FILE_BYTES + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > limits::PEM_FILE_BYTES {
        return Err(io::Error::other("too large for a PEM file"));
    }
    Ok(bytes)
}
