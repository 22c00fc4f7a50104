//! What a configuration means: plain structs whose values cannot be wrong.
//!
//! Whoever holds a [`Config`] need not check again: addresses are addresses, keys belong to their certificates,
//! directories existed when the file was read, and every limit lies in its range.

mod origin;

use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use penstock_http::query::QueryRules;
use penstock_sys::socket::ListenOptions;
use penstock_sys::traffic::Version;
use penstock_tls::certificate::Certificate;
use penstock_tls::tickets::TicketPolicy;
use penstock_tls::tickets::directory::DirectoryLimits;
use penstock_tls::{ChaCha20, ClientCertificates, Compression, DefaultFor, Group, Legacy, Suite};

pub use self::origin::{Health, HttpOrigin, Origin, OriginTimeouts, S3};
use crate::certificate_files::{CertificateFiles, Found, Stamp, Unusable};
use crate::fault::Fault;
use crate::limits;
use crate::passing::Forwarded;
use crate::section::Place;
use crate::signing::SignedUrls;

/// Everything the server needs to know.
#[derive(Clone, Debug)]
pub struct Config {
    /// Worker threads, one runtime each.
    pub workers: NonZeroUsize,
    /// Whether worker `i` is pinned to the `i`-th core this process may use.
    pub affinity: bool,
    /// Where clients connect; at least one, no address twice.
    pub listeners: Vec<Listener>,
    /// The TLS policy of all HTTPS listeners.
    pub tls: Tls,
    /// What is served, by host; at least one.
    pub sites: Vec<Site>,
    /// Where what came from HTTP origins is kept; used only if a site has one.
    pub cache: Cache,
    /// The admin listener; `None` if there is none.
    pub admin: Option<Admin>,
    /// Logs other than the program's own on stderr.
    pub log: Log,
    /// What clients may use.
    pub limits: Limits,
    /// What will work but was probably not meant, such as an expired certificate.
    pub warnings: Vec<Fault>,
    /// Where it was written.
    pub(crate) written: Written,
}

impl Config {
    /// Reads every certificate of every directory with its key, which the server does only when a client needs it, and
    /// says which cannot be used.
    #[must_use]
    pub fn verify_directories(&self) -> Vec<Fault> {
        let wrong = self.tls.certificate_directories.iter().flat_map(|directory| {
            directory.found.iter().filter_map(|found| {
                let error = found.files.load().err()?;
                let what = format!("directory: {}: {error}", found.files.chain.display());
                let instead = "it is left out until it is put right".to_owned();
                let Place { line, column } = directory.place;
                Some(Fault { file: self.written.file.clone(), line, column, what, instead })
            })
        });
        wrong.collect()
    }

    /// A fault that only turned out when the server started. If it concerns the socket of an address it has the line
    /// that asked for it, otherwise no line.
    #[must_use]
    pub fn fault_at(&self, address: Option<SocketAddr>, what: String) -> Fault {
        let place = self.written.addresses.iter().find(|(known, _)| Some(*known) == address);
        let place = place.map_or(Place::NOWHERE, |(_, place)| *place);
        let file = self.written.file.clone();
        Fault { file, line: place.line, column: place.column, what, instead: String::new() }
    }
}

/// Where a configuration was written.
#[derive(Clone, Debug, Default)]
pub(crate) struct Written {
    /// The file, or the option of the command line.
    pub(crate) file: PathBuf,
    /// Every address to listen on, the admin listener's included.
    pub(crate) addresses: Vec<(SocketAddr, Place)>,
}

/// One address that clients connect to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listener {
    /// IP address and port; port 0 lets the system choose one.
    pub address: SocketAddr,
    /// HTTPS if true, plain HTTP otherwise.
    pub tls: bool,
    /// Whether each connection starts with a PROXY protocol header (version 1 or 2).
    pub proxy_protocol: bool,
    /// Options of the socket.
    pub socket: ListenOptions,
}

