//! Collects the state of the server's parts for a scrape, as plain numbers.

mod cluster_view;
pub(crate) mod labels;
mod summary;

pub use summary::NodeSummary;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Instant, SystemTime};

use penstock_acme::{AcmeStatus, NameState, NameStatus, OrderOutcome};
use penstock_cache::Disks;
use penstock_config::Config;
use penstock_content::{PeerOutcome, PeerStatus, Peers, Store};
use penstock_egress::measure::{CIPHER_LABELS, CIPHERS, Costs};
use penstock_fleet::Fleet;
use penstock_origin::http::HttpOrigin;
use penstock_sys::lock::Unpoisoned;
use penstock_tls::ocsp::Staples;
use penstock_tls::session_store::InternalStore;

use crate::metrics::{
    ChaCha20Reading, DiskTierReading, KernelTlsReading, Metrics, OrderedName, OrdersReading,
    OriginServerReading, PeerReading, Readings, StapleReading, TierCounters, Watch,
};
use crate::tls::{ChaCha20Control, Observed, PressurePolicy, RemoteKeys, TlsState};
use cluster_view::ClusterView;

/// Reads the parts of the server for a scrape, and switches ChaCha20-Poly1305 by what they show.
#[derive(Debug)]
pub struct Collector {
    metrics: Arc<Metrics>,
    chacha20: ChaCha20Control,
    pressure: PressurePolicy,
    costs: Mutex<Costs>,
    sessions: Arc<InternalStore>,
    staples: Arc<Staples>,
    orders: Arc<AcmeStatus>,
    fleet: Option<Arc<Fleet>>,
    settings: Mutex<CollectedParts>,
    watch: Mutex<Watch>,
    /// How this server is doing, by the last look.
    summary: Mutex<Option<NodeSummary>>,
    cluster_view: ClusterView,
}

/// The parts that a reload replaces.
#[derive(Debug, Default)]
pub(crate) struct CollectedParts {
    /// Each once, with the name of a site that has it.
    pub(crate) origins: Vec<(Arc<str>, Arc<HttpOrigin>)>,
    /// `None` without a cluster.
    pub(crate) peers: Option<Arc<Peers>>,
    /// `None` while no site needs a cache.
    pub(crate) cache: Option<Arc<Store>>,
    pub(crate) remote_keys: Arc<RemoteKeys>,
}

impl Collector {
    pub(crate) fn new(metrics: Arc<Metrics>, tls_state: &TlsState) -> Arc<Self> {
        let given_up = metrics.given_up();
        Arc::new(Self {
            chacha20: ChaCha20Control::new(Arc::clone(given_up)),
            pressure: PressurePolicy::new(Arc::clone(given_up)),
            metrics,
            costs: Mutex::default(),
            sessions: Arc::clone(&tls_state.sessions),
            staples: Arc::clone(&tls_state.staples),
            orders: Arc::clone(&tls_state.orders),
            fleet: tls_state.fleet.clone(),
            settings: Mutex::default(),
            watch: Mutex::default(),
            summary: Mutex::default(),
            cluster_view: ClusterView::default(),
        })
    }

    /// Replaces the parts by those of the settings in force. A cache that no site needs any more stays visible.
    pub(crate) fn set_parts(&self, parts: CollectedParts) {
        let mut shown = lock(&self.settings);
        (shown.origins, shown.peers) = (parts.origins, parts.peers);
        shown.remote_keys = parts.remote_keys;
        shown.cache = parts.cache.or_else(|| shown.cache.take());
    }

    /// The counters that it reads beside those parts.
    pub(crate) fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    /// All metrics in the Prometheus text format, version 0.0.4.
    #[must_use]
    pub fn render(&self) -> String {
        self.metrics.render(&self.readings(SystemTime::now()))
    }

    /// The state of the program as JSON: `/status.json`.
    #[must_use]
    pub fn status(&self) -> serde_json::Value {
        let mut status = self.metrics.status();
        let readings = self.readings(SystemTime::now());
        if let Some(sections) = status.as_object_mut() {
            sections.extend(self.metrics.sections(&readings));
            if let Some(keys) = &readings.remote_keys {
                sections.insert("private_keys".to_owned(), keys.status());
            }
            sections.insert("problems".to_owned(), lock(&self.watch).status());
        }
        if let (Some(orders), Some(sections)) = (orders(&self.orders), status.as_object_mut()) {
            sections.insert("acme".to_owned(), orders.status());
        }
        status
    }

    /// Looks once at what each worker is doing. One thread calls it, about a hundred times a second.
    pub fn look_at_work(&self) {
        self.metrics.look_at_work();
    }

    /// The numbers of the last second, in the order of [`Watch::series`], and a look for problems. One caller, once a second.
    pub fn look(&self) -> Vec<f32> {
        let now = SystemTime::now();
        let readings = self.readings(now);
        let mut watch = lock(&self.watch);
        let values = watch.look(&self.metrics, &readings, Instant::now(), now);
        let summary = NodeSummary::of(&values, watch.problems());
        if let Some(peers) = &lock(&self.settings).peers {
            peers.set_summary(summary.text());
        }
        *lock(&self.summary) = Some(summary);
        values
    }

