//! The other nodes of the cluster: where they are, how they do, and which of them is asked for an object.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use penstock_cache::Key;
use penstock_cluster::{Latency, LoadLimits, Node, Popularity, Ring, block_of, first_below_bound};
use penstock_config::{Cluster, ClusterNode, limits};
use penstock_http::OriginUrl;
use penstock_origin::http::{
    HealthCheck, HealthLimits, HttpOrigin, MinimumRate, OriginLimits, OriginSettings,
};
use penstock_tls::ClientIdentity;

use crate::requester::{Hop, Requester};

/// What a node asks another one for, to know whether it is alive.
pub(crate) const ALIVE: &str = "/alive";

const LOAD_LIMITS: LoadLimits =
    LoadLimits { percent_of_mean: limits::PEER_LOAD_PERCENT, always: limits::PEER_LOAD_ALWAYS };

/// The nodes of the cluster. All workers share them.
pub struct Peers {
    ring: Ring,
    /// Place of this node.
    own: usize,
    nodes: Vec<Peer>,
    pub(crate) popularity: Popularity,
    /// Blocks of objects that this node is asking others for, with the number of requests.
    outgoing: Mutex<HashMap<Route, usize>>,
    /// Requests of other nodes under way.
    serving: AtomicU64,
    membership: Mutex<Membership>,
    /// When this node purged last.
    purged: Mutex<Option<Instant>>,
}

/// Another node, or this one.
pub struct Peer {
    /// Its name.
    pub name: String,
    /// Its only server, as an origin.
    pub(crate) origin: Arc<HttpOrigin>,
    /// The time to the heads of its responses.
    pub(crate) latency: Latency,
    /// Requests of other nodes that it works on, as it said last.
    load: AtomicU64,
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
}

impl PeerOutcome {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Answered, Self::Refused, Self::OriginFailed, Self::Failed];

    /// The word in metrics.
    pub fn label(self) -> &'static str {
        match self {
            Self::Answered => "answered",
            Self::Refused => "refused",
            Self::OriginFailed => "origin_failed",
            Self::Failed => "failed",
        }
    }
}

/// Which nodes were in when it was last looked at, and since when they are.
struct Membership {
    up: Vec<bool>,
    since: Instant,
}

/// A block of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Route {
    pub(crate) key: Key,
    pub(crate) block: u64,
}

impl Route {
    /// The block that a byte of an object lies in.
    pub(crate) fn new(key: Key, first_byte: u64) -> Self {
        Self { key, block: block_of(first_byte) }
    }
}

/// Where a request for bytes goes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// To another node.
    Peer(usize, Hop),
    /// To the origin.
    Origin,
}

/// State of a node, for metrics and operators.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerStatus {
    /// Its name.
    pub name: String,
    /// Whether it is this node.
    pub own: bool,
    /// Its share relative to the others.
    pub weight: u32,
    /// Whether it answers.
    pub up: bool,
    /// Requests of other nodes that it works on, as it said last.
    pub load: u64,
    /// Why it failed last; empty if it did not.
    pub fault: String,
    /// Requests by outcome, in the order of [`PeerOutcome::ALL`].
    pub requests: [u64; PeerOutcome::ALL.len()],
}

impl Peers {
    /// The nodes of a configuration. Those that `known` has with the same settings keep their state.
    pub fn open(cluster: &Cluster, known: Option<&Arc<Self>>, now: Instant) -> Arc<Self> {
        if let Some(same) = known.filter(|known| known.is_of(cluster)) {
            return Arc::clone(same);
        }
        let ring = Ring::new(cluster.nodes.iter().map(|node| Node::new(&node.name, node.weight)));
        let nodes = cluster.nodes.iter().map(|node| Peer::open(node, cluster, known)).collect();
        let lasts = Duration::from_secs(limits::PEER_POPULAR_SECONDS);
        let membership = Membership { up: vec![true; cluster.nodes.len()], since: now };
        Arc::new(Self {
            ring,
            own: cluster.own,
            nodes,
            popularity: Popularity::new(lasts, limits::PEER_POPULAR_OBJECTS, now),
            outgoing: Mutex::default(),
            serving: AtomicU64::new(0),
            membership: Mutex::new(membership),
            purged: Mutex::default(),
        })
    }

    /// Whether these are the nodes of a configuration, with the same settings.
    fn is_of(&self, cluster: &Cluster) -> bool {
        let weights = self.ring.nodes().iter().map(|node| node.weight);
        self.own == cluster.own
            && weights.eq(cluster.nodes.iter().map(|node| node.weight))
            && self
                .nodes
                .iter()
                .zip(&cluster.nodes)
                .all(|(peer, node)| peer.name == node.name && peer.origin.is_of(&settings(node, cluster)))
    }

