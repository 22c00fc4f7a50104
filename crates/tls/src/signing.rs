//! Private key operations: timed, and allowed by a permit.
//!
//! The library asks [`Signing`] for a signature. With a permit of the [`SigningLimiter`](crate::SigningLimiter) it is made
//! at once; otherwise the library suspends, and [`Acceptor::accept`](crate::Acceptor::accept) resumes with a permit.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use boring::error::ErrorStack;
use boring::ex_data::Index;
use boring::hash::MessageDigest;
use boring::nid::Nid;
use boring::pkey::{PKey, Private};
use boring::rsa::Padding;
use boring::sign::{RsaPssSaltlen, Signer};
use boring::ssl::{PrivateKeyMethod, PrivateKeyMethodError, Ssl, SslRef, SslSignatureAlgorithm};

use crate::ecdsa::EcdsaSigner;
use crate::ja4::Ja4;
use crate::load_signal::LoadSignal;
use crate::rsa::RsaSigner;

/// The private key of a certificate.
pub(crate) struct Signing {
    key: PKey<Private>,
    /// Faster implementations for the same key, by its kind.
    rsa: Option<RsaSigner>,
    ecdsa: Option<EcdsaSigner>,
}

impl Signing {
    pub(crate) fn with(key: PKey<Private>) -> Self {
        let (rsa, ecdsa) = (RsaSigner::of(&key), EcdsaSigner::of(&key));
        Self { key, rsa, ecdsa }
    }

    fn sign(
        &self,
        algorithm: SslSignatureAlgorithm,
        input: &[u8],
        output: &mut [u8],
    ) -> Result<usize, ErrorStack> {
        let fast = match (&self.ecdsa, &self.rsa) {
            (Some(ecdsa), _) => ecdsa.sign(algorithm, input, output),
            (None, Some(rsa)) => rsa.sign(algorithm, input, output),
            (None, None) => None,
        };
        fast.map_or_else(|| sign(&self.key, algorithm, input, output), Ok)
    }

    /// Decrypts without checking the padding, which the library does.
    fn decrypt(&self, input: &[u8], output: &mut [u8]) -> Result<usize, ErrorStack> {
        self.key.rsa()?.private_decrypt(input, output, Padding::NONE)
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
}

impl PrivateKeyMethod for Signing {
    fn sign(
        &self,
        ssl: &mut SslRef,
        input: &[u8],
        algorithm: SslSignatureAlgorithm,
        output: &mut [u8],
    ) -> Result<usize, PrivateKeyMethodError> {
        let progress = progress(ssl);
        if let Some(progress) = progress.filter(|progress| !progress.consume_permit()) {
            *progress.lock() = Some(PendingOperation::Signature(algorithm, input.to_vec()));
            return Err(PrivateKeyMethodError::RETRY);
        }
        Self::timed(progress, || self.sign(algorithm, input, output))
    }

    /// Used by suites without forward secrecy only. The library checks the result in constant time
    /// (RFC 5246 §7.4.7.1).
    fn decrypt(
        &self,
        ssl: &mut SslRef,
        input: &[u8],
        output: &mut [u8],
    ) -> Result<usize, PrivateKeyMethodError> {
        let progress = progress(ssl);
        if let Some(progress) = progress.filter(|progress| !progress.consume_permit()) {
            *progress.lock() = Some(PendingOperation::Decryption(input.to_vec()));
            return Err(PrivateKeyMethodError::RETRY);
        }
        Self::timed(progress, || self.decrypt(input, output))
    }

    fn complete(&self, ssl: &mut SslRef, output: &mut [u8]) -> Result<usize, PrivateKeyMethodError> {
        let progress = progress(ssl).ok_or(PrivateKeyMethodError::FAILURE)?;
        if !progress.consume_permit() {
            return Err(PrivateKeyMethodError::RETRY);
        }
        let waiting = progress.lock().take().ok_or(PrivateKeyMethodError::FAILURE)?;
        Self::timed(Some(progress), || match waiting {
            PendingOperation::Signature(algorithm, input) => self.sign(algorithm, &input, output),
            PendingOperation::Decryption(input) => self.decrypt(&input, output),
        })
    }
}

/// A private key operation that waits for a permit.
#[derive(Debug)]
enum PendingOperation {
    Signature(SslSignatureAlgorithm, Vec<u8>),
    Decryption(Vec<u8>),
}

/// State of one handshake between calls of the library.
#[derive(Debug, Default)]
pub(crate) struct HandshakeProgress {
    has_permit: AtomicBool,
    waiting: Mutex<Option<PendingOperation>>,
    signing_nanoseconds: AtomicU64,
    /// The load that the handshake waits for.
    pending_load: Mutex<Option<LoadSignal>>,
    ja4: OnceLock<Option<Ja4>>,
    refuses_version: AtomicBool,
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

