//! Limits of talking to origins.

use super::GIB;

/// From the first packet to a connection with an origin.
pub const ORIGIN_CONNECT_SECONDS: u64 = 3;

/// From a request to an origin to the head of its response.
pub const ORIGIN_FIRST_BYTE_SECONDS: u64 = 30;

/// Between two pieces of a response of an origin.
pub const ORIGIN_BETWEEN_BYTES_SECONDS: u64 = 10;

/// A response head of an origin.
pub const ORIGIN_HEAD_BYTES: usize = 64 * 1024;

/// Fields of a response head of an origin.
pub const ORIGIN_HEAD_FIELDS: usize = 100;

/// Idle connections that one worker keeps to one origin server.
pub const ORIGIN_IDLE_CONNECTIONS: usize = 64;

/// How long such a connection is kept: less than the minute after which many servers close theirs.
pub const ORIGIN_IDLE_SECONDS: u64 = 30;

/// How often one request may come back to what somebody else was to find out or fill, before it is a 502.
pub const ORIGIN_ATTEMPTS: usize = 4;

/// The longest object that is taken from an origin.
pub const OBJECT_BYTES_MAX: u64 = 1024 * GIB;
