//! The counters of one worker.

mod handshakes;
mod http2;
mod http3;
mod players;
mod sites;
mod top;

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::cells::{Counter, CounterVec, Histogram, nanoseconds};
use crate::facts::{FileCounts, HandshakeFacts, ListenerId};
use crate::labels::{
    CertificateCompression, ClientKind, CpuMode, Direction, EncryptedHello, FileLookup, HandshakePart,
    HttpLabel, LastResponse, LookupWait, Method, OutletKind, Refusal, ShortReason, Signer, StapleStatus,
    StatusClass, TicketOutcome,
};
use crate::limits;
use crate::work::WorkMarker;

pub(crate) use http2::Http2Counters;
pub(crate) use http3::Http3Counters;
pub use http3::QuicPackets;
#[cfg(test)]
pub(crate) use sites::SiteCounters;
pub(crate) use sites::{CacheCounters, CarriedCounters, SiteCells, SiteOfWorkers};
pub use sites::{Carried, SiteResponse};
pub use top::{Asked, ClientMarks};
pub(crate) use top::{OTHER_TOPS, TITLE_TOPS, TopCounters};

/// The counters of one worker.
///
/// **Only the worker's own thread may count**: adding is a plain load and store, which is cheap, and a second writer
/// would lose counts. Debug builds panic when a second thread counts. [`Shard::panicked`] is the exception. Any thread
/// may read.
#[derive(Debug)]
#[repr(align(128))] // two cache lines: the prefetcher loads them in pairs, and workers must not share either
pub struct Shard {
    /// The start of the program.
    started: Instant,
    pub(crate) connections: [ConnectionCounters; limits::LISTENERS],
    pub(crate) refused: [Counter; Refusal::ALL.len()],
    pub(crate) accept_errors: CounterVec<&'static str>,

