//! SIGTERM: what runs may finish, and nothing begins.

use std::fs;
use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::thread;

use penstock_config::Config;
use penstock_testkit::{Client, DEADLINE, EndOfLoad, Gate, Server, Setup, TlsOptions, until};
use rustix::process::Signal;

use super::{LARGE, ask_admin, downloading, finish};

fn server(setup: &Setup) -> Server {
    let server = setup.start();
    server.write("a.txt", "a\n");
    server
}

/// Tells the server to drain, and waits until its workers have begun.
fn drain(server: &Server) {
    let mut idle = Client::plain(server);
    assert_eq!(idle.get("/a.txt").text(), "a\n");
    server.signal(Signal::TERM);
    server.wait_for_log("draining");
    idle.assert_closed();
    until("new connections to be refused", || {
        let refused = |error: &io::Error| error.kind() == ErrorKind::ConnectionRefused;
        let all = [server.http(), server.https()].map(|address| TcpStream::connect(address).err());
        all.iter().all(|error| error.as_ref().is_some_and(refused)).then_some(())
    });
}

#[test]
fn a_drain_ends_idle_connections_cleanly_and_lets_downloads_finish() {
    let server = server(&Setup::new().limits("drain_deadline: 1m"));
    let file = server.file("large.mp4", LARGE);
    let (mut fresh, mut fresh_tls) = (Client::plain(&server), Client::tls(&server));
    let (mut used, mut used_tls) = (Client::plain(&server), Client::tls(&server));
    assert_eq!(used.get("/a.txt").text(), "a\n");
    assert_eq!(used_tls.get("/a.txt").text(), "a\n");
    let mut plain = downloading(Client::plain(&server));
    let mut tls = downloading(Client::tls(&server));
    assert_eq!(ask_admin(&server, "/healthz").0, 200);
    drain(&server);
    until("the admin listener to be closed", || TcpStream::connect(server.admin()).err());
    // Over TLS this is an end with close_notify.
    fresh.assert_closed();
    fresh_tls.assert_closed();
    used.assert_closed();
    used_tls.assert_closed();
    file.assert_range(0..LARGE, &finish(&mut plain));
    file.assert_range(0..LARGE, &finish(&mut tls));
    plain.assert_closed();
    tls.assert_closed();
    assert!(server.wait().success());
}

#[test]
fn a_request_that_has_begun_is_answered_and_told_that_it_was_the_last() {
    let server = server(&Setup::new().limits("drain_deadline: 1m"));
    let file = server.file("large.mp4", LARGE);
    let (mut plain, mut tls) = (Client::plain(&server), Client::tls(&server));
    plain.send("GET /a.txt HTTP/1.1\r\nHos");
    tls.send("GET /a.txt HTTP/1.1\r\nHos");
    let mut pipelining = downloading(Client::tls(&server));
    pipelining.send("GET /a.txt HTTP/1.1\r\nHost: localhost\r\n\r\n".repeat(2));
    // Long enough for the half heads to be read.
    assert_eq!(Client::tls(&server).get("/a.txt").text(), "a\n");
    drain(&server);
    plain.send("t: localhost\r\n\r\n");
    tls.send("t: localhost\r\n\r\n");
    for mut client in [plain.boxed(), tls.boxed()] {
        let response = client.response().unwrap();
        assert_eq!((response.text(), response.field("Connection")), ("a\n", Some("close")));
        client.assert_closed();
    }
    file.assert_range(0..LARGE, &finish(&mut pipelining));
    let next = pipelining.response().unwrap();
    assert_eq!((next.text(), next.field("Connection")), ("a\n", Some("close")));
    pipelining.assert_closed();
    assert!(server.wait().success());
}

/// Sends a request and checks that its response is the last one of the connection.
fn gets_a_last_response<S: Read + Write>(client: &mut Client<S>) {
    let response = client.get("/a.txt");
    assert_eq!((response.text(), response.field("Connection")), ("a\n", Some("close")));
    client.assert_closed();
}