    /// Suspends the handshake until its certificate has been loaded.
    pub(crate) fn set_pending_load(&self, signal: LoadSignal) {
        *self.pending_load.lock().unwrap_or_else(PoisonError::into_inner) = Some(signal);
    }

    /// Takes the signal of the load that the handshake waits for.
    pub(crate) fn take_pending_load(&self) -> Option<LoadSignal> {
        self.pending_load.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// The JA4 fingerprint, if the settings ask for it.
    pub(crate) fn ja4(&self) -> Option<Ja4> {
        self.ja4.get().copied().flatten()
    }

    /// Computes the fingerprint of the first ClientHello; later calls do nothing.
    pub(crate) fn note_ja4(&self, hello: &[u8]) {
        self.ja4.get_or_init(|| Ja4::of(hello));
    }

    /// Ends the handshake with the alert `protocol_version`.
    pub(crate) fn refuse_version(&self) {
        self.refuses_version.store(true, Relaxed);
    }

    /// Whether the handshake ends with the alert `protocol_version`.
    pub(crate) fn refuses_version(&self) -> bool {
        self.refuses_version.load(Relaxed)
    }

    fn consume_permit(&self) -> bool {
        self.has_permit.swap(false, Relaxed)
    }

    fn signed_for(&self, duration: Duration) {
        let nanoseconds = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        self.signing_nanoseconds.fetch_add(nanoseconds, Relaxed);
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<PendingOperation>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
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

/// Signs with a scheme of RFC 8446 §4.2.3. The library has checked that it suits the key.
fn sign(
    key: &PKey<Private>,
    algorithm: SslSignatureAlgorithm,
    input: &[u8],
    output: &mut [u8],
) -> Result<usize, ErrorStack> {
    let mut signer = match digest_of(algorithm) {
        Some(digest) => Signer::new(digest, key)?,
        None => Signer::new_without_digest(key)?,
    };
    if is_pss(algorithm) {
        signer.set_rsa_padding(Padding::PKCS1_PSS)?;
        signer.set_rsa_pss_saltlen(RsaPssSaltlen::DIGEST_LENGTH)?;
    }
    signer.sign_oneshot(output, input)
}

fn digest_of(algorithm: SslSignatureAlgorithm) -> Option<MessageDigest> {
    use SslSignatureAlgorithm as Scheme;
    match algorithm {
        Scheme::RSA_PKCS1_MD5_SHA1 => MessageDigest::from_nid(Nid::MD5_SHA1),
        Scheme::RSA_PKCS1_SHA1 | Scheme::ECDSA_SHA1 => Some(MessageDigest::sha1()),
        Scheme::RSA_PKCS1_SHA256 | Scheme::ECDSA_SECP256R1_SHA256 | Scheme::RSA_PSS_RSAE_SHA256 => {
            Some(MessageDigest::sha256())
        }
        Scheme::RSA_PKCS1_SHA384 | Scheme::ECDSA_SECP384R1_SHA384 | Scheme::RSA_PSS_RSAE_SHA384 => {
            Some(MessageDigest::sha384())
        }
        Scheme::RSA_PKCS1_SHA512 | Scheme::ECDSA_SECP521R1_SHA512 | Scheme::RSA_PSS_RSAE_SHA512 => {
            Some(MessageDigest::sha512())
        }
        // Ed25519 includes its hash.
        _ => None,
    }
}

fn is_pss(algorithm: SslSignatureAlgorithm) -> bool {
    use SslSignatureAlgorithm as Scheme;
    matches!(
        algorithm,
        Scheme::RSA_PSS_RSAE_SHA256 | Scheme::RSA_PSS_RSAE_SHA384 | Scheme::RSA_PSS_RSAE_SHA512
    )
}
