//! Private key operations: timed, and allowed by a permit.
//!
//! The library asks [`Signing`] for a signature. With a permit of the [`SigningLimiter`](crate::SigningLimiter) it is made
//! at once; otherwise the library suspends, and [`Acceptor::accept`](crate::Acceptor::accept) resumes with a permit. A
//! key that is elsewhere suspends the library a second time, until its signature has come.

use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use std::time::{Duration, Instant};

use boring::error::ErrorStack;
use boring::ex_data::Index;
use boring::ssl::{NameType, PrivateKeyMethod, PrivateKeyMethodError, Ssl, SslRef, SslSignatureAlgorithm};
use penstock_sys::lock::Unpoisoned;

use crate::certificate::{Algorithm, Certificate, CertificateKey};
use crate::ja4::Ja4;
use crate::load_signal::LoadSignal;
use crate::local_key::LocalKey;
use crate::remote_key::{KeyId, PublicKey, RemoteKey, RemoteKeyError, RemoteOperation, SignRequest};
use crate::signature_kind::{Hash, SignatureKind};
use crate::transport_parameters::ParameterCheck;

/// The private key of a certificate.
pub(crate) struct Signing {
    /// The key in memory: the only one, or that for the failures of the remote one.
    local: Option<LocalKey>,
    remote: Option<Remote>,
}

/// A key that is elsewhere.
struct Remote {
    key: Arc<dyn RemoteKey>,
    id: KeyId,
    public: PublicKey,
}

impl Signing {
    pub(crate) fn with(certificate: &Certificate) -> Self {
        match certificate.key() {
            CertificateKey::Local(key) => Self { local: Some(LocalKey::new(key.clone())), remote: None },
            CertificateKey::Elsewhere { remote, id, public, fallback } => Self {
                local: fallback.clone().map(LocalKey::new),
                remote: remote.clone().map(|key| Remote { key, id: *id, public: public.clone() }),
            },
        }
    }

    /// Begins an operation that has a permit, or goes on with it.
    fn operate(
        &self,
        ssl: &SslRef,
        operation: PendingOperation,
        output: &mut [u8],
    ) -> Result<usize, PrivateKeyMethodError> {
        let progress = progress(ssl);
        let ask = match (&self.remote, progress, &operation) {
            // Only the local key decrypts.
            (Some(remote), Some(progress), PendingOperation::Signature(algorithm, input))
                if !progress.uses_fallback.load(Relaxed) =>
            {
                Some((progress, remote.request(ssl, progress, *algorithm, input)?))
            }
            _ => None,
        };
        if let Some((progress, (remote, request))) = ask {
            *progress.lock() = Some(operation);
            let has_fallback = self.local.is_some();
            *progress.remote() = RemoteState::Wanted(RemoteOperation { remote, request, has_fallback });
            return Err(PrivateKeyMethodError::RETRY);
        }
        let local = self.local.as_ref().ok_or(PrivateKeyMethodError::FAILURE)?;
        timed(progress, || match operation {
            PendingOperation::Signature(algorithm, input) => local.sign(algorithm, &input, output),
            PendingOperation::Decryption(input) => local.decrypt(&input, output),
        })
    }

    fn begin(
        &self,
        ssl: &SslRef,
        operation: PendingOperation,
        output: &mut [u8],
    ) -> Result<usize, PrivateKeyMethodError> {
        if let Some(progress) = progress(ssl) {
            progress.signature.get_or_init(|| operation.algorithm());
        }
        if let Some(progress) = progress(ssl).filter(|progress| !progress.consume_permit()) {
            *progress.lock() = Some(operation);
            return Err(PrivateKeyMethodError::RETRY);
        }
        self.operate(ssl, operation, output)
    }
}

impl Remote {
    fn request(
        &self,
        ssl: &SslRef,
        progress: &HandshakeProgress,
        algorithm: SslSignatureAlgorithm,
        message: &[u8],
    ) -> Result<(Arc<dyn RemoteKey>, SignRequest), PrivateKeyMethodError> {
        let request = SignRequest {
            key: self.id,
            public: self.public.clone(),
            kind: SignatureKind::of(algorithm).ok_or(PrivateKeyMethodError::FAILURE)?,
            message: message.to_vec(),
            server_name: ssl.servername(NameType::HOST_NAME).map(str::to_ascii_lowercase),
            client: progress.client.get().copied().flatten(),
        };
        Ok((Arc::clone(&self.key), request))
    }
}

