//! The end of a response that is in the socket buffer because the client has not acknowledged it.

use std::time::{Duration, Instant};

use penstock_config::limits;
use penstock_sys::ConnectedSocket;
use penstock_sys::socket::unacknowledged;
use rustix::net::sockopt::set_socket_linger;
use tokio::time::sleep;

use crate::clients::ClientBudget;

/// Bytes of a connection that its client has not acknowledged; none on a connection that has ended.
pub(crate) fn unacknowledged_bytes(socket: &ConnectedSocket) -> u64 {
    // The kernel does not reset the number when the client resets the connection.
    if socket.peer_addr().is_err() {
        return 0;
    }
    unacknowledged(socket).unwrap_or(0)
}

/// Has the kernel drop what the client has not acknowledged when the socket is closed. Otherwise it would keep those bytes, up to
/// the whole socket buffer, for minutes without the server.
pub(crate) fn drop_unacknowledged(socket: &ConnectedSocket) {
    if let Err(error) = set_socket_linger(socket, Some(Duration::ZERO)) {
        tracing::debug!(%error, "the end of a response is left to the kernel");
    }
}

/// A response that was given to the kernel whole. The rest of its budget goes on to bound how long the client may leave the
/// end in the socket buffer.
#[derive(Debug)]
pub(crate) struct Unacknowledged {
    budget: ClientBudget,
    /// Bytes of the response.
    sent: u64,
    since: Instant,
}

impl Unacknowledged {
    /// `since` is when the kernel had all of it.
    pub(crate) fn new(budget: ClientBudget, sent: u64, since: Instant) -> Self {
        Self { budget, sent, since }
    }

    /// Bytes of the response.
    pub(crate) fn sent(&self) -> u64 {
        self.sent
    }

    /// When [`Self::is_given_up`] is to be asked next; `None` without a limit.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.budget.left().map(|left| self.since + left)
    }

    /// Whether the client has been too slow, with this many bytes unacknowledged.
    pub(crate) fn is_given_up(&mut self, unacknowledged: u64) -> bool {
        let now = Instant::now();
        self.budget.spend(now.saturating_duration_since(self.since));
        self.since = now;
        unacknowledged > 0 && !self.budget.earn(self.sent.saturating_sub(unacknowledged))
    }

    /// Waits until the client has acknowledged everything. Has the kernel drop the rest if the client is too slow.
    pub(crate) async fn until_acknowledged(mut self, socket: &ConnectedSocket) {
        let step = Duration::from_millis(limits::DEADLINE_CHECK_MILLISECONDS);
        loop {
            let unacknowledged = unacknowledged_bytes(socket);
            if unacknowledged == 0 {
                return;
            }
            if self.is_given_up(unacknowledged) {
                return drop_unacknowledged(socket);
            }
            sleep(step).await;
        }
    }
}
