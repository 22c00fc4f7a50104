//! State that the connections, the signing threads and the console share.

use std::sync::atomic::AtomicBool;
use std::time::Instant;

use arc_swap::{ArcSwap, ArcSwapOption};
use penstock_access_log::AccessLog;

use crate::access_log::Operation;
use crate::clients::Clients;
use crate::counters::Counters;
use crate::keyring::Keyring;
use crate::pool::Pool;
use crate::tokens::Tokens;

/// State that the connections, the signing threads and the console share.
#[derive(Debug)]
pub(crate) struct KeyserverState {
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

impl KeyserverState {
    /// Logs an operation, if there is an access log.
    pub(crate) fn log(&self, operation: impl FnOnce() -> Operation) {
        if let Some(log) = &*self.access_log.load() {
            log.sink().line(operation().line());
        }
    }
}
