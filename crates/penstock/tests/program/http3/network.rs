//! Downloads over networks that lose, reorder, and give the client another port on the way.

use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use boring::sha::sha256;
use penstock_testkit::{Content, Server, Setup, Tool, until};
use serde_json::Value;

use super::setup;

/// What a network does to datagrams, in each direction.
#[derive(Clone, Copy, Default)]
pub(crate) struct Faults {
    /// Of a thousand datagrams so many are lost.
    pub(crate) lost: u64,
    /// Of a thousand so many come behind their successor.
    pub(crate) late: u64,
    /// The client has another port towards the server from each of these datagrams on; what comes to the old one is lost.
    pub(crate) rebinds_at: &'static [usize],
}

/// A network between clients and the server.
pub(crate) struct Network {
    address: SocketAddr,
    is_over: Arc<AtomicBool>,
    dropped: Arc<AtomicUsize>,
    threads: Vec<JoinHandle<()>>,
}

impl Network {
    pub(crate) fn before(server: SocketAddr, faults: Faults) -> Self {
        let inside = UdpSocket::bind("127.0.0.1:0").unwrap();
        let address = inside.local_addr().unwrap();
        let is_over = Arc::new(AtomicBool::new(false));
        let dropped = Arc::new(AtomicUsize::new(0));
        let (over, lost) = (Arc::clone(&is_over), Arc::clone(&dropped));
        let thread = thread::spawn(move || relay(&inside, server, faults, &over, &lost));
        Self { address, is_over, dropped, threads: vec![thread] }
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        self.threads.drain(..).for_each(|thread| drop(thread.join()));
    }
}

/// One direction: which datagrams arrive, and in which order.
struct Direction {
    faults: Faults,
    /// Equal seeds give equal faults.
    random: u64,
    late: Option<Vec<u8>>,
}

impl Direction {
    fn new(faults: Faults, seed: u64) -> Self {
        Self { faults, random: seed, late: None }
    }

    fn draw(&mut self) -> u64 {
        // xorshift64
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random % 1000
    }

    /// Gives what arrives to `send`. Returns whether the datagram was lost.
    fn pass(&mut self, datagram: &[u8], mut send: impl FnMut(&[u8])) -> bool {
        if self.draw() < self.faults.lost {
            return true;
        }
        if self.late.is_none() && self.draw() < self.faults.late {
            self.late = Some(datagram.to_vec());
            return false;
        }
        send(datagram);
        if let Some(late) = self.late.take() {
            send(&late);
        }
        false
    }
}

/// A client's way through the network, as long as the network is there.
struct Flow {
    client: SocketAddr,
    outside: UdpSocket,
    up: Direction,
    down: Direction,
    passed: usize,
}

impl Flow {
    fn new(client: SocketAddr, server: SocketAddr, faults: Faults) -> Self {
        let (up, down) = (Direction::new(faults, 17), Direction::new(faults, 42));
        Self { client, outside: open(server), up, down, passed: 0 }
    }

    /// Passes what has come from the server. Returns how many datagrams that were, and how many of them were lost.
    fn pass_down(&mut self, inside: &UdpSocket, server: SocketAddr, datagram: &mut [u8]) -> (usize, usize) {
        let (mut count, mut lost) = (0, 0);
        while let Ok(length) = self.outside.recv(datagram) {
            (count, self.passed) = (count + 1, self.passed + 1);
            let send = |bytes: &[u8]| drop(inside.send_to(bytes, self.client));
            lost += usize::from(self.down.pass(&datagram[..length], send));
            if self.down.faults.rebinds_at.contains(&self.passed) {
                self.outside = open(server);
            }
        }
        (count, lost)
    }
}

fn open(server: SocketAddr) -> UdpSocket {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.connect(server).unwrap();
    socket.set_nonblocking(true).unwrap();
    socket
}

