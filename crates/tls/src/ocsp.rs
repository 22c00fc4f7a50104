//! OCSP responses stapled to certificates (RFC 6066 §8, RFC 6960).
//!
//! A response is checked like a client would before it is stapled, and its age again at every handshake. A stale or wrong
//! staple makes clients fail; a missing one does not.

mod identity;
mod response;
pub mod schedule;
mod staple;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock, RwLock};
use std::time::SystemTime;

use boring::error::ErrorStack;
use boring::ex_data::Index;
use boring::ssl::{SslContext, SslContextBuilder, SslRef};
use penstock_sys::lock::Unpoisoned;

use crate::certificate::Certificate;
pub use identity::{NoIdentity, OcspIdentity};
pub use response::{StapleFault, check};
pub use staple::Staple;

/// A certificate and the response that goes with it.
#[derive(Debug)]
pub struct Stapled {
    /// The SHA-256 digest of the certificate, its key across reloads.
    pub fingerprint: Fingerprint,
    /// Its first name, for messages.
    pub name: String,
    /// The kind of its key, for metrics.
    pub kind: &'static str,
    /// The certificate and issuer against which a response is checked.
    pub identity: Result<OcspIdentity, NoIdentity>,
    current: RwLock<Option<Arc<Staple>>>,
}

/// The SHA-256 digest of a certificate.
pub type Fingerprint = [u8; 32];

impl Stapled {
    /// Replaces the staple; `None` removes it.
    pub fn replace(&self, staple: Option<Staple>) {
        *self.current.write().unpoisoned() = staple.map(Arc::new);
    }

    /// The staple, unless it is stale.
    pub fn current(&self, now: SystemTime) -> Option<Arc<Staple>> {
        let current = self.current.read().unpoisoned();
        current.as_ref().filter(|staple| now < staple.next_update).map(Arc::clone)
    }
}

/// All certificates with their staples. It outlives reloads.
#[derive(Debug, Default)]
pub struct Staples {
    by_fingerprint: Mutex<HashMap<Fingerprint, Arc<Stapled>>>,
}

impl Staples {
    /// The entry of a certificate; a certificate that is loaded again has the same entry.
    pub fn of(&self, certificate: &Certificate) -> Arc<Stapled> {
        let fingerprint = certificate.fingerprint();
        let mut entries = self.by_fingerprint.lock().unpoisoned();
        let entry = entries.entry(fingerprint).or_insert_with(|| {
            Arc::new(Stapled {
                fingerprint,
                name: certificate.names().first().cloned().unwrap_or_default(),
                kind: certificate.kind().label(),
                identity: OcspIdentity::of_certificate(certificate),
                current: RwLock::new(None),
            })
        });
        Arc::clone(entry)
    }

    /// All entries in a stable order.
    pub fn all(&self) -> Vec<Arc<Stapled>> {
        let entries = self.by_fingerprint.lock().unpoisoned();
        let mut all: Vec<_> = entries.values().map(Arc::clone).collect();
        all.sort_by_key(|entry| entry.fingerprint);
        all
    }

    /// Removes entries of unused certificates, except those with a valid staple, which a reload may need.
    pub fn prune(&self, now: SystemTime) {
        let mut entries = self.by_fingerprint.lock().unpoisoned();
        entries.retain(|_, entry| Arc::strong_count(entry) > 1 || entry.current(now).is_some());
    }
}

fn index() -> Option<Index<SslContext, Arc<Stapled>>> {
    static INDEX: OnceLock<Option<Index<SslContext, Arc<Stapled>>>> = OnceLock::new();
    *INDEX.get_or_init(|| SslContext::new_ex_index().ok())
}

/// Attaches the staple of its certificate to a context.
pub(crate) fn attach(builder: &mut SslContextBuilder, stapled: Arc<Stapled>) {
    if let Some(index) = index() {
        builder.set_ex_data(index, stapled);
    }
}

/// Staples the current response to the certificate of this connection; returns false if there is none.
pub(crate) fn staple(ssl: &mut SslRef, now: SystemTime) -> Result<bool, ErrorStack> {
    let stapled = index().and_then(|index| ssl.ssl_context().ex_data(index));
    match stapled.and_then(|stapled| stapled.current(now)) {
        Some(staple) => ssl.set_ocsp_status(&staple.response).map(|()| true),
        None => Ok(false),
    }
}
