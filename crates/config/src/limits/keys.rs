//! Limits of private keys that are elsewhere, at both ends.

/// Time for a signature by a keyserver, the retry on another one included.
pub const KEYSERVER_DEADLINE_SECONDS: u64 = 2;

/// A shorter deadline than a round trip between continents would fail always.
pub const KEYSERVER_DEADLINE_MILLISECONDS_MIN: u64 = 10;

/// The longest: handshakes end after `limits.handshake_deadline` in any case.
pub const KEYSERVER_DEADLINE_SECONDS_MAX: u64 = 60;

/// Servers in one group.
pub const KEYSERVERS_MAX: usize = 16;

/// Groups of keyservers of a configuration; each has a thread.
pub const KEYSERVER_GROUPS_MAX: usize = 32;

/// Signatures of one group that handshakes wait for. Each has a message of 1 KiB at both ends.
pub const KEYSERVER_OPERATIONS: usize = 4096;

/// From the first byte to the answer of a ping, TLS handshake included.
pub const KEYSERVER_CONNECT_SECONDS: u64 = 2;

/// A keyserver that is silent for so long is pinged, and left after the same time again.
pub const KEYSERVER_PING_SECONDS: u64 = 5;

/// First pause before a reconnect to a keyserver; doubles after each failure.
pub const KEYSERVER_RECONNECT_MILLISECONDS_MIN: u64 = 100;

/// Longest such pause.
pub const KEYSERVER_RECONNECT_MILLISECONDS_MAX: u64 = 3000;

/// Failures in a row after which a keyserver gets no operations for a while.
pub const KEYSERVER_CIRCUIT_FAILURES: u32 = 5;

/// How long it gets none.
pub const KEYSERVER_CIRCUIT_SECONDS: u64 = 2;

/// Clients in the file of a keyserver.
pub const KEYSERVER_CLIENTS_MAX: usize = 10_000;

/// Operations that a client of the keyserver may have under way.
pub const KEYSERVER_CLIENT_OPERATIONS: usize = 256;

/// The most.
pub const KEYSERVER_CLIENT_OPERATIONS_MAX: u64 = 65_536;

/// The largest rate, in operations per second.
pub const KEYSERVER_CLIENT_RATE_MAX: u64 = 10_000_000;

/// Connections that a client of the keyserver may have: one for each process, and some that end.
pub const KEYSERVER_CLIENT_CONNECTIONS: usize = 64;

/// The most.
pub const KEYSERVER_CLIENT_CONNECTIONS_MAX: u64 = 65_536;

/// Connections in their handshake, whose client is not known yet.
pub const KEYSERVER_HANDSHAKES: usize = 256;

/// Those of one client network, /24 of IPv4 or /56 of IPv6: beyond it the oldest ends.
pub const KEYSERVER_HANDSHAKES_PER_NETWORK: usize = 64;

/// From accept to the end of the handshake.
pub const KEYSERVER_HANDSHAKE_SECONDS: u64 = 10;

/// A connection without a message for so long is closed; clients ping more often.
pub const KEYSERVER_IDLE_SECONDS: u64 = 300;

/// From the first byte of a message to its last, and for a client to take answers.
pub const KEYSERVER_MESSAGE_SECONDS: u64 = 10;

/// How long operations under way may take after a signal to stop.
pub const KEYSERVER_DRAIN_SECONDS: u64 = 10;

/// Private keys of a keyserver.
pub const KEYSERVER_KEYS_MAX: usize = 100_000;

/// Tokens of a configuration.
pub const TOKENS_MAX: usize = 32;

/// Sessions with a token, each with a thread: more than most hardware signs with at a time.
pub const TOKEN_SESSIONS: usize = 4;

/// Signatures of a token that handshakes wait for.
pub const TOKEN_OPERATIONS: usize = 1024;

/// First pause before a session with a token is opened again; doubles after each failure.
pub const TOKEN_REOPEN_MILLISECONDS_MIN: u64 = 100;

/// Longest such pause.
pub const TOKEN_REOPEN_MILLISECONDS_MAX: u64 = 3000;

/// How long the start of a keyserver waits for its tokens.
pub const TOKEN_START_SECONDS: u64 = 2;

/// How often it asks them meanwhile.
pub const TOKEN_LOOK_MILLISECONDS: u64 = 20;

/// How often it asks them afterwards while keys are missing.
pub const TOKEN_KEYS_RECHECK_SECONDS: u64 = 1;

/// How often a token is asked whether another key has come under a name. A network HSM answers some requests for each key.
pub const TOKEN_KEYS_LOOK_SECONDS: u64 = 15;

/// Certificates whose keys `penstock doctor` tries.
pub const REMOTE_KEY_CHECKS: usize = 32;

/// A file with a PIN, of which the first line counts.
pub const PIN_FILE_BYTES: u64 = 4096;
