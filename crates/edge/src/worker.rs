//! A worker: one thread, one core, one runtime. It accepts, and everything of a connection stays on it.

use std::cell::{Cell, RefCell};
use std::collections::hash_map::RandomState;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant};

use penstock_config::{Limits, limits};
use penstock_origin::directory::{OpenFiles, OpenFilesLimits};
use penstock_origin::http::Connections;
use penstock_origin::io_threads::IoThreads;
use penstock_origin::residency::{Residency, ResidencyLimits};
use penstock_tls::{HandshakeRate, Turns};
use tokio::net::TcpStream;
use tokio::sync::{Notify, oneshot};

use crate::clock::Clock;
use crate::compress::CompressedManifests;
use crate::establish::establish;
use crate::metrics::{ListenerId, Observatory, Refusal, Shard};
use crate::networks::Networks;
use crate::recent_clients::RecentClients;
use crate::remembered::Remembered;
use crate::settings::Settings;
use crate::task;

/// Settings whose references are counted by this worker alone, so that a request touches no other core's memory.
pub(crate) type CountedHere = Rc<Arc<Settings>>;

/// What the connections of one worker share. It never leaves its thread, so nothing in it is locked.
pub(crate) struct Worker {
    pub(crate) shard: Arc<Shard>,
    pub(crate) files: OpenFiles,
    pub(crate) residency: Residency,
    pub(crate) compressed: Arc<CompressedManifests>,
    pub(crate) recent_clients: Arc<RecentClients<RandomState>>,
    pub(crate) io: Arc<IoThreads>,
    /// Connections to origins.
    pub(crate) origins: Connections,
    pub(crate) clock: Clock,
    /// Whose turn it is to sign.
    pub(crate) turns: Turns,
    /// Handshakes in flight by client network.
    pub(crate) networks: Networks,
    settings: RefCell<CountedHere>,
    scratch: RefCell<Vec<u8>>,
    /// This worker's share of the connection limit.
    connections_max: Cell<usize>,
    workers: usize,
    connections: Cell<usize>,
    handshakes: Cell<usize>,
    draining: Cell<bool>,
    drain: Notify,
    /// Wakes whoever waits for the last connection.
    emptied: Notify,
}

/// A listener as a connection sees it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Listening {
    pub(crate) id: ListenerId,
    pub(crate) tls: bool,
    pub(crate) proxy_protocol: bool,
}

/// What all workers share.
#[derive(Clone)]
pub(crate) struct Common {
    pub(crate) io: Arc<IoThreads>,
    pub(crate) compressed: Arc<CompressedManifests>,
    pub(crate) recent_clients: Arc<RecentClients<RandomState>>,
    pub(crate) workers: usize,
    pub(crate) remembered: Remembered,
    pub(crate) observatory: Arc<Observatory>,
    /// Where the time of all workers begins.
    pub(crate) start: Instant,
}

const RESIDENCY: ResidencyLimits = ResidencyLimits {
    first_ahead: limits::READ_AHEAD_BYTES_MIN,
    most_ahead: limits::READ_AHEAD_BYTES_MAX,
    small_file: limits::SMALL_FILE_BYTES,
    believed_for: Duration::from_millis(limits::OPEN_FILE_FRESH_MILLISECONDS),
};

fn open_files_limits(max_files: usize) -> OpenFilesLimits {
    OpenFilesLimits {
        max_files,
        max_absent: limits::ABSENT_PATHS_PER_WORKER,
        recheck_after: Duration::from_millis(limits::OPEN_FILE_FRESH_MILLISECONDS),
    }
}

impl Worker {
    pub(crate) fn new(shard: Arc<Shard>, settings: Arc<Settings>, common: &Common) -> Self {
        let limits = settings.limits;
        Self {
            shard,
            files: OpenFiles::new(Arc::clone(&common.io), open_files_limits(limits.open_files)),
            residency: Residency::new(Arc::clone(&common.io), RESIDENCY, common.start),
            compressed: Arc::clone(&common.compressed),
            recent_clients: Arc::clone(&common.recent_clients),
            io: Arc::clone(&common.io),
            origins: Connections::default(),
            clock: Clock::new(),
            turns: Turns::new(limits::SIGNATURES_PER_ROUND),
            networks: Networks::default(),
            workers: common.workers,
            connections_max: Cell::new(share_of(limits.connections, common.workers)),
            settings: RefCell::new(Rc::new(settings)),
            // A TLS record's worth: the library hands out one record at a time.
            scratch: RefCell::new(vec![0; limits::RECORD_PLAINTEXT_BYTES]),
            connections: Cell::new(0),
            handshakes: Cell::new(0),
            draining: Cell::new(false),
            drain: Notify::new(),
            emptied: Notify::new(),
        }
    }

