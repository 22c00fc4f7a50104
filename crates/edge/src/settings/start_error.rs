//! Why a server could not start, or a reload could not be applied.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

use penstock_acme::StorageError;
use penstock_content::StoreError;
use penstock_sys::socket::ListenError;
use penstock_tls::tickets::NoRandomness;

use crate::tls::KtlsUnavailable;

/// Why a server could not start, or a reload could not be applied.
#[derive(Debug)]
pub enum StartError {
    /// A listener could not be opened.
    Listen(ListenError),
    /// Another process gave a socket with an address that no listener has.
    UnusedSocket(SocketAddr),
    /// The directory of a site could not be opened.
    Site(penstock_sys::root::RootError),
    /// The cache could not be opened.
    Cache(StoreError),
    /// The TLS settings cannot be used together.
    Tls(penstock_tls::ContextError),
    /// `tls.kernel` is `on`, and the kernel has no TLS.
    Kernel(KtlsUnavailable),
    /// The key log could not be opened.
    KeyLog {
        /// The file named in the configuration.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The access log could not be opened.
    AccessLog {
        /// The file named in the configuration.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The client of a keyserver could not be made.
    RemoteKeys(io::Error),
    /// The storage of ordered certificates cannot be used.
    Storage(StorageError),
    /// The certificate for the time before the first order could not be made.
    SelfSigned(String),
    /// A thread or its runtime could not be made.
    Thread(io::Error),
    /// No session ticket key could be made.
    Randomness(NoRandomness),
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Listen(error) => error.fmt(f),
            Self::UnusedSocket(address) => write!(
                f,
                "the service manager gave a socket for {address} (LISTEN_FDS), which no listener has: write \
                 `- address: {address}` under `listeners`, or remove it from the socket unit (ListenStream=)"
            ),
            Self::Site(error) => write!(f, "cannot open the directory of a site: {error}"),
            Self::Cache(error) => error.fmt(f),
            Self::Tls(error) => error.fmt(f),
            Self::Kernel(error) => error.fmt(f),
            Self::KeyLog { path, source } => {
                write!(f, "cannot open the TLS key log {}: {source}", path.display())
            }
            Self::AccessLog { path, source } => {
                write!(f, "cannot open the access log {}: {source}", path.display())
            }
            Self::RemoteKeys(error) => write!(f, "cannot use a keyserver: {error}"),
            Self::Storage(error) => error.fmt(f),
            Self::SelfSigned(error) => write!(f, "cannot make a self-signed certificate: {error}"),
            Self::Thread(error) => write!(f, "cannot start a thread: {error}"),
            Self::Randomness(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for StartError {}

impl StartError {
    /// The error of the system that a log, a keyserver's client or a tier of the cache could not be opened for.
    pub fn system_error(&self) -> Option<&io::Error> {
        match self {
            Self::KeyLog { source, .. } | Self::AccessLog { source, .. } => Some(source),
            Self::RemoteKeys(source) | Self::Thread(source) => Some(source),
            Self::Storage(error) => Some(error.source()),
            Self::Cache(error) => error.system_error(),
            Self::Listen(error) => Some(&error.source),
            Self::UnusedSocket(_)
            | Self::Site(_)
            | Self::Tls(_)
            | Self::Kernel(_)
            | Self::SelfSigned(_)
            | Self::Randomness(_) => None,
        }
    }
}
