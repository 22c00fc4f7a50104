//! Every limit of the program, with its unit in its name.
//!
//! Lower crates get their limits as arguments or small structs. A limit that operators may change is a key under
//! `limits:` and a field of [`Limits`](crate::Limits); the constant is its default. All others are fixed. Relations
//! between limits are checked at compile time.

mod access;
mod acme;
mod bytes;
mod cache;
mod cluster;
mod fleet;
mod http2;
mod http3;
mod keys;
mod origin;
mod players;
mod rules;
mod semantics;
mod tls;

pub use self::access::*;
pub use self::acme::*;
pub use self::bytes::*;
pub use self::cache::*;
pub use self::cluster::*;
pub use self::fleet::*;
pub use self::http2::*;
pub use self::http3::*;
pub use self::keys::*;
pub use self::origin::*;
pub use self::players::*;
pub use self::rules::*;
pub use self::semantics::*;
pub use self::tls::*;
pub use penstock_sys::ssl::EARLY_DATA_BYTES_MAX;

// --- Connections -------------------------------------------------------------------------------------------

/// Open connections of all workers together; for the next one the longest idle one is closed.
pub const CONNECTIONS: usize = 100_000;

/// Open connections of one client network, for all workers together. Browsers open up to six connections per host, and
/// behind one address of a mobile network there are hundreds of viewers.
pub const CONNECTIONS_PER_NETWORK: usize = 1000;

/// How long a new connection waits for the place of an idle one when all are taken.
pub const EVICTION_WAIT_MILLISECONDS: u64 = 1000;

/// Interval in that wait at which another idle connection is told to end.
pub const EVICTION_RETRY_MILLISECONDS: u64 = 50;

/// Descriptors that connections never take, beside open files and the admin listener: listeners, logs, the cache, pipes.
pub const DESCRIPTORS_RESERVED: usize = 64;

/// The share of the descriptors that open files may have reserved.
pub const DESCRIPTORS_OF_FILES_PERCENT: usize = 25;

/// Handshakes that one worker works on at the same time; more are closed before their first byte is read.
pub const HANDSHAKES_IN_FLIGHT_PER_WORKER: usize = 2048;

/// Handshakes in flight of one client network (/24 of IPv4, /56 of IPv6), for all workers together. Generous: behind
/// one address of a mobile network there are thousands of viewers.
pub const HANDSHAKES_PER_NETWORK: usize = 2048;

/// How long a full handshake over that rate waits at most; one that had to wait longer is turned away at once.
pub const HANDSHAKE_RATE_WAIT_MILLISECONDS: u64 = 2000;

/// Signatures that one worker makes before its other ready tasks run: the delay that new clients may cost others. Four
/// of RSA-2048 take some 3 ms, four of ECDSA less than 1 ms. If more than twice as many wait, half of them are made, or
/// a queue that grew under full load would never end.
pub const SIGNATURES_PER_ROUND: usize = 4;

/// From accept, or from the end of the PROXY header, to the end of the handshake, in total: a client that sends a byte each
/// second does not extend it.
pub const HANDSHAKE_DEADLINE_SECONDS: u64 = 10;

/// From the first byte of a request to the end of its head, in total. Then 408.
pub const HEAD_DEADLINE_SECONDS: u64 = 10;

/// How long a connection may stay open without a request.
pub const IDLE_TIMEOUT_SECONDS: u64 = 75;

/// Bytes that a client has to take per second on average, or its connection is closed.
pub const MINIMUM_RATE_BYTES_PER_SECOND: u64 = KIB;

/// How long a client may take less than the minimum rate.
pub const MINIMUM_RATE_GRACE_SECONDS: u64 = 30;

/// How much time a client saves up at most by taking more than the minimum rate: a player may pause for so long.
pub const MINIMUM_RATE_CREDIT_SECONDS: u64 = 600;