/// The policy of all handshakes.
#[derive(Clone, Debug)]
pub struct Tls {
    /// Certificates in the order they were written; at least one if a listener has `tls: true`, and at most one
    /// of each kind of key is the default.
    pub certificates: Vec<ConfiguredCertificate>,
    /// Directories of certificates, which may change at any time.
    pub certificate_directories: Vec<CertificateDirectory>,
    /// The oldest version spoken, of 1.2 and 1.3.
    pub oldest: Version,
    /// The oldest version spoken, if that is one of before 1.2; `oldest` is 1.2 then.
    pub legacy: Option<Legacy>,
    /// The newest version spoken, never older than the oldest.
    pub newest: Version,
    /// Whether the kernel may seal what is sent.
    pub kernel: KernelTls,
    /// Key exchange groups in order of preference; at least one.
    pub groups: Vec<Group>,
    /// Whether a client that sent no key share of the best group is asked for one, although another would do.
    pub asks_for_best_group: bool,
    /// Cipher suites, each version's in order of preference; at least one of each version.
    pub suites: Vec<&'static Suite>,
    /// Who gets ChaCha20-Poly1305.
    pub chacha20: ChaCha20,
    /// Session ticket keys.
    pub tickets: Tickets,
    /// Who keeps sessions of TLS 1.2 for clients without tickets.
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

/// A directory of certificates and what was there when the configuration was read.
#[derive(Clone, Debug)]
pub struct CertificateDirectory {
    /// Where it is; absolute.
    pub path: PathBuf,
    /// What was found in it.
    pub found: Vec<Arc<Found>>,
    /// What looked like a certificate and could not be used.
    pub unusable: Vec<Unusable>,
    /// Where it was written.
    pub(crate) place: Place,
}

/// A certificate and where it came from.
#[derive(Clone, Debug)]
pub struct ConfiguredCertificate {
    /// The chain with its key, proven to belong together.
    pub certificate: Arc<Certificate>,
    /// Whom it answers beside those who ask for one of its names.
    pub default: DefaultFor,
    /// Its files and what the system said about them; `None` if the certificate was made in memory.
    pub files: Option<(CertificateFiles, Stamp)>,
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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EarlyData {
    /// Bytes that are acted upon before the handshake is finished; at least one.
    pub max_bytes: usize,
    /// Whether requests that could be replays wait for the end of the handshake.
    pub anti_replay: bool,
}

/// Whether a site answers what came as early data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EarlyRequests {
    /// Like any other request.
    Allow,
    /// With 425 Too Early.
    Refuse,
}

/// Who keeps sessions of TLS 1.2 for clients without tickets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionCache {
    /// Nobody: only tickets resume.
    None,
    /// This process.
    Internal,
}

/// Session ticket keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tickets {
    /// Where files with keys lie that other servers have too; `None` for random keys, rotated in memory.
    pub directory: Option<PathBuf>,
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

/// What is served under some host names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Site {
    /// Host names it answers to; at least one, and no two sites share one.
    pub hosts: Vec<HostPattern>,
    /// Where the bytes come from.
    pub origin: Origin,
    /// What is kept of an HTTP origin's answers.
    pub cache: SiteCache,
    /// Methods that are passed on to an HTTP origin, beside GET, HEAD and OPTIONS.
    pub methods: Vec<String>,
    /// How an origin is told who sent what is passed on to it.
    pub forwarded: Forwarded,
    /// Signatures that URLs have to have; `None` if they need none.
    pub signed_urls: Option<SignedUrls>,
    /// Whether it answers what came as early data.
    pub early_data: EarlyRequests,
    /// The file that answers for a directory, a plain name such as `index.html`.
    pub index: String,
    /// Response fields beyond those of the file itself.
    pub headers: Headers,
}

/// A host name of a site. More exact ones win: [`Exact`](Self::Exact), then [`Under`](Self::Under) with the
/// longest domain, then [`Any`](Self::Any).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum HostPattern {
    /// `video.example.com`, in lower case without a final dot; also an IP address, IPv6 without brackets.
    Exact(String),
    /// `*.example.com`: exactly one label before the domain, which stands here without `*.`, in lower case.
    Under(String),
    /// `*`: every host that no other site has.
    Any,
}

/// What is kept of an HTTP origin's answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SiteCache {
    /// How long those that found something are fresh if the origin does not say.
    pub default_ttl: Duration,
    /// The same of those that did not.
    pub missing_ttl: Duration,
    /// Fields of requests that go to the origin, in lower case.
    pub vary: Vec<String>,
    /// What of the query belongs to the key.
    pub query: QueryRules,
    /// Segments of a playlist that are fetched ahead of a viewer; 0 is off.
    pub prefetch: usize,
}

/// The tiers of the cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cache {
    /// Bytes of a slice, a multiple of 4 KiB.
    pub slice: u32,
    /// The memory tier.
    pub memory: MemoryTier,
    /// The disk tier; empty if there is none.
    pub disks: Vec<DiskTier>,
}

/// A directory of the disk tier.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiskTier {
    /// A directory on a disk; absolute, made at the start if it is missing.
    pub directory: PathBuf,
    /// Bytes it may take, never less than a few slices.
    pub size: u64,
}

/// The memory tier of the cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemoryTier {
    /// A directory on tmpfs; absolute, made at the start if it is missing.
    pub directory: PathBuf,
    /// Bytes it may take, never less than a few slices.
    pub size: u64,
}

/// Response fields of a site.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Headers {
    /// Strict-Transport-Security, on HTTPS only; `None` sends no such field.
    pub hsts: Option<Hsts>,
    /// Value of Access-Control-Allow-Origin: `*` or one origin; `None` sends no such field.
    pub cors: Option<String>,
}

/// What Strict-Transport-Security says (RFC 6797 §6.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hsts {
    /// How long browsers insist on HTTPS; zero tells them to forget it.
    pub max_age: Duration,
    /// Whether that holds for every name below this one too.
    pub include_subdomains: bool,
    /// Whether browsers may have it built in; only with a year and all subdomains.
    pub preload: bool,
}

