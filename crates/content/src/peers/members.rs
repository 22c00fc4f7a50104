//! The nodes at one moment: who they are, and which of them is asked for a block.

use std::sync::Arc;

use penstock_cluster::{Load, LoadLimits, Node, Ring, first_below_bound};
use penstock_config::{Cluster, ClusterNode, limits};

use super::Route;
use super::peer::Peer;

const LOAD_LIMITS: LoadLimits = LoadLimits {
    percent_of_share: limits::PEER_LOAD_PERCENT,
    always: Load {
        requests: limits::PEER_LOAD_ALWAYS,
        connections: limits::PEER_LOAD_CONNECTIONS,
        busy: limits::PEER_LOAD_BUSY_THOUSANDTHS,
    },
};

/// All nodes, this one included. A node is named by its place among them.
#[derive(Debug)]
pub(super) struct Members {
    ring: Ring,
    /// Place of this node.
    pub(super) own: usize,
    pub(super) peers: Vec<Arc<Peer>>,
}

impl Members {
    /// These nodes, of which `own` is this one. Those that `known` has too keep their state.
    pub(super) fn new(nodes: &[ClusterNode], own: usize, cluster: &Cluster, known: Option<&Self>) -> Self {
        let peer = |node: &ClusterNode| {
            let known = known.and_then(|known| known.find(&node.name));
            match known.filter(|peer| peer.node == *node && peer.is_of(node, cluster)) {
                Some(peer) => Arc::clone(peer),
                None => Arc::new(Peer::open(node, cluster, known.map(|peer| &**peer))),
            }
        };
        let ring = Ring::new(nodes.iter().map(|node| Node::new(&node.name, node.weight)));
        Self { ring, own, peers: nodes.iter().map(peer).collect() }
    }

    /// This node.
    pub(super) fn own(&self) -> &Arc<Peer> {
        &self.peers[self.own]
    }

    pub(super) fn find(&self, name: &str) -> Option<&Arc<Peer>> {
        self.peers.iter().find(|peer| peer.name() == name)
    }

    pub(super) fn others(&self) -> impl Iterator<Item = &Arc<Peer>> {
        self.peers.iter().enumerate().filter(|(place, _)| *place != self.own).map(|(_, peer)| peer)
    }

    /// Whether a node may be asked. This one always may.
    pub(super) fn is_up(&self, place: usize) -> bool {
        place == self.own || self.peers[place].is_up()
    }

    /// The nodes that may have a block, best first.
    pub(super) fn rank(&self, route: Route) -> Vec<usize> {
        self.ring.rank(&route.key, route.block)
    }

    /// The nodes of a rank that are asked for a block in front of this one: those from the first on that is within its
    /// bound. `own` is the load of this node.
    pub(super) fn before_own(&self, rank: &[usize], own: Load) -> impl Iterator<Item = &Arc<Peer>> {
        let node = |(place, peer): (usize, &Arc<Peer>)| {
            let load = if place == self.own { own } else { peer.load() };
            self.is_up(place).then_some((peer.node.weight, load))
        };
        let nodes: Vec<_> = self.peers.iter().enumerate().map(node).collect();
        let first = first_below_bound(rank, &nodes, LOAD_LIMITS).unwrap_or(rank.len());
        let left: Vec<usize> = rank[first..].to_vec();
        let asked = left.into_iter().filter(|place| self.is_up(*place));
        asked.take_while(|place| *place != self.own).map(|place| &self.peers[place])
    }

    /// The node of a shield through which a block is asked for, if that is not this node.
    pub(super) fn shield(&self, route: Route, shield: &[String]) -> Option<&Arc<Peer>> {
        let place = |name: &String| self.peers.iter().position(|peer| peer.name() == name);
        let places: Vec<usize> = shield.iter().filter_map(place).collect();
        if places.contains(&self.own) {
            return None;
        }
        let ranked = self.ring.rank_evenly(&route.key, route.block, &places);
        ranked.into_iter().find(|place| self.is_up(*place)).map(|place| &self.peers[place])
    }
}
