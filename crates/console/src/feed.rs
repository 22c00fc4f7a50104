//! What is new each second: a point of the history, and an event for each page that listens.

use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant, SystemTime};

use hyper::body::Bytes;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::MissedTickBehavior;

use crate::backend::Backend;
use crate::deadline::Deadline;
use crate::history::{History, array};

/// The history and the newest event.
#[derive(Debug)]
pub(crate) struct Feed {
    history: Mutex<History>,
    newest: watch::Sender<Bytes>,
    /// One permit for each page that may listen.
    free: Arc<Semaphore>,
}

impl Feed {
    /// A feed of numbers with these names, with so many points for so many pages.
    pub(crate) fn new(names: Vec<&'static str>, points: usize, listeners: usize) -> Self {
        Self {
            history: Mutex::new(History::new(names, points)),
            newest: watch::Sender::new(Bytes::new()),
            free: Arc::new(Semaphore::new(listeners)),
        }
    }

    /// Takes a point at each interval and tells the listeners, until the future is dropped.
    #[expect(clippy::infinite_loop, reason = "ended by dropping it")]
    pub(crate) async fn run(&self, backend: &dyn Backend, interval: Duration) {
        let started = Instant::now();
        let mut ticks = tokio::time::interval(interval);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
        loop {
            ticks.tick().await;
            // A fault of the program costs one point, not the listener.
            let told = std::panic::catch_unwind(AssertUnwindSafe(|| self.take(backend, started.elapsed())));
            if told.is_err() {
                tracing::error!("a point of the history could not be taken");
            }
        }
    }

    fn take(&self, backend: &dyn Backend, elapsed: Duration) {
        let point = backend.second();
        // A point that comes a little early or late is that of its second.
        self.history().push((elapsed + Duration::from_millis(500)).as_secs(), &point);
        if self.newest.receiver_count() > 0 {
            self.newest.send_replace(event(&point, &backend.status()));
        }
    }

    /// The last points as JSON.
    pub(crate) fn history_json(&self, points: usize) -> String {
        self.history().json(now(), points)
    }

    /// A listener for the events from now on; `None` if there are as many as allowed.
    pub(crate) fn listen(&self, deadline: Deadline, backend: &dyn Backend) -> Option<Listener> {
        let permit = Arc::clone(&self.free).try_acquire_owned().ok()?;
        // The page gets the state at once, and numbers with the next second.
        let first = event(&[], &backend.status());
        Some(Listener { first: Some(first), next: next(self.newest.subscribe()), deadline, _permit: permit })
    }

    fn history(&self) -> MutexGuard<'_, History> {
        self.history.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One page that listens. It holds one event at most: what it was too slow for is left out.
pub(crate) struct Listener {
    first: Option<Bytes>,
    next: NextEvent,
    deadline: Deadline,
    _permit: OwnedSemaphorePermit,
}

type NextEvent = Pin<Box<dyn Future<Output = Option<(watch::Receiver<Bytes>, Bytes)>> + Send>>;

impl Listener {
    /// The next event, once its client has taken the one before.
    pub(crate) fn poll_event(&mut self, context: &mut Context<'_>) -> Poll<Option<Bytes>> {
        if let Some(first) = self.first.take() {
            return Poll::Ready(Some(first));
        }
        let Some((receiver, event)) = ready!(self.next.as_mut().poll(context)) else {
            return Poll::Ready(None);
        };
        self.next = next(receiver);
        self.deadline.postpone();
        Poll::Ready(Some(event))
    }
}

fn next(mut receiver: watch::Receiver<Bytes>) -> NextEvent {
    Box::pin(async move {
        receiver.changed().await.ok()?;
        let event = receiver.borrow_and_update().clone();
        Some((receiver, event))
    })
}

/// A server-sent event: `{"at": …, "values": […], "status": {…}}`.
fn event(point: &[f32], status: &serde_json::Value) -> Bytes {
    let mut text = format!("event: second\ndata: {{\"at\":{},\"values\":", now());
    array(&mut text, point);
    // A JSON text on one line has no line break of its own.
    text.push_str(&format!(",\"status\":{status}}}\n\n"));
    Bytes::from(text)
}

fn now() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs()
}
