//! Follows the list of a cluster's nodes that comes from the store of a fleet, or from DNS.

use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use penstock_cluster::{Member, Roster};
use penstock_config::{ClusterNode, ClusterSource, Config, limits};
use penstock_content::Peers;
use penstock_fleet::{Fleet, NodeEntry, NodeSink};
use penstock_origin::dns;
use penstock_sys::lock::Unpoisoned;

use super::look_at_fleet;

/// Keeps the nodes of a cluster as its list has them. Dropping it ends that.
pub(crate) struct Membership {
    peers: Arc<Peers>,
    /// Ends the thread that asks DNS.
    _stop: Option<Sender<()>>,
}

impl Membership {
    /// Follows the list of a cluster; `None` if its configuration lists the nodes. Waits at most for `patience` for the first list.
    ///
    /// # Errors
    /// When the system has no space for a thread.
    pub(crate) fn follow(
        peers: &Arc<Peers>,
        fleet: Option<&Arc<Fleet>>,
        patience: Duration,
    ) -> io::Result<Option<Self>> {
        let cluster = peers.cluster();
        let own = &cluster.nodes[cluster.own];
        let list = Arc::new(NodeList::new(peers, own));
        let stop = match (&cluster.source, fleet) {
            (ClusterSource::Listed, _) => return Ok(None),
            (ClusterSource::Fleet, None) => {
                tracing::warn!(
                    "cluster: there was no fleet at the start, so this node is alone until the next one"
                );
                return Ok(None);
            }
            (ClusterSource::Fleet, Some(fleet)) => {
                let entry = NodeEntry { name: own.name.clone(), address: own.address, weight: own.weight };
                fleet.share_node(Some((entry, list)), patience);
                None
            }
            (ClusterSource::Dns { name, resolver }, _) => {
                let question = Question { name: name.clone(), resolver: *resolver, port: own.address.port() };
                Some(follow_dns(question, list, patience)?)
            }
        };
        Ok(Some(Self { peers: Arc::clone(peers), _stop: stop }))
    }

    /// Whether it follows the list for these nodes.
    pub(crate) fn is_for(&self, peers: &Arc<Peers>) -> bool {
        Arc::ptr_eq(&self.peers, peers)
    }
}

/// The nodes that may have a byte of the object at a URL: its owner, then its substitutes. Asks the store or DNS if the nodes
/// come from there; blocks for some seconds at most.
///
/// # Errors
/// What is wrong with the URL, that its site shares no objects, or why there is no list of nodes.
pub fn locate(config: &Config, url: &str, byte: u64) -> Result<Vec<String>, String> {
    penstock_content::locate(config, url, byte, || {
        let Some(cluster) = &config.cluster else { return Ok(None) };
        let listed = match &cluster.source {
            ClusterSource::Listed => return Ok(None),
            ClusterSource::Fleet => {
                let view =
                    look_at_fleet(config).map_err(|why| format!("the store cannot be asked: {why}"))?;
                let edges = view.unwrap_or_default().edges.into_iter();
                edges.filter(|edge| edge.is_present).filter_map(|edge| edge.node).map(member_of).collect()
            }
            ClusterSource::Dns { name, resolver } => {
                let port = cluster.nodes[cluster.own].address.port();
                let question = Question { name: name.clone(), resolver: *resolver, port };
                question.ask().map_err(|why| format!("DNS has no nodes for {name}: {why}"))?
            }
        };
        // A node that is not listed owns nothing, also if this is its configuration.
        let own = ClusterNode { weight: 0, ..cluster.nodes[cluster.own].clone() };
        let list = NodeList::new(&Peers::open(cluster, None, Instant::now()), &own);
        Ok(Some(list.members_of(listed)))
    })
}

fn member_of(NodeEntry { name, address, weight }: NodeEntry) -> Member {
    Member { name, address, weight }
}

/// The list, and the nodes that it is for.
struct NodeList {
    peers: Arc<Peers>,
    own: ClusterNode,
    roster: Mutex<Roster>,
    /// Whether the log says that this node has another name in the list.
    is_said: AtomicBool,
}

impl NodeList {
    fn new(peers: &Arc<Peers>, node: &ClusterNode) -> Self {
        let own = Member { name: node.name.clone(), address: node.address, weight: node.weight };
        let absence = Duration::from_secs(limits::CLUSTER_ABSENCE_SECONDS);
        let mut roster = Roster::new(own, absence, limits::CLUSTER_NODES);
        // Those that are known already, after a reload.
        let known = peers.others().into_iter().map(|peer| {
            let ClusterNode { name, address, weight } = peer.node.clone();
            Member { name, address, weight }
        });
        roster.take_in(known, Instant::now());
        Self {
            peers: Arc::clone(peers),
            own: node.clone(),
            roster: Mutex::new(roster),
            is_said: AtomicBool::new(false),
        }
    }

