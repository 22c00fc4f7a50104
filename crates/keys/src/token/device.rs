//! What the threads of a token need of its module.

use std::fmt;

use penstock_tls::SignatureKind;
use penstock_tls::pkcs11_uri::ObjectName;
use penstock_tls::remote_key::{PublicKey, RemoteKeyError};

use crate::protocol::ErrorCode;

/// A token. Its calls may block, and for as long as the module likes.
pub(crate) trait Device: Send + Sync + 'static {
    /// Opens a session and logs in.
    fn open(&self) -> Result<Box<dyn TokenSession>, TokenFault>;
}

/// A session with a token, used by one thread.
pub(crate) trait TokenSession {
    /// Looks for a private key; returns the public key, if the token shows it.
    fn look(&mut self, key: &ObjectName) -> Result<Option<PublicKey>, TokenFault>;

    /// Signs a digest: a signature as TLS needs it.
    fn sign(&mut self, key: &ObjectName, kind: SignatureKind, digest: &[u8]) -> Result<Vec<u8>, TokenFault>;

    /// Forgets what it knows of a key, which may be another one now.
    fn forget(&mut self, key: &ObjectName);
}

/// Why a token does not sign.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum TokenFault {
    /// The session, the token or the module is gone; another session may work.
    Lost(String),
    /// There is no such private key, or there are several.
    Keys(usize),
    /// The key or the token cannot make this kind of signature.
    WrongKind,
    /// The key wants a login before each signature.
    LoginEach,
    /// The operation failed otherwise.
    Failed(String),
}

impl TokenFault {
    /// What the handshake is told, in the words of the keyless protocol.
    pub(crate) fn error(&self) -> RemoteKeyError {
        match self {
            Self::Lost(_) => RemoteKeyError::Unavailable,
            Self::Keys(_) => RemoteKeyError::Refused(ErrorCode::KeyNotFound as u8),
            Self::WrongKind | Self::LoginEach => RemoteKeyError::Refused(ErrorCode::BadOpcode as u8),
            Self::Failed(_) => RemoteKeyError::Refused(ErrorCode::Cryptography as u8),
        }
    }
}

impl fmt::Display for TokenFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Lost(why) | Self::Failed(why) => f.write_str(why),
            Self::Keys(0) => f.write_str("it has no such private key"),
            Self::Keys(count) => write!(f, "it has {count} private keys of that name; add id to the URI"),
            Self::LoginEach => f.write_str(
                "its key wants a login before each signature (CKA_ALWAYS_AUTHENTICATE), which is not supported; make a \
                 key without this attribute",
            ),
            Self::WrongKind => f.write_str("its key cannot make this kind of signature"),
        }
    }
}