#[test]
fn clients_that_have_just_connected_get_their_first_response() {
    let server = server(&Setup::new().limits("drain_deadline: 1m"));
    let mut plain: Vec<_> = (0..10).map(|_| Client::plain(&server)).collect();
    let mut tls: Vec<_> = (0..10).map(|_| Client::tls(&server)).collect();
    server.counted("penstock_connections", &[], 20.0);
    server.signal(Signal::TERM);
    server.wait_for_log("draining");
    plain.iter_mut().for_each(gets_a_last_response);
    tls.iter_mut().for_each(gets_a_last_response);
    assert!(server.wait().success());
}

#[test]
fn clients_in_the_listen_queue_get_their_first_response() {
    let server = server(&Setup::new().limits("drain_deadline: 1m"));
    server.signal(Signal::STOP);
    let mut plain: Vec<_> = (0..10).map(|_| Client::plain(&server)).collect();
    let sockets: Vec<_> = (0..10).map(|_| Client::connect(server.https()).stream).collect();
    server.signal(Signal::TERM);
    server.signal(Signal::CONT);
    server.wait_for_log("draining");
    plain.iter_mut().for_each(gets_a_last_response);
    for socket in sockets {
        let stream = TlsOptions::default().handshake(&server, socket).unwrap();
        gets_a_last_response(&mut Client::over(stream));
    }
    assert!(server.wait().success());
}

#[test]
fn a_successor_takes_every_port_while_a_slow_download_finishes() {
    let old = server(&Setup::new().limits("drain_deadline: 1m"));
    let file = old.file("large.mp4", LARGE);
    let mut slow = downloading(Client::tls(&old));
    drain(&old);
    until("the admin port to be free", || TcpStream::connect(old.admin()).err());
    let (https, http) = (format!("address: {}, tls: true", old.https()), format!("address: {}", old.http()));
    let ports = Setup::new().listeners(&[&https, &http]);
    let successor = server(&Setup::new().whole(&ports.yaml(old.admin())));
    assert_eq!(ask_admin(&successor, "/healthz").0, 200);
    assert_eq!(Client::tls(&successor).get("/a.txt").text(), "a\n");
    assert_eq!(Client::plain(&successor).get("/a.txt").text(), "a\n");
    file.assert_range(0..LARGE, &finish(&mut slow));
    assert!(old.wait().success());
}

/// Holds back what the client writes behind the first flight of the server.
struct HeldBack {
    socket: TcpStream,
    gate: Gate,
    has_read: bool,
}

impl Read for HeldBack {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let count = self.socket.read(into)?;
        self.has_read = true;
        Ok(count)
    }
}