    /// Whether this is a node that may be asked: not this one under another name.
    fn is_fine(&self, member: &Member) -> bool {
        let name = &member.name;
        if member.address == self.own.address && *name != self.own.name {
            if !self.is_said.swap(true, Ordering::Relaxed) {
                let own = &self.own.name;
                tracing::warn!(
                    "cluster: the address of this node is listed for `{name}`, and self is `{own}`"
                );
            }
            return false;
        }
        let fine = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b':');
        (1..=limits::CLUSTER_NAME_BYTES).contains(&name.len())
            && name.bytes().all(fine)
            && member.address.port() != 0
            && !member.address.ip().is_unspecified()
    }

    /// The nodes after a list was taken in.
    fn members_of(&self, list: impl IntoIterator<Item = Member>) -> Vec<ClusterNode> {
        let mut roster = self.roster.lock().unpoisoned();
        roster.take_in(list.into_iter().filter(|member| self.is_fine(member)), Instant::now());
        let node = |Member { name, address, weight }| ClusterNode { name, address, weight };
        roster.members().into_iter().map(node).collect()
    }

    fn take_in(&self, members: impl IntoIterator<Item = Member>) {
        let nodes = self.members_of(members);
        if self.peers.set_members(&nodes, Instant::now()) {
            let names: Vec<&str> = nodes.iter().map(|node| node.name.as_str()).collect();
            tracing::info!("cluster: the nodes are {}", names.join(", "));
        }
    }
}

impl NodeSink for NodeList {
    fn nodes(&self, nodes: Vec<NodeEntry>) {
        self.take_in(nodes.into_iter().map(member_of));
    }
}

/// What DNS is asked.
struct Question {
    /// SRV records if it begins with `_`, addresses otherwise.
    name: String,
    resolver: Option<SocketAddr>,
    /// The port of nodes that are addresses.
    port: u16,
}

/// Asks DNS on a thread of its own, and waits for the first answer, at most for `patience`. The thread ends when the sender is dropped.
fn follow_dns(question: Question, list: Arc<NodeList>, patience: Duration) -> io::Result<Sender<()>> {
    let (stop, stopped) = channel();
    // The start waits until the sender of `answered` is dropped.
    let (first, answered) = channel::<()>();
    let pause = Duration::from_secs(limits::CLUSTER_DNS_SECONDS);
    thread::Builder::new().name("cluster-dns".to_owned()).spawn(move || {
        let (mut is_said, mut first) = (false, Some(first));
        loop {
            match question.ask() {
                Ok(members) => {
                    if std::mem::take(&mut is_said) {
                        tracing::info!("cluster: DNS answers for {} again", question.name);
                    }
                    list.take_in(members);
                }
                Err(error) if !is_said => {
                    tracing::warn!(
                        "cluster: DNS has no nodes for {} ({error}); the known ones stay",
                        question.name
                    );
                    is_said = true;
                }
                Err(_) => {}
            }
            drop(first.take());
            if stopped.recv_timeout(pause) != Err(RecvTimeoutError::Timeout) {
                return;
            }
        }
    })?;
    if !patience.is_zero() && answered.recv_timeout(patience) == Err(RecvTimeoutError::Timeout) {
        tracing::warn!("cluster: DNS does not answer in time; this node begins alone");
    }
    Ok(stop)
}

impl Question {
    /// The nodes, as DNS has them now. Blocks.
    fn ask(&self) -> Result<Vec<Member>, String> {
        let members = if self.name.starts_with('_') { self.servers()? } else { self.addresses()? };
        if members.is_empty() { Err("no records".to_owned()) } else { Ok(members) }
    }

    fn addresses(&self) -> Result<Vec<Member>, String> {
        let found = (self.name.as_str(), self.port).to_socket_addrs().map_err(|error| error.to_string())?;
        let member = |address: SocketAddr| Member { name: address.ip().to_string(), address, weight: 1 };
        Ok(found.take(limits::CLUSTER_NODES).map(member).collect())
    }

    /// Nodes of SRV records. If all of them have weight 0, which says nothing, their shares are the same.
    fn servers(&self) -> Result<Vec<Member>, String> {
        let resolvers = match self.resolver {
            Some(resolver) => vec![resolver],
            None => dns::system_servers(),
        };
        let question = dns::Question { name: &self.name, kind: dns::Kind::Srv };
        let read = |query: &[u8], answer: &[u8]| dns::servers(query, answer, limits::CLUSTER_NODES);
        let records = question.ask(&resolvers, read).map_err(|error| error.to_string())?;
        let says_nothing = records.iter().all(|record| record.weight == 0);
        let member = |record: dns::ServerRecord| {
            let weight = if says_nothing { 1 } else { u32::from(record.weight) };
            let address = (record.target.as_str(), record.port).to_socket_addrs().ok()?.next()?;
            Some(Member { name: record.target, address, weight })
        };
        // A node whose address cannot be found now keeps the one that it had.
        Ok(records.into_iter().filter_map(member).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_found_by_the_resolver_of_the_system() {
        let question = Question { name: "localhost".to_owned(), resolver: None, port: 8443 };
        let found = question.ask().unwrap();
        let is_local = |member: &Member| {
            member.address.ip().is_loopback() && member.address.port() == 8443 && member.weight == 1
        };
        assert!(found.iter().all(is_local) && !found.is_empty(), "{found:?}");
        assert!(found.iter().all(|member| member.name == member.address.ip().to_string()));
    }
}
