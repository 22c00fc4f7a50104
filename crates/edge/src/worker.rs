//! A worker: one thread, one core, one runtime. A connection stays on the worker that accepted it.
mod all_workers;
mod collect;
mod date;
#[cfg(test)]
mod for_tests;
mod response_abort;

pub(crate) use all_workers::AllWorkers;
pub use all_workers::descriptors_of_others;
pub(crate) use collect::{CollectedParts, labels};
pub use collect::{Collector, NodeSummary};
#[cfg(test)]
pub(crate) use for_tests::worker_for_tests;

use std::cell::{Cell, RefCell};
use std::collections::hash_map::RandomState;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use penstock_config::limits;
use penstock_content::{
    Bitrates, Clock, Context, FileHeads, KnownKeys, ListenerRules, Networks, ObjectHeads,
    repeat_missed_purges,
};
use penstock_http3::CongestionControl;
use penstock_origin::directory::{OpenFiles, OpenFilesLimits};
use penstock_origin::http::Connections;
use penstock_origin::io_threads::IoThreads;
use penstock_origin::residency::{Residency, ResidencyLimits};
use penstock_sys::{CountGuard, Counted, ThreadCount};
use penstock_tls::{HandshakeRate, HttpVersions, SigningLimiter};
use tokio::sync::Notify;

use crate::clients::{ConnectionCount, IdleConnections, OpenConnection, RecentClients};
use crate::metrics::{ListenerId, Shard};
use crate::settings::Settings;
use crate::worker::date::DateCache;
use crate::worker::response_abort::ResponseAbort;

/// Settings whose references are counted by this worker alone, so that a request touches no other core's memory.
pub(crate) type LocalSettings = Rc<Arc<Settings>>;

/// State that the connections of one worker share. It stays on its thread, so nothing in it is locked.
pub(crate) struct Worker {
    pub(crate) shard: Arc<Shard>,
    /// The content path's surroundings.
    pub(crate) content: Rc<Context>,
    pub(crate) residency: Residency,
    pub(crate) recent_clients: Arc<RecentClients<RandomState>>,
    pub(crate) io: Arc<IoThreads>,
    /// Connections to origins.
    origins: Rc<Connections>,
    pub(crate) date: DateCache,
    /// Limits the signatures of full handshakes.
    pub(crate) signing_limiter: SigningLimiter,
    /// Handshakes in flight by client network.
    pub(crate) networks: Arc<Networks>,
    /// Forwarded requests of all workers by client network.
    pub(crate) forwarded: Arc<Networks>,
    settings: RefCell<LocalSettings>,
    scratch: RefCell<Vec<u8>>,
    /// Open connections of all workers by client network.
    pub(crate) connected: Arc<Networks>,
    /// Open connections of all workers.
    all_connections: Arc<ConnectionCount>,
    number: usize,
    /// Idle connections of this worker.
    pub(crate) idle: Rc<IdleConnections>,
    workers: usize,
    connections: ThreadCount,
    /// Handshakes in flight.
    pub(crate) handshakes: ThreadCount,
    phase: Cell<Phase>,
    phase_changed: Notify,
    /// Notified when the last connection closes.
    emptied: Notify,
    /// Ends responses that are being sent.
    abort: ResponseAbort,
    /// Responses since the last one of the sample of the access log.
    pub(crate) unlogged: Cell<u32>,
}

/// How far the server is on its way to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Serving,
    /// A successor has the listeners, and each response ends its connection.
    Succeeded,
    /// Listeners accept, and each response ends its connection.
    LameDuck,
    /// Listeners are closed, and idle connections end.
    Draining,
}