    /// The name of this node.
    pub fn own_name(&self) -> &str {
        &self.nodes[self.own].name
    }

    /// The other nodes.
    pub fn others(&self) -> impl Iterator<Item = &Peer> {
        self.nodes.iter().enumerate().filter(|(place, _)| *place != self.own).map(|(_, node)| node)
    }

    pub(crate) fn node(&self, place: usize) -> &Peer {
        &self.nodes[place]
    }

    /// The state of all nodes.
    pub fn status(&self) -> Vec<PeerStatus> {
        let status = |(place, node): (usize, &Peer)| PeerStatus {
            name: node.name.clone(),
            own: place == self.own,
            weight: self.ring.nodes()[place].weight,
            up: place == self.own || node.origin.is_up(),
            load: if place == self.own { self.serving() } else { node.load.load(Ordering::Relaxed) },
            fault: node.origin.last_fault(0),
            requests: node.counts.each_ref().map(|count| count.load(Ordering::Relaxed)),
        };
        self.nodes.iter().enumerate().map(status).collect()
    }

    /// Starts the health checks that are due, and notes which nodes came and went. To be called about once a second by any
    /// number of workers, within a `LocalSet`.
    pub fn check_health(&self, now: Instant) {
        for peer in self.others() {
            peer.origin.check_health(now);
        }
        let up: Vec<bool> = self.nodes.iter().map(|node| node.origin.is_up()).collect();
        let mut membership = lock(&self.membership);
        if membership.up != up {
            *membership = Membership { up, since: now };
        }
    }

    /// Requests of other nodes under way.
    pub(crate) fn serving(&self) -> u64 {
        self.serving.load(Ordering::Relaxed)
    }

    /// Counts a request of another node for as long as the entry lives.
    pub(crate) fn serve(self: &Arc<Self>) -> ServingEntry {
        self.serving.fetch_add(1, Ordering::Relaxed);
        ServingEntry(Arc::clone(self))
    }

    /// Notes that other nodes are asked for a block, for as long as the entry lives.
    pub(crate) fn ask_others(self: &Arc<Self>, route: Route) -> OutgoingEntry {
        *lock(&self.outgoing).entry(route).or_insert(0) += 1;
        OutgoingEntry { peers: Arc::clone(self), route }
    }

    /// Whether this node is asking others for a block. It must not have another node wait for that one: the two could
    /// wait for each other.
    pub(crate) fn is_asking(&self, route: Route) -> bool {
        lock(&self.outgoing).contains_key(&route)
    }

    /// Where a request for a block goes: to its owner or the substitutes of that one, then to the origin, which it reaches
    /// through a node of `shield` if there is one.
    pub(crate) fn steps(
        &self,
        route: Route,
        requester: Requester,
        shield: &[usize],
        now: Instant,
    ) -> Vec<Step> {
        let rank = self.ring.rank(&route.key, route.block);
        let is_up = |place: usize| place == self.own || self.nodes[place].origin.is_up();
        let mut steps = Vec::new();
        if let Requester::Client(_) = requester {
            let loads: Vec<Option<u64>> = self
                .nodes
                .iter()
                .enumerate()
                .map(|(place, node)| {
                    let load =
                        || if place == self.own { self.serving() } else { node.load.load(Ordering::Relaxed) };
                    is_up(place).then(load)
                })
                .collect();
            let first = first_below_bound(&rank, &loads, LOAD_LIMITS).unwrap_or(rank.len());
            let candidates = rank[first..].iter().copied().filter(|place| is_up(*place));
            let before_own = candidates.take_while(|place| *place != self.own);
            steps.extend(before_own.take(limits::PEER_ATTEMPTS).map(|place| Step::Peer(place, Hop::Owner)));
        }
        if !matches!(requester, Requester::Peer(Hop::Shield | Hop::Held)) {
            let is_owner = rank.first() == Some(&self.own);
            let substitute = rank.iter().skip(1).copied().find(|place| is_up(*place));
            let substitute = substitute.filter(|_| is_owner && steps.is_empty() && self.is_taking_over(now));
            steps.extend(substitute.map(|place| Step::Peer(place, Hop::Held)));
            if !shield.is_empty() && !shield.contains(&self.own) {
                let shields = self.ring.rank_evenly(&route.key, route.block, shield);
                let first = shields.into_iter().find(|place| is_up(*place));
                steps.extend(first.map(|place| Step::Peer(place, Hop::Shield)));
            }
        }
        steps.push(Step::Origin);
        steps
    }