/// Requests answered on one connection before it is closed; bounds what one client can keep for ever.
pub const REQUESTS_PER_CONNECTION: u64 = 100_000;

/// How long the server waits for the client's end of a connection after its own, and drops what it reads.
/// Closing at once would let the kernel's RST overtake the last answer (RFC 9112 §9.6).
pub const LINGER_SECONDS: u64 = 2;

/// Bytes read and dropped while waiting for the client's end.
pub const LINGER_BYTES: u64 = 64 * KIB;

/// The same for a client that is in the middle of a request's body: it may read its response only behind its last byte.
pub const LINGER_BODY_SECONDS: u64 = 30;

/// How long such a client may send nothing.
pub const LINGER_BODY_PAUSE_SECONDS: u64 = 5;

/// Bytes of such a body that are read and dropped.
pub const LINGER_BODY_BYTES: u64 = 256 * MIB;

/// From accept to a whole PROXY protocol header.
pub const PROXY_HEADER_DEADLINE_SECONDS: u64 = 5;

/// A PROXY protocol header, version 2 with all its additions. Version 1 has 107 bytes by its definition.
pub const PROXY_HEADER_BYTES: usize = 4096;

/// How often a worker looks for connections whose deadline has passed.
pub const DEADLINE_CHECK_MILLISECONDS: u64 = 500;

/// Bytes that a closed connection leaves in the socket buffer for the kernel to send. With more the server waits for the
/// client, within its budget of time.
pub const UNTAKEN_BYTES_AT_CLOSE: u64 = 64 * 1024;

/// Pause after `accept` failed for want of descriptors, once the reserve descriptor has been used.
pub const ACCEPT_RETRY_MILLISECONDS: u64 = 50;

/// Entries of the table of last responses, which classifies repeated handshakes; eight bytes each.
pub const RECENT_CLIENTS: usize = 256 * 1024;

/// How long a client's last answer counts as the reason for its next handshake.
pub const RECENT_CLIENT_SECONDS: u64 = 300;

/// Connections accepted in one go before others are served.
pub const ACCEPTS_PER_TURN: usize = 64;

// --- Requests ----------------------------------------------------------------------------------------------

/// A request head, from the first byte to the empty line. Then 431.
pub const HEAD_BYTES: usize = 16 * 1024;

/// Fields of a request head. Then 431.
pub const HEAD_FIELDS: usize = 100;

/// The most fields that a configuration may allow: the table of fields stands on the stack.
pub const HEAD_FIELDS_MAX: u64 = 128;

/// A request target (path and query). Then 414.
pub const TARGET_BYTES: usize = 8 * 1024;

/// First size of the buffer a head is read into; it grows up to [`HEAD_BYTES`] and is given back when idle.
pub const HEAD_BUFFER_BYTES: usize = 2048;

/// A body on a request that has none by its meaning: read and dropped up to here, then the connection closes.
pub const DROPPED_BODY_BYTES: u64 = 64 * KIB;

/// Ranges of one request that are answered one by one; with more the whole file is sent.
pub const RANGES_PER_REQUEST: usize = 16;

/// Bytes answered before other connections of the worker are served.
pub const BYTES_PER_TURN: u64 = MIB;

// --- Sending -----------------------------------------------------------------------------------------------

/// Ciphertext sealed before one `send`, at least.
pub const BATCH_BYTES_MIN: usize = 64 * 1024;

/// Ciphertext sealed before one `send`, at most; also the size of each worker's batch buffer.
pub const BATCH_BYTES_MAX: usize = 512 * 1024;

/// Plaintext of a record that fits one packet.
pub const SMALL_RECORD_BYTES: usize = 1360;

/// How much of a response is sent in small records, until the congestion window has opened.
pub const SMALL_RECORD_PHASE_BYTES: u64 = 64 * KIB;

/// A pause after which the path's congestion window cannot be trusted any more.
pub const OUTLET_IDLE_SECONDS: u64 = 1;

