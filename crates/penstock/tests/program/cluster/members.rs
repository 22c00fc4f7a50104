//! Nodes that a store or DNS lists: they find each other, and go on without either.

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::os::unix::fs::PermissionsExt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

use penstock_testkit::origin::{Origin, field};
use penstock_testkit::{Finished, Store, Tool};

use super::{Cluster, Plan, Source, asked_targets, assert_fetched_once, dns_name, late_answers};
use crate::cluster::objects::{content_of, files};

const SITE: &str = "peers: true";

/// Asks all nodes for objects of these numbers, and checks that the origin was asked for each once.
#[track_caller]
fn fetched_once(cluster: &Cluster, origin: &Origin, numbers: std::ops::Range<usize>) {
    for number in numbers.clone() {
        let target = format!("/film/{number}");
        for server in &cluster.servers {
            let body = penstock_testkit::Client::plain(server).get(&target).body;
            content_of(&target, 5000).assert_range(0..5000, &body);
        }
    }
    let asked = asked_targets(origin);
    let times: Vec<_> = numbers.map(|number| asked.get(&format!("/film/{number}")).copied()).collect();
    assert_fetched_once(cluster.servers.iter().map(late_answers).sum(), &times);
}

/// `penstock cluster locate` with the configuration of a node.
fn locate(cluster: &Cluster, place: usize, target: &str) -> Finished {
    let file = cluster.servers[place].directory().join("penstock.yaml");
    let url = format!("https://video.example{target}");
    Tool::penstock().args(["cluster", "locate", &url, "-c"]).arg(file).run()
}

/// Checks that `locate` names the node that asks the origin.
#[track_caller]
fn located(cluster: &Cluster, origin: &Origin, numbers: std::ops::Range<usize>) {
    for number in numbers {
        let (target, nodes) = (format!("/film/{number}"), cluster.servers.len());
        let said = locate(cluster, number % nodes, &target).ok().text();
        let owner = said.lines().next().unwrap().strip_suffix("  owner").unwrap();
        assert_eq!(said.lines().count(), nodes, "{said}");
        drop(penstock_testkit::Client::plain(&cluster.servers[(number + 1) % nodes]).get(&target));
        let asked = origin.asked().into_iter().rfind(|head| head.contains(&target)).unwrap();
        let passed = field(&asked, "cdn-loop").unwrap();
        assert!(passed.ends_with(&format!("node=\"{owner}\"")), "{passed}, {said}");
    }
}

#[test]
fn nodes_find_each_other_in_the_store_and_stay_together_without_it() {
    let Some(mut store) = Store::start(&[]) else { return };
    let origin = files(5000);
    let mut plan = Plan::new(&[1, 2, 1]);
    let secret = plan.directory.path().join("fleet.key");
    fs::write(&secret, "f".repeat(64)).unwrap();
    fs::set_permissions(&secret, fs::Permissions::from_mode(0o600)).unwrap();
    plan.source = Source::Store(format!(
        "fleet: {{valkey: \"redis://{}\", secret: {}, name: NAME, deadline: 1s}}",
        store.address(),
        secret.display()
    ));
    let sites = origin.sites_with(SITE);
    let mut cluster = Cluster::start_some(plan, 2, &sites);
    fetched_once(&cluster, &origin, 0..20);
    cluster.join(&sites);
    fetched_once(&cluster, &origin, 100..120);
    located(&cluster, &origin, 300..306);
    cluster.servers.iter().for_each(|server| server.tolerate_warning("fleet: the store "));
    store.kill();
    let said = locate(&cluster, 0, "/film/1").exits_with(2);
    assert!(said.stderr.contains("the store cannot be asked"), "{}", said.stderr);
    fetched_once(&cluster, &origin, 200..220);
    cluster.wait_for_all();
}

