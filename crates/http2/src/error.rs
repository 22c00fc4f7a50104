//! Error codes (RFC 9113 §7), and the error that ends a connection.

use std::fmt;

/// An error code of RFC 9113 §7. Unknown codes are kept as they came.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct ErrorCode(u32);

impl ErrorCode {
    /// No error: a graceful end.
    pub const NO_ERROR: Self = Self(0x0);
    /// The peer violated the protocol.
    pub const PROTOCOL_ERROR: Self = Self(0x1);
    /// A fault of this program.
    pub const INTERNAL_ERROR: Self = Self(0x2);
    /// The peer sent more than the flow-control window, or made it too large.
    pub const FLOW_CONTROL_ERROR: Self = Self(0x3);
    /// SETTINGS were not acknowledged in time.
    pub const SETTINGS_TIMEOUT: Self = Self(0x4);
    /// A frame came for a stream whose sender had ended it.
    pub const STREAM_CLOSED: Self = Self(0x5);
    /// A frame has a wrong size.
    pub const FRAME_SIZE_ERROR: Self = Self(0x6);
    /// The stream was refused before any work was done: the client may send the request again.
    pub const REFUSED_STREAM: Self = Self(0x7);
    /// The stream is not needed any more.
    pub const CANCEL: Self = Self(0x8);
    /// A field block cannot be decoded.
    pub const COMPRESSION_ERROR: Self = Self(0x9);
    /// The connection made for CONNECT failed.
    pub const CONNECT_ERROR: Self = Self(0xa);
    /// The peer causes too much load.
    pub const ENHANCE_YOUR_CALM: Self = Self(0xb);
    /// The transport is not secure enough.
    pub const INADEQUATE_SECURITY: Self = Self(0xc);
    /// The request needs HTTP/1.1.
    pub const HTTP_1_1_REQUIRED: Self = Self(0xd);

    /// The code with this number.
    pub const fn new(code: u32) -> Self {
        Self(code)
    }

    /// The number of the code.
    pub const fn get(self) -> u32 {
        self.0
    }

    /// The code's name in lowercase letters, `unknown` for codes that RFC 9113 does not define: a label of bounded
    /// cardinality.
    pub const fn label(self) -> &'static str {
        match self.0 {
            0x0 => "no_error",
            0x1 => "protocol_error",
            0x2 => "internal_error",
            0x3 => "flow_control_error",
            0x4 => "settings_timeout",
            0x5 => "stream_closed",
            0x6 => "frame_size_error",
            0x7 => "refused_stream",
            0x8 => "cancel",
            0x9 => "compression_error",
            0xa => "connect_error",
            0xb => "enhance_your_calm",
            0xc => "inadequate_security",
            0xd => "http_1_1_required",
            _ => "unknown",
        }
    }
}

impl fmt::Debug for ErrorCode {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}({:#x})", self.label(), self.0)
    }
}

/// An error of the client that ends the connection (RFC 9113 §5.4.1). GOAWAY with the code is queued.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectionError {
    /// The code that GOAWAY tells the client.
    pub code: ErrorCode,
    /// The rule that the client violated, as a label for a counter: lowercase letters and underscores.
    pub reason: &'static str,
}

impl fmt::Display for ConnectionError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}: {}", self.code.label(), self.reason)
    }
}

impl std::error::Error for ConnectionError {}
