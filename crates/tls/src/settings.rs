//! Configured policy for all handshakes of a listener.

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use penstock_sys::lock::Unpoisoned;
use penstock_sys::traffic::ProtocolVersion;

use crate::client_certificates::ClientCertificates;
use crate::compression::Compression;
use crate::early_data::EarlyDataPolicy;
use crate::legacy::Legacy;
use crate::ocsp::Staples;
use crate::offered_certificate::OfferedCertificate;
use crate::session_store::SessionStorage;
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
    /// NIST P-384: several times as expensive as the others, for clients that support no other group.
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

/// Which clients get ChaCha20-Poly1305; with AES hardware it costs the server two to three times as much as AES-GCM.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChaCha20 {
    /// Clients that prefer it, because they have no AES hardware.
    Client,
    /// Clients that offer no other cipher.
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
    /// Opens the file for appending. Its readers can decrypt all traffic.
    ///
    /// # Errors
    /// The error of the system.
    pub fn open(path: &Path) -> std::io::Result<Self> {
        use std::os::unix::fs::OpenOptionsExt;
        let file = std::fs::OpenOptions::new().append(true).create(true).mode(0o600).open(path)?;
        Ok(Self(Mutex::new(file)))
    }

    pub(crate) fn write(&self, line: &str) {
        use std::io::Write;
        let mut file = self.0.lock().unpoisoned();
        // A debugging aid must not end a handshake: a full disk only loses its lines.
        drop(writeln!(file, "{line}"));
    }
}

/// The policy of all handshakes of a listener.
#[derive(Clone, Debug)]
pub struct AcceptorSettings {
    /// Certificates in order of the configuration.
    pub certificates: Vec<OfferedCertificate>,
    /// Limit on lazily loaded certificates in memory.
    pub prepared_certificates: usize,
    /// The oldest version of TLS, apart from `legacy`.
    pub oldest: ProtocolVersion,
    /// The oldest version for old clients, with their suites and signatures; `None` disables all of it.
    pub legacy: Option<Legacy>,
    /// The newest version of TLS.
    pub newest: ProtocolVersion,
    /// Limit on a ClientHello, in bytes; the library always accepts 16 KiB.
    pub client_hello_bytes_max: usize,
    /// Key exchange groups in order of preference.
    pub groups: Vec<Group>,
    /// Whether to request a key share of the preferred group although the client sent a usable one of another group.
    pub asks_for_best_group: bool,
    /// Enabled suites, in order of preference per version; at least one for each enabled version.
    pub suites: Vec<&'static Suite>,
    /// Whether ChaCha20-Poly1305 is currently the last choice.
    pub chacha20: Arc<ChaCha20Switch>,
    /// Session ticket keys; `None` turns resumption off.
    pub tickets: Option<Arc<TicketKeyring>>,
    /// Stores TLS 1.2 sessions of clients without tickets; `None` stores none.
    pub session_storage: Option<SessionStorage>,
    /// Algorithms for certificate compression, preferred first; empty disables it.
    pub compressions: Vec<Compression>,
    /// Limit on compressed certificates in memory, in bytes.
    pub compressed_bytes_max: usize,
    /// How long a session may be resumed; a ticket must not outlive its key.
    pub session_lifetime: Duration,
    /// OCSP responses of the certificates.
    pub staples: Arc<Staples>,
    /// Policy for early data; `None` rejects it.
    pub early_data: Option<EarlyDataPolicy>,
    /// Whether to compute [`Negotiated::ja4`](crate::Negotiated::ja4).
    pub ja4: bool,
    /// Rules for client certificates; `None` requests none.
    pub client_certificates: Option<ClientCertificates>,
    /// Log of session secrets; `None` logs none.
    pub key_log: Option<Arc<KeyLog>>,
}

impl AcceptorSettings {
    /// Identifies the sessions that these settings may resume: those agreed on under the same rules for client
    /// certificates.
    pub(crate) fn session_family(&self) -> &[u8] {
        self.client_certificates.as_ref().map_or(b"penstock", ClientCertificates::session_id_context)
    }
}
