//! TLS connections to other servers: certificates are verified, sessions resumed.
//!
//! The library both sends and receives, because these connections are not on the path to viewers.

use std::collections::VecDeque;
use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::SystemTime;

use boring::error::ErrorStack;
use boring::ssl::{
    Ssl, SslContext, SslContextBuilder, SslMethod, SslSession, SslSessionCacheMode, SslVerifyMode, SslVersion,
};
use boring::x509::store::{X509Store, X509StoreBuilder};
use boring::x509::verify::X509CheckFlags;
use boring::x509::{X509, X509VerifyError};
use penstock_sys::digest::sha256;
use penstock_sys::lock::Unpoisoned;
use penstock_sys::small_file;
use penstock_sys::ssl::{client, moment};
use tokio::net::TcpStream;
use tokio_boring::SslStreamBuilder;

use crate::certificate::Certificate;
use crate::client_certificates::AuthoritiesError;

/// Bytes of a trust store; that of Debian has 220 KiB.
const STORE_BYTES_MAX: u64 = 8 << 20;

/// A connection with another server.
pub type OutboundStream = tokio_boring::SslStream<TcpStream>;

/// The end of the server's certificate; `None` if it has none, or a date that cannot be represented.
pub fn certificate_end(stream: &OutboundStream) -> Option<SystemTime> {
    moment(stream.ssl().peer_certificate()?.not_after())
}

/// Trusted authorities of server certificates. Clones share the store.
#[derive(Clone)]
pub struct Authorities(Arc<Trusted>);

struct Trusted {
    store: X509Store,
    count: usize,
    digest: [u8; 32],
}

impl Authorities {
    /// Trusts the certificates of a PEM file only.
    ///
    /// # Errors
    /// The fault of the file.
    pub fn from_pem(pem: &[u8]) -> Result<Self, AuthoritiesError> {
        let certificates = X509::stack_from_pem(pem).map_err(|_| AuthoritiesError::Malformed)?;
        if certificates.is_empty() {
            return Err(AuthoritiesError::Empty);
        }
        let mut store = X509StoreBuilder::new().map_err(|_| AuthoritiesError::Malformed)?;
        for certificate in &certificates {
            store.add_cert(certificate).map_err(|_| AuthoritiesError::Malformed)?;
        }
        let trusted = Trusted { store: store.build(), count: certificates.len(), digest: sha256(&[pem]) };
        Ok(Self(Arc::new(trusted)))
    }

    /// Reads the trust store of the system: the file named by `SSL_CERT_FILE`, or that of the distribution.
    ///
    /// # Errors
    /// The files that were tried; none contains a certificate.
    pub fn of_system() -> Result<Self, Vec<PathBuf>> {
        // The usual place of a file with all of them: Debian, Fedora, SUSE, Alpine.
        const USUAL: [&str; 4] = [
            "/etc/ssl/certs/ca-certificates.crt",
            "/etc/pki/tls/certs/ca-bundle.crt",
            "/etc/ssl/ca-bundle.pem",
            "/etc/ssl/cert.pem",
        ];
        let places: Vec<PathBuf> = match std::env::var_os("SSL_CERT_FILE") {
            Some(named) => vec![named.into()],
            None => USUAL.iter().map(PathBuf::from).collect(),
        };
        let read = |place: &PathBuf| Self::from_pem(&small_file::read(place, STORE_BYTES_MAX).ok()?).ok();
        places.iter().find_map(read).ok_or(places)
    }

    /// Number of authorities.
    pub fn count(&self) -> usize {
        self.0.count
    }
}

impl PartialEq for Authorities {
    fn eq(&self, other: &Self) -> bool {
        self.0.digest == other.0.digest
    }
}

impl Eq for Authorities {}

impl fmt::Debug for Authorities {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Authorities").field("count", &self.0.count).finish_non_exhaustive()
    }
}

/// The certificate that this program shows to other servers that ask for one. Clones share it.
#[derive(Clone, Debug)]
pub struct ClientIdentity(Arc<Certificate>);

impl ClientIdentity {
    /// This certificate, with its intermediates.
    pub fn new(certificate: &Arc<Certificate>) -> Self {
        Self(Arc::clone(certificate))
    }
}

impl PartialEq for ClientIdentity {
    fn eq(&self, other: &Self) -> bool {
        self.0.fingerprint() == other.0.fingerprint()
    }
}

impl Eq for ClientIdentity {}

/// Why a TLS connection to another server failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OutboundError {
    /// Its certificate does not verify, for this reason.
    Certificate(String),
    /// The same because it has ended or has not begun, by the clock of this machine.
    CertificateTime(String),
    /// The server does not support TLS 1.2, refused, or disconnected.
    Handshake(String),
}

impl fmt::Display for OutboundError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Certificate(reason) | Self::CertificateTime(reason) => {
                write!(f, "its certificate does not verify: {reason}")
            }
            Self::Handshake(reason) => write!(f, "the TLS handshake failed: {reason}"),
        }
    }
}

