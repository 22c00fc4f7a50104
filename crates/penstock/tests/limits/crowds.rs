//! Many clients at once, and single ones that want everything.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use penstock_testkit::{Client, Server, Setup, TlsOptions, client_hello, until};
use rustix::net::sockopt::set_socket_linger;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::{ends, no_connections};

const REFUSED: &str = "penstock_connections_refused_total";

/// Raises the limit of this process to what the system allows, and says how many that is.
fn descriptors_allowed() -> u64 {
    let maximum = getrlimit(Resource::Nofile).maximum;
    setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }).unwrap();
    maximum.unwrap_or(u64::MAX)
}

#[test]
fn ten_thousand_half_open_handshakes_keep_no_client_out() {
    const OTHERS: u64 = 1000;
    let crowd = descriptors_allowed().saturating_sub(OTHERS).min(10_000);
    println!("{crowd} half-open handshakes");
    // Each worker has half of the handshakes, and the kernel spreads connections by a hash: not evenly.
    let limit = crowd + crowd / 10 + 100;
    let limits = format!(
        "connections: {limit}, handshakes_in_flight: {limit}, handshake_deadline: 10m, open_files: 16"
    );
    let server = Setup::new().limits(&limits).start();
    server.write("a.txt", "a\n");
    assert_eq!(Client::tls(&server).get("/a.txt").text(), "a\n");
    no_connections(&server);
    let (memory, descriptors) = (server.memory(), server.descriptors());
    let hello = client_hello(&server, &TlsOptions::default());
    let clients: Vec<TcpStream> = (0..crowd)
        .map(|number| {
            let mut client = Client::connect(server.https());
            // RST at the end, so that no port is kept in TIME_WAIT.
            set_socket_linger(&client.stream, Some(Duration::ZERO)).unwrap();
            // Nothing, half a hello, or a whole one whose answer is not read.
            match number % 3 {
                0 => {}
                1 => client.send(&hello[..hello.len() / 2]),
                _ => client.send(&hello),
            }
            client.stream
        })
        .collect();
    server.counted("penstock_connections", &[], crowd as f64);
    for _ in 0..10 {
        assert_eq!(Client::tls(&server).get("/a.txt").text(), "a\n");
    }
    let each = server.memory().saturating_sub(memory) / crowd;
    println!("{each} bytes for each");
    // Two thirds have the library's state of a handshake, one third an answered ClientHello as well.
    assert!(each < 48 * 1024, "{each} bytes of memory for a half-open handshake");
    drop(clients);
    no_connections(&server);
    until("the descriptors to be given back", || (server.descriptors() <= descriptors + 2).then_some(()));
    server.counted(REFUSED, &[], 0.0);
    server.counted("penstock_handshakes_total", &["outcome=\"failed\""], crowd as f64);
    assert_eq!(Client::tls(&server).get("/a.txt").text(), "a\n");
}

#[test]
fn handshakes_beyond_the_limit_are_refused_until_others_have_ended() {
    let server = Setup::new().workers(1).limits("handshakes_in_flight: 8, handshake_deadline: 1m").start();
    server.write("a.txt", "a\n");
    // Connections behind the handshake do not count.
    let mut done: Vec<_> = (0..10).map(|_| Client::tls(&server)).collect();
    let mut unfinished: Vec<_> = (0..8).map(|_| Client::connect(server.https())).collect();
    server.counted("penstock_connections", &[], 18.0);
    for _ in 0..5 {
        ends(&mut Client::connect(server.https()));
    }
    server.counted(REFUSED, &["reason=\"handshakes\""], 5.0);
    assert_eq!(Client::plain(&server).get("/a.txt").text(), "a\n");
    assert_eq!(done[0].get("/a.txt").text(), "a\n");
    drop(unfinished.pop());
    until("capacity for one more handshake", || {
        let client = Client::connect(server.https());
        let stream = TlsOptions::default().handshake(&server, client.stream).ok()?;
        (Client::over(stream).get("/a.txt").text() == "a\n").then_some(())
    });
    drop((done, unfinished));
    no_connections(&server);
}