/// Runs one private key operation and records its duration.
fn timed(
    progress: Option<&HandshakeProgress>,
    operate: impl FnOnce() -> Result<usize, ErrorStack>,
) -> Result<usize, PrivateKeyMethodError> {
    let started = Instant::now();
    let result = operate();
    if let Some(progress) = progress {
        progress.signed_for(started.elapsed());
    }
    result.map_err(|_| PrivateKeyMethodError::FAILURE)
}

impl PrivateKeyMethod for Signing {
    fn sign(
        &self,
        ssl: &mut SslRef,
        input: &[u8],
        algorithm: SslSignatureAlgorithm,
        output: &mut [u8],
    ) -> Result<usize, PrivateKeyMethodError> {
        self.begin(ssl, PendingOperation::Signature(algorithm, input.to_vec()), output)
    }

    /// Used by suites without forward secrecy only. The library checks the result in constant time
    /// (RFC 5246 §7.4.7.1). A remote key does not decrypt.
    fn decrypt(
        &self,
        ssl: &mut SslRef,
        input: &[u8],
        output: &mut [u8],
    ) -> Result<usize, PrivateKeyMethodError> {
        self.begin(ssl, PendingOperation::Decryption(input.to_vec()), output)
    }

    fn complete(&self, ssl: &mut SslRef, output: &mut [u8]) -> Result<usize, PrivateKeyMethodError> {
        let progress = progress(ssl).ok_or(PrivateKeyMethodError::FAILURE)?;
        match progress.take_answer() {
            Some(Ok(signature)) => {
                let space = output.get_mut(..signature.len()).ok_or(PrivateKeyMethodError::FAILURE)?;
                space.copy_from_slice(&signature);
                return Ok(signature.len());
            }
            Some(Err(error)) => {
                if self.local.is_none() {
                    return Err(PrivateKeyMethodError::FAILURE);
                }
                if let Some(remote) = &self.remote {
                    remote.key.used_fallback(error);
                }
                progress.uses_fallback.store(true, Relaxed);
            }
            None => {}
        }
        if !progress.consume_permit() {
            return Err(PrivateKeyMethodError::RETRY);
        }
        let operation = progress.lock().take().ok_or(PrivateKeyMethodError::FAILURE)?;
        self.operate(ssl, operation, output)
    }
}

/// A request to sign what no handshake signs, for a check of a key that is elsewhere; `None` if the key is not.
pub fn trial_request(certificate: &Certificate) -> Option<SignRequest> {
    let CertificateKey::Elsewhere { id, public, .. } = certificate.key() else { return None };
    let kind = match certificate.summary().algorithm() {
        Algorithm::Rsa => SignatureKind::RsaPss(Hash::Sha256),
        Algorithm::P256 => SignatureKind::Ecdsa(Hash::Sha256),
        Algorithm::P384 => SignatureKind::Ecdsa(Hash::Sha384),
        Algorithm::P521 => SignatureKind::Ecdsa(Hash::Sha512),
        Algorithm::Ed25519 => SignatureKind::Ed25519,
    };
    let message = b"penstock doctor".to_vec();
    Some(SignRequest { key: *id, public: public.clone(), kind, message, server_name: None, client: None })
}

/// A private key operation that waits for a permit.
#[derive(Debug)]
enum PendingOperation {
    Signature(SslSignatureAlgorithm, Vec<u8>),
    Decryption(Vec<u8>),
}

impl PendingOperation {
    /// Its name in the metrics.
    fn algorithm(&self) -> &'static str {
        match self {
            Self::Signature(algorithm, _) => {
                SignatureKind::of(*algorithm).map_or("other", SignatureKind::label)
            }
            Self::Decryption(_) => "rsa_decryption",
        }
    }
}

/// The signature of a remote key.
#[derive(Debug, Default)]
enum RemoteState {
    #[default]
    Idle,
    /// The handshake is to be suspended until this has been answered.
    Wanted(RemoteOperation),
    Answered(Result<Vec<u8>, RemoteKeyError>),
}

/// State of one handshake between calls of the library.
#[derive(Debug, Default)]
pub(crate) struct HandshakeProgress {
    has_permit: AtomicBool,
    waiting: Mutex<Option<PendingOperation>>,
    remote: Mutex<RemoteState>,
    /// Whether the local key signs, because the remote one has failed.
    uses_fallback: AtomicBool,
    client: OnceLock<Option<IpAddr>>,
    signing_nanoseconds: AtomicU64,
    /// The algorithm of the operation.
    signature: OnceLock<&'static str>,
    /// The load that the handshake waits for.
    pending_load: Mutex<Option<LoadSignal>>,
    ja4: OnceLock<Option<Ja4>>,
    refuses_version: AtomicBool,
    parameters: ParameterCheck,
}

