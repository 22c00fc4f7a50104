//! The store that the edges of a fleet share.

use std::path::PathBuf;
use std::time::Duration;

use penstock_sys::traffic::Secret;
use penstock_tls::Authorities;

/// The fleet that this edge belongs to.
#[derive(Clone, Debug)]
pub struct Fleet {
    /// Where the store is.
    pub store: StoreUrl,
    /// The secret that all edges have.
    pub secret: Secret,
    /// The name of this edge within the fleet.
    pub name: String,
    /// Where the last ticket keys and the position in the stream of purges are kept; `None` nowhere.
    pub state: Option<PathBuf>,
    /// How long a handshake waits for the store.
    pub deadline: Duration,
}

/// A URL of a Valkey or Redis store, in its parts.
#[derive(Clone, Debug)]
pub struct StoreUrl {
    /// Host and port, or a socket.
    pub place: StorePlace,
    /// The user; `None` is the default user.
    pub user: Option<String>,
    /// The password; `None` if there is none.
    pub password: Option<Secret>,
    /// The number of the database.
    pub database: u32,
}

/// Where a store listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StorePlace {
    /// On TCP.
    Tcp {
        /// A host name or IP address.
        host: String,
        /// The port.
        port: u16,
        /// Who signs its certificate, with TLS; `None` is plain.
        authorities: Option<Authorities>,
    },
    /// On a Unix socket.
    Unix(PathBuf),
}
