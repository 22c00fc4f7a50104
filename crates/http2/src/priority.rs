//! The priority of a response (RFC 9218 §4).

/// Urgency and incremental, as a client asked for them or as they are by default.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Priority {
    /// 0 is sent first, 7 last.
    pub urgency: u8,
    /// Whether the client can use parts of the response: then it shares the connection with others of its urgency.
    pub incremental: bool,
}

impl Priority {
    /// The urgency of a request that says nothing (RFC 9218 §4.1).
    pub const DEFAULT_URGENCY: u8 = 3;
}

impl Default for Priority {
    fn default() -> Self {
        Self { urgency: Self::DEFAULT_URGENCY, incremental: false }
    }
}
