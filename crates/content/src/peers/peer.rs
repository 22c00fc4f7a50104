//! A node of the cluster, as an origin with one server.

use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use penstock_cluster::{Latency, Load};
use penstock_config::{Cluster, ClusterNode, limits};
use penstock_http::OriginUrl;
use penstock_origin::http::{
    BalanceBy, HealthCheck, HealthLimits, HttpOrigin, MinimumRate, OriginLimits, OriginSettings,
    ServerSettings,
};
use penstock_sys::lock::Unpoisoned;
use penstock_tls::ClientIdentity;

use super::peer_fields::{self, LOAD};

/// What a node asks another one for, to know whether it is alive.
pub(crate) const ALIVE: &str = "/alive";

/// What a node asks another one for, to know how it is doing.
pub(crate) const SUMMARY: &str = "/summary";

/// Another node, or this one.
pub struct Peer {
    /// What the cluster says of it.
    pub node: ClusterNode,
    /// Its only server, as an origin.
    origin: Arc<HttpOrigin>,
    /// The time to the heads of its responses.
    pub(crate) latency: Latency,
    load: SharedLoad,
    /// Whether it will stop soon, as it said last.
    leaving: AtomicBool,
    /// Until when it is not asked, although it says that it is alive.
    stalled_until: Mutex<Option<Instant>>,
    counts: [AtomicU64; PeerOutcome::ALL.len()],
}

/// How a request to another node ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PeerOutcome {
    /// With an object.
    Answered,
    /// It has another configuration, is asking this node for the same object, or refuses.
    Refused,
    /// The origin failed it.
    OriginFailed,
    /// It did not answer, or broke off.
    Failed,
    /// It said that it is alive, and did not answer for longer than an origin may take.
    Stalled,
}

impl PeerOutcome {
    /// All of them.
    pub const ALL: [Self; 5] =
        [Self::Answered, Self::Refused, Self::OriginFailed, Self::Failed, Self::Stalled];

    /// The word in metrics.
    pub fn label(self) -> &'static str {
        match self {
            Self::Answered => "answered",
            Self::Refused => "refused",
            Self::OriginFailed => "origin_failed",
            Self::Failed => "failed",
            Self::Stalled => "stalled",
        }
    }
}

impl Peer {
    /// A node, which goes on with the connections and counts of `known` if that has the same address and certificates.
    pub(super) fn open(node: &ClusterNode, cluster: &Cluster, known: Option<&Self>) -> Self {
        let settings = settings(node, cluster);
        let same = known.filter(|peer| peer.origin.is_of(&settings));
        let origin = same.map_or_else(|| HttpOrigin::new(settings), |peer| Arc::clone(&peer.origin));
        let counts = std::array::from_fn(|place| {
            AtomicU64::new(same.map_or(0, |peer| peer.counts[place].load(Ordering::Relaxed)))
        });
        let latency = Latency::new(Duration::from_millis(limits::PEER_PATIENCE_MILLISECONDS_MAX));
        let stalled_until = Mutex::new(same.and_then(|peer| *peer.stalled_until()));
        Self {
            node: node.clone(),
            origin,
            latency,
            load: SharedLoad::default(),
            leaving: AtomicBool::new(false),
            stalled_until,
            counts,
        }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.node.name
    }

    /// Its only server, as an origin.
    pub fn origin(&self) -> &Arc<HttpOrigin> {
        &self.origin
    }

    /// Whether it has this name, address and certificates.
    pub(super) fn is_of(&self, node: &ClusterNode, cluster: &Cluster) -> bool {
        self.node.name == node.name && self.origin.is_of(&settings(node, cluster))
    }

    /// How long it may answer nothing before it is asked whether it is alive.
    pub(crate) fn patience(&self) -> Duration {
        let least = Duration::from_millis(limits::PEER_PATIENCE_MILLISECONDS_MIN);
        let most = Duration::from_millis(limits::PEER_PATIENCE_MILLISECONDS_MAX);
        self.latency.percentile_95().clamp(least, most)
    }

    /// Whether it may be asked for objects.
    pub(crate) fn is_up(&self) -> bool {
        self.origin.is_up() && !self.is_stalled()
    }

