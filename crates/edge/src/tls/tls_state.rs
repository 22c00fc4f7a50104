//! State of handshakes that outlives a reload: sessions and staples.

use std::sync::Arc;
use std::time::Instant;

use penstock_acme::AcmeStatus;
use penstock_config::limits;
use penstock_fleet::Fleet;
use penstock_tls::ocsp::Staples;
use penstock_tls::session_cache::{SessionCache, SessionCacheLimits};
use penstock_tls::session_store::InternalStore;

/// Shared by all workers and by every generation of settings.
#[derive(Clone, Debug)]
pub(crate) struct TlsState {
    /// Sessions of TLS 1.2 for clients without tickets.
    pub(crate) sessions: Arc<InternalStore>,
    /// OCSP responses by certificate.
    pub(crate) staples: Arc<Staples>,
    /// Orders of certificates.
    pub(crate) orders: Arc<AcmeStatus>,
    /// What is shared with other edges; `None` if nothing is.
    pub(crate) fleet: Option<Arc<Fleet>>,
}

impl TlsState {
    /// Empty state of a member of `fleet`.
    pub(crate) fn begin(now: Instant, fleet: Option<Arc<Fleet>>) -> Self {
        let cache = SessionCache::new(SessionCacheLimits {
            sessions: limits::SESSION_CACHE_SESSIONS,
            bytes: limits::SESSION_CACHE_BYTES,
            lifetime_seconds: limits::SESSION_LIFETIME_SECONDS,
            shards: limits::SESSION_CACHE_SHARDS,
        });
        Self {
            sessions: Arc::new(InternalStore::new(cache, now)),
            staples: Arc::default(),
            orders: Arc::default(),
            fleet,
        }
    }

    /// Frees some of the expired sessions. Called about once a second.
    pub(crate) fn sweep(&self) {
        self.sessions.sweep();
    }
}
