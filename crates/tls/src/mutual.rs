//! The server side of TLS between servers of one operator: certificates on both sides.
//!
//! The library both sends and receives, because these connections are not on the path to viewers.

use std::fmt;
use std::time::SystemTime;

use boring::error::ErrorStack;
use boring::ssl::{Ssl, SslContext, SslMethod, SslOptions, SslSessionCacheMode, SslVersion};
use penstock_sys::ssl::moment;
use tokio::net::TcpStream;
use tokio_boring::SslStreamBuilder;

use crate::certificate::Certificate;
use crate::client_certificates::ClientCertificates;
use crate::outbound::OutboundStream;

/// Accepts TLS connections of clients with a certificate. Cheap to clone.
#[derive(Clone)]
pub struct MutualServer {
    context: SslContext,
    clients: ClientCertificates,
}

/// Why a client was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MutualError {
    /// The handshake failed, for this reason; a certificate that does not verify is one.
    Handshake(String),
    /// The client sent no certificate.
    NoCertificate,
}

impl fmt::Display for MutualError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Handshake(reason) => write!(f, "the TLS handshake failed: {reason}"),
            Self::NoCertificate => f.write_str("the client sent no certificate"),
        }
    }
}

impl std::error::Error for MutualError {}

impl MutualServer {
    /// Shows `certificate`, whose key is in memory, and takes the clients that `clients` requires a certificate of. No
    /// session is resumed, so that each connection proves its certificate.
    ///
    /// # Errors
    /// The error of the library; a key that is not in memory.
    pub fn new(certificate: &Certificate, clients: &ClientCertificates) -> Result<Self, ErrorStack> {
        let mut builder = SslContext::builder(SslMethod::tls())?;
        builder.set_min_proto_version(Some(SslVersion::TLS1_2))?;
        builder.set_options(SslOptions::NO_TICKET);
        builder.set_session_cache_mode(SslSessionCacheMode::OFF);
        certificate.show(&mut builder)?;
        clients.ask(&mut builder)?;
        builder.set_session_id_context(clients.session_id_context())?;
        Ok(Self { context: builder.build(), clients: clients.clone() })
    }

    /// Performs the handshake on a new connection, and returns it with the name in the client's certificate. There is no
    /// deadline: the caller sets one.
    ///
    /// # Errors
    /// See [`MutualError`].
    pub async fn accept(&self, socket: TcpStream) -> Result<(OutboundStream, String), MutualError> {
        let ssl = Ssl::new(&self.context).map_err(|error| MutualError::Handshake(error.to_string()))?;
        let stream = SslStreamBuilder::new(ssl, socket)
            .accept()
            .await
            .map_err(|error| MutualError::Handshake(error.to_string()))?;
        let name = self.clients.name_of_client(stream.ssl()).ok_or(MutualError::NoCertificate)?;
        Ok((stream, name))
    }

    /// When the certificate that the client of a connection has shown expires.
    pub fn certificate_end(connection: &OutboundStream) -> Option<SystemTime> {
        connection.ssl().peer_certificate().and_then(|certificate| moment(certificate.not_after()))
    }

    /// Whether another server has the same authorities and revocation lists.
    pub fn admits_as(&self, other: &Self) -> bool {
        self.clients.session_id_context() == other.clients.session_id_context()
    }
}

impl fmt::Debug for MutualServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MutualServer").finish_non_exhaustive()
    }
}
