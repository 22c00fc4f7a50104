//! The other nodes of the cluster: where they are, how they do, and which of them is asked for an object.
mod cdn_loop;
pub(crate) mod peer_fields;

pub(crate) use cdn_loop::{LoopMember, passed_through};
pub(crate) use peer_fields::{FAULT, hexadecimal, is_internal};

mod members;
mod missed;
mod outgoing;
mod peer;

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use penstock_cache::Key;
use penstock_cluster::{Load, Popularity, block_of};
use penstock_config::{Cluster, ClusterNode, ClusterSource, limits};
use penstock_sys::lock::Unpoisoned;

use crate::requester::{Hop, Requester};
use members::Members;
use missed::MissedPurges;
pub(crate) use missed::{MissedPurge, MissingNodes, nanoseconds};
use outgoing::Outgoing;
pub(crate) use outgoing::OutgoingEntry;
use peer::SharedLoad;
pub(crate) use peer::{ALIVE, SUMMARY};
pub use peer::{Peer, PeerOutcome};

/// The nodes of the cluster. All workers share them.
pub struct Peers {
    /// What the configuration says.
    cluster: Cluster,
    members: ArcSwap<Members>,
    pub(crate) popularity: Popularity,
    /// Objects that another node sent too slowly, or not to their end.
    incomplete: Popularity,
    /// Blocks of objects that this node is asking others for.
    outgoing: Arc<Outgoing>,
    /// Requests of other nodes under way.
    serving: AtomicU64,
    /// The load of this node, without those requests.
    own_load: SharedLoad,
    /// Whether this node will stop soon.
    own_leaving: AtomicBool,
    changes: Mutex<Changes>,
    /// When this node purged last.
    purged: Mutex<Option<Instant>>,
    /// Purges that not all nodes have confirmed.
    pub(crate) missed: Arc<MissedPurges>,
    /// What the other nodes are told of this one.
    summary: Arc<Mutex<String>>,
}

/// The names of the nodes that were in when it was last looked at, and since when they are.
struct Changes {
    up: Vec<String>,
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
#[derive(Clone)]
pub(crate) enum Step {
    /// To another node.
    Peer(Arc<Peer>, Hop),
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
    /// Whether it will stop soon.
    pub leaving: bool,
    /// What it has to do, as it said last.
    pub load: Load,
    /// Why it failed last; empty if it did not.
    pub fault: String,
    /// Purges that it has not confirmed, and that this node will repeat.
    pub purges_missed: usize,
    /// Requests by outcome, in the order of [`PeerOutcome::ALL`].
    pub requests: [u64; PeerOutcome::ALL.len()],
}

impl Peers {
    /// The nodes of a configuration. Those that `known` has with the same settings keep their state, and so does a list
    /// that came from elsewhere.
    pub fn open(cluster: &Cluster, known: Option<&Arc<Self>>, now: Instant) -> Arc<Self> {
        if let Some(same) = known.filter(|known| known.is_of(cluster)) {
            return Arc::clone(same);
        }
        let before = known.map(|known| known.members.load_full());
        let mut nodes = cluster.nodes.clone();
        let is_same_list = known.is_some_and(|known| known.cluster.source == cluster.source);
        if let Some(before) =
            before.as_ref().filter(|_| is_same_list && cluster.source != ClusterSource::Listed)
        {
            let own = &cluster.nodes[cluster.own].name;
            nodes.extend(before.others().map(|peer| peer.node.clone()).filter(|node| node.name != *own));
        }
        let members = Members::new(&nodes, cluster.own, cluster, before.as_deref());
        let lasts = Duration::from_secs(limits::PEER_POPULAR_SECONDS);
        let up = nodes.iter().map(|node| node.name.clone()).collect();
        let missed = known.map_or_else(Arc::default, |known| Arc::clone(&known.missed));
        if let Some(before) = &before {
            note_departed(&missed, before, &nodes, now);
        }
        Arc::new(Self {
            cluster: cluster.clone(),
            members: ArcSwap::from_pointee(members),
            popularity: Popularity::new(lasts, limits::PEER_POPULAR_OBJECTS, now),
            incomplete: Popularity::new(
                Duration::from_secs(limits::PEER_INCOMPLETE_SECONDS),
                limits::PEER_INCOMPLETE_OBJECTS,
                now,
            ),
            outgoing: known.map_or_else(Arc::default, |known| Arc::clone(&known.outgoing)),
            serving: AtomicU64::new(0),
            own_load: SharedLoad::default(),
            own_leaving: AtomicBool::new(false),
            changes: Mutex::new(Changes { up, since: now }),
            purged: Mutex::default(),
            missed,
            summary: known.map_or_else(Arc::default, |known| Arc::clone(&known.summary)),
        })
    }