    /// The settings in force.
    pub(crate) fn settings(&self) -> CountedHere {
        Rc::clone(&self.settings.borrow())
    }

    /// Puts new settings in force for the next request of each connection.
    pub(crate) fn set_settings(&self, settings: Arc<Settings>, workers: usize) {
        self.connections_max.set(share_of(settings.limits.connections, workers));
        self.turns.set_rate(handshake_rate(&settings.limits, workers), Instant::now());
        *self.settings.borrow_mut() = Rc::new(settings);
    }

    /// This worker's share of the handshakes that one client network may have in flight; zero is no limit.
    pub(crate) fn handshakes_per_network(&self) -> usize {
        match self.settings.borrow().limits.handshakes_per_network {
            0 => 0,
            limit => share_of(limit, self.workers),
        }
    }

    /// Lends a buffer for the time of one read.
    pub(crate) fn with_scratch<R>(&self, read: impl FnOnce(&mut [u8]) -> R) -> R {
        read(&mut self.scratch.borrow_mut())
    }

    pub(crate) fn is_draining(&self) -> bool {
        self.draining.get()
    }

    /// Ends idle connections now and the others after their response.
    pub(crate) fn begin_drain(&self) {
        self.draining.set(true);
        self.drain.notify_waiters();
        self.emptied.notify_waiters();
    }

    /// Waits until the drain begins; for ever if it has begun already.
    pub(crate) async fn drain_begun(&self) {
        self.drain.notified().await;
    }

    /// Waits until no connection is left.
    pub(crate) async fn until_empty(&self) {
        while self.connections.get() > 0 {
            self.emptied.notified().await;
        }
    }

    /// Connections that are open now.
    pub(crate) fn open_connections(&self) -> usize {
        self.connections.get()
    }

    /// Takes care of an accepted socket, or closes it because a limit is reached.
    pub(crate) fn take_in(self: &Rc<Self>, listening: Listening, socket: TcpStream, peer: SocketAddr) {
        let settings = self.settings();
        if self.draining.get() {
            return self.shard.refused(Refusal::Draining);
        }
        if self.connections.get() >= self.connections_max.get() {
            return self.shard.refused(Refusal::Limit);
        }
        if listening.tls && self.handshakes.get() >= settings.limits.handshakes_in_flight {
            return self.shard.refused(Refusal::Handshakes);
        }
        let presence = Presence::enter(Rc::clone(self), listening.id);
        let worker = Rc::clone(self);
        task::begin(async move {
            let presence = presence;
            // Boxed, and gone before the first request: an idle connection must not carry its handshake.
            let handshaking = HandshakeInFlight::enter(&worker, listening.tls);
            let connection = Box::pin(establish(&worker, &listening, socket, peer)).await;
            drop(handshaking);
            if let Some(connection) = connection {
                connection.serve().await;
            }
            drop(presence);
        });
    }
}

/// Each worker gets the same share, rounded up: the kernel spreads connections evenly but not exactly.
fn share_of(connections: usize, workers: usize) -> usize {
    connections.div_ceil(workers.max(1)).max(1)
}

/// This worker's share of the rate. Half of the handshakes in flight may wait, so that the others still get in.
fn handshake_rate(limits: &Limits, workers: usize) -> Option<HandshakeRate> {
    let share = f64::from(limits.handshake_rate) / workers.max(1) as f64;
    let wait_max = Duration::from_millis(limits::HANDSHAKE_RATE_WAIT_MILLISECONDS);
    HandshakeRate::per_second(share, limits.handshakes_in_flight / 2, wait_max)
}

/// Counts a connection for as long as it lives, however it ends.
struct Presence {
    worker: Rc<Worker>,
    listener: ListenerId,
}

impl Presence {
    fn enter(worker: Rc<Worker>, listener: ListenerId) -> Self {
        worker.connections.set(worker.connections.get() + 1);
        worker.shard.connection_opened(listener);
        Self { worker, listener }
    }
}

impl Drop for Presence {
    fn drop(&mut self) {
        if std::thread::panicking() {
            // The runtime catches it: a fault of ours ends one connection, never the worker.
            self.worker.shard.panicked();
        }
        let left = self.worker.connections.get().saturating_sub(1);
        self.worker.connections.set(left);
        self.worker.shard.connection_closed(self.listener);
        if left == 0 {
            self.worker.emptied.notify_waiters();
        }
    }
}

