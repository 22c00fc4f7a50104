//! Why a request was refused.

use crate::Status;

/// A request that cannot be answered as it was meant. The peer is at fault, always.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rejection {
    /// The status to answer with.
    pub status: Status,
    /// A stable label for metrics, in snake_case. It never contains anything the peer sent.
    pub reason: &'static str,
    /// Whether the connection must be closed after the answer. It is false only when the head was
    /// delimited beyond doubt and has no body, so that the next request starts right behind it, and
    /// when an answer with a body cannot be misunderstood: never after HEAD or in HTTP/1.0.
    pub close: bool,
}

impl Rejection {
    /// A rejection after which the next request's first byte is not known for certain.
    pub(crate) const fn closing(status: Status, reason: &'static str) -> Self {
        Self { status, reason, close: true }
    }

    /// Malformed syntax.
    pub(crate) const fn malformed(reason: &'static str) -> Self {
        Self::closing(Status::BadRequest, reason)
    }
}

impl std::fmt::Display for Rejection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} ({})", self.status.code(), self.reason)
    }
}

impl std::error::Error for Rejection {}
