//! Why a fill brought no more bytes, and why a body ended before its last byte.

use penstock_http::Status;
use penstock_origin::http::{OriginError, OriginFault};

/// Why a fill brought no more bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FillFault {
    /// The origin, or the network to it, failed.
    Origin(OriginError),
    /// The origin answered a request for a part with an error.
    ServerError,
    /// The object changed between two answers: bytes of this version are gone.
    Changed,
    /// The cache has no space that could be freed.
    NoSpace,
    /// The body is longer than the site allows a body without announced length to be.
    TooLong,
    /// The last reader left.
    NoReaders,
    /// Another fill took the next slice.
    Superseded,
}

impl FillFault {
    /// The word in metrics and in Cache-Status.
    pub(crate) fn label(self) -> &'static str {
        match self {
            Self::Origin(error) => error.label(),
            Self::ServerError => "server_error",
            Self::Changed => "changed",
            Self::NoSpace => "no_room",
            Self::TooLong => "too_long",
            Self::NoReaders => "no_readers",
            Self::Superseded => "taken",
        }
    }

    /// The status for a client of whose response nothing has been sent.
    pub(crate) fn status(self) -> Status {
        match self {
            Self::Origin(error) => origin_status(error),
            Self::ServerError
            | Self::Changed
            | Self::NoSpace
            | Self::TooLong
            | Self::NoReaders
            | Self::Superseded => Status::BadGateway,
        }
    }

    /// Whether another request to the origin may bring the rest of the same body.
    pub(crate) fn may_be_retried(self) -> bool {
        !matches!(self, Self::NoReaders | Self::Changed)
    }

    /// Whether a fill goes on with another request for the bytes that are missing.
    pub(crate) fn may_be_resumed(self) -> bool {
        matches!(self, Self::Origin(_) | Self::ServerError)
    }

    /// Whether a reader has nothing to gain from another fill of the same slice: the fill that failed had all attempts.
    pub(crate) fn is_final(self) -> bool {
        matches!(self, Self::Origin(_) | Self::ServerError | Self::TooLong)
    }
}

impl From<OriginError> for FillFault {
    fn from(error: OriginError) -> Self {
        Self::Origin(error)
    }
}

/// The status for a client whose origin failed in this way.
pub(crate) fn origin_status(error: OriginError) -> Status {
    match error {
        OriginError::Timeout => Status::GatewayTimeout,
        OriginError::Busy => Status::ServiceUnavailable,
        // Nothing that the origin has can have that name.
        OriginError::Unsendable => Status::NotFound,
        _ if error.fault() == OriginFault::Client => Status::BadRequest,
        _ => Status::BadGateway,
    }
}

/// Why a body ended before its last byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyError {
    /// Origin and cache have no more bytes of it; with the fault of the fill, if one is known.
    Gone(Option<FillFault>),
    /// Too many readers wait for this fill; those that have begun may go on.
    Crowded,
    /// The client's network has as many fetches under way as it may.
    NetworkFull,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_fault_has_its_status_and_says_whether_a_retry_helps() {
        let cases = [
            (FillFault::Origin(OriginError::Timeout), Status::GatewayTimeout, true),
            (FillFault::Origin(OriginError::Busy), Status::ServiceUnavailable, true),
            (FillFault::Origin(OriginError::CutShort), Status::BadGateway, true),
            (FillFault::Origin(OriginError::Unsendable), Status::NotFound, true),
            (FillFault::ServerError, Status::BadGateway, true),
            (FillFault::NoSpace, Status::BadGateway, true),
            (FillFault::TooLong, Status::BadGateway, true),
            (FillFault::Changed, Status::BadGateway, false),
            (FillFault::NoReaders, Status::BadGateway, false),
        ];
        for (fault, status, retried) in cases {
            assert_eq!((fault.status(), fault.may_be_retried()), (status, retried), "{fault:?}");
        }
    }
}
