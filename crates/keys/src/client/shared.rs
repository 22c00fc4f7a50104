//! State that the workers and the thread of the connections share.

use std::sync::atomic::AtomicUsize;

use penstock_tls::remote_key::RemoteKeyError;

use crate::counters::{Fallbacks, SignerCounters};

/// State that the workers and the thread share.
#[derive(Debug)]
pub(super) struct ClientState {
    pub(super) names: Vec<String>,
    pub(super) servers: Vec<SignerCounters>,
    pub(super) under_way: AtomicUsize,
    pub(super) fallbacks: Fallbacks,
}

impl ClientState {
    /// Counts an operation that was sent to no server, under the first of the group.
    pub(super) fn not_sent(&self) {
        if let Some(first) = self.servers.first() {
            first.ended(Err(RemoteKeyError::Unavailable));
        }
    }
}
