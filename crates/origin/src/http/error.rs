//! Why an origin gave no answer, or no more of it.

use std::fmt;

/// Why there is no response, or no more of it. All are the origin's or the network's doing, except
/// [`Busy`](Self::Busy) and [`Abandoned`](Self::Abandoned).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OriginError {
    /// No connection to any target.
    Unreachable,
    /// A deadline passed; see [`OriginLimits`](super::OriginLimits).
    Timeout,
    /// The target's certificate does not verify.
    Certificate,
    /// The target does not speak TLS as it should.
    Handshake,
    /// What came is not HTTP, or more than the limits allow.
    Malformed,
    /// The connection ended before the response did.
    CutShort,
    /// It redirected more often than is followed, or to where it is not followed.
    Redirects,
    /// As many connections are in use as are allowed, and as many requests wait.
    Busy,
    /// Whoever sends the request's body has stopped.
    Abandoned,
}

impl OriginError {
    /// The word used in metrics and Cache-Status.
    pub fn label(self) -> &'static str {
        match self {
            Self::Unreachable => "unreachable",
            Self::Timeout => "timeout",
            Self::Certificate => "certificate",
            Self::Handshake => "handshake",
            Self::Malformed => "malformed",
            Self::CutShort => "cut_short",
            Self::Redirects => "redirects",
            Self::Busy => "busy",
            Self::Abandoned => "abandoned",
        }
    }

    /// Whether it tells against the target that was asked.
    pub(super) fn is_of_target(self) -> bool {
        !matches!(self, Self::Busy | Self::Abandoned | Self::Redirects)
    }
}

impl fmt::Display for OriginError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Unreachable => "the origin cannot be reached",
            Self::Timeout => "the origin took too long",
            Self::Certificate => "the origin's certificate does not verify",
            Self::Handshake => "the origin does not speak TLS 1.2 or newer as it should",
            Self::Malformed => "the origin's response is not HTTP/1.1 within the limits",
            Self::CutShort => "the origin ended its response too soon",
            Self::Redirects => "the origin redirects to where it is not followed",
            Self::Busy => "all connections to the origin are in use",
            Self::Abandoned => "the body of the request broke off",
        })
    }
}

impl std::error::Error for OriginError {}
