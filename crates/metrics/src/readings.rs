//! The state of the rest of the program at the moment of a scrape, as plain numbers that the caller fills in.

use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use crate::cells::Distribution;
use crate::labels::{ChaCha20Cause, FleetLoss, FleetOperation, FleetOutcome, IgnoredTicketFile};

/// Numbers that a scrape shows beside the counters of [`Metrics`](crate::Metrics).
///
/// The default stands for a program without any of these parts; their metrics then have no samples.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Readings {
    /// How ChaCha20-Poly1305 is chosen.
    pub chacha20: Option<ChaCha20Reading>,
    /// Bytes per second that one core seals in user space, by cipher. See [`Self::CIPHERS`].
    pub seal_rates: Vec<(&'static str, f64)>,
    /// Connections that the kernel seals.
    pub kernel_tls: KernelTlsReading,
    /// The session cache of TLS 1.2.
    pub session_cache: SessionCacheCounts,
    /// Orders of certificates; `None` if none are ordered.
    pub orders: Option<OrdersReading>,
    /// The certificates with an OCSP response.
    pub staples: Vec<StapleReading>,
    /// Private keys that are elsewhere; `None` if no certificate has one.
    pub remote_keys: Option<RemoteKeysReading>,
    /// The servers of all origins.
    pub origin_servers: Vec<OriginServerReading>,
    /// Requests to the servers of all origins, by site.
    pub origin_requests: Vec<OriginRequestsReading>,
    /// The other nodes of the cluster.
    pub peers: Vec<PeerReading>,
    /// The memory tier of the cache.
    pub memory_tier: Option<TierCounters>,
    /// The disk tier of the cache.
    pub disk_tier: Option<DiskTierReading>,
    /// Entries of the list of purges.
    pub purge_list: Option<u64>,
    /// The store that edges share.
    pub fleet: Option<FleetReading>,
}

/// Orders of certificates from a certificate authority (ACME).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OrdersReading {
    /// Names by what is happening to their certificate.
    pub states: [(&'static str, u64); 5],
    /// Ended orders by outcome.
    pub outcomes: Vec<(&'static str, u64)>,
    /// Each name.
    pub names: Vec<OrderedName>,
    /// What is wrong with the clock of this machine, to judge by the authority.
    pub clock: Option<String>,
}

/// A name whose certificate is ordered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OrderedName {
    /// The host name.
    pub name: String,
    /// What is happening to its certificate.
    pub state: &'static str,
    /// The end of the certificate; `None` if there is none.
    pub not_after: Option<SystemTime>,
    /// The next attempt or renewal.
    pub next: Option<SystemTime>,
    /// Why the last order failed, in the authority's words; `None` after a success.
    pub error: Option<String>,
}

impl Readings {
    /// The label values of [`Self::seal_rates`].
    pub const CIPHERS: [&str; 3] = ["aes_128_gcm", "aes_256_gcm", "chacha20_poly1305"];
}

/// How ChaCha20-Poly1305 is chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChaCha20Reading {
    /// The mode in force: `client`, `never` or `auto`.
    pub mode: &'static str,
    /// Whether the admin listener set the mode; otherwise the configuration did.
    pub set_by_admin: bool,
    /// Whether only clients that offer nothing else get ChaCha20-Poly1305.
    pub is_last_choice: bool,
    /// Changes of `is_last_choice`, in the order of [`ChaCha20Cause::ALL`].
    pub switches: [u64; ChaCha20Cause::ALL.len()],
}

/// Connections of all programs in the network namespace whose records the kernel seals.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KernelTlsReading {
    /// Sealed by the CPU.
    pub cpu: u64,
    /// Sealed by the network card.
    pub network_card: u64,
}

/// The session cache of TLS 1.2.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SessionCacheCounts {
    /// Sessions held.
    pub sessions: u64,
    /// Memory of the cache in bytes, overhead included.
    pub bytes: u64,
    /// Sessions stored.
    pub stored: u64,
    /// Lookups that found a valid session.
    pub hits: u64,
    /// Lookups that found no session.
    pub misses: u64,
    /// Lookups that found an expired session.
    pub expired: u64,
    /// Sessions evicted before they expired.
    pub evicted: u64,
}

