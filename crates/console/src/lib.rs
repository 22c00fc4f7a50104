//! The admin listener: metrics, health, status, one switch and purging, for people and for other programs.
//!
//! A thread of its own answers plain HTTP/1.1, so that no worker ever waits for a scrape. It knows nothing of what it
//! shows: that comes from a [`Source`]. There is no TLS and no password here; bind it to loopback.
#![forbid(unsafe_code)]

mod answer;
mod page;
mod purge;

use std::fmt;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

/// What the console shows. Called on the console's own thread, once for each request.
pub trait Source: Send + Sync {
    /// All metrics in the Prometheus text format, version 0.0.4.
    fn metrics(&self) -> String;

    /// The state of the program for people and dashboards. `version` and `uptime_seconds` also appear on the index.
    fn status(&self) -> serde_json::Value;

    /// Whether this program should get new connections.
    fn health(&self) -> Health;

    /// Who gets ChaCha20-Poly1305.
    fn chacha20(&self) -> serde_json::Value;

    /// Changes that for new connections.
    ///
    /// # Errors
    /// What is wrong with the mode and what to write instead.
    fn set_chacha20(&self, mode: &str) -> Result<serde_json::Value, String>;

    /// Purges what is cached, for good. May block for as long as it takes to write that down.
    ///
    /// # Errors
    /// See [`PurgeError`].
    fn purge(&self, purge: &Purge<'_>) -> Result<serde_json::Value, PurgeError>;
}

/// What is to be purged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Purge<'p> {
    /// One of these words: `url`, `prefix`, `tag`, `everything`.
    pub kind: &'p str,
    /// The URL, prefix or tag; empty for everything.
    pub value: &'p str,
    /// Whether it only becomes stale.
    pub soft: bool,
}

/// Why something was not purged, or not for good.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PurgeError {
    /// Whoever asked has to ask otherwise: 400.
    Wrong(String),
    /// Not their fault: 500.
    Failed(String),
}

/// Whether the program should get new connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Health {
    /// It serves.
    Ready,
    /// It does not listen yet.
    Starting,
    /// It finishes what it has begun and takes no more.
    Draining,
}

/// The bounds of the console.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Connections at the same time; more wait in the listener's backlog.
    pub connections: usize,
    /// From accept to the last byte of the answer; then the connection is closed.
    pub deadline: Duration,
    /// A request's head; at least 8192, which is the least that hyper can be told. Then 431.
    pub head_bytes: usize,
    /// Pause after `accept` failed, as it does when the process is out of descriptors.
    pub accept_retry: Duration,
}

/// The running console. Dropping it closes the listener and ends the thread.
pub struct Console {
    address: SocketAddr,
    /// Closed to end the thread.
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// Starts answering on a listener.
///
/// # Errors
/// When the thread or its runtime cannot be started.
pub fn start(listener: TcpListener, source: Arc<dyn Source>, limits: Limits) -> io::Result<Console> {
    let address = listener.local_addr()?;
    listener.set_nonblocking(true)?;
    let runtime = Builder::new_current_thread().enable_io().enable_time().build()?;
    let listener = {
        let _inside = runtime.enter();
        tokio::net::TcpListener::from_std(listener)?
    };
    let (stop, stopped) = oneshot::channel();
    let thread = thread::Builder::new()
        .name("console".to_owned())
        .spawn(move || run(&runtime, &listener, &source, limits, stopped))?;
    Ok(Console { address, stop: Some(stop), thread: Some(thread) })
}

impl Console {
    /// The address it listens on.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Console {
    fn drop(&mut self) {
        drop(self.stop.take());
        if self.thread.take().is_some_and(|thread| thread.join().is_err()) {
            tracing::error!("the console thread panicked");
        }
    }
}

impl fmt::Debug for Console {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Console").field("address", &self.address).finish_non_exhaustive()
    }
}

fn run(
    runtime: &Runtime,
    listener: &tokio::net::TcpListener,
    source: &Arc<dyn Source>,
    limits: Limits,
    stopped: oneshot::Receiver<()>,
) {
    runtime.block_on(async {
        tokio::select! {
            () = accept(listener, source, limits) => {}
            // Closed without a message: the console is dropped.
            _ = stopped => {}
        }
    });
}

async fn accept(listener: &tokio::net::TcpListener, source: &Arc<dyn Source>, limits: Limits) {
    let places = Arc::new(Semaphore::new(limits.connections));
    loop {
        let Ok(place) = Arc::clone(&places).acquire_owned().await else { return };
        match listener.accept().await {
            Ok((stream, _)) => {
                tokio::spawn(attend(stream, Arc::clone(source), limits, place));
            }
            Err(error) => {
                tracing::debug!(%error, "the console cannot accept");
                tokio::time::sleep(limits.accept_retry).await;
            }
        }
    }
}

/// Answers one request. Each connection has one: whoever asks does so every few seconds, from the same machine.
async fn attend(stream: TcpStream, source: Arc<dyn Source>, limits: Limits, place: OwnedSemaphorePermit) {
    let service = service_fn(|request| {
        let response = answer::to(&request, &*source);
        async { Ok::<_, std::convert::Infallible>(response) }
    });
    let connection = http1::Builder::new()
        .keep_alive(false)
        .half_close(true)
        .max_buf_size(limits.head_bytes)
        .serve_connection(TokioIo::new(stream), service);
    match tokio::time::timeout(limits.deadline, connection).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::debug!(%error, "a connection to the console failed"),
        Err(_) => tracing::debug!("a connection to the console was too slow"),
    }
    drop(place);
}