    /// How the nodes of the cluster are doing, as each says itself, by name: this one, and the others that have answered in the
    /// last seconds. They are asked for some seconds from now on; the first answers come with a later call.
    pub fn node_summaries(&self) -> BTreeMap<String, NodeSummary> {
        let peers = lock(&self.settings).peers.clone();
        let Some(peers) = peers else { return BTreeMap::new() };
        let mut summaries = self.cluster_view.look(&peers, Instant::now());
        summaries.extend(lock(&self.summary).clone().map(|own| (peers.own_name().to_owned(), own)));
        summaries
    }

    /// The choice of ChaCha20-Poly1305, and where it is changed.
    #[must_use]
    pub fn chacha20(&self) -> &ChaCha20Control {
        &self.chacha20
    }

    /// The measured costs of the ciphers on this machine.
    #[must_use]
    pub fn costs(&self) -> Costs {
        *lock(&self.costs)
    }

    /// Replaces the measured costs of the ciphers on this machine.
    pub fn set_costs(&self, costs: Costs) {
        *lock(&self.costs) = costs;
    }

    /// The state of the fleet as JSON; null if the server belongs to none.
    #[must_use]
    pub fn fleet_status(&self) -> serde_json::Value {
        let Some(reading) = self.fleet.as_deref().map(Fleet::reading) else { return serde_json::Value::Null };
        serde_json::json!({
            "up": reading.is_up,
            "circuit": if reading.is_circuit_open { "open" } else { "closed" },
            "latency_seconds": reading.latency.as_secs_f64(),
            "operations_in_flight": reading.under_way,
            "purges_applied": reading.purges_applied,
            "purges_missed": reading.purges_missed,
            "purges_waiting": reading.purges_waiting,
            "revoked_ids": reading.revoked_ids,
            "revoked_ids_waiting": reading.revoked_waiting,
            "revoked_ids_dropped": reading.revoked_dropped,
            "secret_fingerprint": reading.fingerprint,
            "edges": reading.members,
            "members": reading.members(),
            "edges_with_other_secret": reading.strangers,
            "edges_with_this_name": reading.namesakes,
        })
    }

    /// Takes from a configuration that comes into force what is given up while the CPU is short.
    pub(crate) fn configure_pressure(&self, config: &Config) {
        self.chacha20.configure(config.tls.chacha20);
        self.pressure.configure(config.limits.handshake_rate, config.limits.busy_percent);
    }

    /// Decides by the load of the workers what the server does without. Any worker may call it at any time.
    pub(crate) fn observe_pressure(&self, now: Instant) {
        let observed =
            || Observed { busy: self.metrics.busy_share(), full_handshakes: self.metrics.full_handshakes() };
        if let Some(is_short) = self.pressure.observe(now, observed) {
            self.chacha20.observe(is_short, &self.costs());
        }
    }

    /// The share of the time that the workers work, in thousandths.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the share is from 0 to 1")]
    pub(crate) fn busy_thousandths(&self) -> u64 {
        (1000.0 * self.metrics.busy_share()) as u64
    }

    fn readings(&self, now: SystemTime) -> Readings {
        let CollectedParts { origins, peers, cache, remote_keys } = {
            let parts = lock(&self.settings);
            CollectedParts {
                origins: parts.origins.clone(),
                peers: parts.peers.clone(),
                cache: parts.cache.clone(),
                remote_keys: Arc::clone(&parts.remote_keys),
            }
        };
        Readings {
            chacha20: Some(chacha20(&self.chacha20)),
            seal_rates: seal_rates(&self.costs()),
            kernel_tls: kernel_tls(),
            session_cache: self.sessions.cache.counts(),
            staples: staples(&self.staples, now),
            orders: orders(&self.orders),
            remote_keys: remote_keys.reading(),
            origin_requests: origins.iter().flat_map(|(site, origin)| origin.requests(site)).collect(),
            origin_servers: origin_servers(&origins),
            peers: peers.map_or_else(Vec::new, |peers| readings_of(&peers)),
            disk_tier: cache.as_ref().and_then(|cache| cache.tier().disks()).map(|disks| disk_tier(disks)),
            memory_tier: cache.as_ref().map(|cache| memory_tier(cache)),
            purge_list: cache.map(|cache| cache.purges().len() as u64),
            fleet: self.fleet.as_deref().map(Fleet::reading),
        }
    }
}

fn chacha20(control: &ChaCha20Control) -> ChaCha20Reading {
    let status = control.status();
    ChaCha20Reading {
        mode: status.mode.name(),
        set_by_admin: status.ordered,
        is_last_choice: status.is_last,
        switches: control.switches(),
    }
}

fn seal_rates(costs: &Costs) -> Vec<(&'static str, f64)> {
    let rate = |cipher| costs.of(cipher).user_space_seal.map(|rate| rate.bytes_per_second());
    let rates = CIPHERS.into_iter().zip(CIPHER_LABELS);
    rates.filter_map(|(cipher, label)| rate(cipher).map(|rate| (label, rate))).collect()
}