/// Records sealed with one key. AES-GCM allows 2^24.5 full records (RFC 8446 §5.5); the rest is margin.
pub const RECORDS_PER_KEY: u64 = 1 << 24;

/// KeyUpdates of one client per minute; each costs the client nothing and the server two key derivations.
pub const KEY_UPDATES_PER_MINUTE: u32 = 60;

/// Plaintext of a TLS record (RFC 8446 §5.1).
pub const RECORD_PLAINTEXT_BYTES: usize = 16 * 1024;

/// The smallest body of files for which a connection enters the kernel; below it a read from memory costs less
/// than the system calls.
pub const KERNEL_BODY_BYTES_MIN: u64 = 64 * KIB;

/// How long the source of a body may pause before the response is cut short.
pub const SOURCE_DEADLINE_SECONDS: u64 = 30;

// --- Files -------------------------------------------------------------------------------------------------

/// Files one worker keeps open with what `stat` said about them.
pub const OPEN_FILES_PER_WORKER: usize = 4096;

/// How long the result of `stat` is used before the file is checked again.
pub const OPEN_FILE_FRESH_MILLISECONDS: u64 = 1000;

/// How long an unused file stays open.
pub const OPEN_FILE_IDLE_SECONDS: u64 = 60;

/// Threads that open files and read them ahead, for all workers together.
pub const IO_THREADS: usize = 8;

/// Requests waiting for an I/O thread. Then 503.
pub const IO_QUEUE: usize = 1024;

/// How much is read ahead behind the first window of a stream that is not in memory; it doubles from here.
pub const READ_AHEAD_BYTES_MIN: u64 = 256 * KIB;

/// How much is read ahead at most.
pub const READ_AHEAD_BYTES_MAX: u64 = 4 * MIB;

/// Files up to this size are checked as a whole, and found in memory they are believed to stay there as long as
/// what `stat` said.
pub const SMALL_FILE_BYTES: u64 = 64 * KIB;

/// Cached objects up to this size are sent from copies that each worker keeps with the heads it remembers.
pub const COPIED_OBJECT_BYTES: u64 = 4 * KIB;

/// Paths without a file that one worker remembers.
pub const ABSENT_PATHS_PER_WORKER: usize = 1024;

/// Read-aheads waiting for an I/O thread; more are left out, since no response waits for them.
pub const READ_AHEAD_QUEUE: usize = 256;

/// How much of a file is loaded before it is sent.
pub const RESIDENCE_WINDOW_BYTES: u64 = 512 * KIB;

/// How much of a file is sent at once if it is in memory already.
pub const RESIDENT_WINDOW_BYTES: u64 = MIB;

/// How much of it one system call moves to a plain connection.
pub const PLAIN_BYTES_MAX: usize = 1024 * 1024;

/// The largest manifest that is compressed.
pub const COMPRESSED_SOURCE_BYTES: u64 = 4 * MIB;

/// The smallest manifest that is compressed: below it the answer fits one packet anyway.
pub const COMPRESSED_SOURCE_BYTES_MIN: u64 = 256;

/// Memory for compressed manifests, for all workers together.
pub const COMPRESSED_MEMO_BYTES: u64 = 64 * MIB;

/// Compressed manifests kept, for all workers together.
pub const COMPRESSED_MEMO_ENTRIES: usize = 4096;

// --- Listeners ---------------------------------------------------------------------------------------------

/// `listen(2)` backlog; the kernel cuts it to `net.core.somaxconn`.
pub const BACKLOG: u32 = 4096;

/// `TCP_NOTSENT_LOWAT`: how much of a connection lies unsent in the kernel. Without it slow clients fill socket
/// buffers that autotuning made megabytes large; one batch keeps the fastest client busy between two turns.
pub const UNSENT_LOW_WATER_BYTES: u32 = 512 * 1024;

