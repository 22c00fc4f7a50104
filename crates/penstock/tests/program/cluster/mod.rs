//! Several servers as one cache: an owner for each object, one request to the origin for all of them.

mod commands;
mod failures;
mod live;
mod members;
mod namespaces;
mod objects;
mod proof;
pub(crate) mod purge;
mod scripted;
mod strangers;
mod view;

use std::collections::BTreeMap;
use std::net::SocketAddr;

use penstock_testkit::origin::{Origin, target};
use penstock_testkit::{Certificates, ReservedAddress, Server, Setup, memory_directory, until};
use rcgen::KeyPair;
use tempfile::TempDir;

const SLICE: u64 = 64 * 1024;

/// A size that a variable of the environment may raise.
fn size(variable: &str, default: usize) -> usize {
    std::env::var(variable).map_or(default, |text| text.parse().unwrap())
}

/// Servers of one cluster, named `edge1`, `edge2` and so on.
pub(crate) struct Cluster {
    pub(crate) servers: Vec<Server>,
    plan: Plan,
}

/// What the configurations of all nodes have in common.
struct Plan {
    addresses: Vec<ReservedAddress>,
    memory: Vec<TempDir>,
    directory: TempDir,
    certificates: Certificates,
    weights: Vec<u32>,
    secure: bool,
    source: Source,
    /// Where the nodes listen for each other, if not at `addresses`.
    hosts: Vec<SocketAddr>,
}

/// Where the nodes come from.
enum Source {
    Listed,
    /// A store, with the section of the fleet.
    Store(String),
    /// SRV records of this server, whose targets are addresses.
    Dns(SocketAddr),
}

fn name(place: usize) -> String {
    format!("edge{}", place + 1)
}

/// The name of a node that DNS names by its address.
fn dns_name(place: usize) -> String {
    format!("127.0.0.{}", place + 2)
}

impl Plan {
    fn new(weights: &[u32]) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let certificates = Certificates::make(directory.path());
        for place in 0..weights.len() {
            let name = name(place);
            let address = dns_name(place);
            certificates.leaf(&name, &[&name, &address], &KeyPair::generate().unwrap());
        }
        Self {
            addresses: weights.iter().map(|_| ReservedAddress::reserve()).collect(),
            memory: weights.iter().map(|_| memory_directory()).collect(),
            directory,
            certificates,
            weights: weights.to_vec(),
            secure: true,
            source: Source::Listed,
            hosts: Vec::new(),
        }
    }

    /// The configuration of a node with these sites.
    fn setup(&self, place: usize, sites: &str) -> Setup {
        self.setup_without(place, sites, &[])
    }

    /// The same for a node that cannot reach these ones.
    fn setup_without(&self, place: usize, sites: &str, unreachable: &[usize]) -> Setup {
        let dead: Vec<_> = self.addresses.iter().map(|_| ReservedAddress::reserve()).collect();
        let node = |place: usize| {
            let address =
                if unreachable.contains(&place) { dead[place].address() } else { self.address(place) };
            format!("{{name: {}, address: \"{address}\", weight: {}}}", name(place), self.weights[place])
        };
        let nodes: Vec<String> = (0..self.addresses.len()).map(node).collect();
        let own = name(place);
        let files = self.directory.path().display();
        let tls = match self.secure {
            true => format!(", ca: {files}/authority.crt, chain: {files}/{own}.crt, key: {files}/{own}.key"),
            false => String::new(),
        };
        let address = self.address(place);
        let (weight, port) = (self.weights[place], address.port());
        let nodes = match &self.source {
            Source::Listed => format!("self: {own}, nodes: [{}]", nodes.join(", ")),
            Source::Store(_) => {
                format!("self: {own}, valkey: true, address: \"{address}\", weight: {weight}")
            }
            Source::Dns(resolver) => {
                let own = dns_name(place);
                format!(
                    "self: {own}, dns: _penstock._tcp.cluster.test, resolver: \"{resolver}\", address: \"{own}:{port}\""
                )
            }
        };
        let cluster = format!("cluster: {{{nodes}{tls}}}");
        let memory = self.memory[place].path().display();
        let cache = format!("cache: {{slice: 64KiB, memory: {{directory: {memory}, size: 16MiB}}}}");
        let setup = Setup::new().sites(sites).section(&cluster).section(&cache);
        match &self.source {
            Source::Store(fleet) => setup.section(&fleet.replace("NAME", &own)),
            Source::Listed | Source::Dns(_) => setup,
        }
    }

    fn address(&self, place: usize) -> SocketAddr {
        self.hosts.get(place).copied().unwrap_or_else(|| self.addresses[place].address())
    }
}

