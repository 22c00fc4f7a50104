//! What has come for a connection and was not taken yet.

use std::cell::RefCell;

use penstock_config::limits;
use penstock_http3::NetworkPath;
use tokio::sync::Notify;

/// Datagrams of one connection, from the task that receives to the task of the connection.
#[derive(Debug, Default)]
pub(super) struct Inbox {
    waiting: RefCell<Waiting>,
    arrived: Notify,
}

#[derive(Debug, Default)]
struct Waiting {
    bytes: Vec<u8>,
    /// The length of each datagram, and its path.
    datagrams: Vec<(usize, NetworkPath)>,
}

impl Inbox {
    /// Adds a datagram. Returns false if it does not fit: QUIC takes it for lost.
    pub(super) fn add(&self, datagram: &[u8], path: NetworkPath) -> bool {
        let mut waiting = self.waiting.borrow_mut();
        if waiting.bytes.len() + datagram.len() > limits::HTTP3_INBOX_BYTES {
            return false;
        }
        waiting.bytes.extend_from_slice(datagram);
        waiting.datagrams.push((datagram.len(), path));
        drop(waiting);
        self.arrived.notify_one();
        true
    }

    /// Gives all datagrams to `take`. Returns whether there were any.
    pub(super) fn take(&self, mut take: impl FnMut(&mut [u8], NetworkPath)) -> bool {
        let mut waiting = self.waiting.borrow_mut();
        let Waiting { bytes, datagrams } = &mut *waiting;
        let has_any = !datagrams.is_empty();
        let mut rest = &mut bytes[..];
        for (length, path) in datagrams.drain(..) {
            let (datagram, behind) = rest.split_at_mut(length.min(rest.len()));
            take(datagram, path);
            rest = behind;
        }
        bytes.clear();
        has_any
    }

    /// Waits until something has come.
    pub(super) async fn arrived(&self) {
        self.arrived.notified().await;
    }

    /// Gives back memory that an idle connection does not need.
    pub(super) fn release_memory(&self) {
        let mut waiting = self.waiting.borrow_mut();
        if waiting.datagrams.is_empty() {
            *waiting = Waiting::default();
        }
    }
}