/// A certificate with a current OCSP response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StapleReading {
    /// The first host name of the certificate.
    pub subject: String,
    /// The kind of its key, such as `ecdsa`.
    pub kind: &'static str,
    /// When the responder last knew the status.
    pub this_update: SystemTime,
    /// When the response becomes stale.
    pub next_update: SystemTime,
}

/// Private keys that are elsewhere.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RemoteKeysReading {
    /// Handshakes that a local key signed because the remote one failed.
    pub fallbacks: u64,
    /// Signatures that handshakes wait for.
    pub under_way: u64,
    /// The keyservers.
    pub keyservers: Vec<SignerStatus>,
    /// The tokens of hardware modules.
    pub tokens: Vec<SignerStatus>,
}

/// The state of a keyserver or of a token of a hardware module, and the counts of its name, which others of this name share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignerStatus {
    /// The address of a keyserver or the label of a token, as configured.
    pub name: String,
    /// Whether it can sign: there is a connection on which the keyserver has answered, or a session with the token.
    pub up: bool,
    /// Whether it gets no operations, because it has failed too often.
    pub circuit_open: bool,
    /// Operations that wait for its answer.
    pub under_way: u64,
    /// Operations by result. See [`Self::RESULTS`].
    pub results: [u64; Self::RESULTS.len()],
    /// Time of successful operations, added up.
    pub time: Duration,
    /// Connections made, or sessions opened.
    pub connections: u64,
    /// The end of the keyserver's certificate; `None` before the first connection, and for tokens.
    pub certificate_end: Option<SystemTime>,
}

impl SignerStatus {
    /// The label values of [`Self::results`], in the same order.
    pub const RESULTS: [&str; 6] =
        ["ok", "unavailable", "timed_out", "refused", "wrong_signature", "abandoned"];
}

/// A server of an origin.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OriginServerReading {
    /// Its URL.
    pub url: String,
    /// Whether requests are sent to it.
    pub up: bool,
    /// Open connections, idle ones included.
    pub connections: u64,
    /// Requests that wait for a connection.
    pub waiting: u64,
    /// Requests that it has answered, other than with a status that says that it cannot.
    pub answered: u64,
    /// Requests that it has failed.
    pub failed: u64,
    /// Time from a request to the head of its response, of the answered ones added up.
    pub time: Duration,
    /// Why it failed last; empty if it did not.
    pub fault: String,
}

/// Requests of a site to one server of its origin.
#[derive(Clone, Debug, PartialEq)]
pub struct OriginRequestsReading {
    /// The name of the site.
    pub site: String,
    /// The URL of the server.
    pub target: String,
    /// Requests by outcome.
    pub outcomes: Vec<(&'static str, u64)>,
    /// Answered ones whose body failed, by cause.
    pub incomplete: Vec<(&'static str, u64)>,
    /// Time to open a connection.
    pub connect: Distribution,
    /// Time from a request to the head of its response.
    pub first_byte: Distribution,
    /// Time from a request to the end of its response.
    pub whole: Distribution,
}

/// Another node of the cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerReading {
    /// Its name.
    pub name: String,
    /// Whether it answers.
    pub up: bool,
    /// Why it failed last; empty if it did not.
    pub fault: String,
    /// Requests of other nodes that it works on, as it said last.
    pub load: u64,
    /// Purges that it has yet to confirm.
    pub purges_missed: u64,
    /// Requests for objects to it, by outcome.
    pub requests: Vec<(&'static str, u64)>,
}

/// Counters of a memory tier since it was opened, and its current use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TierCounters {
    /// Bytes in use, in whole pages.
    pub bytes: u64,
    /// Slices in the tier.
    pub slices: u64,
    /// Bytes of slices that were evicted while clients still read them.
    pub evicted_bytes: u64,
    /// Bytes of copies of what other nodes own.
    pub copied_bytes: u64,
    /// Slices evicted for others.
    pub evictions: u64,
    /// Slices that found no space.
    pub refusals: u64,
    /// Bytes that the tier may use: less than its limit if its file system has no more.
    pub bytes_max: u64,
    /// Slices dropped because their bytes had changed.
    pub damaged: u64,
    /// Times that the file of slices was opened again because it was truncated or could not be read.
    pub reopened: u64,
    /// Bytes that the scrub has checked.
    pub scrubbed_bytes: u64,
    /// Whether the file of slices can be used.
    pub in_service: bool,
    /// Whether it takes the place of tiers that an earlier process still has.
    pub waiting: bool,
}

/// The disk tier of the cache.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DiskTierReading {
    /// Each disk.
    pub disks: Vec<DiskCounters>,
    /// Slices that the index knows.
    pub slices: u64,
    /// Memory of the index in bytes.
    pub index_bytes: u64,
    /// Bytes of slices that wait to be written.
    pub waiting_bytes: u64,
    /// Slices not written because too many waited.
    pub skipped: u64,
}