impl Cluster {
    /// So many nodes in front of an origin.
    pub(crate) fn of(nodes: usize, origin: &Origin) -> Self {
        Self::start(Plan::new(&vec![1; nodes]), &origin.sites_with("peers: true"))
    }

    fn start(plan: Plan, sites: &str) -> Self {
        let all = plan.weights.len();
        Self::start_some(plan, all, sites)
    }

    /// The first nodes of a plan.
    fn start_some(plan: Plan, nodes: usize, sites: &str) -> Self {
        let servers: Vec<Server> = (0..nodes).map(|place| plan.setup(place, sites).start()).collect();
        for server in &servers {
            // Nodes come and go, and the first may start long before the last.
            server.tolerate_warning("is out: ");
        }
        let cluster = Self { servers, plan };
        cluster.wait_for_all();
        cluster
    }

    /// Checks that each object was fetched once, as [`assert_fetched_once`] does.
    #[track_caller]
    fn fetched_once(&self, asked: &BTreeMap<String, usize>) {
        let late = self.servers.iter().map(late_answers).sum();
        assert_fetched_once(late, &asked.values().copied().map(Some).collect::<Vec<_>>());
    }

    /// Starts one more node of the plan, and waits until all take each other to be in.
    fn join(&mut self, sites: &str) {
        let server = self.plan.setup(self.servers.len(), sites).start();
        server.tolerate_warning("is out: ");
        self.servers.push(server);
        self.wait_for_all();
    }

    /// Waits until each node takes all others to be in.
    fn wait_for_all(&self) {
        for server in &self.servers {
            until("all nodes to be up", || {
                let up = server.metrics().sum("penstock_cluster_peer_up", &[]);
                (up == self.servers.len() as f64 - 1.0).then_some(())
            });
        }
    }

    /// Requests of other nodes that ended so, for all nodes.
    fn asked(&self, outcome: &str) -> f64 {
        let label = format!("outcome=\"{outcome}\"");
        let asked = |server: &Server| server.metrics().sum("penstock_cluster_requests_total", &[&label]);
        self.servers.iter().map(asked).sum()
    }
}

/// How often an origin was asked for each target.
fn asked_targets(origin: &Origin) -> BTreeMap<String, usize> {
    let mut targets = BTreeMap::new();
    for head in origin.asked() {
        *targets.entry(target(&head).to_owned()).or_insert(0) += 1;
    }
    targets
}

/// Answers that other nodes did not give this one in their time.
fn late_answers(server: &Server) -> f64 {
    let sum = |outcome| server.metrics().sum("penstock_cluster_requests_total", &[outcome]);
    sum("outcome=\"stalled\"") + sum("outcome=\"failed\"")
}

/// Checks that each of these objects was fetched once. Nodes ask the origin themselves after answers that were `late`, as on a machine
/// that stood still.
#[track_caller]
fn assert_fetched_once(late: f64, times: &[Option<usize>]) {
    let again: usize = times.iter().map(|times| times.expect("each was fetched") - 1).sum();
    assert!(again as f64 <= late, "{again} were fetched again, and {late} answers were late: {times:?}");
}
