//! The policy of all handshakes of a listener, as it was configured.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use penstock_sys::traffic::Version;

use crate::client_certificates::ClientCertificates;
use crate::compression::Compression;
use crate::early_data::EarlyDataPolicy;
use crate::legacy::Legacy;
use crate::ocsp::Staples;
use crate::session_store::SessionKeeping;
use crate::shelf::Offered;
use crate::suites::{ChaCha20Switch, Suite};
use crate::tickets::TicketKeyring;

/// A key exchange group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Group {
    /// X25519 combined with ML-KEM-768: safe against recorded traffic and a later quantum computer.
    X25519MlKem768,
    /// Curve25519.
    X25519,
    /// NIST P-256.
    P256,
    /// NIST P-384: several times as expensive as the others, for clients that know nothing else.
    P384,
}

impl Group {
    /// Its number in the IANA registry.
    pub(crate) fn number(self) -> u16 {
        match self {
            Self::X25519MlKem768 => 0x11ec,
            Self::X25519 => 0x001d,
            Self::P256 => 0x0017,
            Self::P384 => 0x0018,
        }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::X25519MlKem768 => "X25519MLKEM768",
            Self::X25519 => "X25519",
            Self::P256 => "P-256",
            Self::P384 => "P-384",
        }
    }
}

/// Who gets ChaCha20-Poly1305, which costs a server two to three times as much as AES-GCM with AES hardware.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChaCha20 {
    /// Clients that prefer it, because they have no AES hardware.
    Client,
    /// Nobody who offers another cipher.
    Never,
    /// Clients that prefer it, as long as the CPU has time for it.
    Auto,
}

impl ChaCha20 {
    /// The one of that name: `client`, `never` or `auto`.
    pub fn named(name: &str) -> Option<Self> {
        [Self::Client, Self::Never, Self::Auto].into_iter().find(|mode| mode.name() == name)
    }

    /// Its name in the configuration, the metrics and the admin listener.
    pub fn name(self) -> &'static str {
        match self {
            Self::Client => "client",
            Self::Never => "never",
            Self::Auto => "auto",
        }
    }
}

/// A file that receives session secrets in the NSS key log format, for Wireshark.
#[derive(Debug)]
pub struct KeyLog(Mutex<std::fs::File>);

impl KeyLog {
    /// Opens the file for appending; whoever can read it can read all traffic.
    ///
    /// # Errors
    /// What the system said.
    pub fn open(path: &Path) -> std::io::Result<Self> {
        use std::os::unix::fs::OpenOptionsExt;
        let file = std::fs::OpenOptions::new().append(true).create(true).mode(0o600).open(path)?;
        Ok(Self(Mutex::new(file)))
    }

    pub(crate) fn write(&self, line: &str) {
        use std::io::Write;
        let mut file = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // A debugging aid must not end a handshake: a full disk only loses its lines.
        drop(writeln!(file, "{line}"));
    }
}

/// The policy of all handshakes of a listener.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Certificates in order of the configuration.
    pub certificates: Vec<Offered>,
    /// How many of those that are read when they are needed stay in memory.
    pub prepared_certificates: usize,
    /// The oldest version spoken, of those that should be.
    pub oldest: Version,
    /// The oldest version spoken to old clients, with suites and signatures for them; `None` nothing of it.
    pub legacy: Option<Legacy>,
    /// The newest version spoken.
    pub newest: Version,
    /// Key exchange groups in order of preference.
    pub groups: Vec<Group>,
    /// Whether a client that sent no key share of the group we like best is asked for one, although it sent one of
    /// another group that we speak.
    pub asks_for_best_group: bool,
    /// Suites spoken, each version's in order of preference; at least one for each version spoken.
    pub suites: Vec<&'static Suite>,
    /// Whether ChaCha20-Poly1305 is the last choice at the moment.
    pub chacha20: Arc<ChaCha20Switch>,
    /// Session ticket keys; `None` turns resumption off.
    pub tickets: Option<Arc<TicketKeyring>>,
    /// Who keeps sessions of TLS 1.2 for clients without tickets; `None` nobody.
    pub session_keeping: Option<SessionKeeping>,
    /// How certificates may be compressed, the preferred way first; empty: not at all.
    pub compressions: Vec<Compression>,
    /// Bytes of compressed certificates kept.
    pub compressed_bytes_max: usize,
    /// How long a session may be resumed; a ticket must not outlive its key.
    pub session_lifetime: Duration,
    /// What is stapled to certificates.
    pub staples: Arc<Staples>,
    /// How early data is taken; `None` not at all.
    pub early_data: Option<EarlyDataPolicy>,
    /// Whether clients are told apart by their ClientHello, for [`Facts::ja4`](crate::Facts::ja4).
    pub ja4: bool,
    /// Which certificates clients are asked for; `None` if they are not.
    pub client_certificates: Option<ClientCertificates>,
    /// Where secrets are logged; `None` nowhere.
    pub key_log: Option<Arc<KeyLog>>,
}
