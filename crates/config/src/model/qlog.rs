//! The log of QUIC connections, interpreted.

use std::path::PathBuf;

use crate::networks::NetworkSet;

/// Which QUIC connections have a log of their own (qlog), and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Qlog {
    /// A file for each connection.
    pub directory: PathBuf,
    /// The clients whose connections are logged.
    pub clients: NetworkSet,
    /// The most files that are made. A reload that changes this section begins again.
    pub files: usize,
    /// The most bytes of each file.
    pub file_bytes: u64,
}
