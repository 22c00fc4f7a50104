//! Counting what happens, at no cost to a hit, and showing it.
//!
//! Each worker counts in its own [`Shard`]; a scrape sums the shards. What is shown, under which name and with which
//! labels, stands in one table, from which the text for Prometheus and `docs/metrics.md` are made.

mod cells;
mod certificates;
mod exposition;
mod extensions;
mod labels;
mod live;
mod origins;
mod policies;
mod process;
mod purges;
mod reference;
mod resumption;
mod shard;
mod status;
mod table;
#[cfg(test)]
mod tests;
mod tickets;

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Instant, SystemTime};

use penstock_cache::{Disks, MemoryTier, TierCounters};
use penstock_config::limits;
use penstock_egress::measure::Costs;
use penstock_tls::session_cache::SessionCacheCounts;
use penstock_tls::session_store::InternalStore;

pub use certificates::CertificateExpiry;
pub use extensions::KeeperCounters;
pub use labels::{
    Direction, FileLookup, HandshakePart, LastResponse, LogLoss, Method, OutletKind, Protocol, Refusal,
    ReloadOutcome, ShortReason, Signer, StapleOutcome, StapleSource, StatusClass,
};
pub use live::{Prefetched, Prefetches};
pub use reference::reference;
pub use shard::{HandshakeFacts, ListenerId, Shard};
pub use tickets::TicketKeysSeen;

use crate::chacha20::ChaCha20Control;
use cells::{Distribution, Histogram, Tally, TallyKey};

/// The version of the program.
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// All counters of the process.
#[derive(Debug)]
pub struct Observatory {
    started: Instant,
    started_at: SystemTime,
    shards: Vec<Arc<Shard>>,
    listeners: Mutex<Vec<Listener>>,
    certificates: certificates::Certificates,
    /// `None` while no site has needed a cache.
    tier: Mutex<Option<Arc<MemoryTier>>>,
    prefetches: Mutex<Option<Arc<Prefetches>>>,
    origins: origins::Origins,
    purges: purges::PurgeCounters,
    reloads: [AtomicU64; ReloadOutcome::ALL.len()],
    config_loaded_at: Mutex<SystemTime>,
    access_log: Arc<LogCounters>,
    costs: Mutex<Costs>,
    sessions: Mutex<Option<Arc<InternalStore>>>,
    chacha20: ChaCha20Control,
    ticket_keys: Mutex<TicketKeysSeen>,
    keeper: Arc<KeeperCounters>,
}

/// A listener in the labels of its connections.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Listener {
    address: String,
    protocol: Protocol,
}

/// The connections of a listener over all workers.
#[derive(Debug)]
struct ListenerFlow {
    address: String,
    protocol: Protocol,
    opened: u64,
    closed: u64,
}

/// What became of the access log's records. Any thread counts here.
#[derive(Debug, Default)]
pub struct LogCounters {
    written: AtomicU64,
    lost: [AtomicU64; LogLoss::ALL.len()],
}

impl Observatory {
    /// Counters for `workers` workers, all at zero; the process counts as started now.
    #[must_use]
    pub fn new(workers: usize) -> Arc<Self> {
        let now = SystemTime::now();
        Arc::new(Self {
            started: Instant::now(),
            started_at: now,
            shards: (0..workers).map(|_| Arc::new(Shard::new())).collect(),
            listeners: Mutex::default(),
            certificates: certificates::Certificates::default(),
            tier: Mutex::default(),
            prefetches: Mutex::default(),
            origins: origins::Origins::default(),
            purges: purges::PurgeCounters::default(),
            reloads: Default::default(),
            config_loaded_at: Mutex::new(now),
            access_log: Arc::default(),
            costs: Mutex::default(),
            sessions: Mutex::default(),
            chacha20: ChaCha20Control::new(),
            ticket_keys: Mutex::default(),
            keeper: Arc::default(),
        })
    }

    /// The counters of one worker.
    ///
    /// # Panics
    /// When there is no such worker.
    #[must_use]
    pub fn shard(&self, worker: usize) -> Arc<Shard> {
        Arc::clone(&self.shards[worker])
    }

    /// The identity under which the connections of a listener are counted. The same address and protocol always get
    /// the same one, so that counters go on after a reload.
    ///
    /// Beyond 63 listeners, the later ones share the address `other`.
    pub fn listener(&self, address: &str, protocol: Protocol) -> ListenerId {
        let mut listeners = lock(&self.listeners);
        let wanted = Listener { address: address.to_owned(), protocol };
        if let Some(index) = listeners.iter().position(|known| *known == wanted) {
            return ListenerId(index);
        }
        let last = limits::METRICS_LISTENERS - 1;
        if listeners.len() < last {
            listeners.push(wanted);
        } else if listeners.len() == last {
            listeners.push(Listener { address: cells::OTHER.to_owned(), protocol });
        }
        ListenerId(listeners.len() - 1)
    }

    /// A reload of the configuration was tried; `now` becomes the time of the configuration when it was applied.
    pub fn reloaded(&self, outcome: ReloadOutcome, now: SystemTime) {
        self.reloads[outcome as usize].fetch_add(1, Relaxed);
        if outcome == ReloadOutcome::Applied {
            *lock(&self.config_loaded_at) = now;
        }
    }

