//! Limits of HTTP/2.

use super::bytes::KIB;

/// Streams of one connection whose work has not ended (`SETTINGS_MAX_CONCURRENT_STREAMS`).
pub const HTTP2_STREAMS: u32 = 128;

/// Bytes of a request body that a client may send ahead on one stream (`SETTINGS_INITIAL_WINDOW_SIZE`).
pub const HTTP2_STREAM_WINDOW_BYTES: u32 = 256 * 1024;

/// Bytes of request bodies that a client may send ahead on all streams of a connection.
pub const HTTP2_CONNECTION_WINDOW_BYTES: u32 = 1024 * 1024;

/// How long the last GOAWAY waits for requests that were under way when the first was sent, if the client does not
/// acknowledge that one (RFC 9113 §6.8).
pub const HTTP2_GOAWAY_MILLISECONDS: u64 = 1000;

/// How long a connection without streams keeps memory for the next ones.
pub const HTTP2_IDLE_MEMORY_MILLISECONDS: u64 = 100;

/// Responses up to this size are sent by the task of their connection, if they can be sent at once: one frame of content.
pub const HTTP2_DETACHED_BYTES_MAX: u64 = 16 * KIB - 9;

/// Responses up to this size come before larger ones of the same connection, unless the client says otherwise: the init
/// segments, keys and subtitles that a player waits for.
pub const URGENT_BYTES_MAX: u64 = 16 * KIB;