/// The longest queue a listener may ask for (`backlog`, `fast_open`).
pub const LISTEN_QUEUE_MAX: u64 = 1 << 20;

/// `TCP_DEFER_ACCEPT`: after it the kernel hands the connection over, data or not.
pub const DEFER_ACCEPT_SECONDS_MAX: u64 = 300;

/// The kernel's `TCP_CA_NAME_MAX` without its final zero.
pub const CONGESTION_NAME_BYTES_MAX: usize = 15;

/// Largest socket buffer that makes sense: 4 GiB/s at a round trip of 250 ms.
pub const SOCKET_BUFFER_BYTES_MAX: u64 = GIB;

// --- Machine -----------------------------------------------------------------------------------------------

/// Largest number of workers.
pub const WORKERS_MAX: usize = 1024;

/// Lines of the program's own log that wait for stderr. Then they are lost.
pub const LOG_QUEUE_LINES: usize = 1024;

/// How long the end of the program waits for stderr to take the lines of its log.
pub const LOG_FLUSH_SECONDS: u64 = 1;

/// Access log lines waiting to be written; more are dropped and counted.
pub const ACCESS_LOG_QUEUE: usize = 16 * 1024;

/// Bytes of a path or agent that are kept for the access log.
pub const ACCESS_LOG_FIELD_BYTES: usize = 1024;

/// Bytes of the access log lines that wait to be written; more lines are dropped and counted.
pub const ACCESS_LOG_QUEUE_BYTES: usize = 16 * 1024 * 1024;

/// How long access log lines gather after the first, so that many share one wake-up and one write.
pub const ACCESS_LOG_GATHER_MILLISECONDS: u64 = 20;

/// Access log lines are written when they reach this size, or when no more wait.
pub const ACCESS_LOG_BATCH_BYTES: usize = 256 * 1024;

/// How long the end of the program waits for the disk of the access log.
pub const ACCESS_LOG_CLOSE_SECONDS: u64 = 5;

/// A fault of the access log that lasts is told at most this often.
pub const ACCESS_LOG_WARNING_SECONDS: u64 = 60;

/// Goes on accepting after a signal to stop; players ask for the next segment within about this time.
pub const LAME_DUCK_SECONDS: u64 = 5;
/// The longest such time.
pub const LAME_DUCK_SECONDS_MAX: u64 = 3600;

/// After a signal to stop: how long running responses may take before their connections are closed.
pub const DRAIN_DEADLINE_SECONDS: u64 = 30;

/// After a signal to stop: how long a connection stays open for its first request, from its handshake on.
pub const DRAIN_FIRST_REQUEST_SECONDS: u64 = 5;

/// The port of the admin listener when only its section is written.
pub const ADMIN_PORT: u16 = 9600;

/// Connections to the admin listener at the same time; one more closes the oldest idle one.
pub const ADMIN_CONNECTIONS: usize = 128;

/// From accept to the end of a request head on the admin listener.
pub const ADMIN_HEAD_DEADLINE_SECONDS: u64 = 5;

/// DNS names of the admin listener.
pub const ADMIN_HOSTS_MAX: usize = 64;

/// Bytes of a request head on the admin listener: the smallest limit that the HTTP library accepts. Then 431.
pub const ADMIN_HEAD_BYTES: usize = 8192;

/// Pause after `accept` failed on the admin listener, as it does when the process is out of descriptors.
pub const ADMIN_ACCEPT_RETRY_MILLISECONDS: u64 = 100;

/// From accept to the end of an answer on the admin listener, and for each event that a page listens to.
pub const ADMIN_DEADLINE_SECONDS: u64 = 10;

/// Bytes of responses that the kernel holds for a client of the admin listener that does not read.
pub const ADMIN_SEND_BUFFER_BYTES: usize = 256 * 1024;

/// Pages that listen to events of the admin listener at the same time; one more gets 503.
pub const ADMIN_LISTENERS: usize = 32;

