//! Limits of what HTTP says about caching: keys, signatures, purging.

use super::KIB;

/// Keys that one site's URLs may be signed with.
pub const SIGNING_KEYS_MAX: usize = 16;

/// The name of such a key.
pub const SIGNING_KEY_ID_BYTES: usize = 32;

/// The shortest key: half of what HMAC-SHA256 can use.
pub const SIGNING_KEY_BYTES_MIN: usize = 16;

/// The largest file with a key.
pub const SIGNING_KEY_FILE_BYTES: u64 = 4 * KIB;

/// Tokens that are tried of one request: a browser sends all cookies of a name.
pub const TOKENS_PER_REQUEST: usize = 4;

/// Names in one rule for queries.
pub const QUERY_NAMES_MAX: usize = 64;

/// Purges that are remembered for objects that nobody has asked for since.
pub const PURGES: usize = 10_000;

/// Bytes of what those are about.
pub const PURGES_BYTES: usize = 8 * 1024 * 1024;

/// What `penstock cache` reads of an answer of the admin listener.
pub const ADMIN_ANSWER_BYTES: u64 = 64 * KIB;

/// A request body that is passed on to an origin, unless more or less is asked for.
pub const PASSED_BODY_BYTES: u64 = 16 * 1024 * KIB;

/// What is taken at once of such a body.
pub const PASSED_PIECE_BYTES: usize = 64 * 1024;

/// Methods that a site passes on.
pub const PASSED_METHODS_MAX: usize = 16;

/// The name of such a method.
pub const PASSED_METHOD_BYTES: usize = 32;

/// Fields of requests that a site passes on with what is cached.
pub const VARY_NAMES_MAX: usize = 16;

/// Variants of one object; the oldest goes.
pub const VARIANTS: usize = 32;

/// Objects of which it is remembered what they differ by.
pub const VARYING_OBJECTS: usize = 100_000;