/// Counts a handshake for as long as it lasts.
struct HandshakeInFlight<'w>(Option<&'w Worker>);

impl<'w> HandshakeInFlight<'w> {
    fn enter(worker: &'w Worker, tls: bool) -> Self {
        if !tls {
            return Self(None);
        }
        worker.handshakes.set(worker.handshakes.get() + 1);
        Self(Some(worker))
    }
}

impl Drop for HandshakeInFlight<'_> {
    fn drop(&mut self) {
        if let Some(worker) = self.0 {
            worker.handshakes.set(worker.handshakes.get().saturating_sub(1));
        }
    }
}

/// Accepts on one listener until `closing` is dropped or sent to, then takes in who waits already.
pub(crate) async fn accept(
    worker: Rc<Worker>,
    listener: tokio::net::TcpListener,
    listening: Listening,
    closing: oneshot::Receiver<()>,
) {
    tokio::select! {
        biased;
        _ = closing => {}
        () = accept_for_ever(&worker, &listener, listening) => {}
    }
    // Closing the socket would reset the connections in its queue.
    while let Poll::Ready(Ok((socket, peer))) = poll_accept_once(&listener).await {
        worker.take_in(listening, socket, peer);
    }
}

/// One attempt that never waits.
async fn poll_accept_once(listener: &tokio::net::TcpListener) -> Poll<io::Result<(TcpStream, SocketAddr)>> {
    std::future::poll_fn(|context| Poll::Ready(listener.poll_accept(context))).await
}

#[expect(clippy::infinite_loop, reason = "ended by dropping it")]
async fn accept_for_ever(worker: &Rc<Worker>, listener: &tokio::net::TcpListener, listening: Listening) {
    let mut reserve = Reserve::new();
    let mut in_a_row = 0;
    loop {
        match listener.accept().await {
            Ok((socket, peer)) => {
                worker.take_in(listening, socket, peer);
                in_a_row += 1;
                if in_a_row >= limits::ACCEPTS_PER_TURN {
                    in_a_row = 0;
                    tokio::task::yield_now().await;
                }
            }
            Err(error) if is_out_of_descriptors(&error) => {
                worker.shard.accept_error("out_of_descriptors");
                reserve.turn_one_away(worker, listener).await;
            }
            // The client gave up while it waited in the queue.
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

/// A descriptor kept for the moment when there are no more: without it, waiting connections could neither be
/// accepted nor refused, and the listener would be readable for ever.
struct Reserve(Option<std::fs::File>);

impl Reserve {
    fn new() -> Self {
        Self(std::fs::File::open("/dev/null").ok())
    }

    /// Gives the reserve up for one connection, closes that, and takes the reserve back.
    async fn turn_one_away(&mut self, worker: &Worker, listener: &tokio::net::TcpListener) {
        self.0 = None;
        if let Poll::Ready(Ok(connection)) = poll_accept_once(listener).await {
            drop(connection);
            worker.shard.refused(Refusal::Descriptors);
        }
        self.0 = std::fs::File::open("/dev/null").ok();
        if self.0.is_none() {
            // Somebody else took it; give connections time to end.
            tokio::time::sleep(Duration::from_millis(limits::ACCEPT_RETRY_MILLISECONDS)).await;
        }
    }
}

/// How long this thread has worked since it started.
pub(crate) fn thread_cpu_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    Duration::new(seconds, u32::try_from(time.tv_nsec).unwrap_or(0))
}

const IDLE_ORIGIN: Duration = Duration::from_secs(limits::ORIGIN_IDLE_SECONDS);
const IDLE_FILE: Duration = Duration::from_secs(limits::OPEN_FILE_IDLE_SECONDS);

/// Keeps the worker's gauges up to date.
#[expect(clippy::infinite_loop, reason = "ended with its worker")]
pub(crate) async fn report(worker: Rc<Worker>, common: Common) {
    let started = Instant::now();
    let mut tick = tokio::time::interval(Duration::from_secs(1));
    loop {
        tick.tick().await;
        worker.shard.busy(thread_cpu_time(), started.elapsed());
        common.observatory.observe_pressure(Instant::now());
        if let Some(before) = Instant::now().checked_sub(IDLE_FILE) {
            worker.files.close_idle(before);
        }
        worker.origins.close_idle(Instant::now(), IDLE_ORIGIN);
        worker.shard.origin_retries(worker.origins.retries());
        for origin in worker.settings().sites.origins() {
            origin.check_health(Instant::now());
        }
        worker.shard.files(&worker.files.counters(), &worker.residency.counters());
        common.remembered.sweep();
    }
}