#[test]
fn nodes_find_each_other_by_srv_records_and_stay_together_without_dns() {
    let dns = ScriptedDns::start();
    let origin = files(5000);
    let mut plan = Plan::new(&[1, 1, 1]);
    plan.source = Source::Dns(dns.address);
    let port = |place: usize| plan.address(place).port();
    let records: Vec<_> = (0..3).map(|place| (dns_name(place), port(place))).collect();
    dns.list(&records[..2]);
    let sites = origin.sites_with(SITE);
    let mut cluster = Cluster::start_some(plan, 2, &sites);
    fetched_once(&cluster, &origin, 0..20);
    dns.list(&records);
    cluster.join(&sites);
    fetched_once(&cluster, &origin, 100..120);
    assert!(dns.over_tcp.load(Ordering::SeqCst) > 0, "answers that are truncated are asked for again");
    located(&cluster, &origin, 300..306);
    cluster.servers.iter().for_each(|server| server.tolerate_warning("cluster: DNS has no nodes"));
    dns.list(&[]);
    dns.wait_for_questions(6);
    fetched_once(&cluster, &origin, 200..220);
    cluster.wait_for_all();
}

/// A DNS server that answers each question with the same SRV records: over UDP with an answer that is truncated.
struct ScriptedDns {
    address: SocketAddr,
    records: Arc<Mutex<Vec<(String, u16)>>>,
    over_tcp: Arc<AtomicUsize>,
}

impl ScriptedDns {
    fn start() -> Self {
        let (stream, datagrams) = (0..100)
            .find_map(|_| {
                let stream = TcpListener::bind("127.0.0.1:0").unwrap();
                let datagrams = UdpSocket::bind(stream.local_addr().unwrap()).ok()?;
                Some((stream, datagrams))
            })
            .expect("a port that is free for both");
        let records = Arc::<Mutex<Vec<(String, u16)>>>::default();
        let over_tcp = Arc::<AtomicUsize>::default();
        let address = stream.local_addr().unwrap();
        // Both threads end with the process.
        thread::spawn(move || {
            let mut query = [0; 512];
            while let Ok((length, from)) = datagrams.recv_from(&mut query) {
                datagrams.send_to(&answer(&query[..length], 0x83, &[]), from).unwrap();
            }
        });
        let (listed, counted) = (Arc::clone(&records), Arc::clone(&over_tcp));
        thread::spawn(move || {
            for stream in stream.incoming() {
                let mut stream = stream.unwrap();
                let mut length = [0; 2];
                let mut query = vec![0; 512];
                if stream.read_exact(&mut length).is_err() {
                    continue;
                }
                query.truncate(usize::from(u16::from_be_bytes(length)));
                stream.read_exact(&mut query).unwrap();
                let answer = answer(&query, 0x81, &listed.lock().unwrap());
                let length = u16::try_from(answer.len()).unwrap().to_be_bytes();
                stream.write_all(&[&length, &answer[..]].concat()).unwrap();
                counted.fetch_add(1, Ordering::SeqCst);
            }
        });
        Self { address, records, over_tcp }
    }

    /// Answers with these records from now on: names and ports of nodes.
    fn list(&self, records: &[(String, u16)]) {
        *self.records.lock().unwrap() = records.to_vec();
    }

    /// Waits for so many more questions.
    fn wait_for_questions(&self, count: usize) {
        let most = self.over_tcp.load(Ordering::SeqCst) + count;
        penstock_testkit::until("questions", || (self.over_tcp.load(Ordering::SeqCst) >= most).then_some(()));
    }
}

/// An answer with these SRV records, all of priority and weight 0.
fn answer(query: &[u8], flags: u8, records: &[(String, u16)]) -> Vec<u8> {
    let count = u8::try_from(records.len()).unwrap();
    // The question without the record of EDNS behind it.
    let question = &query[12..query.len() - 11];
    let mut answer = [&query[..2], &[flags, 0x80, 0, 1, 0, count, 0, 0, 0, 0], question].concat();
    for (target, port) in records {
        let mut name = Vec::new();
        for label in target.split('.') {
            name.push(u8::try_from(label.len()).unwrap());
            name.extend_from_slice(label.as_bytes());
        }
        name.push(0);
        answer.extend_from_slice(&[
            0xc0,
            12,
            0,
            33,
            0,
            1,
            0,
            0,
            0,
            9,
            0,
            u8::try_from(6 + name.len()).unwrap(),
        ]);
        answer.extend_from_slice(&[0, 0, 0, 0]);
        answer.extend_from_slice(&port.to_be_bytes());
        answer.extend_from_slice(&name);
    }
    answer
}