/// Time between two points of the admin listener's history, and between two events.
pub const ADMIN_INTERVAL_MILLISECONDS: u64 = 1000;

/// Points of the admin listener's history: an hour, which takes 4 bytes for each number (562 KB).
pub const ADMIN_POINTS: usize = 3600;

/// A PEM file with a certificate chain or a key; a larger one is a mistake.
pub const PEM_FILE_BYTES: u64 = MIB;

/// A configuration file; a larger one is a mistake (a video, a log).
pub const CONFIG_FILE_BYTES: u64 = 4 * MIB;

/// Files that a configuration may include.
pub const INCLUDED_FILES: usize = 1000;

/// Bytes of all files that a configuration includes.
pub const INCLUDED_BYTES: u64 = 16 * MIB;

// --- Measuring the machine ---------------------------------------------------------------------------------

/// Rounds of each measurement of what sealing costs, at the start; the best one counts.
pub const MEASURE_ROUNDS: u32 = 3;

/// CPU time of one such round: the ciphers alone take 15 ms together.
pub const MEASURE_ROUND_MICROSECONDS: u64 = 1500;

/// Wall time after which a measurement is given up on a machine that has no time for it.
pub const MEASURE_PATIENCE_MILLISECONDS: u64 = 500;

/// The file in memory that is sealed while measuring.
pub const MEASURE_SOURCE_BYTES: usize = 4 * 1024 * 1024;

/// Rounds of each measurement of `penstock doctor`, which may take longer.
pub const DOCTOR_ROUNDS: u32 = 5;

/// CPU time of one such round.
pub const DOCTOR_ROUND_MICROSECONDS: u64 = 3000;

/// Wall time after which the doctor gives up a measurement.
pub const DOCTOR_PATIENCE_MILLISECONDS: u64 = 2000;

/// The file in memory that the doctor seals: more than most caches hold.
pub const DOCTOR_SOURCE_BYTES: usize = 32 * 1024 * 1024;

// --- Relations ---------------------------------------------------------------------------------------------

const _: () = assert!(BUSY_PERCENT_LOW < BUSY_PERCENT_HIGH && BUSY_PERCENT_HIGH < 100, "there is hysteresis");
const _: () = assert!(TARGET_BYTES < HEAD_BYTES, "a head must be able to hold the longest target");
const _: () = assert!(HEAD_BUFFER_BYTES <= HEAD_BYTES, "the buffer never exceeds the longest head");
const _: () =
    assert!(HEAD_DEADLINE_SECONDS <= IDLE_TIMEOUT_SECONDS, "a half head is not worth more than none");
const _: () = assert!(
    PROXY_HEADER_DEADLINE_SECONDS <= HANDSHAKE_DEADLINE_SECONDS,
    "a PROXY header gets no more time than the handshake behind it"
);
const _: () = assert!(PROXY_HEADER_BYTES >= 16 + 216, "version 2 with its longest addresses must fit");
const _: () = assert!(HANDSHAKES_IN_FLIGHT_PER_WORKER <= CONNECTIONS, "a handshake is a connection");
const _: () =
    assert!(BATCH_BYTES_MAX as u64 <= UNSENT_LOW_WATER_BYTES as u64, "a batch fits the socket in one go");
const _: () = assert!(HEAD_FIELDS as u64 <= HEAD_FIELDS_MAX, "the default is one of the values allowed");
const _: () =
    assert!(FORWARDED_PER_NETWORK < ORIGIN_CONNECTIONS, "other networks get connections to origins");