    /// Where fetches before anybody asked are counted.
    pub(crate) fn set_prefetches(&self, prefetches: Arc<Prefetches>) {
        *lock(&self.prefetches) = Some(prefetches);
    }

    /// The memory tier whose state is shown.
    pub(crate) fn set_tier(&self, tier: Arc<MemoryTier>) {
        *lock(&self.tier) = Some(tier);
    }

    /// What sealing costs on this machine, once it is measured.
    pub fn set_costs(&self, costs: Costs) {
        *lock(&self.costs) = costs;
    }

    /// The session cache, which counts for itself.
    pub fn set_sessions(&self, sessions: Arc<InternalStore>) {
        *lock(&self.sessions) = Some(sessions);
    }

    /// Who gets ChaCha20-Poly1305, and where that is changed.
    #[must_use]
    pub fn chacha20(&self) -> &ChaCha20Control {
        &self.chacha20
    }

    /// Looks whether the workers have time enough for ChaCha20-Poly1305. Any worker may call it as often as it likes.
    pub(crate) fn observe_pressure(&self, now: Instant) {
        let busy =
            || self.shards.iter().map(|shard| shard.busy.ratio()).sum::<f64>() / self.shards.len() as f64;
        self.chacha20.observe(now, busy, || *lock(&self.costs));
    }

    /// What sealing costs on this machine, as far as it is measured.
    #[must_use]
    pub fn costs(&self) -> Costs {
        *lock(&self.costs)
    }

    /// Where the access log counts; it is handed to [`AccessLog::open`](crate::access_log::AccessLog::open).
    #[must_use]
    pub fn access_log(&self) -> Arc<LogCounters> {
        Arc::clone(&self.access_log)
    }

    /// Where the keeper counts.
    #[must_use]
    pub(crate) fn keeper(&self) -> &Arc<KeeperCounters> {
        &self.keeper
    }

    /// All metrics in the Prometheus text format, version 0.0.4.
    #[must_use]
    pub fn render(&self) -> String {
        let mut text = String::with_capacity(16 * 1024);
        for metric in table::TABLE.iter().flat_map(|section| section.metrics) {
            exposition::Family::write(metric, self, &mut text);
        }
        text
    }

    /// A number of the memory tier, if there is one.
    fn tier(&self, number: impl Fn(&TierCounters) -> u64, out: &mut exposition::Family<'_>) {
        if let Some(tier) = lock(&self.tier).as_ref() {
            out.sample(&[], number(&tier.counters()));
        }
    }

    /// The disk tier, if there is one.
    fn disks(&self) -> Option<Arc<Disks>> {
        lock(&self.tier).as_ref()?.disks().cloned()
    }

    fn sum(&self, count: impl Fn(&Shard) -> u64) -> u64 {
        self.shards.iter().map(|shard| count(shard)).sum()
    }

    fn tally<K: TallyKey>(&self, tally: impl Fn(&Shard) -> &Tally<K>) -> Vec<(K, u64)> {
        let mut totals = Vec::new();
        for shard in &self.shards {
            tally(shard).merge_into(&mut totals);
        }
        totals
    }

    fn distribution(&self, histogram: impl Fn(&Shard) -> &Histogram) -> Distribution {
        let mut total = Distribution::default();
        for shard in &self.shards {
            total.merge(histogram(shard));
        }
        total
    }

    fn flows(&self) -> Vec<ListenerFlow> {
        let listeners = lock(&self.listeners).clone();
        let describe = |(index, listener): (usize, Listener)| {
            // Closed before opened: a connection that opens and closes in between must not make it negative.
            let closed = self.sum(|shard| shard.connections[index].closed.get());
            let opened = self.sum(|shard| shard.connections[index].opened.get());
            ListenerFlow { address: listener.address, protocol: listener.protocol, opened, closed }
        };
        listeners.into_iter().enumerate().map(describe).collect()
    }

    fn sessions(&self) -> SessionCacheCounts {
        lock(&self.sessions).as_ref().map(|sessions| sessions.cache.counts()).unwrap_or_default()
    }

    fn handshakes_failed(&self) -> u64 {
        self.tally(|shard| &shard.handshake_failures).iter().map(|(_, count)| count).sum()
    }

    fn reloads(&self, outcome: ReloadOutcome) -> u64 {
        self.reloads[outcome as usize].load(Relaxed)
    }
}

impl ListenerFlow {
    fn open(&self) -> u64 {
        self.opened.saturating_sub(self.closed)
    }
}

impl LogCounters {
    /// `records` were written to the file.
    pub fn written(&self, records: u64) {
        self.written.fetch_add(records, Relaxed);
    }

    /// `records` will never be written.
    pub fn lost(&self, why: LogLoss, records: u64) {
        self.lost[why as usize].fetch_add(records, Relaxed);
    }

    /// How many records were written since the start.
    #[must_use]
    pub fn total_written(&self) -> u64 {
        self.written.load(Relaxed)
    }

    /// How many records were lost for this reason since the start.
    #[must_use]
    pub fn total_lost(&self, why: LogLoss) -> u64 {
        self.lost[why as usize].load(Relaxed)
    }
}

/// Locks; what these mutexes hold is whole at every moment, so a panic elsewhere does not spoil it.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
