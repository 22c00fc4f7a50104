//! Limits of HTTP caching: keys, signatures, purging.

use super::bytes::KIB;

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

/// Purges that are remembered for objects without a request since.
pub const PURGES: usize = 10_000;

/// Bytes of their URLs, prefixes and tags.
pub const PURGES_BYTES: usize = 8 * 1024 * 1024;

/// Bytes that commands such as `penstock cache` and `penstock top` read of a response of the admin listener.
pub const ADMIN_ANSWER_BYTES: u64 = 1024 * KIB;

/// Seconds of the past that `penstock top` shows, if its terminal is as wide.
pub const TOP_SECONDS: u64 = 240;

/// The default limit of a request body that is forwarded to an origin.
pub const PASSED_BODY_BYTES: u64 = 16 * 1024 * KIB;

/// Bytes of such a body that a client has to send per second on average.
pub const UPLOAD_RATE_BYTES_PER_SECOND: u64 = KIB;

/// How long a client may send less than that; also how much time it saves up at most by sending more.
pub const UPLOAD_RATE_GRACE_SECONDS: u64 = 30;

/// From the head of a request to the end of its body, in total.
pub const UPLOAD_DEADLINE_SECONDS: u64 = 600;

/// Forwarded requests of one client network at the same time: a quarter of an origin server's connections.
pub const FORWARDED_PER_NETWORK: usize = 64;

/// How long a client that has closed its sending direction is kept waiting for the next bytes of its response.
pub const HALF_CLOSED_SECONDS: u64 = 30;

/// How often the server looks whether the client of a response that it waits for has done so.
pub const HALF_CLOSED_LOOK_SECONDS: u64 = 5;

/// Fetches from origins of one client network at the same time: half of an origin server's connections. Viewers of the same
/// objects share fetches.
pub const FETCHES_PER_NETWORK: usize = 128;

/// How long a response that has begun waits for a fetch of its network to end before it begins another.
pub const FETCH_PLACE_WAIT_SECONDS: u64 = 10;

/// How often it looks.
pub const FETCH_PLACE_RETRY_MILLISECONDS: u64 = 50;

/// Bytes of such a body that are forwarded at once.
pub const PASSED_PIECE_BYTES: usize = 64 * 1024;

/// Methods that a site forwards.
pub const PASSED_METHODS_MAX: usize = 16;

/// The name of such a method.
pub const PASSED_METHOD_BYTES: usize = 32;

/// Fields of requests that a site forwards for cached objects.
pub const VARY_NAMES_MAX: usize = 16;
/// Origins, request fields or response fields that the `cors` of a site may list.
pub const CORS_ENTRIES_MAX: usize = 64;
/// Seconds that browsers may keep the answer to a preflight, unless the site says otherwise.
pub const CORS_MAX_AGE_SECONDS: u64 = 86_400;
/// The most of them that a site may say, in seconds.
pub const CORS_MAX_AGE_SECONDS_MAX: u64 = 30 * 86_400;

/// Variants of one object; the oldest goes.
pub const VARIANTS: usize = 32;

/// Targets that are remembered as changed by requests such as POST (RFC 9111 §4.4); some 64 bytes each.
pub const CHANGED_TARGETS: usize = 16 * 1024;

/// Objects whose Vary is remembered.
pub const VARYING_OBJECTS: usize = 100_000;
