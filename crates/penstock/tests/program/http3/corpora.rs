//! What the fuzz targets of QUIC have found worth keeping, through the whole server.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use penstock_http3::{FuzzClient, FuzzResponse, FuzzStep};
use penstock_testkit::{Content, DEADLINE, Server, Tool};

use super::{content, has_client, setup};

const FUZZ: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz");

/// What a server may send for each byte of a client whose address is not proven (RFC 9000 §8.1).
const AMPLIFICATION: usize = 3;

/// Clients at once.
const CLIENTS: usize = 4;

/// Ports of a client.
const PORTS: u8 = 4;

/// How long a client waits for an answer. One that comes later is lost, which changes what is tried, and no result.
const PATIENCE: Duration = Duration::from_millis(3);

const SMALL: &str = "a small file";

/// The seeds of a target, and the inputs in its corpus.
fn inputs(target: &str) -> Vec<Vec<u8>> {
    let corpus = tempfile::tempdir().unwrap();
    let archive = Path::new(FUZZ).join("corpora").join(format!("{target}.tar.gz"));
    Tool::new("tar").arg("-xzf").arg(archive).arg("-C").arg(corpus.path()).run().ok();
    let folders = [corpus.path().to_owned(), Path::new(FUZZ).join("seeds").join(target)];
    let mut paths: Vec<_> = folders
        .iter()
        .flat_map(|folder| fs::read_dir(folder).unwrap())
        .map(|entry| entry.unwrap().path())
        .collect();
    paths.sort();
    assert!(paths.len() > 10, "{target} has a corpus");
    paths.iter().map(|path| fs::read(path).unwrap()).collect()
}

fn server() -> (Server, Content) {
    let server =
        setup().limits("handshake_deadline: 2s, idle_timeout: 2s, connections_per_network: 2000").start();
    server.write("small.txt", SMALL);
    let clip = server.file("clip.mp4", 300_000);
    (server, clip)
}

/// Another client is answered, and nothing is left of the others.
fn assert_sound(server: &Server, clip: &Content) {
    clip.assert_range(0..clip.len, &content(server, "/clip.mp4"));
    server.counted("penstock_connections", &["protocol=\"https\""], 0.0);
    server.counted("penstock_http3_streams", &[], 0.0);
}

#[test]
fn datagrams_of_the_corpora_are_amplified_by_no_more_than_an_unproven_address_allows() {
    if !has_client() {
        return;
    }
    let (server, clip) = server();
    let datagrams = [inputs("quic_datagram"), inputs("quic_steering")].concat();
    for round in 0..2 {
        for datagram in &datagrams {
            let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
            socket.set_read_timeout(Some(PATIENCE)).unwrap();
            socket.send_to(datagram, server.https()).unwrap();
            let mut answer = [0; 2000];
            let mut answered = 0;
            while let Ok(length) = socket.recv(&mut answer) {
                answered += length;
            }
            assert!(answered <= AMPLIFICATION * datagram.len(), "b\"{}\"", datagram.escape_ascii());
        }
        if round == 0 {
            clip.assert_range(0..clip.len, &content(&server, "/clip.mp4"));
        }
    }
    assert_sound(&server, &clip);
}

#[test]
fn connections_of_the_corpora_get_what_they_ask_for_or_nothing() {
    if !has_client() {
        return;
    }
    let (server, clip) = server();
    let inputs = inputs("quic_connection");
    let next = AtomicUsize::new(0);
    let whole = AtomicUsize::new(0);
    thread::scope(|scope| {
        for _ in 0..CLIENTS {
            scope.spawn(|| {
                while let Some(input) = inputs.get(next.fetch_add(1, Ordering::Relaxed)) {
                    for response in run(input, server.https()).values() {
                        let is_whole = check(response, &clip);
                        whole.fetch_add(usize::from(is_whole), Ordering::Relaxed);
                    }
                }
            });
        }
    });
    // Nearly all inputs have requests.
    let whole = whole.into_inner();
    assert!(whole > inputs.len() / 4, "{whole} responses to {} clients", inputs.len());
    assert_sound(&server, &clip);
}

/// A client that does what the input says. Steps of an application let it wait: the server has its own.
fn run(input: &[u8], server: SocketAddr) -> BTreeMap<u64, FuzzResponse> {
    let mut client = FuzzClient::new(input);
    let sockets = [(); PORTS as usize].map(|()| {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.connect(server).unwrap();
        socket.set_nonblocking(true).unwrap();
        socket
    });
    let give_up = Instant::now() + DEADLINE;
    let in_time = || assert!(Instant::now() < give_up, "b\"{}\"", input.escape_ascii());
    while !(client.is_established() || client.is_over()) {
        exchange(&mut client, &sockets, Duration::from_secs(1));
        in_time();
    }
    while let Some(step) = client.step() {
        let patience = if matches!(step, FuzzStep::Client) { Duration::ZERO } else { PATIENCE };
        exchange(&mut client, &sockets, patience);
    }
    client.read_on();
    while exchange(&mut client, &sockets, 5 * PATIENCE) {
        client.read_on();
        in_time();
    }
    client.responses()
}

/// Sends what the client has to send, and waits for the first datagram and those that came with it. Returns whether any came.
fn exchange(client: &mut FuzzClient<'_>, sockets: &[UdpSocket], patience: Duration) -> bool {
    if client.deadline().is_some_and(|due| due <= Instant::now()) {
        client.on_timeout();
    }
    client.send(|port, datagram| {
        // A full buffer loses it, as a network does. An ended server would fail the test below.
        let _lost = sockets[usize::from(port)].send(datagram);
    });
    let give_up = Instant::now() + patience;
    let mut has_any = false;
    loop {
        let mut has_one = false;
        for (port, socket) in (0..).zip(sockets) {
            let mut datagram = [0; 2000];
            match socket.recv(&mut datagram) {
                Ok(length) => {
                    client.receive(&mut datagram[..length], port);
                    has_one = true;
                }
                Err(error) => assert_eq!(error.kind(), io::ErrorKind::WouldBlock),
            }
        }
        has_any |= has_one;
        if !has_one && (has_any || Instant::now() >= give_up) {
            return has_any;
        }
        if !has_one {
            thread::sleep(Duration::from_micros(100));
        }
    }
}

/// Compares content with what the head says it is. Returns whether all of it has come.
fn check(response: &FuzzResponse, clip: &Content) -> bool {
    let number = |name| std::str::from_utf8(response.field(name)?).unwrap().parse::<u64>().ok();
    let length = response.content.len() as u64;
    match (number(b":status"), number(b"content-length")) {
        (Some(200), Some(of)) if of == clip.len => clip.assert_range(0..length, &response.content),
        (Some(200), Some(of)) if of == SMALL.len() as u64 => {
            assert!(SMALL.as_bytes().starts_with(&response.content))
        }
        (Some(206), Some(2001)) => clip.assert_range(1000..1000 + length, &response.content),
        (Some(300..), _) | (None, _) => return false,
        (status, length) => panic!("status {status:?} with a length of {length:?}"),
    }
    response.has_ended
}
