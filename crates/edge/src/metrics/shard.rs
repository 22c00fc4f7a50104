//! The counters of one worker.

use std::time::Duration;

use penstock_config::limits;
use penstock_origin::directory::OpenFilesCounters;
use penstock_origin::residency::ResidencyCounters;
use penstock_tls::Timing;

use super::cells::{Counter, Histogram, Tally, TallyKey, nanoseconds};
use super::extensions::ExtensionCounters;
use super::labels::{
    Direction, FileLookup, HandshakePart, LastResponse, Method, OutletKind, Refusal, ShortReason, Signer,
    StatusClass,
};
use super::policies::Policies;
use super::resumption::Resumption;
use super::tickets::TicketCounters;

/// A listener as the counters know it; see [`Observatory::listener`](super::Observatory::listener).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListenerId(pub(super) usize);

/// What was agreed in a finished handshake, as label values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HandshakeFacts {
    /// The protocol version, such as `TLSv1.3`.
    pub version: &'static str,
    /// The cipher suite by its IANA name, such as `TLS_AES_128_GCM_SHA256`.
    pub cipher: &'static str,
    /// The key exchange group, such as `X25519MLKEM768`; `none` where there was no key exchange.
    pub group: &'static str,
    /// Whether a session was resumed.
    pub resumed: bool,
    /// The kind of key that signed, such as `ecdsa`; `none` where a session was resumed.
    pub certificate: &'static str,
}

impl TallyKey for HandshakeFacts {
    const OTHER: Self = Self {
        version: super::cells::OTHER,
        cipher: super::cells::OTHER,
        group: super::cells::OTHER,
        resumed: false,
        certificate: super::cells::OTHER,
    };
}

impl TallyKey for (OutletKind, &'static str) {
    const OTHER: Self = (OutletKind::UserSpace, super::cells::OTHER);
}

/// The counters of one worker.
///
/// **Only the worker's own thread may count here**: adding is a plain load and store, so that a hit pays nothing for
/// it, and a second writer would lose counts. Debug builds panic when a second thread counts. [`Shard::panicked`] is
/// the exception. Any thread may read.
#[derive(Debug)]
#[repr(align(128))] // two cache lines: the prefetcher pulls them in pairs, and no two workers may share either
pub struct Shard {
    pub(super) connections: [Flow; limits::METRICS_LISTENERS],
    pub(super) refused: [Counter; Refusal::ALL.len()],
    pub(super) accept_errors: Tally<&'static str>,

