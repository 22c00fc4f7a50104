//! Why a transmission ended early.

use std::fmt;
use std::io;

/// Why a transmission ended early. The connection cannot be used for another response.
#[derive(Debug)]
pub enum SendError {
    /// The file became shorter or was rewritten while it was sent, or the source of the body ended early.
    Truncated,
    /// The client has closed or reset the connection.
    Gone,
    /// Another error of the socket or the file.
    Io(io::Error),
    /// The keys have sealed as much as is safe and the protocol version has no way to change them.
    KeysWornOut,
    /// The crypto library refused to work.
    Internal,
    /// The kernel gave up sealing; this is its reason, in the words of metrics.
    Kernel(&'static str),
}

impl fmt::Display for SendError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Truncated => f.write_str("the file was truncated or rewritten while it was sent"),
            Self::Gone => f.write_str("the client closed the connection"),
            Self::Io(error) => write!(f, "sending failed: {error}"),
            Self::KeysWornOut => f.write_str("the keys reached their limit of records and cannot be changed"),
            Self::Internal => f.write_str("the crypto library refused to seal a record"),
            Self::Kernel(reason) => write!(f, "the kernel gave up sealing: {reason}"),
        }
    }
}

impl std::error::Error for SendError {}

impl From<io::Error> for SendError {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::ConnectionAborted
            | io::ErrorKind::NotConnected
            | io::ErrorKind::TimedOut => Self::Gone,
            io::ErrorKind::UnexpectedEof => Self::Truncated,
            _ => Self::Io(error),
        }
    }
}