/// A client in the middle of a response that it does not read.
fn busy(server: &Server) -> Client<TcpStream> {
    let mut client = Client::plain(server);
    client.begin("/large.mp4");
    client
}

#[test]
fn connections_beyond_the_limit_take_the_place_of_idle_ones() {
    let server = Setup::new().workers(1).limits("connections: 4").start();
    server.write("open.txt", "open\n");
    server.file("large.mp4", 64 << 20);
    let mut running: Vec<_> = (0..2).map(|_| busy(&server)).collect();
    let (mut silent, mut used) = (Client::plain(&server), Client::plain(&server));
    assert_eq!(used.get("/open.txt").text(), "open\n");
    let mut tls = Client::tls(&server);
    assert_eq!(tls.get("/open.txt").text(), "open\n");
    silent.assert_closed();
    running.push(busy(&server));
    used.assert_closed();
    server.counted(REFUSED, &["reason=\"evicted\""], 2.0);
    running.push(busy(&server));
    tls.assert_closed();
    for _ in 0..3 {
        ends(&mut Client::plain(&server));
        ends(&mut Client::connect(server.https()));
    }
    server.counted(REFUSED, &["reason=\"limit\""], 6.0);
    drop(running.pop());
    until("space for one more connection", || one_more(&server));
    drop(running);
    no_connections(&server);
}

#[test]
fn a_crowd_of_silent_connections_keeps_no_client_out() {
    let server = Setup::new().limits("connections: 40").start();
    server.write("open.txt", "open\n");
    let crowd: Vec<_> = (0..60).map(|_| Client::plain(&server)).collect();
    server.counted("penstock_connections", &[], 40.0);
    let served: Vec<_> = (0..20).filter_map(|_| one_more(&server)).collect();
    assert_eq!(served.len(), 20);
    drop((crowd, served));
    no_connections(&server);
}

#[test]
fn a_full_server_takes_the_place_of_an_idle_connection_whichever_worker_has_it() {
    let server = Setup::new().workers(4).limits("connections: 2").start();
    server.write("open.txt", "open\n");
    let mut held = Vec::new();
    for number in 0..40 {
        held.push(one_more(&server).unwrap_or_else(|| panic!("client {number} was refused")));
        let open = server.metrics().sum("penstock_connections", &[]);
        assert!(open <= 2.0, "{open} connections");
    }
    // More, if a worker was late, so that two were asked for a place.
    let evicted = || server.metrics().sum(REFUSED, &["reason=\"evicted\""]);
    until("the evictions", || (evicted() >= 38.0).then_some(()));
    server.counted(REFUSED, &["reason=\"limit\""], 0.0);
    drop(held);
    no_connections(&server);
}

#[test]
fn connections_of_a_network_are_limited() {
    let setup = Setup::new().listeners(&["proxy_protocol: true"]).limits("connections_per_network: 3");
    let server = setup.start();
    server.write("a.txt", "a\n");
    let from = |address: &str| {
        let mut client = Client::plain(&server);
        client.send(format!("PROXY TCP4 {address} 127.0.0.1 1111 80\r\n"));
        client.try_get("/a.txt").ok().map(|response| {
            assert_eq!(response.text(), "a\n");
            client
        })
    };
    let mut held: Vec<_> = (1..=3).map(|host| from(&format!("192.0.2.{host}")).unwrap()).collect();
    assert!(from("192.0.2.4").is_none(), "a fourth connection of one network");
    server.counted(REFUSED, &["reason=\"network\""], 1.0);
    assert!(from("198.51.100.1").is_some());
    held.pop();
    until("a place for the network", || from("192.0.2.4"));
}

/// A client that was let in and answered, if there was capacity for it.
fn one_more(server: &Server) -> Option<Client<TcpStream>> {
    let mut client = Client::plain(server);
    client.stream.write_all(b"GET /open.txt HTTP/1.1\r\nHost: localhost\r\n\r\n").ok()?;
    client.response().ok().map(|_| client)
}