    /// Whether these are the nodes of a configuration, with the same settings.
    fn is_of(&self, cluster: &Cluster) -> bool {
        let own = self.members.load().own().is_of(&cluster.nodes[cluster.own], cluster);
        // The certificates are the same for all nodes.
        own && self.cluster.source == cluster.source
            && self.cluster.own == cluster.own
            && self.cluster.nodes == cluster.nodes
    }

    /// What the configuration says.
    pub fn cluster(&self) -> &Cluster {
        &self.cluster
    }

    /// Puts other nodes in force: a list that came from elsewhere. Nodes that stay keep their connections, and objects of
    /// nodes that stay keep their owner. Returns whether anything changed.
    pub fn set_members(&self, nodes: &[ClusterNode], now: Instant) -> bool {
        let before = self.members.load_full();
        let own = before.own().name();
        let Some(own) = nodes.iter().position(|node| node.name == own) else { return false };
        if before.peers.iter().map(|peer| &peer.node).eq(nodes) {
            return false;
        }
        note_departed(&self.missed, &before, nodes, now);
        self.members.store(Arc::new(Members::new(nodes, own, &self.cluster, Some(&before))));
        self.note_changes(now);
        true
    }

    /// Replaces what the other nodes are told of this one when they ask how it is doing.
    pub fn set_summary(&self, text: String) {
        *lock(&self.summary) = text;
    }

    /// What another node is told of this one; empty if there is nothing to tell.
    pub(crate) fn summary(&self) -> String {
        lock(&self.summary).clone()
    }

    /// The name of this node.
    pub fn own_name(&self) -> &str {
        &self.cluster.nodes[self.cluster.own].name
    }

    /// The other nodes.
    pub fn others(&self) -> Vec<Arc<Peer>> {
        self.members.load().others().cloned().collect()
    }

    /// Whether a node of this name belongs to the cluster.
    pub(crate) fn is_member(&self, name: &str) -> bool {
        self.members.load().find(name).is_some()
    }

    /// Whether the members of a CDN-Loop are those of this cluster's nodes, and no others.
    pub(crate) fn are_members(&self, loops: &str) -> bool {
        loops.split(", ").all(|member| LoopMember::node_of(member).is_some_and(|node| self.is_member(node)))
    }

    /// Whether another node of this name belongs to the cluster and answers.
    pub(crate) fn is_up(&self, name: &str) -> bool {
        self.members.load().find(name).is_some_and(|peer| peer.is_up())
    }

    /// Whether this node is the first, by name, of those that answer and have confirmed a purge.
    pub(crate) fn is_first_with(&self, purge: &MissedPurge) -> bool {
        let is_before = |peer: &Arc<Peer>| {
            peer.name() < self.own_name() && peer.is_up() && !purge.missing.contains(peer.name())
        };
        !self.members.load().others().any(is_before)
    }

    /// Whether another node of the cluster has this name.
    pub(crate) fn is_other(&self, name: &str) -> bool {
        name != self.own_name() && self.is_member(name)
    }

    /// The state of all nodes.
    pub fn status(&self) -> Vec<PeerStatus> {
        let members = self.members.load();
        let status = |(place, peer): (usize, &Arc<Peer>)| PeerStatus {
            name: peer.name().to_owned(),
            own: place == members.own,
            weight: peer.node.weight,
            up: members.is_up(place),
            leaving: if place == members.own { self.leaves() } else { peer.is_leaving() },
            load: if place == members.own { self.own_load() } else { peer.load() },
            fault: peer.last_fault(),
            purges_missed: self.missed.of(peer.name()),
            requests: peer.requests(),
        };
        members.peers.iter().enumerate().map(status).collect()
    }

    /// Starts the health checks that are due, and notes which nodes came and went. To be called about once a second by any
    /// number of workers, within a `LocalSet`.
    pub fn check_health(&self, now: Instant) {
        for peer in self.members.load().others() {
            peer.origin().check_health(now);
            peer.end_stall(now);
            peer.note_state();
        }
        self.note_changes(now);
    }

    fn note_changes(&self, now: Instant) {
        let members = self.members.load();
        let in_force = members.peers.iter().enumerate().filter(|(place, _)| members.is_up(*place));
        let up: Vec<&str> = in_force.map(|(_, peer)| peer.name()).collect();
        let mut changes = lock(&self.changes);
        if !changes.up.iter().eq(up.iter().copied()) {
            *changes = Changes { up: up.into_iter().map(str::to_owned).collect(), since: now };
        }
    }

    /// Notes what this node has to do for clients: open connections, and how busy its workers are in thousandths.
    pub fn set_own_load(&self, connections: u64, busy: u64) {
        self.own_load.set(Load { requests: 0, connections, busy });
    }