    pub(super) handshakes: Tally<HandshakeFacts>,
    pub(super) handshake_failures: Tally<&'static str>,
    pub(super) full_handshake_time: Histogram,
    pub(super) resumed_handshake_time: Histogram,
    pub(super) handshake_parts: [[Histogram; HandshakePart::ALL.len()]; Signer::ALL.len()],
    /// By the client's last response; full ones first, resumed ones behind.
    pub(super) handshakes_after: [[Counter; 2]; LastResponse::ALL.len()],
    pub(super) alerts: Tally<(Direction, &'static str)>,
    pub(super) key_updates: Counter,
    pub(super) policies: Policies,
    pub(super) resumption: Resumption,
    pub(super) extensions: ExtensionCounters,
    pub(super) tickets: TicketCounters,

    pub(super) requests: [[Counter; StatusClass::ALL.len()]; Method::ALL.len()],
    pub(super) rejections: Tally<&'static str>,
    pub(super) request_time: Histogram,
    pub(super) first_byte_time: Histogram,

    pub(super) sent: [Counter; OutletKind::ALL.len()],
    pub(super) egress: Tally<(OutletKind, &'static str)>,
    pub(super) egress_ended: Tally<&'static str>,
    pub(super) short_responses: [Counter; ShortReason::ALL.len()],

    pub(super) open_files: Counter,
    pub(super) file_lookups: [Counter; FileLookup::ALL.len()],
    pub(super) page_cache_misses: Counter,

    pub(super) signed_urls: Tally<&'static str>,
    pub(super) cached: Tally<&'static str>,
    pub(super) origin: Tally<&'static str>,
    pub(super) filled: Counter,
    pub(super) manifests: Tally<&'static str>,
    pub(super) origin_retries: Counter,
    pub(super) reloads: Tally<&'static str>,

    pub(super) busy: BusyTime,
    pub(super) panics: Counter,

    #[cfg(debug_assertions)]
    writer: std::sync::OnceLock<std::thread::ThreadId>,
}

/// Connections of one listener.
#[derive(Debug, Default)]
pub(super) struct Flow {
    pub(super) opened: Counter,
    pub(super) closed: Counter,
}

/// How long the worker worked, and which share of its time that was between the last two reports.
#[derive(Debug, Default)]
pub(super) struct BusyTime {
    pub(super) total_nanoseconds: Counter,
    ratio_millionths: Counter,
    reported_nanoseconds: Counter,
}

impl Shard {
    pub(super) fn new() -> Self {
        Self {
            connections: std::array::from_fn(|_| Flow::default()),
            refused: Default::default(),
            accept_errors: Tally::default(),
            handshakes: Tally::default(),
            handshake_failures: Tally::default(),
            full_handshake_time: Histogram::default(),
            resumed_handshake_time: Histogram::default(),
            handshake_parts: Default::default(),
            handshakes_after: Default::default(),
            alerts: Tally::default(),
            key_updates: Counter::default(),
            policies: Policies::default(),
            resumption: Resumption::default(),
            extensions: ExtensionCounters::default(),
            tickets: TicketCounters::default(),
            requests: Default::default(),
            rejections: Tally::default(),
            request_time: Histogram::default(),
            first_byte_time: Histogram::default(),
            sent: Default::default(),
            egress: Tally::default(),
            egress_ended: Tally::default(),
            short_responses: Default::default(),
            open_files: Counter::default(),
            file_lookups: Default::default(),
            page_cache_misses: Counter::default(),
            signed_urls: Tally::default(),
            cached: Tally::default(),
            origin: Tally::default(),
            filled: Counter::default(),
            manifests: Tally::default(),
            origin_retries: Counter::default(),
            reloads: Tally::default(),
            busy: BusyTime::default(),
            panics: Counter::default(),
            #[cfg(debug_assertions)]
            writer: std::sync::OnceLock::new(),
        }
    }

    /// A connection was accepted. Every call is followed by one of [`Shard::connection_closed`] in the end.
    pub fn connection_opened(&self, listener: ListenerId) {
        self.expect_own_thread();
        self.connections[listener.0].opened.add(1);
    }

    /// A connection counted by [`Shard::connection_opened`] is closed.
    pub fn connection_closed(&self, listener: ListenerId) {
        self.expect_own_thread();
        self.connections[listener.0].closed.add(1);
    }

    /// A connection was closed right after it was accepted.
    pub fn refused(&self, why: Refusal) {
        self.expect_own_thread();
        self.refused[why as usize].add(1);
    }

    /// `accept` failed; `reason` is a short name such as `descriptors` or `aborted`.
    pub fn accept_error(&self, reason: &'static str) {
        self.expect_own_thread();
        self.accept_errors.add(reason);
    }

    /// A handshake succeeded with a client whose last response was `after`.
    pub fn handshake_done(&self, facts: &HandshakeFacts, timing: &Timing, after: LastResponse) {
        self.expect_own_thread();
        self.handshakes.add(*facts);
        if facts.resumed {
            self.resumed_handshake_time.observe(timing.total());
        } else {
            self.full_handshake_time.observe(timing.total());
        }
        let parts = &self.handshake_parts[Signer::named(facts.certificate) as usize];
        parts[HandshakePart::Waiting as usize].observe(timing.waiting);
        parts[HandshakePart::Queued as usize].observe(timing.queued);
        parts[HandshakePart::Signing as usize].observe(timing.signing);
        parts[HandshakePart::KeyExchange as usize].observe(timing.key_exchange);
        parts[HandshakePart::Rest as usize].observe(timing.rest);
        self.handshakes_after[after as usize][usize::from(facts.resumed)].add(1);
    }

    /// A handshake failed.
    pub fn handshake_failed(&self, reason: &'static str) {
        self.expect_own_thread();
        self.handshake_failures.add(reason);
    }

    /// A TLS alert was sent or received; `alert` is its name in RFC 8446 section 6, such as `close_notify`.
    pub fn alert(&self, direction: Direction, alert: &'static str) {
        self.expect_own_thread();
        self.alerts.add((direction, alert));
    }

    /// A client sent a TLS 1.3 KeyUpdate.
    pub fn key_update(&self) {
        self.expect_own_thread();
        self.key_updates.add(1);
    }

    /// A response ended: `duration` from the whole head received to the last byte handed to the socket, and
    /// `first_byte` from the head to the first byte handed over (`None` when nothing was sent).
    pub fn request(&self, method: Method, status: u16, duration: Duration, first_byte: Option<Duration>) {
        self.expect_own_thread();
        self.requests[method as usize][StatusClass::of(status) as usize].add(1);
        self.request_time.observe(duration);
        if let Some(first_byte) = first_byte {
            self.first_byte_time.observe(first_byte);
        }
    }

    /// A request was turned down by the parser.
    pub fn rejected(&self, reason: &'static str) {
        self.expect_own_thread();
        self.rejections.add(reason);
    }

    /// Bytes of heads and bodies were handed to the socket, counted before encryption.
    pub fn sent(&self, outlet: OutletKind, bytes: u64) {
        self.expect_own_thread();
        self.sent[outlet as usize].add(bytes);
    }

    /// It was decided how the bytes of a connection leave; `reason` says why this kind.
    pub fn egress(&self, kind: OutletKind, reason: &'static str) {
        self.expect_own_thread();
        self.egress.add((kind, reason));
    }

    /// A connection ends because of how it sends: the kernel gave up, or its keys may not be used any longer.
    pub fn egress_ended(&self, reason: &'static str) {
        self.expect_own_thread();
        self.egress_ended.add(reason);
    }

    /// A response ended before its last byte.
    pub fn short_response(&self, why: ShortReason) {
        self.expect_own_thread();
        self.short_responses[why as usize].add(1);
    }

    /// Takes over what the memo of open files and the checks of the page cache have counted.
    pub fn files(&self, files: &OpenFilesCounters, residency: &ResidencyCounters) {
        self.expect_own_thread();
        self.open_files.set(files.files as u64);
        self.file_lookups[FileLookup::Hit as usize].set(files.hits);
        self.file_lookups[FileLookup::Open as usize].set(files.opens);
        self.file_lookups[FileLookup::Revalidated as usize].set(files.revalidations);
        self.file_lookups[FileLookup::Missing as usize].set(files.absent_hits);
        self.page_cache_misses.set(residency.loaded);
    }

    /// A request to a site with signed URLs was `accepted`, or refused for this reason.
    pub fn signed_url(&self, outcome: &'static str) {
        self.expect_own_thread();
        self.signed_urls.add(outcome);
    }

    /// An object was found, or not, in the cache; `outcome` says how it was come by.
    pub fn cached(&self, outcome: &'static str) {
        self.expect_own_thread();
        self.cached.add(outcome);
    }

    /// A request to an origin ended; `outcome` is `answered` or says what went wrong.
    pub fn origin(&self, outcome: &'static str) {
        self.expect_own_thread();
        self.origin.add(outcome);
    }

    /// Bytes came from an origin.
    pub fn filled(&self, bytes: u64) {
        self.expect_own_thread();
        self.filled.add(bytes);
    }

    /// How many requests to origins this worker has sent once more.
    pub fn origin_retries(&self, total: u64) {
        self.expect_own_thread();
        self.origin_retries.set(total);
    }

    /// Reports how long this worker has worked since it started: its thread's CPU time. Call it about once a second;
    /// the share of the time between two calls is what `penstock_worker_busy_ratio` shows.
    ///
    /// `lifetime` is the age of the worker at this moment.
    pub fn busy(&self, worked: Duration, lifetime: Duration) {
        self.expect_own_thread();
        self.busy.report(nanoseconds(worked), nanoseconds(lifetime));
    }

    /// A task of this worker panicked. Any thread may call it.
    pub fn panicked(&self) {
        self.panics.add_shared(1);
    }

    #[cfg(debug_assertions)]
    pub(super) fn expect_own_thread(&self) {
        let current = std::thread::current().id();
        assert_eq!(
            *self.writer.get_or_init(|| current),
            current,
            "a second thread counts in a worker's shard"
        );
    }

    #[cfg(not(debug_assertions))]
    #[inline]
    pub(super) fn expect_own_thread(&self) {}
}

impl BusyTime {
    pub(super) fn ratio(&self) -> f64 {
        f64::from(u32::try_from(self.ratio_millionths.get()).unwrap_or(u32::MAX)) / 1e6
    }

    fn report(&self, worked: u64, lifetime: u64) {
        let interval = lifetime.saturating_sub(self.reported_nanoseconds.get());
        let progress = worked.saturating_sub(self.total_nanoseconds.get());
        if interval == 0 {
            return;
        }
        let millionths = u128::from(progress) * 1_000_000 / u128::from(interval);
        self.ratio_millionths.set(u64::try_from(millionths).unwrap_or(u64::MAX).min(1_000_000));
        self.total_nanoseconds.set(self.total_nanoseconds.get() + progress);
        self.reported_nanoseconds.set(lifetime);
    }
}
