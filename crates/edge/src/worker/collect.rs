//! Collects the state of the server's parts for a scrape, as plain numbers.

pub(crate) mod labels;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Instant, SystemTime};

use penstock_acme::{AcmeStatus, NameState, NameStatus, Outcome};
use penstock_cache::Disks;
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
use crate::tls::{ChaCha20Control, RemoteKeys, TlsState};

/// Reads the parts of the server for a scrape, and switches ChaCha20-Poly1305 by what they show.
#[derive(Debug)]
pub struct Collector {
    metrics: Arc<Metrics>,
    chacha20: ChaCha20Control,
    costs: Mutex<Costs>,
    sessions: Arc<InternalStore>,
    staples: Arc<Staples>,
    orders: Arc<AcmeStatus>,
    fleet: Option<Arc<Fleet>>,
    settings: Mutex<CollectedParts>,
    watch: Mutex<Watch>,
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
        Arc::new(Self {
            metrics,
            chacha20: ChaCha20Control::new(),
            costs: Mutex::default(),
            sessions: Arc::clone(&tls_state.sessions),
            staples: Arc::clone(&tls_state.staples),
            orders: Arc::clone(&tls_state.orders),
            fleet: tls_state.fleet.clone(),
            settings: Mutex::default(),
            watch: Mutex::default(),
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

    /// The numbers of the last second, in the order of [`Watch::series`], and a look for problems. One caller, once a second.
    pub fn look(&self) -> Vec<f32> {
        let now = SystemTime::now();
        let readings = self.readings(now);
        lock(&self.watch).look(&self.metrics, &readings, Instant::now(), now)
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
            "edges_with_other_secret": reading.strangers,
            "edges_with_this_name": reading.namesakes,
        })
    }

    /// Compares the load of the workers with the limits for ChaCha20-Poly1305. Any worker may call it at any time.
    pub(crate) fn observe_pressure(&self, now: Instant) {
        self.chacha20.observe(now, || self.metrics.busy_share(), || self.costs());
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
        outcomes: Outcome::ALL.map(Outcome::label).into_iter().zip(status.outcomes()).collect(),
        names: names.into_iter().map(reading).collect(),
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
    for seen in origins.iter().flat_map(|(_, origin)| origin.server_status()) {
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
