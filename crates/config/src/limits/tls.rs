//! Limits of handshakes, certificates, tickets and sessions.

use std::time::Duration;

use super::bytes::KIB;

/// Bytes of a ClientHello: large tickets, many extensions and post-quantum key shares are far below. BoringSSL accepts
/// 16 KiB in any case.
pub const CLIENT_HELLO_BYTES: usize = 64 * 1024;

/// How often a new session ticket key is made.
pub const TICKET_KEY_ROTATION_SECONDS: u64 = 12 * 3600;

/// Ticket keys that still open tickets, the sealing one included.
pub const TICKET_KEYS_KEPT: usize = 3;

/// The largest number of ticket keys.
pub const TICKET_KEYS_KEPT_MAX: u64 = 64;

/// A shorter rotation would end the resumption it is for: clients come back after seconds to hours.
pub const TICKET_KEY_ROTATION_SECONDS_MIN: u64 = 1;

/// How long a key from a file only opens tickets before it seals, so that every machine has it by then. Covers the
/// check below on all machines and the seconds a file takes to arrive.
pub const TICKET_KEY_INTRODUCTION_SECONDS: u64 = 5;

/// The longest introduction: a key that has not reached every machine by then will not.
pub const TICKET_KEY_INTRODUCTION_SECONDS_MAX: u64 = 24 * 3600;

/// How often the directory of ticket keys is looked at. By the clock, since a network file system tells nothing.
pub const TICKET_DIRECTORY_CHECK_MILLISECONDS: u64 = 1000;

/// Files of that directory that are looked at; more are named and left out.
pub const TICKET_KEY_FILES: usize = 256;

/// A ticket key file: 75 lines of Base64 as HAProxy reads them. A larger one is a mistake.
pub const TICKET_KEY_FILE_BYTES: u64 = 8 * KIB;

/// Keys in all these files; the oldest beyond are left out.
pub const TICKET_KEYS_IN_FILES: usize = 512;

/// The longest a ticket may live (RFC 8446 §4.6.1), so no key needs to open tickets for longer.
pub const TICKET_LIFETIME: Duration = Duration::from_secs(7 * 24 * 3600);

/// How much early data is acted upon before the handshake is finished.
pub const EARLY_DATA_BYTES: usize = 4 * 1024;

/// ClientHellos with early data that are remembered, so that none is acted upon twice. With capacity for two minutes,
/// this is 8000 a second.
pub const EARLY_DATA_STRIKES: usize = 1 << 20;

/// They are forgotten in slices of this length.
pub const EARLY_DATA_SLICE_SECONDS: u64 = 31;

/// Parts of their register with a lock of their own.
pub const EARLY_DATA_SHARDS: usize = 64;

/// Sessions of TLS 1.2 in the internal cache.
pub const SESSION_CACHE_SESSIONS: usize = 400_000;

/// Memory of the internal session cache, with what keeping them costs.
pub const SESSION_CACHE_BYTES: usize = 128 * 1024 * 1024;

/// Parts of the internal session cache with a lock of their own: far more than workers, so that they hardly meet.
pub const SESSION_CACHE_SHARDS: usize = 256;

/// How long a session of the internal cache can be resumed. RFC 5246 §F.1.4 allows a day; the less the better for
/// forward secrecy.
pub const SESSION_LIFETIME_SECONDS: u32 = 2 * 3600;

/// How long a handshake waits for a session that is kept elsewhere; then it goes on as a full one.
pub const SESSION_LOOKUP_DEADLINE_MILLISECONDS: u64 = 250;

/// Bytes of compressed certificates kept, with the certificates they came from: some thousand chains.
pub const COMPRESSED_CERTIFICATE_BYTES: usize = 16 * 1024 * 1024;

/// Busy share of the workers, on average, above which the CPU is short, unless `limits.busy_percent` says less; in percent. The
/// other shares are less in proportion then.
pub const BUSY_PERCENT_HIGH: u32 = 85;

/// How long the share has to stay above [`BUSY_PERCENT_HIGH`] before ChaCha20-Poly1305 becomes the last choice.
pub const BUSY_HIGH_SECONDS: u64 = 10;

/// Busy share of the workers, on average, below which ChaCha20-Poly1305 gets its place back; in percent.
pub const BUSY_PERCENT_LOW: u32 = 60;

/// How long the share has to stay below [`BUSY_PERCENT_LOW`] before that. Longer than [`BUSY_HIGH_SECONDS`], because the
/// switch itself lowers the load.
pub const BUSY_LOW_SECONDS: u64 = 60;