const _: () = assert!(
    FETCHES_PER_NETWORK + FORWARDED_PER_NETWORK < ORIGIN_CONNECTIONS,
    "other networks get connections to origins"
);
const _: () = assert!(BATCH_BYTES_MIN <= BATCH_BYTES_MAX, "the batch grows from one to the other");
const _: () = assert!(BATCH_BYTES_MIN >= 2 * RECORD_PLAINTEXT_BYTES, "a batch holds more than one record");
const _: () = assert!(
    SMALL_RECORD_BYTES + 22 <= 1460 - 12,
    "record, header and tag fit an Ethernet packet with timestamps"
);
const _: () =
    assert!(SMALL_RECORD_PHASE_BYTES >= SMALL_RECORD_BYTES as u64, "the phase has at least one record");
const _: () = assert!(RECORDS_PER_KEY < 23_726_566, "2^24.5 full records (RFC 8446 §5.5)");
const _: () = assert!(READ_AHEAD_BYTES_MIN <= READ_AHEAD_BYTES_MAX, "read-ahead grows from one to the other");
const _: () =
    assert!(BATCH_BYTES_MAX as u64 <= RESIDENCE_WINDOW_BYTES, "a batch never touches an unchecked page");
const _: () = assert!(COMPRESSED_SOURCE_BYTES <= COMPRESSED_MEMO_BYTES, "one manifest always fits the memo");
const _: () = assert!(HSTS_PRELOAD_SECONDS_MIN <= HSTS_SECONDS_MAX, "a site can ask to be preloaded");
const _: () =
    assert!(EARLY_DATA_BYTES <= EARLY_DATA_BYTES_MAX, "what is announced in tickets is the most there is");
const _: () = assert!(
    EARLY_DATA_BYTES_MAX < HEAD_BYTES,
    "a connection buffers less than that before its handshake ends"
);
const _: () = assert!(
    SESSION_CACHE_BYTES / SESSION_CACHE_SHARDS >= 64 * 1024,
    "a shard holds hundreds of sessions, those of client certificates too"
);
const _: () = assert!(
    SESSION_LOOKUP_DEADLINE_MILLISECONDS < HANDSHAKE_DEADLINE_SECONDS * 1000,
    "a store that does not answer costs a resumption and no handshake"
);
const _: () = assert!(
    TICKET_KEY_INTRODUCTION_SECONDS * 1000 >= 3 * TICKET_DIRECTORY_CHECK_MILLISECONDS,
    "every machine has looked before a key seals on one, even if it was late once"
);
const _: () = assert!(
    TICKET_KEYS_IN_FILES as u64 >= TICKET_KEYS_KEPT_MAX && TICKET_KEY_FILES as u64 >= TICKET_KEYS_KEPT_MAX,
    "as many keys are read as may be kept"
);
const _: () = assert!(
    TICKET_KEYS_KEPT >= 2 && TICKET_KEYS_KEPT as u64 <= TICKET_KEYS_KEPT_MAX,
    "rotation must not end resumption"
);
const _: () = assert!(
    TICKET_KEY_ROTATION_SECONDS * TICKET_KEYS_KEPT as u64 <= TICKET_LIFETIME.as_secs(),
    "a ticket key must not outlive the longest ticket (RFC 8446 §4.6.1)"
);

/// Responses of at least so many bytes have the network measured behind them: round-trip time, delivery rate, what was sent again.
pub const CARRIAGE_BYTES_MIN: u64 = 64 * 1024;

/// Patterns of a site, each of which a path is compared with to find its title.
pub const TITLE_PATTERNS: usize = 8;

/// Directories at the beginning of a path that name a title, unless the configuration says so, and at most.
pub const TITLE_DIRECTORIES: usize = 2;
/// The most of them.
pub const TITLE_DIRECTORIES_MAX: u64 = 8;

/// Rates of renditions of a configuration, and the largest of them in bytes per second.
pub const COUNTED_RATES: usize = 8;
/// The largest of them: 100 Gbit/s.
pub const COUNTED_RATE_MAX: u64 = 12_500_000_000;

/// Bytes of a table of the kinds of clients: a thousand lines.
pub const CLIENT_TABLE_BYTES: u64 = 64 * 1024;
