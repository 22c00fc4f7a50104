//! TLS of our own connections to other servers: their certificates are verified, their sessions resumed.
//!
//! These connections carry no viewer's bytes that have to be fast out, so the library both sends and receives.

use std::collections::VecDeque;
use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use boring::error::ErrorStack;
use boring::ssl::{Ssl, SslContext, SslMethod, SslSession, SslSessionCacheMode, SslVerifyMode, SslVersion};
use boring::x509::store::{X509Store, X509StoreBuilder};
use boring::x509::verify::X509CheckFlags;
use boring::x509::{X509, X509VerifyError};
use penstock_sys::digest::sha256;
use penstock_sys::ssl::client;
use tokio::net::TcpStream;
use tokio_boring::SslStreamBuilder;

use crate::AuthoritiesError;

/// A connection with another server.
pub type OutboundStream = tokio_boring::SslStream<TcpStream>;

/// Whose signatures on servers' certificates are believed. A clone is the same.
#[derive(Clone)]
pub struct Authorities(Arc<Trusted>);

struct Trusted {
    store: X509Store,
    count: usize,
    digest: [u8; 32],
}

impl Authorities {
    /// Those of a PEM file, and nobody else.
    ///
    /// # Errors
    /// What is wrong with the file.
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

    /// Those that the system trusts: of the file that `SSL_CERT_FILE` names, or where distributions keep it. Reads a
    /// file.
    ///
    /// # Errors
    /// The files that were looked for, of which none has a certificate.
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
        let read = |place: &PathBuf| Self::from_pem(&std::fs::read(place).ok()?).ok();
        places.iter().find_map(read).ok_or(places)
    }

    /// How many there are.
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

/// Why there is no TLS with another server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OutboundError {
    /// Its certificate does not verify, for this reason.
    Certificate(String),
    /// It is no TLS 1.2 or newer, it refused, or it went away.
    Handshake(String),
}

impl fmt::Display for OutboundError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Certificate(reason) => write!(f, "its certificate does not verify: {reason}"),
            Self::Handshake(reason) => write!(f, "the TLS handshake failed: {reason}"),
        }
    }
}

impl std::error::Error for OutboundError {}

/// How one server is spoken to. Shared by all workers, so that they share its sessions.
pub struct Outbound {
    context: SslContext,
    name: String,
    sessions: Arc<Sessions>,
}

/// Sessions of one server, newest last.
struct Sessions(Mutex<VecDeque<SslSession>>, usize);

impl Sessions {
    fn put(&self, session: SslSession) {
        let mut sessions = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        while sessions.len() >= self.1 {
            sessions.pop_front();
        }
        sessions.push_back(session);
    }

    /// Tickets of TLS 1.3 are offered once (RFC 8446 §C.4).
    fn take(&self) -> Option<SslSession> {
        let mut sessions = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if client::is_single_use(sessions.back()?) { sessions.pop_back() } else { sessions.back().cloned() }
    }
}

impl Outbound {
    /// For a server of that host name or IP address, whose certificate must name it. At most `sessions_max` sessions
    /// are kept.
    ///
    /// # Errors
    /// What the library says.
    pub fn new(authorities: &Authorities, name: &str, sessions_max: usize) -> Result<Self, ErrorStack> {
        let sessions = Arc::new(Sessions(Mutex::default(), sessions_max.max(1)));
        let mut context = SslContext::builder(SslMethod::tls())?;
        context.set_min_proto_version(Some(SslVersion::TLS1_2))?;
        context.set_verify(SslVerifyMode::PEER);
        context.set_cert_store_ref(&authorities.0.store);
        context.set_alpn_protos(b"\x08http/1.1")?;
        context.set_session_cache_mode(SslSessionCacheMode::CLIENT | SslSessionCacheMode::NO_INTERNAL);
        let kept = Arc::clone(&sessions);
        context.set_new_session_callback(move |_, session| kept.put(session));
        let made = Self { context: context.build(), name: name.to_owned(), sessions };
        // A name that cannot be checked is found out now and not at the first viewer.
        made.prepare()?;
        Ok(made)
    }

    /// Shakes hands over a connection that has just been opened.
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
                Some(Err(reason)) => OutboundError::Certificate(reason.error_string().to_owned()),
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
