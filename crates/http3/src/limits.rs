//! Bounds of a connection, and the settings of QUIC that follow from them.

use std::rc::Rc;

use boring::ssl::SslContextBuilder;
use quiche::h3;

use crate::datagram::MAX_DATAGRAM_BYTES;
use crate::migration::PATHS_MAX;

/// How a connection finds out how much its path carries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CongestionControl {
    /// Cubic, whose bursts are as large as its window allows.
    #[default]
    Cubic,
    /// Reno, with bursts too.
    Reno,
    /// The second version of BBR, which paces.
    Bbr,
}

impl CongestionControl {
    /// That of QUIC with the name that TCP gives to it; cubic for all that QUIC has not.
    pub fn named(name: Option<&str>) -> Self {
        match name {
            Some("reno") => Self::Reno,
            Some(name) if name.starts_with("bbr") => Self::Bbr,
            _ => Self::Cubic,
        }
    }
}

/// What one client may take of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Http3Limits {
    /// Requests at once (`initial_max_streams_bidi`).
    pub streams: u64,
    /// Bytes of a request body that a client may send ahead on one stream.
    pub stream_window: u64,
    /// Bytes that a client may send ahead on all streams.
    pub connection_window: u64,
    /// Bytes of one field section (`SETTINGS_MAX_FIELD_SECTION_SIZE`). More ends the connection.
    pub field_section_bytes: u64,
    /// Milliseconds without a packet after which a connection ends without a word.
    pub idle_milliseconds: u64,
    /// Packets after which the client is asked to open another connection, and half as many more after which this one ends.
    /// AES-GCM allows 2^23 with one key (RFC 9001 §6.6), and no key is updated by this side.
    pub packets: u64,
    /// How fast content is sent.
    pub congestion_control: CongestionControl,
}

impl Default for Http3Limits {
    fn default() -> Self {
        Self {
            streams: 128,
            stream_window: 256 * 1024,
            connection_window: 1024 * 1024,
            field_section_bytes: 64 * 1024,
            idle_milliseconds: 30_000,
            packets: 1 << 22,
            congestion_control: CongestionControl::default(),
        }
    }
}

impl Http3Limits {
    /// What clients remember of these limits with a ticket, and rely on when they send early data (RFC 9000 §7.4.1, RFC 9114
    /// §7.2.4.2).
    pub fn promises(&self) -> [u8; 32] {
        let promised = [self.streams, self.stream_window, self.connection_window, self.field_section_bytes];
        let mut bytes = [0; 32];
        for (to, number) in bytes.chunks_exact_mut(8).zip(promised) {
            to.copy_from_slice(&number.to_be_bytes());
        }
        bytes
    }
}

/// Bytes of the control and QPACK streams that a client may send ahead on each.
const CONTROL_WINDOW: u64 = 16 * 1024;

/// Unidirectional streams of a client: control, QPACK encoder and decoder, and some of unknown types (RFC 9114 §6.2.3).
const CONTROL_STREAMS: u64 = 8;

/// Connection ids of this side that a client may hold, for migration.
pub(crate) const IDS: usize = 4;

/// Milliseconds for which this side may delay an acknowledgement.
const ACK_DELAY: u64 = 25;

/// Bytes of the value of a PRIORITY_UPDATE frame.
const PRIORITY_BYTES: u64 = 64;

/// PATH_CHALLENGE frames of a client that wait for their answer.
const CHALLENGES: usize = 3;

/// Settings for new connections, with a TLS context of their own.
pub struct QuicConfig {
    pub(crate) quic: quiche::Config,
    pub(crate) http: Rc<h3::Config>,
    pub(crate) packets: u64,
    pub(crate) promises: [u8; 32],
}

impl std::fmt::Debug for QuicConfig {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("QuicConfig").finish_non_exhaustive()
    }
}

impl QuicConfig {
    /// `None` if the library takes no such context.
    pub fn new(context: SslContextBuilder, limits: &Http3Limits) -> Option<Self> {
        let mut quic = quiche::Config::with_boring_ssl_ctx_builder(quiche::PROTOCOL_VERSION, context).ok()?;
        quic.set_max_idle_timeout(limits.idle_milliseconds);
        quic.set_max_recv_udp_payload_size(65_527);
        quic.set_max_send_udp_payload_size(MAX_DATAGRAM_BYTES);
        quic.discover_pmtu(true);
        quic.set_initial_max_data(limits.connection_window);
        quic.set_max_connection_window(limits.connection_window);
        quic.set_initial_max_stream_data_bidi_remote(limits.stream_window);
        // This side opens no bidirectional stream.
        quic.set_initial_max_stream_data_bidi_local(0);
        quic.set_max_stream_window(limits.stream_window);
        quic.set_initial_max_stream_data_uni(CONTROL_WINDOW);
        quic.set_initial_max_streams_bidi(limits.streams);
        quic.set_initial_max_streams_uni(CONTROL_STREAMS);
        // The library takes as many paths as ids of the client.
        quic.set_active_connection_id_limit(PATHS_MAX);
        quic.set_max_ack_delay(ACK_DELAY);
        quic.set_path_challenge_recv_max_queue_len(CHALLENGES);
        quic.set_cc_algorithm(match limits.congestion_control {
            CongestionControl::Cubic => quiche::CongestionControlAlgorithm::CUBIC,
            CongestionControl::Reno => quiche::CongestionControlAlgorithm::Reno,
            CongestionControl::Bbr => quiche::CongestionControlAlgorithm::Bbr2Gcongestion,
        });
        quic.grease(false);
        // The others give no send times in this library.
        quic.enable_pacing(limits.congestion_control == CongestionControl::Bbr);
        let mut http = h3::Config::new().ok()?;
        http.set_max_field_section_size(limits.field_section_bytes);
        http.set_qpack_max_table_capacity(0);
        http.set_qpack_blocked_streams(0);
        http.set_max_priority_update_size(PRIORITY_BYTES);
        Some(Self { quic, http: Rc::new(http), packets: limits.packets, promises: limits.promises() })
    }
}