/// Forwards between clients, which are who send to `inside`, and the server.
fn relay(
    inside: &UdpSocket,
    server: SocketAddr,
    faults: Faults,
    is_over: &AtomicBool,
    dropped: &AtomicUsize,
) {
    let mut flows: Vec<Flow> = Vec::new();
    inside.set_nonblocking(true).unwrap();
    let mut datagram = [0; 2048];
    while !is_over.load(Ordering::Relaxed) {
        let mut is_idle = true;
        while let Ok((length, client)) = inside.recv_from(&mut datagram) {
            is_idle = false;
            let known = flows.iter().position(|flow| flow.client == client);
            let at = known.unwrap_or_else(|| {
                flows.push(Flow::new(client, server, faults));
                flows.len() - 1
            });
            let Flow { up, outside, .. } = &mut flows[at];
            let is_lost = up.pass(&datagram[..length], |bytes| drop(outside.send(bytes)));
            dropped.fetch_add(usize::from(is_lost), Ordering::Relaxed);
        }
        for flow in &mut flows {
            let (count, lost) = flow.pass_down(inside, server, &mut datagram);
            is_idle &= count == 0;
            dropped.fetch_add(lost, Ordering::Relaxed);
        }
        if is_idle {
            thread::sleep(Duration::from_micros(200));
        }
    }
}

/// Downloads the file through the network, several times on one connection, and compares each body.
pub(crate) fn download(server: &Server, network: &Network, file: &Content, times: u64) -> Value {
    let digits: String = sha256(&file.all()).iter().map(|byte| format!("{byte:02x}")).collect();
    let tool = Tool::penstock().args(["load", "download", "--quiet", "--json", "--protocol", "h3", "--ca"]);
    let tool = tool.arg(server.certificates().authority()).args(["--streams", "2", "--timeout", "30s"]);
    let tool = tool.args(["--requests", &times.to_string(), "--sha256", &digits]);
    let tool = tool.args(["--address", &network.address.to_string(), &server.url("/clip.mp4")]);
    let finished = tool.run();
    serde_json::from_slice(&finished.stdout).unwrap_or_else(|error| panic!("{error}: {}", finished.stderr))
}

#[test]
fn bodies_are_whole_over_networks_that_lose_and_reorder() {
    for (lost, late) in [(10, 0), (50, 0), (0, 100), (50, 50)] {
        let server = setup().start();
        let file = server.file("clip.mp4", 3_000_000);
        let network = Network::before(server.https(), Faults { lost, late, rebinds_at: &[] });
        let report = download(&server, &network, &file, 4);
        assert_eq!(report["errors_total"], 0, "{lost} {late}: {report:#}");
        assert_eq!(report["bytes"], 12_000_000, "{lost} {late}");
        assert_eq!(network.dropped.load(Ordering::Relaxed) > 0, lost > 0);
        let found = || server.metrics().sum("penstock_quic_packets_lost_total", &[]);
        assert!(lost == 0 || found() > 0.0);
    }
}

#[test]
fn a_client_whose_network_gives_it_other_ports_in_the_middle_of_a_download_gets_all_of_it_on_one_connection()
{
    for control in ["cubic", "bbr"] {
        if !penstock_testkit::has_congestion_control(control) {
            continue; // The TCP socket beside needs it.
        }
        let listener = format!("tls: true, protocols: [h1, h2, h3], congestion_control: {control}");
        for (rebinds_at, migrations) in [(&[300][..], 1.0), (&[1500], 1.0), (&[300, 700, 1500, 2300], 4.0)] {
            let server = Setup::new().listeners(&[&listener, ""]).start();
            let file = server.file("clip.mp4", 3_000_000);
            let network = Network::before(server.https(), Faults { rebinds_at, ..Faults::default() });
            let report = download(&server, &network, &file, 3);
            assert_eq!(report["errors_total"], 0, "{control} {rebinds_at:?}: {report:#}");
            assert_eq!(report["bytes"], 9_000_000, "{control} {rebinds_at:?}");
            let counted = || server.metrics().sum("penstock_quic_migrations_total", &[]);
            // More, if the proof of a new address came late.
            until("the migrations", || (counted() >= migrations).then_some(()));
            server.counted("penstock_http_connections_total", &["version=\"h3\""], 1.0);
        }
    }
}