/// How long the share has to stay above [`BUSY_PERCENT_HIGH`] before full handshakes wait (`handshake_rate: auto`): a storm is
/// short, and those who are served lose most in its first seconds.
pub const BUSY_HANDSHAKES_SECONDS: u64 = 2;

/// How long the share has to stay below [`BUSY_PERCENT_LOW`] before full handshakes are not limited any more.
pub const BUSY_HANDSHAKES_LOW_SECONDS: u64 = 10;

/// How long the share has to stay above [`BUSY_PERCENT_HIGH`] before segments are not fetched in advance and files are not
/// compressed anew.
pub const BUSY_EXTRAS_SECONDS: u64 = 5;

/// Busy share of the workers, on average, above which an automatic rate of full handshakes falls; in percent. Between
/// [`BUSY_PERCENT_HIGH`] and this one it stays.
pub const BUSY_PERCENT_FULL: u32 = 95;

/// The least automatic rate of full handshakes in a second, of all workers together: new viewers always get in. With RSA-2048
/// it takes some 5 % of a core.
pub const HANDSHAKE_RATE_AUTO_MIN: f64 = 50.0;

/// The highest automatic rate of full handshakes in a second.
pub const HANDSHAKE_RATE_AUTO_MAX: f64 = 1e6;

/// An OCSP response; a real one has one or two KiB.
pub const OCSP_RESPONSE_BYTES: u64 = 64 * KIB;

/// From the first byte sent to an OCSP responder to the last of its answer, looking up its name included.
pub const OCSP_DEADLINE_SECONDS: u64 = 15;

/// OCSP responders asked at the same time.
pub const OCSP_FETCHES: usize = 8;

/// The shortest pause between two questions about a certificate; after failures it doubles.
pub const OCSP_PAUSE_SECONDS_MIN: u64 = 60;

/// The longest pause: a revocation should not wait for weeks.
pub const OCSP_PAUSE_SECONDS_MAX: u64 = 12 * 3600;

/// Keys for encrypted hellos: a client that names none of them costs a try of each with the same number.
pub const ECH_KEYS_MAX: usize = 16;

/// A file with such a key.
pub const ECH_FILE_BYTES: u64 = 64 * KIB;

/// Files of their directory that are looked at for changes.
pub const ECH_LISTED_MAX: usize = 1024;

/// Server names up to this length look alike in an encrypted hello.
pub const ECH_LONGEST_NAME: usize = 64;

/// How often files with staples and keys are looked at for changes.
pub const REFRESH_INTERVAL_MILLISECONDS: u64 = 1000;

/// The longest `max-age` that makes sense in Strict-Transport-Security: ten years.
pub const HSTS_SECONDS_MAX: u64 = 3650 * 24 * 3600;

/// The shortest `max-age` with which browsers build a site into their preload lists: a year.
pub const HSTS_PRELOAD_SECONDS_MIN: u64 = 365 * 24 * 3600;

/// Certificates read from one directory.
pub const CERTIFICATES_PER_DIRECTORY: usize = 100_000;

/// How long a directory of certificates has to be quiet before its changes are read: a renewal writes two files.
pub const CERTIFICATES_SETTLE_MILLISECONDS: u64 = 300;

/// When changes never stop, they are read after this long all the same.
pub const CERTIFICATES_SETTLE_MILLISECONDS_MAX: u64 = 3000;

/// How often the files of certificates are looked at where the system does not tell of changes, as on NFS.
pub const CERTIFICATES_RECHECK_SECONDS: u64 = 60;

/// How long before its end a certificate is warned of, if it has a long life.
pub const CERTIFICATE_WARNING: Duration = Duration::from_secs(14 * 24 * 3600);

/// Unusable certificates that are named one by one in the log; of more, only the number is told.
pub const CERTIFICATE_FAULTS_NAMED: usize = 20;

/// Intermediate certificates between a client's certificate and the authority that it is trusted for.
pub const CLIENT_CERTIFICATE_DEPTH: u32 = 4;

/// The name in a client's certificate, in the access log.
pub const CLIENT_CERTIFICATE_NAME_BYTES: usize = 128;

/// A list of revoked certificates that has to be followed by a newer one within this time is warned of, in hours.
pub const REVOCATION_WARNING_HOURS: u64 = 24;

/// Names of authorities that clients are sent to choose a certificate by; of more, none are sent.
pub const CLIENT_AUTHORITY_NAMES_BYTES: usize = 8 * 1024;

/// Certificates of directories that stay in memory with everything a handshake needs; the others are read when a
/// client asks for them.
pub const PREPARED_CERTIFICATES: usize = 4096;