/// The admin listener: plain HTTP with `/healthz` and `/metrics`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Admin {
    /// IP address and port.
    pub address: SocketAddr,
}

/// Logs other than the program's own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Log {
    /// Whether its lines have the JA4 fingerprint of the client.
    pub ja4: bool,
    /// The access log, JSON lines; `None` is off.
    pub access: Option<PathBuf>,
}

/// What clients may use. The defaults stand in [`limits`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Open connections of all workers together.
    pub connections: usize,
    /// Handshakes that one worker works on at the same time.
    pub handshakes_in_flight: usize,
    /// Handshakes in flight of one client network, for all workers together; 0 is no limit.
    pub handshakes_per_network: usize,
    /// Full handshakes in a second, for all workers together; 0 is no limit.
    pub handshake_rate: u32,
    /// From accept to the end of the handshake.
    pub handshake_deadline: Duration,
    /// From the first byte of a request to the end of its head.
    pub head_deadline: Duration,
    /// How long a connection may stay open without a request.
    pub idle_timeout: Duration,
    /// Bytes per second that a client has to take on average; 0 is no limit.
    pub minimum_rate: u64,
    /// How long a client may take less than the minimum rate.
    pub minimum_rate_grace: Duration,
    /// Requests answered on one connection.
    pub requests_per_connection: u64,
    /// Bytes of a request head.
    pub head_bytes: usize,
    /// Fields of a request head.
    pub head_fields: usize,
    /// Bytes of a request target.
    pub target_bytes: usize,
    /// Bytes of a request body that is passed on to an origin.
    pub body_bytes: u64,
    /// Files one worker keeps open.
    pub open_files: usize,
    /// Requests that wait for one fetch from an origin.
    pub waiters_per_fill: usize,
    /// How long running responses may take after a signal to stop.
    pub drain_deadline: Duration,
}

impl Default for Tls {
    /// No certificate; TLS 1.2 and 1.3; the post-quantum group first.
    fn default() -> Self {
        Self {
            certificates: Vec::new(),
            certificate_directories: Vec::new(),
            oldest: Version::Tls12,
            newest: Version::Tls13,
            legacy: None,
            kernel: KernelTls::Auto,
            groups: vec![Group::X25519MlKem768, Group::X25519, Group::P256],
            asks_for_best_group: false,
            suites: [Suite::all(Version::Tls13), Suite::all(Version::Tls12)].concat(),
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

impl Default for SiteCache {
    fn default() -> Self {
        Self {
            default_ttl: Duration::from_secs(limits::DEFAULT_TTL_SECONDS),
            missing_ttl: Duration::from_secs(limits::MISSING_TTL_SECONDS),
            vary: Vec::new(),
            query: QueryRules::default(),
            prefetch: limits::PREFETCH_SEGMENTS,
        }
    }
}

impl Default for Cache {
    fn default() -> Self {
        Self {
            slice: limits::SLICE_BYTES,
            memory: MemoryTier {
                directory: PathBuf::from(limits::MEMORY_TIER_DIRECTORY),
                size: limits::MEMORY_TIER_BYTES,
            },
            disks: Vec::new(),
        }
    }
}

impl Default for Tickets {
    fn default() -> Self {
        Self {
            directory: None,
            policy: TicketPolicy {
                rotate: Duration::from_secs(limits::TICKET_KEY_ROTATION_SECONDS),
                keep: limits::TICKET_KEYS_KEPT,
                introduction: Duration::from_secs(limits::TICKET_KEY_INTRODUCTION_SECONDS),
            },
        }
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: limits::CONNECTIONS,
            handshakes_in_flight: limits::HANDSHAKES_IN_FLIGHT_PER_WORKER,
            handshakes_per_network: limits::HANDSHAKES_PER_NETWORK,
            handshake_rate: limits::HANDSHAKE_RATE,
            handshake_deadline: Duration::from_secs(limits::HANDSHAKE_DEADLINE_SECONDS),
            head_deadline: Duration::from_secs(limits::HEAD_DEADLINE_SECONDS),
            idle_timeout: Duration::from_secs(limits::IDLE_TIMEOUT_SECONDS),
            minimum_rate: limits::MINIMUM_RATE_BYTES_PER_SECOND,
            minimum_rate_grace: Duration::from_secs(limits::MINIMUM_RATE_GRACE_SECONDS),
            requests_per_connection: limits::REQUESTS_PER_CONNECTION,
            head_bytes: limits::HEAD_BYTES,
            head_fields: limits::HEAD_FIELDS,
            target_bytes: limits::TARGET_BYTES,
            body_bytes: limits::PASSED_BODY_BYTES,
            open_files: limits::OPEN_FILES_PER_WORKER,
            waiters_per_fill: limits::WAITERS_PER_FILL,
            drain_deadline: Duration::from_secs(limits::DRAIN_DEADLINE_SECONDS),
        }
    }
}
