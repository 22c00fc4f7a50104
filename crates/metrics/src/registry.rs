//! All metrics of the process: the shards of the workers, and the counters that they do not own.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::{Instant, SystemTime};

use crate::background::BackgroundCounters;
use crate::cells::{CounterVec, Distribution, Histogram};
use crate::certificates::{CertificateExpiry, Certificates};
use crate::facts::{ListenerId, RateId, SiteId};
use crate::labels::{LabelSet, OTHER, Protocol, PurgeKind, ReloadOutcome};
use crate::limits;
use crate::lock::lock;
use crate::log::LogCounters;
use crate::prefetch::Prefetches;
use crate::pressure::GivenUp;
use crate::readings::TicketKeysReading;
use crate::shard::{Shard, SiteOfWorkers};

/// All metrics of the process.
#[derive(Debug)]
pub struct Metrics {
    pub(crate) started: Instant,
    pub(crate) started_at: SystemTime,
    pub(crate) shards: Vec<Arc<Shard>>,
    listeners: Mutex<Vec<Listener>>,
    sites: Mutex<Vec<Arc<str>>>,
    rates: Mutex<Vec<u64>>,
    pub(crate) certificates: Certificates,
    prefetches: Mutex<Option<Arc<Prefetches>>>,
    purges: [AtomicU64; PurgeKind::ALL.len()],
    purged_objects: AtomicU64,
    reloads: [AtomicU64; ReloadOutcome::ALL.len()],
    config_loaded_at: Mutex<SystemTime>,
    pub(crate) access_log: Arc<LogCounters>,
    ticket_keys: Mutex<TicketKeysReading>,
    background: Arc<BackgroundCounters>,
    given_up: Arc<GivenUp>,
}

/// The labels of a listener.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Listener {
    address: String,
    protocol: Protocol,
}

/// The connections of a listener over all workers.
#[derive(Debug)]
pub(crate) struct ListenerConnections {
    pub(crate) address: String,
    pub(crate) protocol: Protocol,
    pub(crate) opened: u64,
    closed: u64,
}

impl Metrics {
    /// Returns metrics for `workers` workers with all counters at zero. The process counts as started now.
    #[must_use]
    pub fn new(workers: usize) -> Arc<Self> {
        let (now, started) = (SystemTime::now(), Instant::now());
        Arc::new(Self {
            started,
            started_at: now,
            shards: (0..workers).map(|_| Arc::new(Shard::new(started))).collect(),
            listeners: Mutex::default(),
            sites: Mutex::default(),
            rates: Mutex::default(),
            certificates: Certificates::default(),
            prefetches: Mutex::default(),
            purges: Default::default(),
            purged_objects: AtomicU64::default(),
            reloads: Default::default(),
            config_loaded_at: Mutex::new(now),
            access_log: Arc::default(),
            ticket_keys: Mutex::default(),
            background: Arc::default(),
            given_up: Arc::default(),
        })
    }

    /// The counters of one worker.
    ///
    /// # Panics
    /// If there is no such worker.
    #[must_use]
    pub fn shard(&self, worker: usize) -> Arc<Shard> {
        Arc::clone(&self.shards[worker])
    }

    /// The identity of a listener in the counters. The same address and protocol always get the same one, so that
    /// counters continue after a reload.
    ///
    /// Listeners after the 63rd share the address `other`.
    pub fn listener(&self, address: &str, protocol: Protocol) -> ListenerId {
        let mut listeners = lock(&self.listeners);
        let wanted = Listener { address: address.to_owned(), protocol };
        if let Some(index) = listeners.iter().position(|known| *known == wanted) {
            return ListenerId(index);
        }
        let last = limits::LISTENERS - 1;
        if listeners.len() < last {
            listeners.push(wanted);
        } else if listeners.len() == last {
            listeners.push(Listener { address: OTHER.to_owned(), protocol });
        }
        ListenerId(listeners.len() - 1)
    }

    /// The identity of a site in the counters. The same name always gets the same one, so that counters continue after a
    /// reload. Sites after the 1,023rd share the name `other`.
    pub fn site(&self, name: &str) -> SiteId {
        let mut sites = lock(&self.sites);
        if let Some(index) = sites.iter().position(|known| &**known == name) {
            return SiteId(index);
        }
        let last = limits::SITES - 1;
        if sites.len() < last {
            sites.push(Arc::from(name));
        } else if sites.len() == last {
            sites.push(Arc::from(OTHER));
        }
        SiteId(sites.len() - 1)
    }

    /// The identity of a rate, in bytes per second. The same rate always gets the same one. `None` beyond 16 of them.
    pub fn rate(&self, bytes_per_second: u64) -> Option<RateId> {
        let mut rates = lock(&self.rates);
        if let Some(index) = rates.iter().position(|known| *known == bytes_per_second) {
            return Some(RateId(index));
        }
        (rates.len() < limits::RATES).then(|| {
            rates.push(bytes_per_second);
            RateId(rates.len() - 1)
        })
    }

    /// Seconds since the start.
    pub(crate) fn second(&self) -> u64 {
        self.started.elapsed().as_secs()
    }

    /// The rates that have an identity.
    pub(crate) fn rates(&self) -> Vec<u64> {
        lock(&self.rates).clone()
    }

    /// Counts a reload of the configuration. If it was applied, `now` becomes the time of the configuration.
    pub fn reloaded(&self, outcome: ReloadOutcome, now: SystemTime) {
        self.reloads[outcome as usize].fetch_add(1, Relaxed);
        if outcome == ReloadOutcome::Applied {
            *lock(&self.config_loaded_at) = now;
        }
    }

