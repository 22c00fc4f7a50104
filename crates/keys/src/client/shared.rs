//! State that the workers and the thread of the connections share.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize};

use super::counters::ServerCounters;

/// State that the workers and the thread share.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) names: Vec<String>,
    pub(super) servers: Vec<ServerCounters>,
    pub(super) under_way: AtomicUsize,
    pub(super) fallbacks: AtomicU64,
    /// Whether the use of the local key has been logged since the last remote signature.
    pub(super) fallback_logged: AtomicBool,
}
