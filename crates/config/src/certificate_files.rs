//! Certificates as files: one chain with its key, or a directory of many.

mod directory;
mod files;

pub use directory::{Scan, Unusable, scan};
pub(crate) use files::is_open;
pub use files::{CertificateFiles, FoundCertificate, KeyFile, Stamp};
