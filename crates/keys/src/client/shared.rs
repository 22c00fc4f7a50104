//! State that the workers and the thread of the connections share.

use std::sync::atomic::AtomicUsize;

use crate::counters::{Fallbacks, SignerCounters};

/// State that the workers and the thread share.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) names: Vec<String>,
    pub(super) servers: Vec<SignerCounters>,
    pub(super) under_way: AtomicUsize,
    pub(super) fallbacks: Fallbacks,
}
