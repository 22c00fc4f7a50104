//! Accepts and serves the console's connections, within bounds of number, bytes and time.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::task::{AbortHandle, yield_now};

use crate::backend::Backend;
use crate::body::ConsoleBody;
use crate::deadline::Deadline;
use crate::feed::Feed;
use crate::response::{event_stream, plain};
use crate::routes::{self, AdminAnswer};
use crate::socket::{Listener, Stream};

/// The bounds of the console.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConsoleLimits {
    /// Connections at the same time. One more closes the oldest that has not sent a whole request head.
    pub connections: usize,
    /// From accept to the end of the request head; then the connection is closed.
    pub head_deadline: Duration,
    /// From accept to the last byte of the response; then the connection is closed. A page that listens to events has this long for
    /// each.
    pub deadline: Duration,
    /// A request's head; at least 8192, which is hyper's minimum. Then 431.
    pub head_bytes: usize,
    /// Bytes of responses that the kernel holds for a client that does not read.
    pub send_buffer: usize,
    /// Pages that may listen to events at the same time. One more gets 503.
    pub listeners: usize,
    /// Time between two points of the history, and between two events.
    pub interval: Duration,
    /// Points of the history.
    pub points: usize,
    /// Pause after `accept` failed, as it does when the process is out of descriptors.
    pub accept_retry: Duration,
}

/// An open connection.
struct OpenConnection {
    task: AbortHandle,
    /// Whether its request head has arrived.
    has_request: Arc<AtomicBool>,
}

/// Accepts until the future is dropped.
#[expect(clippy::infinite_loop, reason = "ended by dropping it")]
pub(crate) async fn accept(
    listener: &Listener,
    backend: &Arc<dyn Backend>,
    feed: &Arc<Feed>,
    limits: ConsoleLimits,
) {
    // From the oldest to the newest.
    let mut slots: VecDeque<OpenConnection> = VecDeque::new();
    loop {
        match listener.accept(limits.send_buffer).await {
            Ok(stream) => {
                make_space(&mut slots, limits.connections);
                let has_request = Arc::new(AtomicBool::new(false));
                let asked = Arc::clone(&has_request);
                let work = serve(stream, Arc::clone(backend), Arc::clone(feed), limits, asked);
                slots.push_back(OpenConnection { task: tokio::spawn(work).abort_handle(), has_request });
                // The new connection is read from before a crowd behind it could evict it.
                yield_now().await;
            }
            Err(error) => {
                tracing::debug!(%error, "the console cannot accept");
                tokio::time::sleep(limits.accept_retry).await;
            }
        }
    }
}

/// Closes a connection if there are as many as allowed: the oldest without a request, otherwise the oldest.
fn make_space(slots: &mut VecDeque<OpenConnection>, allowed: usize) {
    slots.retain(|slot| !slot.task.is_finished());
    while slots.len() >= allowed.max(1) {
        let idle = slots.iter().position(|slot| !slot.has_request.load(Ordering::Relaxed));
        if let Some(slot) = slots.remove(idle.unwrap_or(0)) {
            tracing::debug!("the console closed its oldest idle connection for a new one");
            slot.task.abort();
        }
    }
}

/// Answers one request and closes: clients come every few seconds, from near by.
async fn serve(
    stream: Pin<Box<dyn Stream>>,
    backend: Arc<dyn Backend>,
    feed: Arc<Feed>,
    limits: ConsoleLimits,
    has_request: Arc<AtomicBool>,
) {
    let deadline = Deadline::new(limits.deadline);
    let service = service_fn(|request| {
        has_request.store(true, Ordering::Relaxed);
        let response = respond(request, Arc::clone(&backend), Arc::clone(&feed), deadline.clone());
        async { Ok::<_, Infallible>(response.await) }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.head_deadline)
        .keep_alive(false)
        .half_close(true)
        .max_buf_size(limits.head_bytes)
        .serve_connection(TokioIo::new(stream), service);
    tokio::select! {
        ended = connection => if let Err(error) = ended {
            tracing::debug!(%error, "a connection to the console failed");
        },
        () = deadline.passed() => tracing::debug!("a connection to the console was too slow"),
    }
}

/// Responds to a request: with events, or with something whole.
async fn respond<B>(
    request: Request<B>,
    backend: Arc<dyn Backend>,
    feed: Arc<Feed>,
    deadline: Deadline,
) -> Response<ConsoleBody> {
    match routes::respond(request, Arc::clone(&backend), &feed).await {
        AdminAnswer::Whole(response) => response.map(ConsoleBody::from),
        AdminAnswer::Events => match feed.listen(deadline, &*backend) {
            Some(listener) => event_stream(ConsoleBody::Events(listener)),
            None => {
                let text = "as many pages listen as may: close one, or read /status.json\n";
                plain(StatusCode::SERVICE_UNAVAILABLE, text).map(ConsoleBody::from)
            }
        },
    }
}
