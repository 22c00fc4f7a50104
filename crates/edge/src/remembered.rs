//! What handshakes remember of earlier ones, and a reload does not end.

use std::sync::Arc;
use std::time::Instant;

use penstock_config::limits;
use penstock_tls::ocsp::Staples;
use penstock_tls::session_cache::{SessionCache, SessionCacheLimits};
use penstock_tls::session_store::InternalStore;

/// Shared by all workers and by every generation of settings.
#[derive(Clone, Debug)]
pub(crate) struct Remembered {
    /// Sessions of TLS 1.2 for clients without tickets.
    pub(crate) sessions: Arc<InternalStore>,
    /// What is stapled to certificates.
    pub(crate) staples: Arc<Staples>,
}

impl Remembered {
    /// Nothing yet.
    pub(crate) fn begin(now: Instant) -> Self {
        let cache = SessionCache::new(SessionCacheLimits {
            sessions: limits::SESSION_CACHE_SESSIONS,
            bytes: limits::SESSION_CACHE_BYTES,
            lifetime_seconds: limits::SESSION_LIFETIME_SECONDS,
            shards: limits::SESSION_CACHE_SHARDS,
        });
        Self { sessions: Arc::new(InternalStore::new(cache, now)), staples: Arc::default() }
    }

    /// Gives back a part of what is of no use any more. Called about once a second.
    pub(crate) fn sweep(&self) {
        self.sessions.sweep();
    }
}
