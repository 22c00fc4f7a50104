//! Why an origin gave no response, or no more of it.

use std::error::Error;
use std::fmt;
use std::io;

/// Why there is no response, or no more of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OriginError {
    /// No connection to any server.
    Unreachable,
    /// A deadline passed; see [`OriginLimits`](super::OriginLimits).
    Timeout,
    /// The body came more slowly than [`MinimumRate`](super::MinimumRate) allows.
    TooSlow,
    /// The server's certificate does not verify.
    Certificate,
    /// The server does not speak TLS as it should.
    Handshake,
    /// The response is not HTTP, does not answer the request, or exceeds a limit.
    Malformed,
    /// Interim responses (1xx) filled the space for a response head.
    InterimResponses,
    /// The trailer of a body is larger than 16 KiB or has too many fields.
    TrailerTooLarge,
    /// The connection ended before the response did.
    CutShort,
    /// More redirections than are followed, or one to where none is followed.
    Redirects,
    /// As many connections are in use as are allowed, and as many requests wait.
    Busy,
    /// The body of the request ended too soon.
    Abandoned,
    /// The client's request cannot become a request to this origin.
    Unsendable,
}

/// The side that caused an [`OriginError`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OriginFault {
    /// The client that sent the request.
    Client,
    /// The origin's server, or the network to it.
    Server,
    /// The origin as a whole: another of its servers would do the same.
    Origin,
    /// A limit of this program.
    Limit,
}

impl OriginError {
    const ALL: [Self; 13] = [
        Self::Unreachable,
        Self::Timeout,
        Self::TooSlow,
        Self::Certificate,
        Self::Handshake,
        Self::Malformed,
        Self::InterimResponses,
        Self::TrailerTooLarge,
        Self::CutShort,
        Self::Redirects,
        Self::Busy,
        Self::Abandoned,
        Self::Unsendable,
    ];

    /// The error with this [`label`](Self::label).
    pub fn named(label: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|error| error.label() == label)
    }

    /// The word used in metrics and Cache-Status.
    pub fn label(self) -> &'static str {
        match self {
            Self::Unreachable => "unreachable",
            Self::Timeout => "timeout",
            Self::TooSlow => "too_slow",
            Self::Certificate => "certificate",
            Self::Handshake => "handshake",
            Self::Malformed => "malformed",
            Self::InterimResponses => "interim_responses",
            Self::TrailerTooLarge => "trailer_too_large",
            Self::CutShort => "cut_short",
            Self::Redirects => "redirects",
            Self::Busy => "busy",
            Self::Abandoned => "abandoned",
            Self::Unsendable => "unsendable",
        }
    }

    /// The side that caused it. Only [`OriginFault::Server`] counts against the health of a server.
    pub fn fault(self) -> OriginFault {
        match self {
            Self::Abandoned | Self::Unsendable => OriginFault::Client,
            Self::Unreachable
            | Self::Timeout
            | Self::TooSlow
            | Self::Certificate
            | Self::Handshake
            | Self::Malformed
            | Self::InterimResponses
            | Self::TrailerTooLarge
            | Self::CutShort => OriginFault::Server,
            Self::Redirects => OriginFault::Origin,
            Self::Busy => OriginFault::Limit,
        }
    }

    /// Whether the same request may succeed later without a change of the request or of the configuration.
    pub fn is_worth_retrying(self) -> bool {
        match self {
            Self::Unreachable | Self::Timeout | Self::TooSlow | Self::CutShort | Self::Busy => true,
            Self::Certificate
            | Self::Handshake
            | Self::Malformed
            | Self::InterimResponses
            | Self::TrailerTooLarge
            | Self::Redirects
            | Self::Abandoned
            | Self::Unsendable => false,
        }
    }

    /// The meaning of an error between a request and the head of its response.
    pub(super) fn from_exchange(error: &hyper::Error) -> Self {
        if error.is_timeout() {
            Self::Timeout
        } else if error.is_parse() || error.is_parse_too_large() {
            Self::Malformed
        } else if error.is_user() || error.is_body_write_aborted() {
            Self::Abandoned
        } else {
            Self::CutShort
        }
    }

    /// The meaning of an error within a body. Broken chunks are an input error; all others end the body too soon.
    pub(super) fn from_body(error: &hyper::Error) -> Self {
        let source = error.source().and_then(|source| source.downcast_ref::<io::Error>());
        match source.map(io::Error::kind) {
            // hyper has no other way to tell.
            Some(_) if source.is_some_and(|source| source.to_string().contains("trailers")) => {
                Self::TrailerTooLarge
            }
            Some(io::ErrorKind::InvalidInput | io::ErrorKind::InvalidData) => Self::Malformed,
            _ if error.is_parse() => Self::Malformed,
            _ => Self::CutShort,
        }
    }
}

impl fmt::Display for OriginError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Unreachable => "the origin cannot be reached",
            Self::Timeout => "the origin took too long",
            Self::TooSlow => "the origin sends its response too slowly",
            Self::Certificate => "the origin's certificate does not verify",
            Self::Handshake => "the origin does not speak TLS 1.2 or newer as it should",
            Self::Malformed => "the origin's response is not HTTP/1.1 within the limits",
            Self::InterimResponses => "the origin sends interim responses without end",
            Self::TrailerTooLarge => "the origin sends a trailer without end",
            Self::CutShort => "the origin ended its response too soon",
            Self::Redirects => "the origin redirects to where it is not followed",
            Self::Busy => "all connections to the origin are in use",
            Self::Abandoned => "the body of the request broke off",
            Self::Unsendable => "the request cannot be sent to the origin",
        })
    }
}

impl Error for OriginError {}