/// A listener as a connection sees it.
#[derive(Clone, Debug)]
pub(crate) struct Listening {
    pub(crate) id: ListenerId,
    pub(crate) tls: bool,
    pub(crate) versions: HttpVersions,
    pub(crate) proxy_protocol: bool,
    pub(crate) purpose: Purpose,
    /// Where the same is served over HTTP/3 (`Alt-Svc`, RFC 7838).
    pub(crate) alt_svc: Option<Arc<str>>,
    /// What it does before the site of a request is known. Each worker counts references of its own.
    pub(crate) rules: Option<Arc<ListenerRules>>,
    /// `TCP_NOTSENT_LOWAT` in bytes, 0 for the system's, if the congestion control paces.
    pub(crate) paced_low_water: Option<u32>,
    /// That of its connections over QUIC.
    pub(crate) quic_control: CongestionControl,
    /// Connections that wait to be accepted, at most, less one.
    pub(crate) backlog: u32,
}

/// What a listener is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    Clients,
    /// Other nodes of the cluster.
    Peers,
}

const RESIDENCY: ResidencyLimits = ResidencyLimits {
    first_ahead: limits::READ_AHEAD_BYTES_MIN,
    most_ahead: limits::READ_AHEAD_BYTES_MAX,
    window: limits::RESIDENCE_WINDOW_BYTES,
    resident_window: limits::RESIDENT_WINDOW_BYTES,
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
    pub(crate) fn new(
        number: usize,
        shard: Arc<Shard>,
        settings: Arc<Settings>,
        common: &AllWorkers,
    ) -> Self {
        let limits = settings.limits;
        let origins = Rc::new(Connections::default());
        let content = Context {
            clock: Clock::system(),
            metrics: Arc::clone(&shard),
            files: OpenFiles::new(Arc::clone(&common.io), open_files_limits(limits.open_files)),
            file_heads: FileHeads::default(),
            object_heads: ObjectHeads::default(),
            known_keys: KnownKeys::default(),
            given_up: Arc::clone(&common.given_up),
            compressed: Arc::clone(&common.compressed),
            bitrates: Bitrates::default(),
            io: Arc::clone(&common.io),
            origins: Box::new(Rc::clone(&origins)),
            waiters_per_fill: Cell::new(limits.waiters_per_fill),
            waits: Arc::clone(&common.waits),
            fetches: Arc::clone(&common.fetches),
            fetches_per_network: Cell::new(limits.fetches_per_network),
            is_revoked: common.is_revoked.clone(),
            random: penstock_tls::random_number,
        };
        Self {
            shard,
            content: Rc::new(content),
            residency: Residency::new(Arc::clone(&common.io), RESIDENCY, common.start),
            recent_clients: Arc::clone(&common.recent_clients),
            io: Arc::clone(&common.io),
            origins,
            date: DateCache::new(),
            signing_limiter: SigningLimiter::new(limits::SIGNATURES_PER_ROUND),
            networks: Arc::default(),
            forwarded: Arc::clone(&common.forwarded),
            workers: common.workers,
            connected: Arc::clone(&common.connected),
            all_connections: Arc::clone(&common.connections),
            number,
            idle: Rc::new(common.connections.idle_of(number)),
            settings: RefCell::new(Rc::new(settings)),
            // One TLS record: the library returns one at a time.
            scratch: RefCell::new(vec![0; limits::RECORD_PLAINTEXT_BYTES]),
            connections: ThreadCount::default(),
            handshakes: ThreadCount::default(),
            phase: Cell::new(Phase::Serving),
            phase_changed: Notify::new(),
            emptied: Notify::new(),
            abort: ResponseAbort::default(),
            unlogged: Cell::new(0),
        }
    }

    /// Sends a response, unless the drain deadline aborts it. Returns false if it was aborted.
    pub(crate) async fn send_unless_aborted(&self, sending: impl Future<Output = ()>) -> bool {
        self.abort.run(sending).await
    }

    /// Aborts the responses that are being sent, and waits until each has been logged.
    pub(crate) async fn abort_responses(&self) {
        self.abort.abort().await;
    }

    /// The settings in force.
    pub(crate) fn settings(&self) -> LocalSettings {
        Rc::clone(&self.settings.borrow())
    }

    /// Puts new settings in force for the next request of each connection.
    pub(crate) fn set_settings(&self, settings: Arc<Settings>, workers: usize) {
        self.content.waiters_per_fill.set(settings.limits.waiters_per_fill);
        self.content.fetches_per_network.set(settings.limits.fetches_per_network);
        *self.settings.borrow_mut() = Rc::new(settings);
        self.follow_handshake_rate(workers);
    }

    /// Takes this worker's share of the rate of full handshakes. Half of the handshakes in flight may wait, so that the others
    /// still get in.
    fn follow_handshake_rate(&self, workers: usize) {
        let share = self.content.given_up.handshake_rate().unwrap_or(0.0) / workers.max(1) as f64;
        let wait_max = Duration::from_millis(limits::HANDSHAKE_RATE_WAIT_MILLISECONDS);
        let waiting_max = self.settings.borrow().limits.handshakes_in_flight / 2;
        self.signing_limiter
            .set_rate(HandshakeRate::per_second(share, waiting_max, wait_max), Instant::now());
    }

    /// Counts one more connection; `None` at the limit of connections.
    pub(crate) fn try_count_connection(&self) -> Option<OpenConnection> {
        self.all_connections.try_enter(self.settings().limits.connections)
    }

    /// Counts one more connection. At the limit of connections, waits until an idle connection of any worker has ended; `None`
    /// if no connection is idle.
    pub(crate) async fn count_connection(&self) -> Option<OpenConnection> {
        let most = self.settings().limits.connections;
        self.all_connections.enter(most, &self.idle).await
    }

    /// Evicts idle connections for other workers; never ends.
    pub(crate) async fn evict_for_others(&self) {
        self.all_connections.evict_for_others(self.number, &self.idle).await;
    }

    /// Whether the limit of handshakes in flight is reached.
    pub(crate) fn is_full_of_handshakes(&self) -> bool {
        self.handshakes.get() >= self.settings.borrow().limits.handshakes_in_flight
    }

    /// Whether so many handshakes are in flight that clients of QUIC have to prove their addresses first.
    pub(crate) fn wants_retry(&self) -> bool {
        let most = self.settings.borrow().limits.handshakes_in_flight;
        self.handshakes.get() >= most.saturating_mul(limits::RETRY_PERCENT) / 100
    }

    /// The number of this worker and of all workers.
    pub(crate) fn place(&self) -> (u16, u16) {
        let bounded = |number: usize| u16::try_from(number).unwrap_or(u16::MAX);
        (bounded(self.number), bounded(self.workers))
    }

    /// The handshakes that one client network may have in flight on this worker; zero is no limit. A network never holds
    /// more places than are free, so it cannot take the last ones from other networks.
    pub(crate) fn handshakes_per_network(&self) -> usize {
        let limits = &self.settings.borrow().limits;
        let free = limits.handshakes_in_flight.saturating_sub(self.handshakes.get());
        match limits.handshakes_per_network {
            0 => 0,
            limit => share_of(limit, self.workers).min(free.max(1)),
        }
    }

    /// Lends a buffer for the time of one read.
    pub(crate) fn with_scratch<R>(&self, read: impl FnOnce(&mut [u8]) -> R) -> R {
        read(&mut self.scratch.borrow_mut())
    }

    /// Whether idle connections end at once.
    pub(crate) fn is_draining(&self) -> bool {
        self.phase.get() == Phase::Draining
    }

    /// Whether a connection ends after its response.
    pub(crate) fn is_leaving(&self) -> bool {
        self.phase.get() != Phase::Serving
    }

    /// Whether health checks fail.
    pub(crate) fn is_unhealthy(&self) -> bool {
        matches!(self.phase.get(), Phase::LameDuck | Phase::Draining)
    }

    /// Ends each connection after its next response; idle ones stay open for that. Health checks fail.
    pub(crate) fn begin_lame_duck(&self) {
        self.phase.set(Phase::LameDuck);
        self.phase_changed.notify_waiters();
    }

    /// The same, while health checks succeed: another process serves the same addresses.
    pub(crate) fn begin_succession(&self) {
        self.phase.set(Phase::Succeeded);
        self.phase_changed.notify_waiters();
    }

    /// Serves as before: the other process has failed.
    pub(crate) fn end_succession(&self) {
        self.phase.set(Phase::Serving);
        self.phase_changed.notify_waiters();
    }

    /// Ends idle connections now and the others after their response.
    pub(crate) fn begin_drain(&self) {
        self.phase.set(Phase::Draining);
        self.phase_changed.notify_waiters();
        self.idle.wake_all();
        self.emptied.notify_waiters();
    }

    /// Resolves when the stop of the server goes one phase further.
    pub(crate) async fn phase_changed(&self) {
        self.phase_changed.notified().await;
    }

    /// Waits until no connection is left.
    pub(crate) async fn until_empty(&self) {
        while self.connections.get() > 0 {
            self.emptied.notified().await;
        }
    }
}