#[test]
fn out_of_descriptors_the_server_turns_clients_away_and_recovers() {
    const ROOM: usize = 20;
    const CLIENTS: usize = 80;
    let server = Setup::new().workers(1).start();
    server.write("open.txt", "open\n");
    server.write("new.txt", "new\n");
    assert_eq!(Client::plain(&server).get("/open.txt").text(), "open\n");
    no_connections(&server);
    server.wait_for_quiet_admin();
    let settled = server.descriptors();
    server.limit_descriptors((settled + ROOM) as u64);
    let mut clients: Vec<_> = (0..CLIENTS).map(|_| Client::plain(&server)).collect();
    // Those that were let in are answered, the others see the end; no client waits in a queue that does not move.
    let mut served = Vec::new();
    for mut client in clients.drain(..) {
        drop(client.stream.write_all(b"GET /open.txt HTTP/1.1\r\nHost: localhost\r\n\r\n"));
        match client.response() {
            Ok(response) => {
                assert_eq!(response.text(), "open\n");
                served.push(client);
            }
            Err(error) => assert!(error.kind() != std::io::ErrorKind::WouldBlock, "not turned away: {error}"),
        }
    }
    // A descriptor that something else gave back meanwhile (the metrics' connection) is taken as well.
    while let Some(client) = one_more(&server) {
        served.push(client);
    }
    println!("{} of {CLIENTS} were served", served.len());
    assert!((ROOM / 2..=ROOM + 2).contains(&served.len()), "{} of {CLIENTS} were served", served.len());
    // There is no descriptor for another file.
    let response = served[0].get("/new.txt");
    assert_eq!((response.status, response.field("Retry-After")), (503, Some("1")));
    served.truncate(ROOM / 4);
    // Half of the capacity is free again.
    let mut late: Vec<_> = (0..ROOM / 4).map(|_| Client::plain(&server)).collect();
    for client in &mut late {
        until("a late client to be served", || {
            drop(client.stream.write_all(b"GET /new.txt HTTP/1.1\r\nHost: localhost\r\n\r\n"));
            match client.response() {
                Ok(response) => (response.status == 200).then_some(()),
                Err(_) => {
                    *client = Client::plain(&server);
                    None
                }
            }
        });
    }
    let refused = server.metrics().sum(REFUSED, &["reason=\"descriptors\""]);
    assert!(refused >= (CLIENTS - ROOM - 2) as f64, "{refused} were counted as refused");
    let errors = server.metrics().sum("penstock_accept_errors_total", &["reason=\"out_of_descriptors\""]);
    assert!(errors >= refused, "{errors} errors of accept, {refused} refused");
    drop((served, late));
    no_connections(&server);
}

#[test]
fn a_connection_ends_after_its_share_of_requests() {
    let server = Setup::new().limits("requests_per_connection: 3").start();
    server.write("a.txt", "a\n");
    let mut client = Client::tls(&server);
    client.send("GET /a.txt HTTP/1.1\r\nHost: localhost\r\n\r\n".repeat(5));
    for number in 1..=3 {
        let response = client.response().unwrap();
        assert_eq!(response.text(), "a\n");
        assert_eq!(response.field("Connection") == Some("close"), number == 3, "response {number}");
    }
    client.assert_closed();
}

/// Tells threads to stop, also when the test fails.
struct SetWhenDropped<'f>(&'f AtomicBool);

impl Drop for SetWhenDropped<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Sends the same again and again.
fn send_until(mut socket: &TcpStream, bytes: &[u8], stop: &AtomicBool) {
    while !stop.load(Ordering::Relaxed) {
        if socket.write_all(bytes).is_err() {
            return;
        }
    }
}

/// Writes as much as the server takes, and reads what it answers, until told to stop.
fn pipeline_for_ever(socket: &TcpStream, stop: &AtomicBool) {
    // Long requests with short answers, so that the server is the one that has to keep up.
    let padding = "x".repeat(2000);
    let requests = format!("HEAD /a.txt HTTP/1.1\r\nHost: localhost\r\nX: {padding}\r\n\r\n").repeat(1000);
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut sink = vec![0; 256 * 1024];
            while let Ok(1..) = (&*socket).read(&mut sink) {}
        });
        send_until(socket, requests.as_bytes(), stop);
        drop(socket.shutdown(Shutdown::Both));
    });
}

