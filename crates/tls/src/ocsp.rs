//! OCSP responses that are sent with certificates (RFC 6066 §8, RFC 6960).
//!
//! A response is looked at as clients will look at it before it is stapled, and again at every handshake for its age:
//! a stale one, or one for another certificate, ends handshakes, and none at all does not.

mod identity;
mod response;
pub mod schedule;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock};
use std::time::SystemTime;

use boring::error::ErrorStack;
use boring::ex_data::Index;
use boring::ssl::{SslContext, SslContextBuilder, SslRef};

use crate::certificate::Certificate;
pub use identity::{Identity, NoIdentity};
pub use response::{Fault, check};

/// A response that may be stapled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Staple {
    pub(crate) response: Vec<u8>,
    /// When its responder last knew the status for sure.
    pub this_update: SystemTime,
    /// When it has to be replaced at the latest.
    pub next_update: SystemTime,
}

/// A certificate and the response that goes with it.
#[derive(Debug)]
pub struct Stapled {
    /// The SHA-256 digest of the certificate, by which it is known across reloads.
    pub fingerprint: Fingerprint,
    /// Its first name, for people.
    pub name: String,
    /// The kind of its key, for metrics.
    pub kind: &'static str,
    /// What a response is checked against.
    pub identity: Result<Identity, NoIdentity>,
    current: RwLock<Option<Arc<Staple>>>,
}

/// The SHA-256 digest of a certificate.
pub type Fingerprint = [u8; 32];

impl Stapled {
    /// Sends this with the certificate from now on; `None` nothing.
    pub fn replace(&self, staple: Option<Staple>) {
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = staple.map(Arc::new);
    }

    /// What is sent with the certificate, if it has not become stale.
    pub fn current(&self, now: SystemTime) -> Option<Arc<Staple>> {
        let current = self.current.read().unwrap_or_else(PoisonError::into_inner);
        current.as_ref().filter(|staple| now < staple.next_update).map(Arc::clone)
    }
}

/// Every certificate that clients have been or may be shown, with what is stapled to it. It outlives reloads.
#[derive(Debug, Default)]
pub struct Staples {
    by_fingerprint: Mutex<HashMap<Fingerprint, Arc<Stapled>>>,
}

impl Staples {
    /// The entry of a certificate; the same for the same certificate loaded again.
    pub fn of(&self, certificate: &Certificate) -> Arc<Stapled> {
        let fingerprint = certificate.fingerprint();
        let mut entries = self.by_fingerprint.lock().unwrap_or_else(PoisonError::into_inner);
        let entry = entries.entry(fingerprint).or_insert_with(|| {
            Arc::new(Stapled {
                fingerprint,
                name: certificate.names().first().cloned().unwrap_or_default(),
                kind: certificate.kind().label(),
                identity: certificate.ocsp_identity(),
                current: RwLock::new(None),
            })
        });
        Arc::clone(entry)
    }

    /// All of them, in a steady order.
    pub fn all(&self) -> Vec<Arc<Stapled>> {
        let entries = self.by_fingerprint.lock().unwrap_or_else(PoisonError::into_inner);
        let mut all: Vec<_> = entries.values().map(Arc::clone).collect();
        all.sort_by_key(|entry| entry.fingerprint);
        all
    }

    /// Forgets certificates that no settings use any more, except those whose staple a reload may still want.
    pub fn prune(&self, now: SystemTime) {
        let mut entries = self.by_fingerprint.lock().unwrap_or_else(PoisonError::into_inner);
        entries.retain(|_, entry| Arc::strong_count(entry) > 1 || entry.current(now).is_some());
    }
}

fn index() -> Option<Index<SslContext, Arc<Stapled>>> {
    static INDEX: OnceLock<Option<Index<SslContext, Arc<Stapled>>>> = OnceLock::new();
    *INDEX.get_or_init(|| SslContext::new_ex_index().ok())
}

/// Has the connections of this context find what is stapled to their certificate.
pub(crate) fn keep(builder: &mut SslContextBuilder, stapled: Arc<Stapled>) {
    if let Some(index) = index() {
        builder.set_ex_data(index, stapled);
    }
}

/// Staples to the certificate of this connection what there is; false if there is nothing.
pub(crate) fn staple(ssl: &mut SslRef, now: SystemTime) -> Result<bool, ErrorStack> {
    let stapled = index().and_then(|index| ssl.ssl_context().ex_data(index));
    match stapled.and_then(|stapled| stapled.current(now)) {
        Some(staple) => ssl.set_ocsp_status(&staple.response).map(|()| true),
        None => Ok(false),
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Malformed => "it is not an OCSP response",
            Self::Refused => "the responder refused to answer",
            Self::WrongCertificate => "it speaks of another certificate",
            Self::BadSignature => "its signature does not verify",
            Self::WrongResponder => "it is signed by somebody who may not speak for this issuer",
            Self::Early => "it is not valid yet",
            Self::Stale => "it is stale",
            Self::Revoked => "it says that the certificate is revoked",
            Self::Unknown => "it says that the responder does not know the certificate",
        })
    }
}