/// Each worker gets the same share, rounded up: the kernel spreads connections evenly but not exactly.
fn share_of(handshakes: usize, workers: usize) -> usize {
    handshakes.div_ceil(workers.max(1)).max(1)
}

/// A connection of a worker.
pub(crate) struct WorkerConnection {
    worker: Rc<Worker>,
    listener: ListenerId,
    _open: OpenConnection,
}

impl WorkerConnection {
    /// Counts a connection of a listener for as long as the guard lives.
    pub(crate) fn count(worker: &Rc<Worker>, listener: ListenerId, open: OpenConnection) -> CountGuard<Self> {
        worker.connections.count();
        worker.shard.connection_opened(listener);
        CountGuard::of_counted(Self { worker: Rc::clone(worker), listener, _open: open })
    }
}

impl Counted for WorkerConnection {
    fn uncount(&self) {
        if std::thread::panicking() {
            // The runtime catches it: a panic ends one connection, not the worker.
            self.worker.shard.panicked();
        }
        self.worker.connections.uncount();
        self.worker.shard.connection_closed(self.listener);
        if self.worker.connections.get() == 0 {
            self.worker.emptied.notify_waiters();
        }
    }
}

/// A handshake in flight of a worker.
pub(crate) struct HandshakeInFlight(Rc<Worker>);

