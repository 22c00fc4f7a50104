//! Private key operations: a step of the handshake that waits for its turn and is timed.
//!
//! The library asks [`Signing`] for a signature. If the handshake has a turn (see [`Turns`](crate::turns::Turns)) it is
//! made at once; otherwise the library stops, and [`accept`](crate::Acceptor::accept) goes on when there is one.

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
use crate::rsa::RsaSigner;
use crate::shelf::Gate;

/// The private key of a certificate.
pub(crate) struct Signing {
    key: PKey<Private>,
    /// The same key for a faster signer, if it is of a kind for which there is one.
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

    /// Without a look at the padding.
    fn decrypt(&self, input: &[u8], output: &mut [u8]) -> Result<usize, ErrorStack> {
        self.key.rsa()?.private_decrypt(input, output, Padding::NONE)
    }

    /// Does one private key operation and notes how long it took.
    fn timed(
        progress: Option<&Progress>,
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
        if let Some(progress) = progress.filter(|progress| !progress.spend_turn()) {
            *progress.lock() = Some(Waiting::Signature(algorithm, input.to_vec()));
            return Err(PrivateKeyMethodError::RETRY);
        }
        Self::timed(progress, || self.sign(algorithm, input, output))
    }

    /// Only suites without forward secrecy decrypt with the private key. The library looks at what comes out, and so
    /// that its time tells nothing (RFC 5246 §7.4.7.1).
    fn decrypt(
        &self,
        ssl: &mut SslRef,
        input: &[u8],
        output: &mut [u8],
    ) -> Result<usize, PrivateKeyMethodError> {
        let progress = progress(ssl);
        if let Some(progress) = progress.filter(|progress| !progress.spend_turn()) {
            *progress.lock() = Some(Waiting::Decryption(input.to_vec()));
            return Err(PrivateKeyMethodError::RETRY);
        }
        Self::timed(progress, || self.decrypt(input, output))
    }

    fn complete(&self, ssl: &mut SslRef, output: &mut [u8]) -> Result<usize, PrivateKeyMethodError> {
        let progress = progress(ssl).ok_or(PrivateKeyMethodError::FAILURE)?;
        if !progress.spend_turn() {
            return Err(PrivateKeyMethodError::RETRY);
        }
        let waiting = progress.lock().take().ok_or(PrivateKeyMethodError::FAILURE)?;
        Self::timed(Some(progress), || match waiting {
            Waiting::Signature(algorithm, input) => self.sign(algorithm, &input, output),
            Waiting::Decryption(input) => self.decrypt(&input, output),
        })
    }
}

/// The input of an operation of the private key that waits for its turn.
#[derive(Debug)]
enum Waiting {
    Signature(SslSignatureAlgorithm, Vec<u8>),
    Decryption(Vec<u8>),
}

/// What one handshake may do now, and what it has done.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    has_turn: AtomicBool,
    waiting: Mutex<Option<Waiting>>,
    signing_nanoseconds: AtomicU64,
    /// Where the handshake waits for its certificate.
    gate: Mutex<Option<Gate>>,
    ja4: OnceLock<Option<Ja4>>,
}

impl Progress {
    /// Says whether the next call of the library may make a signature.
    pub(crate) fn set_turn(&self, has_turn: bool) {
        self.has_turn.store(has_turn, Relaxed);
    }

    /// Whether a signature may be made now.
    pub(crate) fn has_turn(&self) -> bool {
        self.has_turn.load(Relaxed)
    }

    /// How long the private key was at work.
    pub(crate) fn signing(&self) -> Duration {
        Duration::from_nanos(self.signing_nanoseconds.load(Relaxed))
    }

    /// Has the handshake wait until its certificate has been read.
    pub(crate) fn set_gate(&self, gate: Gate) {
        *self.gate.lock().unwrap_or_else(PoisonError::into_inner) = Some(gate);
    }

    /// What the handshake waits for, if that is its certificate.
    pub(crate) fn take_gate(&self) -> Option<Gate> {
        self.gate.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// What the ClientHello tells about its software, where that is asked for.
    pub(crate) fn ja4(&self) -> Option<Ja4> {
        self.ja4.get().copied().flatten()
    }

    /// Reads that from the first ClientHello; the callback may come several times.
    pub(crate) fn note_ja4(&self, hello: &[u8]) {
        self.ja4.get_or_init(|| Ja4::of(hello));
    }

    fn spend_turn(&self) -> bool {
        self.has_turn.swap(false, Relaxed)
    }

    fn signed_for(&self, duration: Duration) {
        let nanoseconds = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        self.signing_nanoseconds.fetch_add(nanoseconds, Relaxed);
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<Waiting>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Gives a new connection its [`Progress`]; without it signatures are made at once and not timed.
pub(crate) fn attach_progress(ssl: &mut SslRef) {
    if let Some(index) = progress_index() {
        ssl.set_ex_data(index, Progress::default());
    }
}

/// The progress of a connection.
pub(crate) fn progress(ssl: &SslRef) -> Option<&Progress> {
    ssl.ex_data(progress_index()?)
}

fn progress_index() -> Option<Index<Ssl, Progress>> {
    static INDEX: OnceLock<Option<Index<Ssl, Progress>>> = OnceLock::new();
    *INDEX.get_or_init(|| Ssl::new_ex_index().ok())
}

/// Signs as RFC 8446 §4.2.3 names it. The library has made sure that the algorithm suits the key.
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
        // Ed25519 hashes by itself.
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