    fn stalled_until(&self) -> MutexGuard<'_, Option<Instant>> {
        self.stalled_until.lock().unpoisoned()
    }

    /// Whether it answers no requests for objects, although it says that it is alive.
    pub(crate) fn is_stalled(&self) -> bool {
        self.stalled_until().is_some()
    }

    /// Takes it out for a while: it says that it is alive, and answers nothing.
    pub(crate) fn note_stalled(&self, now: Instant) {
        let until = now + Duration::from_secs(limits::PEER_STALLED_SECONDS);
        if self.stalled_until().replace(until).is_none() {
            tracing::warn!("{} is out: it answers probes but no requests for objects", self.name());
        }
    }

    /// Takes it in again once that while is over.
    pub(crate) fn end_stall(&self, now: Instant) {
        if self.stalled_until().take_if(|until| *until <= now).is_some() {
            tracing::info!("{} is asked for objects again", self.name());
        }
    }

    /// Takes it out at once, for this reason: it is known not to answer.
    pub(crate) fn take_out(&self, fault: &str) {
        self.origin.take_out(0, fault);
    }

    /// Why it failed last; empty if it did not.
    pub(crate) fn last_fault(&self) -> String {
        self.origin.last_fault(0)
    }

    /// Takes in the load that it tells.
    pub(crate) fn set_load(&self, load: Load) {
        self.load.set(load);
    }

    /// Takes in what it said to the last health check.
    pub(super) fn note_state(&self) {
        let note = self.origin.take_note(0);
        if let Some(load) = peer_fields::load(&note) {
            self.load.set(load);
            self.leaving.store(peer_fields::is_leaving(&note), Ordering::Relaxed);
        }
    }

    /// Whether it will stop soon, as it said to the last health check.
    pub(super) fn is_leaving(&self) -> bool {
        self.leaving.load(Ordering::Relaxed)
    }

    /// Its load, as it said last.
    pub(super) fn load(&self) -> Load {
        self.load.get()
    }

    pub(crate) fn count(&self, outcome: PeerOutcome) {
        self.counts[outcome as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// How many requests it has answered, in whatever way.
    pub(crate) fn answers(&self) -> u64 {
        let [answered, refused, origin_failed, _failed, _stalled] = self.requests();
        answered + refused + origin_failed
    }

    /// Requests by outcome, in the order of [`PeerOutcome::ALL`].
    pub(super) fn requests(&self) -> [u64; PeerOutcome::ALL.len()] {
        self.counts.each_ref().map(|count| count.load(Ordering::Relaxed))
    }
}

/// A load that several threads write and read.
#[derive(Debug, Default)]
pub(super) struct SharedLoad {
    requests: AtomicU64,
    connections: AtomicU64,
    busy: AtomicU64,
}

impl SharedLoad {
    pub(super) fn set(&self, load: Load) {
        self.requests.store(load.requests, Ordering::Relaxed);
        self.connections.store(load.connections, Ordering::Relaxed);
        self.busy.store(load.busy, Ordering::Relaxed);
    }

    pub(super) fn get(&self) -> Load {
        Load {
            requests: self.requests.load(Ordering::Relaxed),
            connections: self.connections.load(Ordering::Relaxed),
            busy: self.busy.load(Ordering::Relaxed),
        }
    }
}

fn settings(node: &ClusterNode, cluster: &Cluster) -> OriginSettings {
    let scheme = if cluster.tls.is_some() { "https" } else { "http" };
    let url = OriginUrl::parse(&format!("{scheme}://{}", node.address));
    let tls = cluster.tls.as_ref();
    // The name of a node that DNS names by its address is that of the URL.
    let host = node.name.parse::<IpAddr>().is_err().then(|| node.name.clone());
    OriginSettings {
        servers: url.into_iter().map(|url| ServerSettings::new(url, 1)).collect(),
        balance: BalanceBy::Turns,
        hidden_fields: Vec::new(),
        host,
        authorities: tls.map(|tls| tls.authorities.clone()),
        identity: tls.map(|tls| ClientIdentity::new(&tls.certificate)),
        s3: None,
        resolvers: Arc::default(),
        redirect_hosts: Vec::new(),
        proxy_protocol: false,
        health_check: Some(HealthCheck {
            path: ALIVE.to_owned(),
            interval: Duration::from_millis(limits::PEER_CHECK_MILLISECONDS),
            note: Some(LOAD),
        }),
        limits: OriginLimits {
            connect: Duration::from_millis(limits::PEER_CONNECT_MILLISECONDS),
            first_byte: Duration::from_secs(limits::PEER_FIRST_BYTE_SECONDS),
            between_bytes: Duration::from_secs(limits::PEER_FIRST_BYTE_SECONDS),
            minimum_rate: MinimumRate {
                bytes_per_second: limits::ORIGIN_RATE_BYTES,
                window: Duration::from_secs(limits::ORIGIN_RATE_WINDOW_SECONDS),
            },
            head_bytes: limits::ORIGIN_HEAD_BYTES,
            read_bytes: limits::ORIGIN_READ_BYTES,
            head_fields: limits::ORIGIN_HEAD_FIELDS,
            idle_connections: limits::PEER_IDLE_CONNECTIONS,
            connection_age: Duration::from_secs(limits::ORIGIN_CONNECTION_AGE_SECONDS),
            connections: limits::PEER_CONNECTIONS,
            waiting: limits::ORIGIN_WAITING,
            lookups: limits::ORIGIN_LOOKUPS,
            retries: 1,
            redirects: 0,
            sessions: limits::ORIGIN_TLS_SESSIONS,
            health: HealthLimits {
                unhealthy_after: 2,
                healthy_after: limits::PEER_HEALTHY_AFTER,
                backoff: Duration::from_millis(limits::PEER_CHECK_MILLISECONDS),
                backoff_max: Duration::from_millis(limits::PEER_CHECK_MILLISECONDS),
                checked: true,
            },
        },
    }
}
