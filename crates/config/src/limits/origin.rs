//! Limits of talking to origins.

use super::bytes::{GIB, MIB};

/// Servers of one origin.
pub const ORIGIN_TARGETS: usize = 64;

/// The largest weight of one.
pub const ORIGIN_WEIGHT_MAX: u64 = 1000;

/// From the first packet to a connection with an origin.
pub const ORIGIN_CONNECT_SECONDS: u64 = 3;

/// From a request to an origin to the head of its response.
pub const ORIGIN_FIRST_BYTE_SECONDS: u64 = 30;

/// Between two pieces of a response of an origin.
pub const ORIGIN_BETWEEN_BYTES_SECONDS: u64 = 10;

/// The least rate of a response body of an origin, in bytes per second, while a reader waits for it.
pub const ORIGIN_RATE_BYTES: u64 = 512;

/// The time over which that rate is measured, and so the least time after which a body is too slow.
pub const ORIGIN_RATE_WINDOW_SECONDS: u64 = 30;

/// A response head of an origin.
pub const ORIGIN_HEAD_BYTES: usize = 64 * 1024;

/// Fields of a response head of an origin.
pub const ORIGIN_HEAD_FIELDS: usize = 100;

/// Bytes that one read of an origin's connection may bring. It begins with 8 KiB and doubles while reads fill it; larger
/// ones cost less for each byte, since each read sends an acknowledgement and wakes a task.
pub const ORIGIN_READ_BYTES: usize = 512 * 1024;

/// Idle connections that one worker keeps to one origin server.
pub const ORIGIN_IDLE_CONNECTIONS: usize = 64;

/// How long such a connection is kept: less than the minute after which many servers close theirs.
pub const ORIGIN_IDLE_SECONDS: u64 = 30;

/// How old a connection to a server may be that takes another request: the longest time that requests go to an address that a
/// name no longer has.
pub const ORIGIN_CONNECTION_AGE_SECONDS: u64 = 300;

/// The least that a configuration may ask for.
pub const ORIGIN_CONNECTION_AGE_SECONDS_MIN: u64 = 1;

/// The most that a configuration may ask for.
pub const ORIGIN_CONNECTION_AGE_SECONDS_MAX: u64 = 24 * 60 * 60;

/// How often one request may wait for another request's fetch, before it is a 502 or has a fetch of its own.
pub const ORIGIN_ATTEMPTS: usize = 4;

/// The longest object that is taken from an origin.
pub const OBJECT_BYTES_MAX: u64 = 1024 * GIB;

/// Connections to one server of an origin, of all workers together.
pub const ORIGIN_CONNECTIONS: usize = 256;

/// The most that a configuration may allow.
pub const ORIGIN_CONNECTIONS_MAX: u64 = 65_536;

/// Requests that wait for a connection to one server; then 503.
pub const ORIGIN_WAITING: usize = 1024;

/// Lookups of the name of one server under way, of all workers together. Each takes a thread until it returns; further requests
/// for a connection wait for one of these.
pub const ORIGIN_LOOKUPS: usize = 2;

/// Servers of DNS that an origin may name: each may take two seconds.
pub const ORIGIN_RESOLVERS_MAX: usize = 3;

/// How often a request that failed is sent once more.
pub const ORIGIN_RETRIES: u32 = 1;

/// The most that a configuration may ask for: beyond, retries are what brings an origin down.
pub const ORIGIN_RETRIES_MAX: u64 = 5;

/// TLS sessions kept of one server.
pub const ORIGIN_TLS_SESSIONS: usize = 16;

/// Failures in a row after which a server is out.
pub const ORIGIN_UNHEALTHY_AFTER: u32 = 3;

/// The most failures or good checks that a configuration may wait for.
pub const ORIGIN_FAILURES_MAX: u64 = 1000;

/// How long a server is out at first; doubles with each failure.
pub const ORIGIN_BACKOFF_MILLISECONDS: u64 = 1000;

/// How long it is out at most before it is tried again.
pub const ORIGIN_BACKOFF_SECONDS_MAX: u64 = 60;

/// The shortest time that an origin can be given.
pub const ORIGIN_TIMEOUT_MILLISECONDS_MIN: u64 = 10;

/// The longest time that an origin can be given: no viewer waits longer.
pub const ORIGIN_TIMEOUT_SECONDS_MAX: u64 = 600;

/// How often a server is checked, where checks are asked for.
pub const ORIGIN_CHECK_SECONDS: u64 = 5;

/// The longest pause between two checks.
pub const ORIGIN_CHECK_SECONDS_MAX: u64 = 600;

/// Good checks in a row after which a server is in again.
pub const ORIGIN_HEALTHY_AFTER: u32 = 2;

/// How long an object is asked for whole after it has changed between two of its slices.
pub const VOLATILE_SECONDS: u64 = 60;

/// Such objects that are remembered.
pub const VOLATILE_OBJECTS: usize = 256;

/// Redirections that a configuration may have followed in a row.
pub const ORIGIN_REDIRECTS_MAX: u64 = 10;

/// How much is taken of a body whose length is not announced: it may never end.
pub const ORIGIN_UNANNOUNCED_BYTES: u64 = 8 * GIB;

/// The least that a configuration may take of it.
pub const ORIGIN_UNANNOUNCED_BYTES_MIN: u64 = MIB;

/// Responses that a server sends, as a percentage of its share of those of all servers, above which new requests of a site that
/// spreads them go to the next in rank.
pub const SPREAD_LOAD_PERCENT: u64 = 125;

/// Responses under way that are never too many for one server.
pub const SPREAD_LOAD_ALWAYS: u64 = 256;

/// How long a connection that has switched to another protocol may have no bytes.
pub const UPGRADE_IDLE_SECONDS: u64 = 300;

/// The least that a configuration may ask for.
pub const UPGRADE_IDLE_SECONDS_MIN: u64 = 1;

/// The most that a configuration may ask for.
pub const UPGRADE_IDLE_SECONDS_MAX: u64 = 24 * 60 * 60;

/// Bytes of such a connection that are held in one direction, beside those that the sockets hold.
pub const UPGRADE_PIECE_BYTES: usize = 16 * 1024;
