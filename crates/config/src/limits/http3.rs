//! Limits of HTTP/3 and QUIC.

use super::bytes::{KIB, MIB};

/// Requests of one connection whose work has not ended.
pub const HTTP3_STREAMS: u64 = 128;

/// Bytes of a request body that a client may send ahead on one stream.
pub const HTTP3_STREAM_WINDOW_BYTES: u64 = 256 * KIB;

/// Bytes that a client may send ahead on all streams of a connection.
pub const HTTP3_CONNECTION_WINDOW_BYTES: u64 = MIB;

/// Bytes of a request body that wait for its reader beside those in the window of its stream.
pub const HTTP3_BODY_BYTES: usize = 64 * 1024;

/// Bytes of datagrams that wait for one connection. More are dropped.
pub const HTTP3_INBOX_BYTES: usize = 256 * 1024;

/// Packets after which a connection is announced to end; it ends after half as many more. A key of AES-GCM may seal 2^23
/// (RFC 9001 §6.6).
pub const HTTP3_PACKETS: u64 = 1 << 22;

/// Buffers of a UDP socket in each direction (`SO_RCVBUF`, `SO_SNDBUF`), as far as net.core.rmem_max and net.core.wmem_max
/// allow.
pub const UDP_BUFFER_BYTES: usize = 4 * 1024 * 1024;

/// Bytes of datagrams that a connection sends before other connections of its worker get their turn.
pub const HTTP3_TURN_BYTES: usize = 256 * 1024;

/// Datagrams of a connection that is paced leave together if they are due within so long. Timers are as coarse as half of it.
pub const HTTP3_PACE_MILLISECONDS: u64 = 2;

/// How long content waits for the rest of a train of datagrams.
pub const HTTP3_TRAIN_MILLISECONDS: u64 = 1;

/// Datagrams that are answered without a connection, each second and worker: stateless resets and version negotiation.
pub const QUIC_ANSWERS_PER_SECOND: u32 = 1000;

/// Clients prove their addresses (Retry) while more than this part of the handshakes in flight, or of those of their network,
/// is taken, in percent.
pub const RETRY_PERCENT: usize = 25;

/// How long a drain waits for a client that sends nothing, while it may only acknowledge responses.
pub const QUIC_DRAIN_SILENCE_SECONDS: u64 = 5;

/// How long clients remember that a server speaks HTTP/3 (`ma` of Alt-Svc).
pub const ALT_SVC_SECONDS: u64 = 86_400;

/// Connection ids that a client holds, for migration.
pub const QUIC_IDS: usize = 4;

/// How long the ids of a connection are known behind its end: packets that were under way are dropped (RFC 9000 §10.2).
pub const QUIC_ENDED_SECONDS: u64 = 2;

/// Such ids, for each listener and worker.
pub const QUIC_ENDED_IDS: usize = 4096;

/// Files with logs of connections (qlog) that are made, unless `log.qlog.files` says it.
pub const QLOG_FILES: usize = 100;

/// The most that `log.qlog.files` may say.
pub const QLOG_FILES_MAX: u64 = 100_000;

/// Networks in `log.qlog.clients`.
pub const QLOG_NETWORKS: usize = 1000;

/// Bytes of a file with the log of a connection, unless `log.qlog.file_size` says it.
pub const QLOG_FILE_BYTES: u64 = 16 * MIB;

/// The least and the most that `log.qlog.file_size` may say.
pub const QLOG_FILE_BYTES_MIN: u64 = 4 * KIB;
/// See [`QLOG_FILE_BYTES_MIN`].
pub const QLOG_FILE_BYTES_MAX: u64 = 1024 * MIB;

/// Bytes that a logged connection gathers before its thread writes them, and of one record of a log at most.
pub const QLOG_PIECE_BYTES: usize = 8 * 1024;

/// Pieces of logs that wait for the disk. A log that meets a full queue ends there.
pub const QLOG_QUEUE_PIECES: usize = 512;
