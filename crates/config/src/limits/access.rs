//! Bounds of the rules that say who may use a site, and how much.

use std::ops::RangeInclusive;
use std::time::Duration;

use super::MIB;

/// Bytes of a file of networks.
pub const ADDRESS_FILE_BYTES: u64 = 16 * MIB;

/// Bytes of a database of countries, which is kept in memory.
pub const COUNTRY_FILE_BYTES: u64 = 512 * MIB;

/// Networks and files of one list.
pub const ADDRESS_LIST_ENTRIES: usize = 10_000;

/// How long a file that a site follows is used before a request has its time of change looked at.
pub const FOLLOWED_FILE_MILLISECONDS: u64 = 2000;

/// Entries of one set of the table of rates, of which the one that is free first gives way.
pub const RATE_WAYS: usize = 8;

/// Sets of the table of rates of all sites: 4 MiB of 16 bytes for each entry.
pub const RATE_SETS: usize = 32_768;

/// The most requests that a rate may allow at once.
pub const RATE_BURST_MAX: u64 = 1_000_000;

/// The most requests in a second that a rate may allow.
pub const RATE_PER_SECOND_MAX: u64 = 1_000_000;

/// The most responses under way that a limit of a site may allow.
pub const SITE_CONNECTIONS_MAX: u64 = 10_000_000;

/// Bytes of a file of names and passwords.
pub const ACCOUNT_FILE_BYTES: u64 = MIB;

/// Names in a file of names and passwords.
pub const ACCOUNTS: usize = 10_000;

/// The least bytes per second that a pace may be.
pub const PACE_RATE_MIN: u64 = 1024;

/// The most.
pub const PACE_RATE_MAX: u64 = 1 << 40;

/// Multiples of a bitrate that a pace may be, in thousandths.
pub const PACE_BITRATES: RangeInclusive<u64> = 1000..=100_000;

/// Films whose bitrate a worker remembers.
pub const PACE_FILMS: usize = 1024;

/// Bytes of a piece of a paced response, which is a quarter of a second between these.
pub const PACE_PIECE_BYTES_MIN: u64 = 4096;

/// The most.
pub const PACE_PIECE_BYTES_MAX: u64 = MIB;

/// What a client that took less than its pace may make up for.
pub const PACE_CATCH_UP: Duration = Duration::from_secs(1);

/// How far the responses of a client may be behind its bandwidth before another one gets 429.
pub const BANDWIDTH_BEHIND_MAX: Duration = Duration::from_secs(10);

/// The longest wait behind one piece: a day.
pub const PACE_WAIT_MAX: Duration = Duration::from_secs(86_400);

/// Bytes of a file of keys for tokens.
pub const TOKEN_KEY_FILE_BYTES: u64 = 64 * 1024;

/// Keys in such a file.
pub const TOKEN_KEYS: usize = 64;

/// Keys that one token is verified with at most: a signature costs up to 0.1 ms, and any client can send one.
pub const TOKEN_KEYS_TRIED: usize = 2;

/// Bytes of a token (RFC 7519).
pub const TOKEN_BYTES: usize = 8192;

/// How far the clocks of issuer and server may differ.
pub const TOKEN_LEEWAY_DEFAULT: Duration = Duration::from_secs(30);

/// The most that they may be said to differ.
pub const TOKEN_LEEWAY_MAX: Duration = Duration::from_secs(600);

/// The most that `bcrypt` may cost: 2^14 rounds take a second.
pub const BCRYPT_COST_MAX: u32 = 14;

/// The most memory that `argon2` may take, in KiB.
pub const ARGON2_KIB_MAX: u32 = 64 * 1024;

/// The most passes of `argon2`.
pub const ARGON2_PASSES_MAX: u32 = 16;

/// Passwords of all sites that are being verified or wait for it; further requests get 503.
pub const PASSWORDS_QUEUED: usize = 32;

/// Passwords that were right and are remembered, so that only the first request of a client pays for the verification.
pub const PASSWORDS_REMEMBERED: usize = 4096;

/// Bytes of a file with ids of revoked tokens.
pub const REVOKED_FILE_BYTES: u64 = 64 * MIB;

/// Ids in such a file, of which 16 bytes each are kept.
pub const REVOKED_TOKENS: usize = 1_000_000;

/// Bytes of a cookie that is given back for a token: browsers drop longer ones (RFC 6265 §6.1).
pub const TOKEN_COOKIE_BYTES: usize = 4000;

/// How long a client keeps the cookie with a token that was renewed: a day. The token says when it ends.
pub const RENEWED_COOKIE_SECONDS: u64 = 86_400;

/// Bytes of one pattern of a token: a comparison takes time by their number.
pub const TOKEN_PATTERN_BYTES: usize = 1024;

/// Patterns in one token.
pub const TOKEN_PATTERNS: usize = 64;