/// One disk of the cache.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DiskCounters {
    /// Its directory.
    pub directory: PathBuf,
    /// Whether it is in service.
    pub in_service: bool,
    /// Bytes of its segments.
    pub bytes: u64,
    /// Bytes that its segments may take; 0 if it could not be opened.
    pub bytes_max: u64,
    /// Its segments.
    pub segments: u64,
    /// Bytes written: slices and their records.
    pub written_bytes: u64,
    /// Bytes read by the scrub.
    pub scrubbed_bytes: u64,
    /// Calls that failed.
    pub errors: u64,
    /// Segments dropped for new ones.
    pub segments_dropped: u64,
    /// Slices written.
    pub written: u64,
    /// Slices read with the right checksum.
    pub read: u64,
    /// Slices promoted to the memory tier.
    pub promoted: u64,
    /// Slices and segments with a wrong checksum.
    pub damaged: u64,
    /// Slices not read because too many reads waited.
    pub busy: u64,
}

/// The store that edges share.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FleetReading {
    /// Whether there is a connection.
    pub is_up: bool,
    /// Whether handshakes do without it.
    pub is_circuit_open: bool,
    /// How long the last probe took.
    pub latency: Duration,
    /// Handshakes that wait for it.
    pub under_way: u64,
    /// Connections that were not made or have ended, in the order of [`FleetLoss::ALL`].
    pub losses: [u64; FleetLoss::ALL.len()],
    /// Operations, in the orders of [`FleetOperation::ALL`] and [`FleetOutcome::ALL`].
    pub operations: [[u64; FleetOutcome::ALL.len()]; FleetOperation::ALL.len()],
    /// Purges of other edges that were applied.
    pub purges_applied: u64,
    /// Purges of this edge that wait until the store answers.
    pub purges_waiting: u64,
    /// How often the whole cache was purged because purges were missed.
    pub purges_missed: u64,
    /// Revoked ids of tokens that this edge knows.
    pub revoked_ids: u64,
    /// Those that the store does not have yet.
    pub revoked_waiting: u64,
    /// Revoked ids that were not kept, because there were too many.
    pub revoked_dropped: u64,
    /// Edges with another secret that use the store.
    pub strangers: u64,
    /// Other edges of the fleet that have the name of this one.
    pub namesakes: u64,
    /// Edges of the fleet that use the store, this one included.
    pub members: u64,
    /// What tells the secret of the fleet from others.
    pub fingerprint: String,
    /// The edges that have said something in the last day, by name.
    pub edges: Vec<FleetEdgeReading>,
}

/// An edge of the fleet, as it said last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FleetEdgeReading {
    /// Its name.
    pub name: String,
    /// Whether it is this one.
    pub is_own: bool,
    /// Whether it was there some seconds ago.
    pub is_present: bool,
    /// When it said something last.
    pub seen: SystemTime,
    /// Purges that it has yet to apply.
    pub purges_missing: u64,
}

/// The session ticket keys in use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TicketKeysReading {
    /// Keys older than the sealing key that still open tickets.
    pub older: usize,
    /// Keys that do not seal yet.
    pub introduced: usize,
    /// When the file of the sealing key was written; `None` if the key is random.
    pub sealing_modified: Option<SystemTime>,
    /// Files of the key directory that are not used, in the order of [`IgnoredTicketFile::ALL`].
    pub ignored: [usize; IgnoredTicketFile::ALL.len()],
}