    /// Notes whether this node will stop soon, which the others are told.
    pub fn set_leaving(&self, is_leaving: bool) {
        self.own_leaving.store(is_leaving, Ordering::Relaxed);
    }

    /// Whether this node will stop soon.
    pub(crate) fn leaves(&self) -> bool {
        self.own_leaving.load(Ordering::Relaxed)
    }

    /// What this node has to do.
    pub(crate) fn own_load(&self) -> Load {
        Load { requests: self.serving.load(Ordering::Relaxed), ..self.own_load.get() }
    }

    /// Counts a request of another node for as long as the entry lives.
    pub(crate) fn serve(self: &Arc<Self>) -> ServingEntry {
        self.serving.fetch_add(1, Ordering::Relaxed);
        ServingEntry(Arc::clone(self))
    }

    /// Notes that another node is asked for a block, for as long as the entry lives; `None` if this node asks for too many
    /// already.
    pub(crate) fn ask_others(&self, route: Route) -> Option<OutgoingEntry> {
        self.outgoing.enter(route)
    }

    /// Notes that another node sent an object too slowly, or not to its end. Its origin may be slow, so the node itself stays in.
    pub(crate) fn note_incomplete(&self, route: Route, now: Instant) {
        self.incomplete.note(&route.key, now);
    }

    /// Whether this node is asking others for a block. It must not have another node wait for that one: the two could
    /// wait for each other.
    pub(crate) fn is_asking(&self, route: Route) -> bool {
        self.outgoing.has(route)
    }

    /// Where a request for a block goes: to its owner or the substitutes of that one, then to the origin, which it reaches
    /// through a node of `shield` if there is one. A node that has missed purges is not asked. An object that came too
    /// slowly or incomplete is asked of the origin for a while.
    pub(crate) fn steps(
        &self,
        route: Route,
        requester: Requester,
        shield: &[String],
        now: Instant,
    ) -> Vec<Step> {
        if self.incomplete.has(&route.key, now) {
            return vec![Step::Origin];
        }
        let members = self.members.load();
        let rank = members.rank(route);
        let may_have_old = |peer: &Arc<Peer>| self.missed.of(peer.name()) > 0;
        let mut steps = Vec::new();
        if let Requester::Client(_) = requester {
            let asked = members.before_own(&rank, self.own_load()).filter(|peer| !may_have_old(peer));
            let asked = asked.take(limits::PEER_ATTEMPTS);
            steps.extend(asked.map(|peer| Step::Peer(Arc::clone(peer), Hop::Owner)));
        }
        if !matches!(requester, Requester::Peer(Hop::Shield | Hop::OnlyIfCached)) {
            let takes_over =
                rank.first() == Some(&members.own) && steps.is_empty() && self.is_taking_over(now);
            let substitute = rank.iter().skip(1).filter(|_| takes_over).find(|place| members.is_up(**place));
            let substitute =
                substitute.map(|place| &members.peers[*place]).filter(|peer| !may_have_old(peer));
            steps.extend(substitute.map(|peer| Step::Peer(Arc::clone(peer), Hop::OnlyIfCached)));
            let shield = members.shield(route, shield).filter(|peer| !may_have_old(peer));
            steps.extend(shield.map(|peer| Step::Peer(Arc::clone(peer), Hop::Shield)));
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
        !is_purging && within(lock(&self.changes).since, limits::PEER_TAKEOVER_SECONDS)
    }

    /// Notes that a purge begins here.
    pub(crate) fn note_purge(&self, now: Instant) {
        *lock(&self.purged) = Some(now);
    }

    /// Names of the nodes that may have a block, best first.
    pub(crate) fn rank(&self, route: Route) -> Vec<String> {
        let members = self.members.load();
        members.rank(route).into_iter().map(|place| members.peers[place].name().to_owned()).collect()
    }
}

impl fmt::Debug for Peers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Peers").field("members", &self.members).finish_non_exhaustive()
    }
}

impl fmt::Debug for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Peer").field("node", &self.node).finish_non_exhaustive()
    }
}

/// Notes the nodes of `before` that are not in a list: they miss what is purged from now on.
fn note_departed(missed: &MissedPurges, before: &Members, nodes: &[ClusterNode], now: Instant) {
    let is_listed = |name: &str| nodes.iter().any(|node| node.name == name);
    let gone = before.others().map(|peer| peer.name()).filter(|name| !is_listed(name));
    missed.note_members(gone, nodes.iter().map(|node| node.name.as_str()), now);
}

/// A request of another node that is counted.
pub(crate) struct ServingEntry(Arc<Peers>);

impl Drop for ServingEntry {
    fn drop(&mut self) {
        self.0.serving.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Locks. The data is whole at every moment, so a panic elsewhere does not spoil it.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unpoisoned()
}