impl std::error::Error for OutboundError {}

/// TLS client of one server. Shared by all workers, together with its sessions.
pub struct Outbound {
    context: SslContext,
    name: String,
    sessions: Arc<ServerSessions>,
}

/// Sessions of one server, newest last.
struct ServerSessions(Mutex<VecDeque<SslSession>>, usize);

impl ServerSessions {
    fn put(&self, session: SslSession) {
        let mut sessions = self.0.lock().unpoisoned();
        while sessions.len() >= self.1 {
            sessions.pop_front();
        }
        sessions.push_back(session);
    }

    /// Tickets of TLS 1.3 are offered once (RFC 8446 §C.4).
    fn take(&self) -> Option<SslSession> {
        let mut sessions = self.0.lock().unpoisoned();
        if client::is_single_use(sessions.back()?) { sessions.pop_back() } else { sessions.back().cloned() }
    }
}

impl Outbound {
    /// A client for the server `name`, a host name or IP address that its certificate must contain. At most
    /// `sessions_max` sessions are kept. A server that asks for a certificate is shown that of `identity`.
    ///
    /// # Errors
    /// The error of the library.
    pub fn new(
        authorities: &Authorities,
        name: &str,
        sessions_max: usize,
        identity: Option<&ClientIdentity>,
    ) -> Result<Self, ErrorStack> {
        Self::prepared(authorities, name, sessions_max, |context| {
            context.set_alpn_protos(b"\x08http/1.1")?;
            identity.map_or(Ok(()), |ClientIdentity(certificate)| certificate.show(context))
        })
    }

    /// As [`Self::new`], for a server that requires a certificate and speaks no HTTP.
    ///
    /// # Errors
    /// The error of the library; a certificate whose key is not in memory.
    pub fn mutual(
        authorities: &Authorities,
        name: &str,
        certificate: &Certificate,
    ) -> Result<Self, ErrorStack> {
        Self::prepared(authorities, name, 1, |context| certificate.show(context))
    }

    fn prepared(
        authorities: &Authorities,
        name: &str,
        sessions_max: usize,
        extend: impl FnOnce(&mut SslContextBuilder) -> Result<(), ErrorStack>,
    ) -> Result<Self, ErrorStack> {
        let sessions = Arc::new(ServerSessions(Mutex::default(), sessions_max.max(1)));
        let mut context = SslContext::builder(SslMethod::tls())?;
        context.set_min_proto_version(Some(SslVersion::TLS1_2))?;
        context.set_verify(SslVerifyMode::PEER);
        context.set_cert_store_ref(&authorities.0.store);
        extend(&mut context)?;
        context.set_session_cache_mode(SslSessionCacheMode::CLIENT | SslSessionCacheMode::NO_INTERNAL);
        let kept = Arc::clone(&sessions);
        context.set_new_session_callback(move |_, session| kept.put(session));
        let made = Self { context: context.build(), name: name.to_owned(), sessions };
        // Detects an invalid name now and not at the first connection.
        made.prepare()?;
        Ok(made)
    }

    /// Performs the handshake on a new connection.
    ///
    /// # Errors
    /// See [`OutboundError`].
    pub async fn connect(&self, socket: TcpStream) -> Result<OutboundStream, OutboundError> {
        let ssl = self.prepare().map_err(|error| OutboundError::Handshake(error.to_string()))?;
        SslStreamBuilder::new(ssl, socket).connect().await.map_err(|error| {
            match error.ssl().map(|ssl| ssl.verify_result()) {
                // What the library says before there was a certificate to verify.
                Some(Err(X509VerifyError::INVALID_CALL)) | Some(Ok(())) | None => {
                    OutboundError::Handshake(error.to_string())
                }
                Some(Err(reason)) => {
                    let is_time = matches!(
                        reason,
                        X509VerifyError::CERT_HAS_EXPIRED | X509VerifyError::CERT_NOT_YET_VALID
                    );
                    let words = reason.error_string().to_owned();
                    if is_time {
                        OutboundError::CertificateTime(words)
                    } else {
                        OutboundError::Certificate(words)
                    }
                }
            }
        })
    }

    fn prepare(&self) -> Result<Ssl, ErrorStack> {
        let mut ssl = Ssl::new(&self.context)?;
        let address = self.name.parse::<IpAddr>();
        // RFC 6066 §3 allows no IP address as a server name.
        if address.is_err() {
            ssl.set_hostname(&self.name)?;
        }
        let expected = ssl.param_mut();
        expected.set_hostflags(X509CheckFlags::NO_PARTIAL_WILDCARDS);
        match address {
            Ok(address) => expected.set_ip(address)?,
            Err(_) => expected.set_host(&self.name)?,
        }
        if let Some(session) = self.sessions.take() {
            client::offer_live_session(&mut ssl, &session)?;
        }
        Ok(ssl)
    }
}

impl fmt::Debug for Outbound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Outbound").field("name", &self.name).finish_non_exhaustive()
    }
}
