//! Names of origins, asked of dnsmasq.

use std::fs;
use std::net::TcpListener;
use std::process::{Command, Stdio};

use penstock_testkit::origin::{Origin, answer};
use penstock_testkit::{Client, Process, ReservedAddress, until};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use super::Edge;

/// A DNS server with a file of names.
struct Names {
    directory: TempDir,
    address: ReservedAddress,
    ttl: &'static str,
    process: Option<Process>,
}

impl Names {
    /// A server whose answers hold for `ttl` seconds; `None`, said aloud, if none is installed.
    fn start(ttl: &'static str, hosts: &str) -> Option<Self> {
        let is_there = Command::new("dnsmasq").arg("--version").output().is_ok();
        if !is_there {
            penstock_testkit::not_tested("names of origins; scripts/install-needs test installs dnsmasq");
            return None;
        }
        let (directory, address) = (TempDir::new().unwrap(), ReservedAddress::reserve());
        let mut names = Self { directory, address, ttl, process: None };
        names.set(hosts);
        names.start_again();
        Some(names)
    }

    fn start_again(&mut self) {
        let at = |name: &str| self.directory.path().join(name).display().to_string();
        let (port, user) = (self.address.address().port(), rustix::process::getuid().as_raw());
        let mut command = Command::new("dnsmasq");
        command.args([
            "--keep-in-foreground",
            "--no-resolv",
            "--no-hosts",
            "--conf-file=/dev/null",
            "--pid-file=",
        ]);
        command.args(["--listen-address=127.0.0.1", "--bind-interfaces", "--log-queries", "--cache-size=0"]);
        command.arg(format!("--port={port}")).arg(format!("--local-ttl={}", self.ttl));
        command.arg(format!("--addn-hosts={}", at("hosts"))).arg(format!("--log-facility={}", at("log")));
        command.arg("--local=/test/");
        if user == 0 {
            command.arg("--user=root");
        }
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        self.process = Some(Process::spawn(&mut command).unwrap());
    }

    fn set(&self, hosts: &str) {
        fs::write(self.directory.path().join("hosts"), hosts).unwrap();
        if let Some(process) = &self.process {
            kill_process(Pid::from_child(process), Signal::HUP).unwrap();
        }
    }

    /// Questions for addresses of IPv4 so far.
    fn questions(&self) -> usize {
        let log = fs::read_to_string(self.directory.path().join("log")).unwrap_or_default();
        log.matches("query[A] origin.test").count()
    }

    /// An edge in front of this port of the name. Each request takes a new connection.
    fn edge(&self, port: u16) -> Edge {
        let edge = Edge::before(&format!(
            "- origin: {{http: [\"http://origin.test:{port}\"], resolver: [\"{}\"], retries: 0}}",
            self.address
        ));
        edge.server.tolerate_warning("is out: ");
        edge
    }
}

/// An origin that answers with the address that it was reached at, on all addresses of this machine. It ends connections.
fn origin() -> Origin {
    let listener = TcpListener::bind("0.0.0.0:0").unwrap();
    Origin::on(listener, |_, _, stream| {
        let address = stream.local_addr().unwrap().ip().to_string();
        answer(stream, "200 OK", "Cache-Control: no-store\r\nConnection: close\r\n", address.as_bytes());
        false
    })
}

fn get(edge: &Edge) -> (u16, String) {
    let response = Client::plain(&edge.server).get("/a");
    (response.status, response.text().to_owned())
}

#[test]
fn an_answer_of_dns_serves_all_connections_as_long_as_it_holds() {
    let Some(names) = Names::start("600", "127.0.0.2 origin.test\n") else { return };
    let origin = origin();
    let edge = names.edge(origin.port());
    until("the DNS server", || (get(&edge).0 == 200).then_some(()));
    let before = names.questions();
    for _ in 0..50 {
        assert_eq!(get(&edge), (200, "127.0.0.2".to_owned()));
    }
    assert_eq!(names.questions(), before, "no connection asks");
}

#[test]
fn requests_follow_an_address_that_moves_and_stay_with_it_while_dns_is_away() {
    let Some(mut names) = Names::start("1", "127.0.0.2 origin.test\n") else { return };
    let origin = origin();
    let edge = names.edge(origin.port());
    let wait_for = |address: &str| {
        until("an answer from the address", || (get(&edge) == (200, address.to_owned())).then_some(()));
    };
    wait_for("127.0.0.2");
    names.set("127.0.0.3 origin.test\n");
    wait_for("127.0.0.3");
    names.process = None;
    for _ in 0..3 {
        edge.server.let_a_second_pass();
        assert_eq!(get(&edge), (200, "127.0.0.3".to_owned()), "the last answer stays in use");
    }
    names.set("127.0.0.4 origin.test\n");
    names.start_again();
    wait_for("127.0.0.4");
    // A name that does not exist any more has no address, and comes back.
    names.set("");
    until("502", || (get(&edge).0 == 502).then_some(()));
    names.set("127.0.0.5 origin.test\n");
    wait_for("127.0.0.5");
}

#[test]
fn an_answer_that_does_not_fit_a_packet_comes_over_tcp_and_all_its_addresses_are_used() {
    let hosts: String = (1..=150).map(|last| format!("127.0.1.{last} origin.test\n")).collect();
    let Some(names) = Names::start("600", &hosts) else { return };
    let origin = origin();
    let edge = names.edge(origin.port());
    until("the DNS server", || (get(&edge).0 == 200).then_some(()));
    let mut reached: Vec<String> = (0..64).map(|_| get(&edge).1).collect();
    reached.sort();
    reached.dedup();
    assert_eq!(reached.len(), 64, "{reached:?}");
}
