//! Client limits.

use std::num::NonZeroU32;
use std::time::Duration;

use crate::limits;

/// A limit on full handshakes, for all workers together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HandshakeRateLimit {
    /// There is none.
    None,
    /// So many in a second.
    PerSecond(NonZeroU32),
    /// As many as leave time to those who are served, while the CPU is short; otherwise no limit.
    Auto,
}

/// Client limits. The defaults are the constants of [`limits`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Open connections of all workers together.
    pub connections: usize,
    /// Open connections of one client network, for all workers together; 0 is no limit.
    pub connections_per_network: usize,
    /// Handshakes that one worker works on at the same time.
    pub handshakes_in_flight: usize,
    /// Handshakes in flight of one client network, for all workers together; 0 is no limit.
    pub handshakes_per_network: usize,
    /// Full handshakes in a second, for all workers together.
    pub handshake_rate: HandshakeRateLimit,
    /// Above this busy share of the workers, on average, the CPU is short; in percent.
    pub busy_percent: u32,
    /// From accept, or from the end of the PROXY header, to the end of the handshake.
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
    /// Bytes per second that a client has to send of a forwarded body on average; 0 is no limit.
    pub upload_rate: u64,
    /// How long a client may send less than that.
    pub upload_rate_grace: Duration,
    /// From the head of a forwarded request to the end of its body.
    pub upload_deadline: Duration,
    /// Forwarded requests of one client network at the same time, for all workers together; 0 is no limit.
    pub forwarded_per_network: usize,
    /// Fetches from origins of one client network at the same time, for all workers together; 0 is no limit.
    pub fetches_per_network: usize,
    /// Files one worker keeps open.
    pub open_files: usize,
    /// Requests that wait for one fetch from an origin.
    pub waiters_per_fill: usize,
    /// How long the server goes on accepting after a signal to stop.
    pub lame_duck: Duration,
    /// How long running responses may take after that.
    pub drain_deadline: Duration,
    /// How long a process that succeeds this one may take until it accepts connections.
    pub successor_start: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: limits::CONNECTIONS,
            connections_per_network: limits::CONNECTIONS_PER_NETWORK,
            handshakes_in_flight: limits::HANDSHAKES_IN_FLIGHT_PER_WORKER,
            handshakes_per_network: limits::HANDSHAKES_PER_NETWORK,
            handshake_rate: HandshakeRateLimit::None,
            busy_percent: limits::BUSY_PERCENT_HIGH,
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
            upload_rate: limits::UPLOAD_RATE_BYTES_PER_SECOND,
            upload_rate_grace: Duration::from_secs(limits::UPLOAD_RATE_GRACE_SECONDS),
            upload_deadline: Duration::from_secs(limits::UPLOAD_DEADLINE_SECONDS),
            forwarded_per_network: limits::FORWARDED_PER_NETWORK,
            fetches_per_network: limits::FETCHES_PER_NETWORK,
            open_files: limits::OPEN_FILES_PER_WORKER,
            waiters_per_fill: limits::WAITERS_PER_FILL,
            lame_duck: Duration::from_secs(limits::LAME_DUCK_SECONDS),
            drain_deadline: Duration::from_secs(limits::DRAIN_DEADLINE_SECONDS),
            successor_start: Duration::from_secs(limits::SUCCESSOR_START_SECONDS),
        }
    }
}