    pub(crate) handshakes: CounterVec<HandshakeFacts>,
    pub(crate) handshake_failures: CounterVec<&'static str>,
    pub(crate) full_handshake_time: Histogram,
    pub(crate) resumed_handshake_time: Histogram,
    pub(crate) handshake_parts: [[Histogram; HandshakePart::ALL.len()]; Signer::ALL.len()],
    pub(crate) handshake_algorithms: CounterVec<(HandshakePart, &'static str)>,
    /// In nanoseconds.
    pub(crate) handshake_algorithm_time: CounterVec<(HandshakePart, &'static str)>,
    /// By the last response to the client; full handshakes first, then resumed ones.
    pub(crate) handshakes_after: [[Counter; 2]; LastResponse::ALL.len()],
    pub(crate) alerts: CounterVec<(Direction, &'static str)>,
    pub(crate) key_updates: Counter,
    pub(crate) handshakes_queued: Counter,
    pub(crate) hellos_retried: Counter,
    pub(crate) session_waits: [Counter; LookupWait::ALL.len()],
    pub(crate) early_data: CounterVec<(&'static str, &'static str)>,
    pub(crate) early_requests: CounterVec<&'static str>,
    pub(crate) certificates_sent: [Counter; CertificateCompression::ALL.len()],
    pub(crate) staples: [Counter; StapleStatus::ALL.len()],
    pub(crate) encrypted_hellos: [Counter; EncryptedHello::ALL.len()],
    pub(crate) tickets_issued: Counter,
    pub(crate) tickets_offered: [Counter; TicketOutcome::ALL.len()],

    pub(crate) requests: [[Counter; StatusClass::ALL.len()]; Method::ALL.len()],
    pub(crate) requests_by_version: [Counter; HttpLabel::ALL.len()],
    pub(crate) connections_by_version: [Counter; HttpLabel::ALL.len()],
    pub(crate) http2: Http2Counters,
    pub(crate) http3: Http3Counters,
    pub(crate) rejections: CounterVec<&'static str>,
    pub(crate) request_time: Histogram,
    pub(crate) first_byte_time: Histogram,

    pub(crate) sites: SiteCells,
    pub(crate) clients: [Counter; ClientKind::ALL.len()],
    pub(crate) client_handshakes: CounterVec<(ClientKind, HandshakeFacts)>,
    /// Nanoseconds of the worker for these handshakes; full ones first, then resumed ones.
    pub(crate) client_handshake_time: [[Counter; 2]; ClientKind::ALL.len()],
    pub(crate) top: TopCounters,

    pub(crate) sent: [Counter; OutletKind::ALL.len()],
    pub(crate) egress: CounterVec<(OutletKind, &'static str)>,
    pub(crate) egress_ended: CounterVec<&'static str>,
    pub(crate) short_responses: [Counter; ShortReason::ALL.len()],

    pub(crate) open_files: Counter,
    pub(crate) file_lookups: [Counter; FileLookup::ALL.len()],
    pub(crate) page_cache_misses: Counter,

    pub(crate) signed_urls: CounterVec<&'static str>,
    pub(crate) cached: CounterVec<&'static str>,
    pub(crate) origin: CounterVec<&'static str>,
    pub(crate) filled: Counter,
    pub(crate) manifests: CounterVec<&'static str>,
    pub(crate) origin_retries: Counter,
    pub(crate) reloads: CounterVec<&'static str>,

    pub(crate) busy: BusyTime,
    pub(crate) panics: Counter,
    pub(crate) work: Arc<WorkMarker>,

    #[cfg(debug_assertions)]
    writer: std::sync::OnceLock<std::thread::ThreadId>,
}

/// Connections of one listener.
#[derive(Debug, Default)]
pub(crate) struct ConnectionCounters {
    pub(crate) opened: Counter,
    pub(crate) closed: Counter,
}

/// The CPU time of the worker, and its share of the time between the last two reports.
#[derive(Debug, Default)]
pub(crate) struct BusyTime {
    pub(crate) total_nanoseconds: Counter,
    /// In the program, and in system calls.
    pub(crate) modes: [Counter; CpuMode::ALL.len()],
    ratio_millionths: Counter,
    reported_nanoseconds: Counter,
}

impl Shard {
    pub(crate) fn new(started: Instant) -> Self {
        Self {
            started,
            connections: std::array::from_fn(|_| ConnectionCounters::default()),
            refused: Default::default(),
            accept_errors: CounterVec::default(),
            handshakes: CounterVec::default(),
            handshake_failures: CounterVec::default(),
            full_handshake_time: Histogram::default(),
            resumed_handshake_time: Histogram::default(),
            handshake_parts: Default::default(),
            handshake_algorithms: CounterVec::default(),
            handshake_algorithm_time: CounterVec::default(),
            handshakes_after: Default::default(),
            alerts: CounterVec::default(),
            key_updates: Counter::default(),
            handshakes_queued: Counter::default(),
            hellos_retried: Counter::default(),
            session_waits: Default::default(),
            early_data: CounterVec::default(),
            early_requests: CounterVec::default(),
            certificates_sent: Default::default(),
            staples: Default::default(),
            encrypted_hellos: Default::default(),
            tickets_issued: Counter::default(),
            tickets_offered: Default::default(),
            requests: Default::default(),
            requests_by_version: Default::default(),
            connections_by_version: Default::default(),
            http2: Http2Counters::default(),
            http3: Http3Counters::default(),
            rejections: CounterVec::default(),
            request_time: Histogram::default(),
            first_byte_time: Histogram::default(),
            sites: SiteCells::default(),
            clients: Default::default(),
            client_handshakes: CounterVec::default(),
            client_handshake_time: Default::default(),
            top: TopCounters::default(),
            sent: Default::default(),
            egress: CounterVec::default(),
            egress_ended: CounterVec::default(),
            short_responses: Default::default(),
            open_files: Counter::default(),
            file_lookups: Default::default(),
            page_cache_misses: Counter::default(),
            signed_urls: CounterVec::default(),
            cached: CounterVec::default(),
            origin: CounterVec::default(),
            filled: Counter::default(),
            manifests: CounterVec::default(),
            origin_retries: Counter::default(),
            reloads: CounterVec::default(),
            busy: BusyTime::default(),
            panics: Counter::default(),
            work: Arc::default(),
            #[cfg(debug_assertions)]
            writer: std::sync::OnceLock::new(),
        }
    }

    /// Counts an accepted connection. Each call is followed by one of [`Shard::connection_closed`].
    pub fn connection_opened(&self, listener: ListenerId) {
        self.expect_own_thread();
        self.connections[listener.0].opened.add(1);
    }

    /// Counts the end of a connection that [`Shard::connection_opened`] counted.
    pub fn connection_closed(&self, listener: ListenerId) {
        self.expect_own_thread();
        self.connections[listener.0].closed.add(1);
    }

    /// Counts a connection that was closed right after it was accepted.
    pub fn refused(&self, why: Refusal) {
        self.expect_own_thread();
        self.refused[why as usize].add(1);
    }

    /// Counts a failure of `accept`; `reason` is a short name such as `descriptors` or `aborted`.
    pub fn accept_error(&self, reason: &'static str) {
        self.expect_own_thread();
        self.accept_errors.add(reason);
    }

    /// Counts a response that ended. `duration` is the time from the whole request head to the last byte given to the
    /// socket, `first_byte` the time to the first byte (`None` if no byte was sent).
    pub fn request(&self, method: Method, status: u16, duration: Duration, first_byte: Option<Duration>) {
        self.expect_own_thread();
        self.requests[method as usize][StatusClass::of(status) as usize].add(1);
        self.request_time.observe(duration);
        if let Some(first_byte) = first_byte {
            self.first_byte_time.observe(first_byte);
        }
    }

    /// Counts a request that the parser refused.
    pub fn rejected(&self, reason: &'static str) {
        self.expect_own_thread();
        self.rejections.add(reason);
    }

    /// Counts bytes of heads and bodies given to the socket, before encryption.
    pub fn sent(&self, outlet: OutletKind, bytes: u64) {
        self.expect_own_thread();
        self.sent[outlet as usize].add(bytes);
    }

    /// Counts a connection by its egress path; `reason` is a short name for why this path was chosen.
    pub fn egress(&self, kind: OutletKind, reason: &'static str) {
        self.expect_own_thread();
        self.egress.add((kind, reason));
    }

    /// Counts a connection that ended because of its egress path: the kernel failed, or its keys reached their limit.
    pub fn egress_ended(&self, reason: &'static str) {
        self.expect_own_thread();
        self.egress_ended.add(reason);
    }

    /// Counts a response that ended before its last byte.
    pub fn short_response(&self, why: ShortReason) {
        self.expect_own_thread();
        self.short_responses[why as usize].add(1);
    }

    /// Replaces the counts of the open-file memo and of the page-cache checks.
    pub fn files(&self, files: &FileCounts) {
        self.expect_own_thread();
        self.open_files.set(files.open);
        self.file_lookups[FileLookup::Hit as usize].set(files.hits);
        self.file_lookups[FileLookup::Open as usize].set(files.opened);
        self.file_lookups[FileLookup::Revalidated as usize].set(files.revalidated);
        self.file_lookups[FileLookup::Missing as usize].set(files.missing);
        self.page_cache_misses.set(files.page_cache_misses);
    }

    /// Counts a request to a site with signed URLs: `accepted`, or the reason of the refusal.
    pub fn signed_url(&self, outcome: &'static str) {
        self.expect_own_thread();
        self.signed_urls.add(outcome);
    }

    /// Counts a request to a site with a cache, by cache status.
    pub fn cached(&self, outcome: &'static str) {
        self.expect_own_thread();
        self.cached.add(outcome);
    }

    /// Counts a request to an origin: `answered`, or a short name of the fault.
    pub fn origin(&self, outcome: &'static str) {
        self.expect_own_thread();
        self.origin.add(outcome);
    }

    /// Counts bytes received from an origin.
    pub fn filled(&self, bytes: u64) {
        self.expect_own_thread();
        self.filled.add(bytes);
    }

    /// Replaces the number of requests to origins that this worker has repeated.
    pub fn origin_retries(&self, total: u64) {
        self.expect_own_thread();
        self.origin_retries.set(total);
    }

    /// Counts a manifest that came from an origin, by kind.
    pub fn manifest(&self, kind: &'static str) {
        self.expect_own_thread();
        self.manifests.add(kind);
    }

    /// Counts a blocking playlist request (`_HLS_msn`), by outcome.
    pub fn reload(&self, outcome: &'static str) {
        self.expect_own_thread();
        self.reloads.add(outcome);
    }

    /// Reports the CPU time of the worker's thread and the age of the worker. The caller does so about once a second;
    /// `penstock_worker_busy_ratio` shows the share of the time between two reports.
    pub fn busy(&self, worked: Duration, lifetime: Duration) {
        self.expect_own_thread();
        self.busy.report(nanoseconds(worked), nanoseconds(lifetime));
    }

    /// Replaces the CPU time that the worker's thread spent in the program and in the kernel.
    pub fn cpu_modes(&self, user: Duration, system: Duration) {
        self.expect_own_thread();
        self.busy.modes[CpuMode::User as usize].set(nanoseconds(user));
        self.busy.modes[CpuMode::System as usize].set(nanoseconds(system));
    }

    /// Makes this the shard of the worker of this thread: [`doing`](crate::doing) notes there what it does.
    pub fn enter_thread(&self) {
        self.work.enter();
    }

    /// Counts a panic of a task of this worker. Any thread may call it.
    pub fn panicked(&self) {
        self.panics.add_shared(1);
    }

    #[cfg(debug_assertions)]
    pub(crate) fn expect_own_thread(&self) {
        let current = std::thread::current().id();
        assert_eq!(
            *self.writer.get_or_init(|| current),
            current,
            "a second thread counts in a worker's shard"
        );
    }

    #[cfg(not(debug_assertions))]
    #[inline]
    pub(crate) fn expect_own_thread(&self) {}
}

impl BusyTime {
    pub(crate) fn ratio(&self) -> f64 {
        f64::from(u32::try_from(self.ratio_millionths.get()).unwrap_or(u32::MAX)) / 1e6
    }

    fn report(&self, worked: u64, lifetime: u64) {
        let interval = lifetime.saturating_sub(self.reported_nanoseconds.get());
        let progress = worked.saturating_sub(self.total_nanoseconds.get());
        if interval == 0 {
            return;
        }
        // The start of a worker, before the first report, is no load: others would leave a node that has just started alone.
        if self.reported_nanoseconds.get() > 0 {
            let millionths = u128::from(progress) * 1_000_000 / u128::from(interval);
            self.ratio_millionths.set(u64::try_from(millionths).unwrap_or(u64::MAX).min(1_000_000));
        }
        self.total_nanoseconds.set(self.total_nanoseconds.get() + progress);
        self.reported_nanoseconds.set(lifetime);
    }
}
