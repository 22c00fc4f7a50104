//! Bounds of a connection. Their values are the caller's.

/// What one client may take of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Http2Limits {
    /// Streams at once (`SETTINGS_MAX_CONCURRENT_STREAMS`). More are refused with REFUSED_STREAM. A stream counts until
    /// its work has ended, also after a reset.
    pub streams: u32,
    /// Bytes of a request body that a client may send ahead on one stream (`SETTINGS_INITIAL_WINDOW_SIZE`), at most
    /// 2^31-1.
    pub stream_window: u32,
    /// Bytes of request bodies that a client may send ahead on all streams; at least 65,535, at most 2^31-1.
    pub connection_window: u32,
    /// Bytes of one field section, counted as in RFC 9113 §6.5.2 (`SETTINGS_MAX_HEADER_LIST_SIZE`). More is 431; more
    /// than four times as much ends the connection.
    pub header_list_bytes: u32,
    /// Field lines of one field section. More is 431.
    pub fields: u32,
    /// Bytes of `:path`. More is 414.
    pub target_bytes: u32,
    /// Bytes of the field sections of all streams together. More are refused with REFUSED_STREAM.
    pub held_header_bytes: u32,
    /// Bytes of the table for decoding field blocks (`SETTINGS_HEADER_TABLE_SIZE`), which the client fills; at most 4096.
    pub header_table_bytes: u32,
    /// Bytes of control frames that wait to be taken. More end the connection.
    pub control_bytes: usize,
    /// Bounds per time.
    pub floods: FloodLimits,
}

impl Default for Http2Limits {
    fn default() -> Self {
        Self {
            streams: 128,
            stream_window: 256 * 1024,
            connection_window: 1024 * 1024,
            header_list_bytes: 32 * 1024,
            fields: 128,
            target_bytes: 8 * 1024,
            held_header_bytes: 512 * 1024,
            header_table_bytes: 4096,
            control_bytes: 16 * 1024,
            floods: FloodLimits::default(),
        }
    }
}

/// How many frames of each kind a client may send in [`FloodLimits::PERIOD_SECONDS`]. One more ends the connection with
/// ENHANCE_YOUR_CALM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FloodLimits {
    /// RST_STREAM for streams whose work has not ended (CVE-2023-44487), beyond one for each response of which content, or
    /// all, was sent: a player that seeks resets many streams, and takes content on as many.
    pub resets: u16,
    /// Streams that this side resets because of an error of the client (CVE-2025-8671).
    pub provoked_resets: u16,
    /// Streams that are refused with REFUSED_STREAM.
    pub refused_streams: u16,
    /// PING.
    pub pings: u16,
    /// SETTINGS.
    pub settings: u16,
    /// DATA without payload that does not end its stream.
    pub empty_data: u16,
    /// PRIORITY and PRIORITY_UPDATE.
    pub priorities: u16,
    /// WINDOW_UPDATE of less than 1 KiB, or of more bytes than were sent, beyond four for each DATA frame that was sent.
    pub window_updates: u16,
    /// Frames for closed streams, frames of unknown types, and GOAWAY.
    pub ignored: u16,
}

impl FloodLimits {
    /// The period that the limits are for, in seconds.
    pub const PERIOD_SECONDS: u64 = 10;
}

impl Default for FloodLimits {
    fn default() -> Self {
        Self {
            resets: 400,
            provoked_resets: 100,
            refused_streams: 1000,
            pings: 200,
            settings: 32,
            empty_data: 200,
            priorities: 1000,
            window_updates: 2000,
            ignored: 4000,
        }
    }
}