#[test]
fn a_client_that_never_stops_asking_does_not_keep_the_worker_for_itself() {
    let server = Setup::new().workers(1).limits("requests_per_connection: 4000000000").start();
    server.write("a.txt", "a\n");
    let stop = AtomicBool::new(false);
    let greedy: Vec<_> = (0..4).map(|_| Client::plain(&server).stream).collect();
    thread::scope(|scope| {
        let _stop = SetWhenDropped(&stop);
        for socket in &greedy {
            scope.spawn(|| pipeline_for_ever(socket, &stop));
        }
        let requests = || server.metrics().sum("penstock_requests_total", &[]);
        until("the flood", || (requests() > 5000.0).then_some(()));
        for _ in 0..10 {
            assert_eq!(Client::tls(&server).get("/a.txt").text(), "a\n");
            assert_eq!(Client::plain(&server).get("/a.txt").text(), "a\n");
        }
    });
    no_connections(&server);
}

#[test]
fn pipelined_requests_take_bounded_memory() {
    const LEN: u64 = 64 << 20;
    // Small steps, so that the server has many occasions to read ahead.
    let setup = Setup::new().listeners(&["send_buffer: 64KiB, unsent_low_water: 16KiB"]);
    let server: Server = setup.start();
    server.file("large.mp4", LEN);
    let client = Client::plain(&server);
    let before = server.memory();
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let _stop = SetWhenDropped(&stop);
        scope.spawn(|| {
            let flood = b"GET /large.mp4 HTTP/1.1\r\nHost: localhost\r\n\r\n".repeat(1000);
            send_until(&client.stream, &flood, &stop);
        });
        let mut sink = vec![0; 1 << 20];
        let (mut taken, mut most) = (0, 0);
        while taken < LEN {
            taken += (&client.stream).read(&mut sink).unwrap() as u64;
            most = most.max(server.memory());
        }
        client.stream.shutdown(Shutdown::Both).unwrap();
        let grown = most.saturating_sub(before);
        println!("grown by {grown} bytes at most");
        // One head's worth and one read beyond it, and what the allocator makes of that.
        assert!(grown < 1 << 20, "what was sent ahead took {grown} bytes");
    });
    no_connections(&server);
}

#[test]
fn requests_for_many_files_leave_bounded_memory_and_descriptors_behind() {
    const FILES: u32 = 400;
    let server = Setup::new().workers(1).limits("open_files: 32").start();
    for number in 0..FILES {
        server.write(&format!("{number}.m3u8"), "#EXTM3U\n".repeat(100));
    }
    let ask = |client: &mut Client<TcpStream>, numbers: std::ops::Range<u32>| {
        let long = "n".repeat(150);
        for number in numbers {
            // A file in three encodings, a path without a file, a method and a host that no other client sends.
            let file = format!("/{}.m3u8", number % FILES);
            client.get_with(&file, "Accept-Encoding: br\r\n");
            client.get_with(&file, "Accept-Encoding: gzip\r\n");
            client.get(&file);
            assert_eq!(client.get(&format!("/{long}{number}")).status, 404);
            let odd = format!("M{number} /{number} HTTP/1.1\r\nHost: h{number}.example\r\n\r\n");
            assert_eq!(client.request(odd).status, 405);
        }
    };
    let mut client = Client::plain(&server);
    ask(&mut client, 0..FILES);
    let (memory, descriptors, series) = (server.memory(), server.descriptors(), server.metrics().0.len());
    ask(&mut client, FILES..4 * FILES);
    assert!(
        server.descriptors() <= descriptors + 1,
        "{descriptors} descriptors, now {}",
        server.descriptors()
    );
    assert_eq!(server.metrics().0.len(), series, "clients can add to the metrics");
    let grown = server.memory().saturating_sub(memory);
    println!("grown by {grown} bytes");
    assert!(grown < 4 << 20, "grown by {grown} bytes");
    assert!(server.metrics().sum("penstock_open_files", &[]) <= 32.0);
}
