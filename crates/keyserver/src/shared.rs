//! State that the connections, the signing threads and the console share.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Instant;

use arc_swap::{ArcSwap, ArcSwapOption};

use crate::access_log::AccessLog;
use crate::clients::Clients;
use crate::counters::Counters;
use crate::keyring::Keyring;
use crate::pool::Pool;
use crate::tokens::Tokens;

/// State that the connections, the signing threads and the console share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) keyring: ArcSwap<Keyring>,
    pub(crate) tokens: ArcSwap<Tokens>,
    pub(crate) clients: ArcSwap<Clients>,
    pub(crate) access_log: ArcSwapOption<AccessLog>,
    pub(crate) legacy_hashes: AtomicBool,
    pub(crate) counters: Counters,
    pub(crate) pool: Pool,
    pub(crate) threads: usize,
    pub(crate) started: Instant,
}

impl Shared {
    /// Writes a line, if there is an access log.
    pub(crate) fn log(&self, line: impl FnOnce() -> serde_json::Value) {
        if let Some(log) = &*self.access_log.load()
            && !log.write(&line())
        {
            self.counters.log_dropped.fetch_add(1, Relaxed);
        }
    }
}
