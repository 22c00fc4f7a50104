//! The policy of all handshakes.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use penstock_sys::traffic::ProtocolVersion;
use penstock_tls::certificate::Certificate;
use penstock_tls::tickets::TicketPolicy;
use penstock_tls::tickets::directory::DirectoryLimits;
use penstock_tls::{ChaCha20, ClientCertificates, Compression, DefaultFor, Group, Legacy, Suite};

use super::acme::Acme;
use super::keys::RemoteKeyPlace;
use crate::certificate_files::{CertificateFiles, FoundCertificate, Stamp, Unusable};
use crate::limits;
use crate::section::Position;

/// The policy of all handshakes.
#[derive(Clone, Debug)]
pub struct Tls {
    /// Certificates in the order they were written; at least one if a listener has `tls: true`, and at most one
    /// of each kind of key is the default.
    pub certificates: Vec<ConfiguredCertificate>,
    /// Directories of certificates, which may change at any time.
    pub certificate_directories: Vec<CertificateDirectory>,
    /// Certificates ordered from an authority; `None` if there are none. Their directory is one of
    /// `certificate_directories`.
    pub acme: Option<Acme>,
    /// The oldest version spoken, of 1.2 and 1.3.
    pub oldest: ProtocolVersion,
    /// The oldest version spoken, if that is one of before 1.2; `oldest` is 1.2 then.
    pub legacy: Option<Legacy>,
    /// The newest version spoken, never older than the oldest.
    pub newest: ProtocolVersion,
    /// Whether the kernel may seal what is sent.
    pub kernel: KernelTls,
    /// Key exchange groups in order of preference; at least one.
    pub groups: Vec<Group>,
    /// Whether a client that sent no key share of the best group is asked for one, although another would do.
    pub asks_for_best_group: bool,
    /// Cipher suites, each version's in order of preference; at least one of each version.
    pub suites: Vec<&'static Suite>,
    /// Which clients get ChaCha20-Poly1305.
    pub chacha20: ChaCha20,
    /// Session ticket keys.
    pub tickets: Tickets,
    /// Where sessions of TLS 1.2 are kept for clients without tickets.
    pub session_cache: SessionCache,
    /// How requests before the end of the handshake are taken; `None` not at all.
    pub early_data: Option<EarlyData>,
    /// How certificates may be compressed, the preferred way first; empty: not at all.
    pub certificate_compression: Vec<Compression>,
    /// Where OCSP responses come from, for certificates that do not say otherwise.
    pub ocsp: Ocsp,
    /// The directory with the keys of encrypted hellos; `None` if they are not opened.
    pub ech: Option<PathBuf>,
    /// Which certificates clients are asked for; `None` if they are not.
    pub client_certificates: Option<ClientCertificates>,
    /// Where session secrets are logged for Wireshark; `None` nowhere.
    pub key_log: Option<PathBuf>,
}

/// A directory of certificates and its contents when the configuration was read.
#[derive(Clone, Debug)]
pub struct CertificateDirectory {
    /// Where it is; absolute.
    pub path: PathBuf,
    /// Certificates in it.
    pub found: Vec<Arc<FoundCertificate>>,
    /// Files that look like certificates and cannot be used.
    pub unusable: Vec<Unusable>,
    /// Its position in the file.
    pub(crate) position: Position,
}

/// A certificate and its files.
#[derive(Clone, Debug)]
pub struct ConfiguredCertificate {
    /// The chain with its key, proven to belong together.
    pub certificate: Arc<Certificate>,
    /// Which clients get it beside those that ask for one of its names.
    pub default: DefaultFor,
    /// Its files and what the system said about them; `None` if the certificate was made in memory.
    pub files: Option<(CertificateFiles, Stamp)>,
    /// Where its key is; `None` if that is a file.
    pub remote: Option<RemoteKeyPlace>,
    /// Where its OCSP response comes from; `None` leaves that to [`Tls::ocsp`].
    pub ocsp: Option<Ocsp>,
}

/// Where the OCSP response that goes with a certificate comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ocsp {
    /// None is sent.
    Off,
    /// From the responder that the certificate names, if it names one.
    Auto,
    /// From this file, in DER.
    File(PathBuf),
}

/// Whether the kernel may seal what is sent (kTLS).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KernelTls {
    /// Where it can and where it is worth it.
    Auto,
    /// Wherever it can; a kernel that cannot at all is an error at the start.
    On,
    /// Never.
    Off,
}

/// How early data (0-RTT) is taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EarlyData {
    /// Bytes that are acted upon before the handshake is finished; at least one.
    pub max_bytes: usize,
    /// Whether requests that could be replays wait for the end of the handshake.
    pub anti_replay: bool,
    /// Where requests are recorded, so that replays are known.
    pub register: StrikePlace,
}

/// Where requests before the end of the handshake are recorded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StrikePlace {
    /// In this process.
    #[default]
    Process,
    /// In the store of the fleet.
    Fleet,
}

/// Where sessions of TLS 1.2 are kept for clients without tickets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionCache {
    /// Nowhere: only tickets resume.
    None,
    /// In this process.
    Internal,
    /// In this process and in the store of the fleet.
    Fleet,
}

/// Session ticket keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tickets {
    /// Where files with keys lie that other servers have too; `None` for random keys, rotated in memory.
    pub directory: Option<PathBuf>,
    /// Whether the edges of the fleet share them in its store; there is no directory then.
    pub shared: bool,
    /// How they are rotated.
    pub policy: TicketPolicy,
}

impl Tickets {
    /// How much of the directory is read.
    pub const DIRECTORY_LIMITS: DirectoryLimits = DirectoryLimits {
        files: limits::TICKET_KEY_FILES,
        file_bytes: limits::TICKET_KEY_FILE_BYTES,
        keys: limits::TICKET_KEYS_IN_FILES,
    };
}

impl Default for Tls {
    /// No certificate; TLS 1.2 and 1.3; the post-quantum group first.
    fn default() -> Self {
        Self {
            certificates: Vec::new(),
            certificate_directories: Vec::new(),
            acme: None,
            oldest: ProtocolVersion::Tls12,
            newest: ProtocolVersion::Tls13,
            legacy: None,
            kernel: KernelTls::Auto,
            groups: vec![Group::X25519MlKem768, Group::X25519, Group::P256],
            asks_for_best_group: false,
            suites: [Suite::all(ProtocolVersion::Tls13), Suite::all(ProtocolVersion::Tls12)].concat(),
            chacha20: ChaCha20::Client,
            tickets: Tickets::default(),
            session_cache: SessionCache::Internal,
            early_data: None,
            certificate_compression: Compression::ALL.to_vec(),
            ocsp: Ocsp::Off,
            ech: None,
            client_certificates: None,
            key_log: None,
        }
    }
}

impl Default for Tickets {
    fn default() -> Self {
        Self {
            directory: None,
            shared: false,
            policy: TicketPolicy {
                rotate: Duration::from_secs(limits::TICKET_KEY_ROTATION_SECONDS),
                keep: limits::TICKET_KEYS_KEPT,
                introduction: Duration::from_secs(limits::TICKET_KEY_INTRODUCTION_SECONDS),
            },
        }
    }
}