    /// Replaces the counters of prefetches that are shown.
    pub fn set_prefetches(&self, prefetches: Arc<Prefetches>) {
        *lock(&self.prefetches) = Some(prefetches);
    }

    /// Replaces the list of usable certificates.
    pub fn set_certificates(&self, certificates: Vec<CertificateExpiry>) {
        self.certificates.set(certificates);
    }

    /// Replaces the numbers of unusable certificates by reason.
    pub fn set_certificate_faults(&self, faults: Vec<(&'static str, u64)>) {
        self.certificates.set_faults(faults);
    }

    /// Counts a change of certificate files.
    pub fn certificates_changed(&self, outcome: ReloadOutcome) {
        self.certificates.changed(outcome);
    }

    /// Replaces the state of the session ticket keys.
    pub fn set_ticket_keys(&self, keys: TicketKeysReading) {
        *lock(&self.ticket_keys) = keys;
    }

    /// Counts a purge and the objects that it met.
    pub fn purged(&self, kind: PurgeKind, objects: usize) {
        self.purges[kind as usize].fetch_add(1, Relaxed);
        self.purged_objects.fetch_add(objects as u64, Relaxed);
    }

    /// The share of the last second that the workers spent on the CPU, on average, from 0 to 1.
    #[must_use]
    pub fn busy_share(&self) -> f64 {
        self.shards.iter().map(|shard| shard.busy.ratio()).sum::<f64>() / self.shards.len() as f64
    }

    /// Looks once at what each worker is doing. One thread calls it, about a hundred times a second.
    pub fn look_at_work(&self) {
        self.shards.iter().for_each(|shard| shard.work.look());
    }

    /// The counters of the access log, for its writer.
    #[must_use]
    pub fn access_log(&self) -> Arc<LogCounters> {
        Arc::clone(&self.access_log)
    }

    /// What the server does without while the CPU is short.
    #[must_use]
    pub fn given_up(&self) -> &Arc<GivenUp> {
        &self.given_up
    }

    /// The counters of the tasks that refresh OCSP responses and ECH keys.
    #[must_use]
    pub fn background(&self) -> &Arc<BackgroundCounters> {
        &self.background
    }

    pub(crate) fn sum(&self, count: impl Fn(&Shard) -> u64) -> u64 {
        self.shards.iter().map(|shard| count(shard)).sum()
    }

    pub(crate) fn sum_by_label<L: LabelSet>(&self, vec: impl Fn(&Shard) -> &CounterVec<L>) -> Vec<(L, u64)> {
        let mut totals = Vec::new();
        for shard in &self.shards {
            vec(shard).merge_into(&mut totals);
        }
        totals
    }

    pub(crate) fn distribution(&self, histogram: impl Fn(&Shard) -> &Histogram) -> Distribution {
        Distribution::of(self.shards.iter().map(|shard| histogram(shard)))
    }

    /// The counters of each site that has had a request, in the order of [`Self::site`].
    pub(crate) fn sites(&self) -> Vec<SiteOfWorkers<'_>> {
        let names = lock(&self.sites).clone();
        let counters = |place| self.shards.iter().filter_map(move |shard| shard.sites.get(place));
        let of_workers = |(place, name)| SiteOfWorkers { name, workers: counters(place).collect() };
        names.into_iter().enumerate().map(of_workers).filter(|site| !site.workers.is_empty()).collect()
    }

    pub(crate) fn listener_connections(&self) -> Vec<ListenerConnections> {
        let listeners = lock(&self.listeners).clone();
        let count = |(index, listener): (usize, Listener)| {
            // Closed before opened: a connection that opens and closes between the two must not make the difference
            // negative.
            let closed = self.sum(|shard| shard.connections[index].closed.get());
            let opened = self.sum(|shard| shard.connections[index].opened.get());
            ListenerConnections { address: listener.address, protocol: listener.protocol, opened, closed }
        };
        listeners.into_iter().enumerate().map(count).collect()
    }

    /// Full handshakes that succeeded, of all workers.
    #[must_use]
    pub fn full_handshakes(&self) -> u64 {
        self.distribution(|shard| &shard.full_handshake_time).count()
    }

    pub(crate) fn handshakes_failed(&self) -> u64 {
        self.sum_by_label(|shard| &shard.handshake_failures).iter().map(|(_, count)| count).sum()
    }

    pub(crate) fn reloads(&self, outcome: ReloadOutcome) -> u64 {
        self.reloads[outcome as usize].load(Relaxed)
    }

    pub(crate) fn config_loaded_at(&self) -> SystemTime {
        *lock(&self.config_loaded_at)
    }

    pub(crate) fn prefetches(&self) -> Option<Arc<Prefetches>> {
        lock(&self.prefetches).clone()
    }

    pub(crate) fn ticket_keys(&self) -> TicketKeysReading {
        *lock(&self.ticket_keys)
    }

    pub(crate) fn purges(&self, kind: PurgeKind) -> u64 {
        self.purges[kind as usize].load(Relaxed)
    }

    pub(crate) fn purged_objects(&self) -> u64 {
        self.purged_objects.load(Relaxed)
    }
}

impl ListenerConnections {
    pub(crate) fn open(&self) -> u64 {
        self.opened.saturating_sub(self.closed)
    }
}
