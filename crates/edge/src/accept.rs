//! Accepts connections: the loop of one listener, the limits that apply before the handshake, and the reserve descriptor.
mod establish;

use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use penstock_config::limits;
use penstock_sys::ConnectedSocket;
use penstock_tls::HttpVersions;
use tokio::sync::oneshot;

use crate::accept::establish::{establish, establish_plain};
use crate::clients::{AcceptQueue, OpenConnection};
use crate::metrics::Refusal;
use crate::settings::PendingChange;
use crate::worker::{Listening, Worker, WorkerConnection};
use crate::{http1, http2};

/// An accepted socket, and the address of its client.
type Accepted = (ConnectedSocket, SocketAddr);

/// Serves an accepted socket, or closes it because a limit is reached.
fn take_in(
    worker: &Rc<Worker>,
    listening: &Listening,
    (socket, peer): Accepted,
    open: Option<OpenConnection>,
) {
    if listening.tls && worker.is_full_of_handshakes() {
        return worker.shard.refused(Refusal::Handshakes);
    }
    let Some(open) = open else { return worker.shard.refused(Refusal::Limit) };
    let counted = WorkerConnection::count(worker, listening.id, open);
    let (worker, listening) = (Rc::clone(worker), listening.clone());
    penstock_content::spawn(async move {
        let counted = counted;
        // Boxed, and dropped before the first request: an idle connection must not carry its handshake.
        let handshaking = listening.tls.then(|| worker.handshakes.enter());
        let connection = match listening.tls || listening.proxy_protocol {
            true => Box::pin(establish(&worker, &listening, socket, peer)).await,
            false => establish_plain(&worker, &listening, socket, peer),
        };
        drop(handshaking);
        if let Some((connection, place)) = connection {
            let goes_on_as_http2 = match connection.versions {
                // Boxed: a connection must not carry the memory that the other protocol needs.
                HttpVersions { h1: true, .. } => Box::pin(http1::serve(connection)).await,
                HttpVersions { h1: false, .. } => Some(connection),
            };
            if let Some(connection) = goes_on_as_http2 {
                Box::pin(http2::serve(connection)).await;
            }
            drop(place);
        }
        drop(counted);
    });
}

/// Accepts on one listener until `closing` is dropped or sent to, then takes in the connections in its queue.
pub(crate) async fn accept(
    worker: Rc<Worker>,
    mut queue: AcceptQueue,
    listening: Listening,
    closing: oneshot::Receiver<PendingChange>,
) {
    let mut accepted = None;
    let change = tokio::select! {
        biased;
        change = closing => change.ok(),
        () = accept_for_ever(&worker, &mut queue, &listening, &mut accepted) => None,
    };
    if let Some(accepted) = accepted {
        take_in(&worker, &listening, accepted, worker.try_count_connection());
    }
    // Closing the socket would reset the connections in its queue. The system is asked itself: the runtime may not have
    // noticed the last ones yet. Those that come later to a socket that a successor has are the successor's.
    for _ in 0..=listening.backlog {
        let Ok(Some(accepted)) = queue.try_accept() else { break };
        take_in(&worker, &listening, accepted, worker.try_count_connection());
    }
    drop(queue);
    drop(change);
}

/// Accepts until it is dropped; `accepted` has the socket that waits for the end of another connection then.
#[expect(clippy::infinite_loop, reason = "ended by dropping it")]
async fn accept_for_ever(
    worker: &Rc<Worker>,
    queue: &mut AcceptQueue,
    listening: &Listening,
    accepted: &mut Option<Accepted>,
) {
    let mut reserve = Reserve::new();
    let mut in_a_row = 0;
    loop {
        match queue.accept().await {
            Ok(socket) => {
                *accepted = Some(socket);
                // No idle connection ends for one that is refused.
                let refused = listening.tls && worker.is_full_of_handshakes();
                let open = if refused { None } else { worker.count_connection().await };
                if let Some(socket) = accepted.take() {
                    take_in(worker, listening, socket, open);
                }
                in_a_row += 1;
                if in_a_row >= limits::ACCEPTS_PER_TURN {
                    in_a_row = 0;
                    tokio::task::yield_now().await;
                }
            }
            Err(error) if is_out_of_descriptors(&error) => {
                worker.shard.accept_error("out_of_descriptors");
                reserve.refuse_one(worker, queue).await;
            }
            // The client closed while it waited in the queue.
            Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {
                worker.shard.accept_error("aborted");
            }
            Err(error) => {
                worker.shard.accept_error("other");
                tracing::debug!(%error, "accept failed");
                tokio::time::sleep(Duration::from_millis(limits::ACCEPT_RETRY_MILLISECONDS)).await;
            }
        }
    }
}

fn is_out_of_descriptors(error: &io::Error) -> bool {
    let errno = rustix::io::Errno::from_io_error(error);
    matches!(errno, Some(rustix::io::Errno::MFILE | rustix::io::Errno::NFILE))
}

/// A descriptor in reserve for when all others are in use: without it, waiting connections could be neither accepted nor
/// refused, and the listener would stay readable.
struct Reserve(Option<std::fs::File>);

impl Reserve {
    fn new() -> Self {
        Self(std::fs::File::open("/dev/null").ok())
    }

    /// Closes the reserve to accept one connection, closes that, and opens the reserve again.
    async fn refuse_one(&mut self, worker: &Worker, queue: &AcceptQueue) {
        self.0 = None;
        if let Ok(Some(connection)) = queue.try_accept() {
            drop(connection);
            worker.shard.refused(Refusal::Descriptors);
        }
        self.0 = std::fs::File::open("/dev/null").ok();
        if self.0.is_none() {
            // Another thread took the descriptor; connections get time to end.
            tokio::time::sleep(Duration::from_millis(limits::ACCEPT_RETRY_MILLISECONDS)).await;
        }
    }
}