    /// Whether other nodes may have what this one owns: it started, or a node came or went, not long ago.
    fn is_taking_over(&self, now: Instant) -> bool {
        let within =
            |since: Instant, seconds| now.saturating_duration_since(since) < Duration::from_secs(seconds);
        // While nodes purge, two that ask each other for what they have could keep an old object alive.
        let is_purging = lock(&self.purged).is_some_and(|at| within(at, limits::PEER_PURGED_SECONDS));
        !is_purging && within(lock(&self.membership).since, limits::PEER_TAKEOVER_SECONDS)
    }

    /// Notes that a purge begins here.
    pub(crate) fn note_purge(&self, now: Instant) {
        *lock(&self.purged) = Some(now);
    }

    /// Names of the nodes that may have a block, best first.
    pub(crate) fn rank(&self, route: Route) -> Vec<&str> {
        let rank = self.ring.rank(&route.key, route.block);
        rank.into_iter().map(|place| self.nodes[place].name.as_str()).collect()
    }
}

impl fmt::Debug for Peers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Peers").field("ring", &self.ring).field("own", &self.own).finish_non_exhaustive()
    }
}

impl Peer {
    fn open(node: &ClusterNode, cluster: &Cluster, known: Option<&Arc<Peers>>) -> Self {
        let settings = settings(node, cluster);
        let same = known.and_then(|known| known.nodes.iter().find(|peer| peer.origin.is_of(&settings)));
        let origin = same.map_or_else(|| HttpOrigin::new(settings), |peer| Arc::clone(&peer.origin));
        let counts = std::array::from_fn(|place| {
            AtomicU64::new(same.map_or(0, |peer| peer.counts[place].load(Ordering::Relaxed)))
        });
        let latency = Latency::new(Duration::from_millis(limits::PEER_PATIENCE_MILLISECONDS_MAX));
        Self { name: node.name.clone(), origin, latency, load: AtomicU64::new(0), counts }
    }

    /// Its only server, as an origin.
    pub fn origin(&self) -> &Arc<HttpOrigin> {
        &self.origin
    }

    /// How long it may answer nothing before it is asked whether it is alive.
    pub(crate) fn patience(&self) -> Duration {
        let least = Duration::from_millis(limits::PEER_PATIENCE_MILLISECONDS_MIN);
        let most = Duration::from_millis(limits::PEER_PATIENCE_MILLISECONDS_MAX);
        self.latency.percentile_95().clamp(least, most)
    }

    /// Takes in the load that it tells.
    pub(crate) fn set_load(&self, load: u64) {
        self.load.store(load, Ordering::Relaxed);
    }

    pub(crate) fn count(&self, outcome: PeerOutcome) {
        self.counts[outcome as usize].fetch_add(1, Ordering::Relaxed);
    }
}

/// A request of another node that is counted.
pub(crate) struct ServingEntry(Arc<Peers>);

impl Drop for ServingEntry {
    fn drop(&mut self) {
        self.0.serving.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A block that other nodes are asked for.
pub(crate) struct OutgoingEntry {
    peers: Arc<Peers>,
    route: Route,
}

impl Drop for OutgoingEntry {
    fn drop(&mut self) {
        if let Entry::Occupied(mut entry) = lock(&self.peers.outgoing).entry(self.route) {
            *entry.get_mut() -= 1;
            if *entry.get() == 0 {
                entry.remove();
            }
        }
    }
}

fn settings(node: &ClusterNode, cluster: &Cluster) -> OriginSettings {
    let scheme = if cluster.tls.is_some() { "https" } else { "http" };
    let url = OriginUrl::parse(&format!("{scheme}://{}", node.address));
    let tls = cluster.tls.as_ref();
    OriginSettings {
        servers: url.into_iter().map(|url| (url, 1)).collect(),
        host: Some(node.name.clone()),
        authorities: tls.map(|tls| tls.authorities.clone()),
        identity: tls.map(|tls| ClientIdentity::new(&tls.certificate)),
        s3: None,
        redirect_hosts: Vec::new(),
        proxy_protocol: false,
        health_check: Some(HealthCheck {
            path: ALIVE.to_owned(),
            interval: Duration::from_millis(limits::PEER_CHECK_MILLISECONDS),
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
            connections: limits::PEER_CONNECTIONS,
            waiting: limits::ORIGIN_WAITING,
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

/// Locks. The data is whole at every moment, so a panic elsewhere does not spoil it.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
