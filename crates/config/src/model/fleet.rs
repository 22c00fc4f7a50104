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

impl Fleet {
    /// What differs, by its key; the whole section if there is a fleet in one configuration only.
    pub fn changes(old: Option<&Self>, new: Option<&Self>) -> Vec<&'static str> {
        let (old, new) = match (old, new) {
            (Some(old), Some(new)) => (old, new),
            (None, None) => return Vec::new(),
            _ => return vec!["the section"],
        };
        let login = |store: &StoreUrl| store.password.as_ref().map(|word| word.expose().to_vec());
        let address = |store: &StoreUrl| (store.place.clone(), store.user.clone(), store.database);
        let differing = [
            ("valkey", address(&old.store) != address(&new.store)),
            ("the password", login(&old.store) != login(&new.store)),
            ("secret", old.secret.expose() != new.secret.expose()),
            ("name", old.name != new.name),
            ("state", old.state != new.state),
            ("deadline", old.deadline != new.deadline),
        ];
        differing.into_iter().filter_map(|(key, differs)| differs.then_some(key)).collect()
    }
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