impl HandshakeInFlight {
    /// Counts one for as long as the guard lives.
    pub(crate) fn count(worker: &Rc<Worker>) -> CountGuard<Self> {
        worker.handshakes.count();
        CountGuard::of_counted(Self(Rc::clone(worker)))
    }
}

impl Counted for HandshakeInFlight {
    fn uncount(&self) {
        self.0.handshakes.uncount();
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

/// Looks after the other nodes of the cluster, and notes what they are told of this one.
fn report_to_cluster(worker: &Worker, common: &AllWorkers) {
    let settings = worker.settings();
    let Some(cluster) = &settings.cluster else { return };
    let busy = common.collector.busy_thousandths();
    cluster.peers.set_own_load(common.connections.open() as u64, busy);
    cluster.peers.set_leaving(worker.is_unhealthy());
    cluster.peers.check_health(Instant::now());
    if let Some(store) = &settings.store {
        repeat_missed_purges(store, &cluster.peers);
    }
}

/// Keeps the worker's gauges up to date.
#[expect(clippy::infinite_loop, reason = "ended with its worker")]
pub(crate) async fn report(worker: Rc<Worker>, common: AllWorkers) {
    let started = Instant::now();
    let mut tick = tokio::time::interval(Duration::from_secs(1));
    loop {
        tick.tick().await;
        worker.shard.busy(thread_cpu_time(), started.elapsed());
        let (user, system) = penstock_sys::process::thread_cpu_modes();
        worker.shard.cpu_modes(user, system);
        common.collector.observe_pressure(Instant::now());
        worker.follow_handshake_rate(common.workers);
        if let Some(before) = Instant::now().checked_sub(IDLE_FILE) {
            worker.content.files.close_idle(before);
        }
        worker.origins.close_idle(Instant::now(), IDLE_ORIGIN);
        worker.shard.origin_retries(worker.origins.retries());
        for origin in worker.settings().sites.origins() {
            origin.check_health(Instant::now());
        }
        report_to_cluster(&worker, &common);
        let counts = labels::files(&worker.content.files.counters(), &worker.residency.counters());
        worker.shard.files(&counts);
        common.tls_state.sweep();
    }
}
