//! What a datagram is for, before a connection has looked at it (RFC 8999, RFC 9000 §17).

use std::net::SocketAddr;

use crate::id::{CONNECTION_ID_BYTES, ConnectionId};

/// The longest datagram that this server sends: what fits into an Ethernet frame with IPv6.
pub const MAX_DATAGRAM_BYTES: usize = 1452;

/// The shortest datagram that may begin a connection (RFC 9000 §14.1).
const INITIAL_BYTES_MIN: usize = 1200;

/// The shortest id that a client may send its first packets to (RFC 9000 §7.2). The keys of these packets are made from it, and clients with
/// equal ids would share a connection.
const CHOSEN_ID_BYTES_MIN: usize = 8;

const LONG_HEADER: u8 = 0x80;

/// A path: this server's address and the client's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NetworkPath {
    /// This server's.
    pub local: SocketAddr,
    /// The client's.
    pub client: SocketAddr,
}

/// What a datagram is for.
#[derive(Debug)]
pub enum Datagram {
    /// The connection with this id, or none.
    Known(ConnectionId),
    /// The same, while its handshake lasts.
    Handshake(ConnectionId),
    /// The connection with its id, or a new one.
    Initial(Initial),
    /// A client of another version: [`version_negotiation`] answers it.
    OtherVersion {
        /// The id that the client has sent to.
        destination: ConnectionId,
        /// The client's id.
        source: ConnectionId,
        /// The name of the version.
        version: &'static str,
    },
    /// Nothing that this server answers.
    Ignored,
}

/// The first packet of a client.
#[derive(Debug)]
pub struct Initial {
    /// The id that the client has sent to.
    pub destination: ConnectionId,
    /// The client's id.
    pub source: ConnectionId,
    /// The token of an earlier Retry; empty without one.
    pub token: Vec<u8>,
    pub(crate) version: u32,
    /// Whether it is long enough to begin a connection.
    pub can_begin: bool,
}

impl Initial {
    /// The name of its version.
    pub fn version(&self) -> &'static str {
        version_name(self.version)
    }
}

/// The number of a version, if it is that of a standard; `reserved` are those that servers should not know (RFC 9000 §15).
fn version_name(version: u32) -> &'static str {
    match version {
        1 => "1",
        0x6b33_43cf => "2",
        _ if version & 0x0f0f_0f0f == 0x0a0a_0a0a => "reserved",
        _ => "other",
    }
}

impl Datagram {
    /// The id of the connection that it may belong to.
    pub fn destination(&self) -> Option<&ConnectionId> {
        match self {
            Self::Known(id) | Self::Handshake(id) => Some(id),
            Self::Initial(initial) => Some(&initial.destination),
            Self::OtherVersion { .. } | Self::Ignored => None,
        }
    }

    /// Reads what every version of QUIC shares, and the token of an Initial. `bytes` stay as they are.
    pub fn parse(bytes: &mut [u8]) -> Self {
        let Some(&first) = bytes.first() else { return Self::Ignored };
        if first & LONG_HEADER == 0 {
            let id = bytes.get(1..=CONNECTION_ID_BYTES).and_then(ConnectionId::new);
            return id.map_or(Self::Ignored, Self::Known);
        }
        let length = bytes.len();
        // A version that is not known has ids of up to 255 bytes, which nothing here answers.
        let Ok(header) = quiche::Header::from_slice(bytes, CONNECTION_ID_BYTES) else { return Self::Ignored };
        let ids = (ConnectionId::new(&header.dcid), ConnectionId::new(&header.scid));
        let (Some(destination), Some(source)) = ids else { return Self::Ignored };
        let can_begin = length >= INITIAL_BYTES_MIN;
        match header.ty {
            quiche::Type::VersionNegotiation | quiche::Type::Retry => Self::Ignored,
            _ if !quiche::version_is_supported(header.version) => {
                // A short datagram would be amplified.
                let version = version_name(header.version);
                if can_begin { Self::OtherVersion { destination, source, version } } else { Self::Ignored }
            }
            quiche::Type::Initial if header.dcid.len() < CHOSEN_ID_BYTES_MIN => Self::Ignored,
            quiche::Type::Initial => Self::Initial(Initial {
                destination,
                source,
                token: header.token.unwrap_or_default(),
                version: header.version,
                can_begin,
            }),
            quiche::Type::Handshake | quiche::Type::ZeroRTT | quiche::Type::Short => {
                Self::Handshake(destination)
            }
        }
    }
}

/// Writes the versions that this server speaks (RFC 9000 §17.2.1); returns the length.
pub fn version_negotiation(
    destination: &ConnectionId,
    source: &ConnectionId,
    out: &mut [u8],
) -> Option<usize> {
    quiche::negotiate_version(&source.quic(), &destination.quic(), out).ok()
}
