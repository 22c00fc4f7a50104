//! Limits of orders of certificates (ACME).

use std::time::Duration;

use super::bytes::KIB;

/// From connecting to the authority to the last byte of its answer, in seconds.
pub const ACME_REQUEST_SECONDS: u64 = 30;

/// A response of the authority: a chain of certificates has some KiB.
pub const ACME_RESPONSE_BYTES: usize = 256 * 1024;

/// The head of a response of the authority.
pub const ACME_HEAD_BYTES: usize = 32 * 1024;

/// Hosts of an authority whose sessions of TLS are kept.
pub const ACME_HOSTS: usize = 8;

/// The authority's words about a failure that are logged and shown, in characters.
pub const ACME_WORDS_CHARACTERS: usize = 500;

/// For how long an order is polled until it is ready, and again until it has its certificate, in seconds.
pub const ACME_ORDER_SECONDS: u64 = 120;

/// An order from its beginning to its end, in seconds; commands for DNS wait for other servers.
pub const ACME_ORDER_SECONDS_MAX: u64 = 900;

/// The first pause between two polls of an order, in milliseconds.
pub const ACME_POLL_MILLISECONDS: u64 = 500;

/// Further attempts at an order or account whose nonces the authority refuses, each after three of the library.
pub const ACME_NONCE_ATTEMPTS: u32 = 3;

/// How often the right to order is asked for while another process has it, in seconds; up to twice as long.
pub const ACME_LOCK_SECONDS: u64 = 2;

/// The longest time between two looks at a certificate, in seconds: the clock may be set.
pub const ACME_CHECK_SECONDS: u64 = 3600;

/// The pause after a failed question for renewal information, in seconds.
pub const ACME_WINDOW_SECONDS: u64 = 3600;

/// The shortest time between two orders of a name whose certificate is due again at once, in seconds; it quadruples up to a third of
/// the certificate's life. Authorities allow five certificates a week for the same names.
pub const ACME_REST_SECONDS: u64 = 3600;

/// The least rest after some orders in a row is two seconds to their power, up to this one, however short the life of the certificates:
/// 18 hours.
pub const ACME_REST_DOUBLINGS: u32 = 16;

/// An order counts as in a row with the one before if it begins within this time after the rest of that, in seconds.
pub const ACME_IN_A_ROW_SECONDS: u64 = 24 * 3600;

/// How far the clock of this machine may differ from the authority's, in seconds, before renewals follow the authority's.
pub const ACME_CLOCK_SECONDS: u64 = 300;

/// How often the clock of this machine is looked at, in seconds: it may be set.
pub const ACME_CLOCK_LOOK_SECONDS: u64 = 10;

/// The shortest time between two questions for renewal information, in seconds (RFC 9773 section 4.3.2).
pub const ACME_WINDOW_SECONDS_MIN: u64 = 60;

/// The longest time between two questions for renewal information, in seconds (RFC 9773 section 4.3.2).
pub const ACME_WINDOW_SECONDS_MAX: u64 = 24 * 3600;

/// The first pause after an order that the authority rejected, in seconds; it triples. Five attempts fit into the first hour.
pub const ACME_REJECTED_PAUSE_SECONDS: u64 = 60;

/// The longest pause after rejected orders, in seconds.
pub const ACME_REJECTED_PAUSE_SECONDS_MAX: u64 = 6 * 3600;

/// The longest pause that a restart keeps, in seconds. A server that starts again and again makes five attempts in its first hour, and
/// then two.
pub const ACME_KEPT_PAUSE_SECONDS_MAX: u64 = 1800;

/// The first pause when the authority asks for fewer requests, in seconds; it doubles.
pub const ACME_RATE_LIMITED_PAUSE_SECONDS: u64 = 3600;

/// The longest pause, also of those that the authority asks for, in seconds.
pub const ACME_RATE_LIMITED_PAUSE_SECONDS_MAX: u64 = 24 * 3600;

/// The first pause when the authority cannot be reached, in seconds; it doubles.
pub const ACME_UNAVAILABLE_PAUSE_SECONDS: u64 = 5;

/// The longest pause when the authority cannot be reached, in seconds.
pub const ACME_UNAVAILABLE_PAUSE_SECONDS_MAX: u64 = 3600;

/// How long the command for DNS may run, in seconds.
pub const ACME_COMMAND_SECONDS: u64 = 300;

/// How often the end of that command is looked for.
pub const ACME_COMMAND_CHECK: Duration = Duration::from_millis(100);

/// Age of an answer to a challenge that a process has left, in seconds.
pub const ACME_ANSWER_SECONDS: u64 = 24 * 3600;

/// A token of a challenge; real ones have 43 bytes.
pub const ACME_TOKEN_BYTES: usize = 128;

/// An answer to a challenge: a token, a dot and 43 bytes; or a certificate.
pub const ACME_ANSWER_BYTES: u64 = 16 * KIB;

/// The name of an authority in paths, in characters.
pub const ACME_LABEL_CHARACTERS: usize = 100;

/// Names with a certificate of the authority: an order takes seconds, and they are ordered one after the other.
pub const ACME_NAMES: usize = 1000;

/// The key of an external account, before its encoding.
pub const ACME_EXTERNAL_KEY_BYTES: u64 = 4 * KIB;

/// How long one edge of a fleet has the right to order, in seconds; it is renewed while the order lasts.
pub const ACME_RIGHT_SECONDS: u64 = 30;

/// How often an edge looks for answers of others in the store of a fleet.
pub const ACME_MIRROR: Duration = Duration::from_secs(1);

/// How long an edge of a fleet waits before it tells the authority of an answer: the others look for it meanwhile, each with half a
/// second for the store.
pub const ACME_MIRRORED: Duration = Duration::from_secs(3);

/// How long the account of a fleet stays in its store; each order renews that.
pub const ACME_ACCOUNT_SHARED: Duration = Duration::from_secs(400 * 86_400);