/// `None` while no certificate is ordered.
fn orders(status: &AcmeStatus) -> Option<OrdersReading> {
    let names = status.names();
    let reading = |one: NameStatus| OrderedName {
        name: one.name,
        state: one.state.label(),
        not_after: one.not_after,
        next: one.next,
        error: one.error,
    };
    (!names.is_empty()).then(|| OrdersReading {
        states: NameState::ALL
            .map(|state| (state.label(), names.iter().filter(|one| one.state == state).count() as u64)),
        outcomes: OrderOutcome::ALL.map(OrderOutcome::label).into_iter().zip(status.outcomes()).collect(),
        names: names.into_iter().map(reading).collect(),
        clock: status.clock_fault().map(|fault| fault.to_string()),
    })
}

/// Without its `tls` module the kernel seals no connections.
fn kernel_tls() -> KernelTlsReading {
    let statistics = penstock_sys::ktls::statistics().unwrap_or_default();
    KernelTlsReading { cpu: statistics.open_software, network_card: statistics.open_device }
}

fn staples(staples: &Staples, now: SystemTime) -> Vec<StapleReading> {
    let all = staples.all();
    let current = all.iter().filter_map(|one| one.current(now).map(|staple| (one, staple)));
    let reading =
        |(one, staple): (&Arc<penstock_tls::ocsp::Stapled>, Arc<penstock_tls::ocsp::Staple>)| StapleReading {
            subject: one.name.clone(),
            kind: one.kind,
            this_update: staple.this_update,
            next_update: staple.next_update,
        };
    current.map(reading).collect()
}

/// Each server once. Several sites may share a server: it is up if it is up for all of them.
fn origin_servers(origins: &[(Arc<str>, Arc<HttpOrigin>)]) -> Vec<OriginServerReading> {
    let mut servers: BTreeMap<String, OriginServerReading> = BTreeMap::new();
    let mut origins: Vec<&Arc<HttpOrigin>> = origins.iter().map(|(_, origin)| origin).collect();
    origins.sort_by_key(|origin| Arc::as_ptr(origin));
    origins.dedup_by_key(|origin| Arc::as_ptr(origin));
    for seen in origins.into_iter().flat_map(|origin| origin.server_status()) {
        let server = servers.entry(seen.url.clone()).or_insert_with(|| OriginServerReading {
            url: seen.url,
            up: true,
            ..OriginServerReading::default()
        });
        server.up &= seen.up;
        server.connections += seen.connections as u64;
        server.waiting += seen.waiting as u64;
        server.answered += seen.answered;
        server.failed += seen.failed;
        server.time += seen.time;
        if !seen.up || server.fault.is_empty() {
            server.fault = seen.fault;
        }
    }
    servers.into_values().collect()
}

fn readings_of(peers: &Peers) -> Vec<PeerReading> {
    let others = peers.status().into_iter().filter(|node| !node.own);
    let reading = |node: PeerStatus| PeerReading {
        name: node.name,
        up: node.up,
        fault: node.fault,
        load: node.load.requests,
        purges_missed: node.purges_missed as u64,
        requests: PeerOutcome::ALL.into_iter().map(PeerOutcome::label).zip(node.requests).collect(),
    };
    others.map(reading).collect()
}

fn memory_tier(cache: &Store) -> TierCounters {
    TierCounters { waiting: cache.waits(), ..cache.tier().counters() }
}

fn disk_tier(disks: &Disks) -> DiskTierReading {
    DiskTierReading {
        disks: disks.counters(),
        slices: disks.slices(),
        index_bytes: disks.index_bytes(),
        waiting_bytes: disks.bytes_in_flight(),
        skipped: disks.skipped(),
    }
}

/// Locks. The data is whole at every moment, so a panic elsewhere does not spoil it.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unpoisoned()
}

#[cfg(test)]
mod tests {
    use penstock_egress::measure::{Cost, Rate};

    use super::*;

    fn collector() -> Arc<Collector> {
        Collector::new(Metrics::new(1), &TlsState::begin(Instant::now(), None))
    }

    #[test]
    fn a_cipher_that_was_not_measured_has_no_sample() {
        let collector = collector();
        let metric = "\npenstock_cipher_seal_bytes_per_second{";
        assert_eq!(collector.render().matches(metric).count(), 0);
        let aes_128_gcm = Cost { user_space_seal: Rate::new(7.8e9), ..Cost::default() };
        collector.set_costs(Costs { aes_128_gcm, ..Costs::default() });
        let text = collector.render();
        assert_eq!(text.matches(metric).count(), 1);
        assert!(text.contains("{cipher=\"aes_128_gcm\"} 7800000000\n"), "{text}");
    }

    #[test]
    fn a_server_without_a_cache_shows_the_sections_of_the_cache_without_samples() {
        let text = collector().render();
        assert!(text.contains("# TYPE penstock_cache_bytes gauge\n"));
        assert!(!text.contains("\npenstock_cache_bytes "));
        assert!(!text.contains("\npenstock_cache_disk_slices "));
        assert!(text.contains("\npenstock_chacha20_mode{mode=\"client\",set_by=\"configuration\"} 1\n"));
    }
}