impl HandshakeProgress {
    /// Sets whether the next call of the library may sign.
    pub(crate) fn set_permit(&self, has_permit: bool) {
        self.has_permit.store(has_permit, Relaxed);
    }

    /// Whether the handshake may sign now.
    pub(crate) fn has_permit(&self) -> bool {
        self.has_permit.load(Relaxed)
    }

    /// Time spent in private key operations.
    pub(crate) fn signing(&self) -> Duration {
        Duration::from_nanos(self.signing_nanoseconds.load(Relaxed))
    }

    /// The algorithm of the signature; empty without one.
    pub(crate) fn signature(&self) -> &'static str {
        self.signature.get().copied().unwrap_or_default()
    }

    /// Suspends the handshake until its certificate has been loaded.
    pub(crate) fn set_pending_load(&self, signal: LoadSignal) {
        *self.pending_load.lock().unpoisoned() = Some(signal);
    }

    /// Takes the signal of the load that the handshake waits for.
    pub(crate) fn take_pending_load(&self) -> Option<LoadSignal> {
        self.pending_load.lock().unpoisoned().take()
    }

    /// The JA4 fingerprint, if the settings ask for it.
    pub(crate) fn ja4(&self) -> Option<Ja4> {
        self.ja4.get().copied().flatten()
    }

    /// Computes the fingerprint of the first ClientHello; later calls do nothing.
    pub(crate) fn note_ja4(&self, hello: &[u8], is_quic: bool) {
        self.ja4.get_or_init(|| Ja4::of(hello, is_quic));
    }

    /// Ends the handshake with the alert `protocol_version`.
    pub(crate) fn refuse_version(&self) {
        self.refuses_version.store(true, Relaxed);
    }

    /// Whether the handshake ends with the alert `protocol_version`.
    pub(crate) fn refuses_version(&self) -> bool {
        self.refuses_version.load(Relaxed)
    }

    /// The check of the client's transport parameters, over QUIC.
    pub(crate) fn parameters(&self) -> &ParameterCheck {
        &self.parameters
    }

    /// Sets the client, for the log of a keyserver.
    pub(crate) fn set_client(&self, client: Option<IpAddr>) {
        self.client.get_or_init(|| client);
    }

    /// Takes the operation of a remote key that the handshake is to wait for.
    pub(crate) fn take_remote_operation(&self) -> Option<RemoteOperation> {
        let mut remote = self.remote();
        match std::mem::take(&mut *remote) {
            RemoteState::Wanted(operation) => Some(operation),
            other => {
                *remote = other;
                None
            }
        }
    }

    /// Stores the answer for the next call of the library.
    pub(crate) fn set_answer(&self, answer: Result<Vec<u8>, RemoteKeyError>) {
        *self.remote() = RemoteState::Answered(answer);
    }

    fn take_answer(&self) -> Option<Result<Vec<u8>, RemoteKeyError>> {
        match std::mem::take(&mut *self.remote()) {
            RemoteState::Answered(answer) => Some(answer),
            RemoteState::Idle | RemoteState::Wanted(_) => None,
        }
    }

    fn consume_permit(&self) -> bool {
        self.has_permit.swap(false, Relaxed)
    }

    fn signed_for(&self, duration: Duration) {
        let nanoseconds = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        self.signing_nanoseconds.fetch_add(nanoseconds, Relaxed);
    }

    fn remote(&self) -> MutexGuard<'_, RemoteState> {
        self.remote.lock().unpoisoned()
    }

    fn lock(&self) -> MutexGuard<'_, Option<PendingOperation>> {
        self.waiting.lock().unpoisoned()
    }
}

/// Attaches [`HandshakeProgress`] to a new connection. Without it, signatures need no permit and are not timed.
pub(crate) fn attach_progress(ssl: &mut SslRef) {
    if let Some(index) = progress_index() {
        ssl.set_ex_data(index, HandshakeProgress::default());
    }
}

/// The progress of a connection.
pub(crate) fn progress(ssl: &SslRef) -> Option<&HandshakeProgress> {
    ssl.ex_data(progress_index()?)
}

fn progress_index() -> Option<Index<Ssl, HandshakeProgress>> {
    static INDEX: OnceLock<Option<Index<Ssl, HandshakeProgress>>> = OnceLock::new();
    *INDEX.get_or_init(|| Ssl::new_ex_index().ok())
}