impl Write for HeldBack {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.has_read {
            self.gate.pass();
        }
        self.socket.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_handshake_that_has_begun_ends_with_a_goodbye() {
    let server = server(&Setup::new().limits("drain_deadline: 1m"));
    let socket = Client::connect(server.https()).stream;
    let gate = Gate::closed();
    let held = HeldBack { socket, gate: gate.clone(), has_read: false };
    thread::scope(|scope| {
        let server = &server;
        scope.spawn(move || {
            gate.wait_for_arrivals(1);
            drain(server);
            gate.open();
        });
        let mut stream = TlsOptions::default().handshake(server, held).unwrap();
        assert_eq!(stream.read(&mut [0]).unwrap(), 0, "close_notify");
    });
    assert!(server.wait().success());
}

#[test]
fn the_drain_deadline_cuts_what_is_left() {
    let server = server(&Setup::new().limits("drain_deadline: 1s"));
    server.file("large.mp4", LARGE);
    let plain = downloading(Client::plain(&server));
    let tls = downloading(Client::tls(&server));
    let silent = Client::connect(server.https());
    drain(&server);
    assert!(server.wait().success());
    for mut client in [plain.boxed(), tls.boxed(), silent.boxed()] {
        assert!(!client.rest().is_ok_and(|rest| rest.len() as u64 >= LARGE), "it got everything");
    }
}

/// After the last response the admin listener is gone as well, so the server runs in this process.
#[test]
fn responses_that_the_drain_deadline_cuts_are_counted_and_logged() {
    let directory = penstock_testkit::disk_directory();
    fs::write(directory.path().join("a.txt"), "a\n").unwrap();
    fs::File::create(directory.path().join("large.mp4")).unwrap().set_len(LARGE).unwrap();
    let text = "workers: 2\nlisteners: [{address: 127.0.0.1:0}]\nsites: [{origin: {directory: .}}]\n\
                limits: {drain_deadline: 500ms}\nlog: {access: access.jsonl}\n";
    let config = Config::from_text(text, &directory.path().join("penstock.yaml")).unwrap();
    let server = penstock_edge::Server::start(&config).unwrap();
    let address = server.addresses()[0];
    let running: Vec<_> = (0..5).map(|_| downloading(Client::connect(address))).collect();
    let mut done = Client::connect(address);
    assert_eq!(done.get("/a.txt").text(), "a\n");
    server.drain();
    done.assert_closed();
    drop(done);
    server.wait();
    let metrics = penstock_testkit::Metrics::parse(&server.collector().render());
    assert_eq!(metrics.sum("penstock_short_responses_total", &["reason=\"drain\""]), 5.0);
    let log = fs::read_to_string(directory.path().join("access.jsonl")).unwrap();
    assert_eq!(log.lines().filter(|line| line.contains("\"drain\"")).count(), 5, "{log}");
    drop(running);
}

#[test]
fn a_second_sigterm_stops_at_once_and_a_reload_in_between_is_not_heard() {
    let server = server(&Setup::new().limits("drain_deadline: 1h"));
    server.file("large.mp4", LARGE);
    let mut tls = downloading(Client::tls(&server));
    drain(&server);
    server.signal(Signal::HUP);
    server.wait_for_log("not reloading");
    server.signal(Signal::TERM);
    assert!(server.wait().success());
    assert!(!tls.rest().is_ok_and(|rest| rest.len() as u64 >= LARGE), "it got everything");
}

#[test]
fn a_stop_in_the_middle_of_a_crowd_ends_every_connection() {
    let server = server(&Setup::new().limits("drain_deadline: 1m"));
    let stop = std::sync::atomic::AtomicBool::new(false);
    thread::scope(|scope| {
        let _end = EndOfLoad(&stop);
        for number in 0..20 {
            let (server, stop) = (&server, &stop);
            scope.spawn(move || {
                // Each answer is whole or there is none; no client waits for ever.
                while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                    let Ok(socket) =
                        TcpStream::connect(if number % 2 == 0 { server.http() } else { server.https() })
                    else {
                        return;
                    };
                    socket.set_read_timeout(Some(DEADLINE)).unwrap();
                    let client = if number % 2 == 0 {
                        Client::over(socket).boxed()
                    } else {
                        let Ok(stream) = TlsOptions::default().handshake(server, socket) else { continue };
                        Client::over(stream).boxed()
                    };
                    ask_until_the_end(client);
                }
            });
        }
        let answers = || server.metrics().sum("penstock_requests_total", &[]);
        until("the crowd to be served", || (answers() >= 200.0).then_some(()));
        server.signal(Signal::TERM);
        assert!(server.wait().success());
    });
}

fn ask_until_the_end(mut client: Client<Box<dyn penstock_testkit::Stream>>) {
    loop {
        if client.stream.write_all(b"GET /a.txt HTTP/1.1\r\nHost: localhost\r\n\r\n").is_err() {
            return;
        }
        match client.response() {
            Ok(response) => assert_eq!(response.text(), "a\n"),
            Err(error) => {
                let waited = matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut);
                assert!(!waited, "no answer and no end");
                return;
            }
        }
    }
}

#[test]
fn a_server_without_clients_stops_at_once() {
    let server = server(&Setup::new().limits("drain_deadline: 1h"));
    server.signal(Signal::TERM);
    assert!(server.wait().success());
    assert!(Path::new(&server.directory().join("access.jsonl")).exists());
}
