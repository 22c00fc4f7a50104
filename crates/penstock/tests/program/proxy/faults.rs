//! Origins and clients of a relay that break off, stall, lie, or take nothing.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use boring::ssl::{SslAcceptor, SslFiletype, SslMethod, SslStream};
use penstock_testkit::origin::{Origin, answer, target, write, write_chunk, write_chunked_head, write_head};
use penstock_testkit::{Certificates, Client, Content, Gate, Setup, Sockets, Tool, until};
use rustix::net::sockopt::set_socket_linger;

use super::{MIB, counted, proxy, relaying};

#[test]
fn a_kept_connection_that_ends_without_a_response_is_replaced() {
    let origin = Origin::start(|_, number, stream| match number {
        0 => answer(stream, "200 OK", "", b"one"),
        // It takes a request and ends.
        1 => false,
        _ => answer(stream, "200 OK", "", b"two"),
    });
    let server = proxy(&[&origin], ", retries: 0");
    let mut client = Client::plain(&server);
    assert_eq!(client.get("/a").text(), "one");
    assert_eq!(client.get("/b").text(), "two");
    assert_eq!(origin.asked().len(), 3);
}

#[test]
fn bytes_behind_a_response_are_no_response_to_the_next_request() {
    const MORE: &str = "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil";
    let is_over = Gate::closed();
    let pass = is_over.clone();
    // Only what comes before the next request can be told from its response.
    let is_there = Gate::closed();
    let there = is_there.clone();
    let origin = Origin::start(move |head, _, stream| match target(head) {
        "/at-once" => {
            let head = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n";
            write(stream, format!("{head}whole{MORE}")) && pass.pass()
        }
        "/large" => {
            write_head(stream, "", 200_000) && write(stream, "x".repeat(200_000) + MORE) && pass.pass()
        }
        "/chunked" => {
            write_chunked_head(stream, "")
                && write(stream, format!("5\r\nwhole\r\n0\r\n\r\n{MORE}"))
                && pass.pass()
        }
        "/later" => {
            answer(stream, "200 OK", "", b"whole") && pass.pass() && write(stream, MORE) && {
                there.let_one_pass();
                true
            }
        }
        _ => answer(stream, "200 OK", "", b"good"),
    });
    let server = proxy(&[&origin], "");
    for path in ["/at-once", "/large", "/chunked", "/later"] {
        let got = Tool::curl(&server).arg(server.plain_url(path)).run().ok().stdout;
        assert!(got == b"whole" || got == "x".repeat(200_000).as_bytes(), "{path}: {}", got.len());
        is_over.let_one_pass();
        if path == "/later" {
            is_there.pass();
        }
        let mut client = Client::plain(&server);
        for _ in 0..3 {
            assert_eq!(client.get("/next").text(), "good", "after {path}");
        }
    }
}

/// A socket whose bytes leave when they are flushed: the records of several writes arrive together.
struct Corked {
    socket: TcpStream,
    unsent: Vec<u8>,
}

impl Read for Corked {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.flush()?;
        self.socket.read(buffer)
    }
}

impl Write for Corked {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.unsent.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.socket.write_all(&std::mem::take(&mut self.unsent))
    }
}

/// Starts an origin with TLS that answers each target by a script until that returns false, on a thread for each connection.
/// Returns its address and the number of its connections.
fn tls_origin(
    certificates: &Certificates,
    script: impl Fn(&str, &mut SslStream<Corked>) -> bool + Send + Sync + 'static,
) -> (SocketAddr, Arc<AtomicUsize>) {
    let mut acceptor = SslAcceptor::mozilla_intermediate_v5(SslMethod::tls()).unwrap();
    acceptor.set_certificate_chain_file(certificates.path("ec.crt")).unwrap();
    acceptor.set_private_key_file(certificates.path("ec.key"), SslFiletype::PEM).unwrap();
    let (acceptor, script) = (acceptor.build(), Arc::new(script));
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let connections = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&connections);
    // Ends with the test's process.
    thread::spawn(move || {
        for socket in listener.incoming().map_while(Result::ok) {
            counted.fetch_add(1, Ordering::Relaxed);
            let (acceptor, script) = (acceptor.clone(), Arc::clone(&script));
            thread::spawn(move || {
                // A record that nothing asks for would wait for an acknowledgement, and arrive after the next request.
                socket.set_nodelay(true).unwrap();
                let corked = Corked { socket, unsent: Vec::new() };
                let Ok(mut stream) = acceptor.accept(corked) else { return };
                loop {
                    let (mut head, mut byte) = (Vec::new(), [0]);
                    while !head.ends_with(b"\r\n\r\n") {
                        match stream.read(&mut byte) {
                            Ok(1) => head.push(byte[0]),
                            Ok(_) | Err(_) => return,
                        }
                    }
                    if !script(target(&String::from_utf8(head).unwrap()), &mut stream) {
                        return;
                    }
                }
            });
        }
    });
    (address, connections)
}

#[test]
fn a_record_behind_a_response_is_no_response_to_the_next_request() {
    const MORE: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil";
    let is_over = Gate::closed();
    let pass = is_over.clone();
    let is_there = Gate::closed();
    let there = is_there.clone();
    let directory = tempfile::tempdir().unwrap();
    let certificates = Certificates::make(directory.path());
    let (address, connections) = tls_origin(&certificates, move |target, stream| {
        let body = if target == "/good" { "good" } else { "done" };
        let response = format!("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n{body}");
        // Each write is a record.
        stream.write_all(response.as_bytes()).unwrap();
        if target == "/at-once" {
            stream.write_all(MORE).unwrap();
        }
        let mut is_fine = stream.flush().is_ok();
        if target == "/later" {
            is_fine &= pass.pass() && stream.write_all(MORE).and_then(|()| stream.flush()).is_ok();
            there.let_one_pass();
        }
        is_fine
    });
    let sites = format!(
        "- origin: {{http: [\"https://{address}\"], ca: {}, cache: off}}",
        certificates.authority().display()
    );
    let server = Setup::new().workers(1).sites(&sites).start();
    let mut client = Client::plain(&server);
    for _ in 0..3 {
        assert_eq!(client.get("/good").text(), "good");
    }
    assert_eq!(connections.load(Ordering::Relaxed), 1, "session tickets do not close a connection");
    for path in ["/at-once", "/later"] {
        assert_eq!(Client::plain(&server).get(path).text(), "done", "{path}");
        if path == "/later" {
            is_over.let_one_pass();
            is_there.pass();
        }
        let mut client = Client::plain(&server);
        for _ in 0..3 {
            assert_eq!(client.get("/good").text(), "good", "after {path}");
        }
    }
    assert_eq!(connections.load(Ordering::Relaxed), 3);
}

#[test]
fn a_body_that_is_cut_is_seen_to_be_cut() {
    let broken = Gate::closed();
    let begun = broken.clone();
    let origin = Origin::start(move |head, _, stream| {
        match target(head) {
            "/length" => write_head(stream, "", 100_000) && write(stream, vec![7; 60_000]),
            "/chunked" => write_chunked_head(stream, "") && write_chunk(stream, vec![7; 60_000]),
            "/broken" => {
                write_chunked_head(stream, "")
                    && write_chunk(stream, vec![7; 60_000])
                    && begun.pass()
                    && write(stream, "zz\r\n")
            }
            _ => unreachable!(),
        };
        false
    });
    let server = proxy(&[&origin], "");
    for path in ["/length", "/chunked", "/broken"] {
        for mut client in [Client::plain(&server).boxed(), Client::tls(&server).boxed()] {
            client.begin(path);
            if path == "/broken" {
                broken.let_one_pass();
            }
            let rest = client.rest_until_cut();
            assert!(!rest.ends_with(b"0\r\n\r\n"), "{path}");
            if path == "/length" {
                assert_eq!(rest.len(), 60_000);
            }
        }
        if path == "/broken" {
            // The fault may come with the first bytes: then the response is a 502.
            broken.let_one_pass();
        }
        let curl = Tool::curl(&server).args(["--http2", "--fail"]).arg(server.url(path)).run();
        assert!(curl.code != 0, "{path}");
    }
    assert_eq!(counted(&server, "cut_short"), 6.0);
    assert_eq!(counted(&server, "malformed"), 3.0);
}

#[test]
fn responses_that_two_programs_could_read_differently_are_not_relayed() {
    let origin = Origin::start(|head, _, stream| {
        let text = match target(head) {
            "/both" => "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n",
            "/two" => "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\n",
            "/101" => "HTTP/1.1 101 Switching Protocols\r\n\r\n",
            "/304" => "HTTP/1.1 304 Not Modified\r\n\r\n",
            "/lf" => "HTTP/1.1 200 OK\nContent-Length: 3\n\nabc",
            _ => {
                "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n\
                  HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc"
            }
        };
        write(stream, text);
        false
    });
    let server = proxy(&[&origin], ", retries: 0");
    let mut client = Client::plain(&server);
    for path in ["/both", "/two", "/101", "/304", "/lf"] {
        assert_eq!(client.get(path).status, 502, "{path}");
    }
    let got = client.get_final("/interim");
    assert_eq!((got.status, got.text()), (200, "abc"));
}

#[test]
fn an_origin_that_stalls_ends_its_response_and_gives_its_place_to_the_next_request() {
    let gate = Gate::closed();
    let held = gate.clone();
    let origin = Origin::start(move |head, _, stream| {
        match target(head) {
            "/next" => return answer(stream, "200 OK", "", b"next"),
            "/stalls" => write_head(stream, "", 100_000) && write(stream, vec![7; 50_000]),
            "/chunked" => write_chunked_head(stream, "") && write_chunk(stream, vec![7; 50_000]),
            _ => true,
        };
        held.pass();
        false
    });
    // Long enough for the answers that come, on a loaded machine too.
    let timeouts = "timeouts: {first_byte: 2s, between_bytes: 2s}";
    let server = proxy(&[&origin], &format!(", retries: 0, connections: 1, {timeouts}"));
    for is_secure in [false, true] {
        let connect = || match is_secure {
            false => Client::plain(&server).boxed(),
            true => Client::tls(&server).boxed(),
        };
        assert_eq!(connect().get("/silent").status, 504);
        for path in ["/stalls", "/chunked"] {
            let mut client = connect();
            client.begin(path);
            let rest = client.rest_until_cut();
            assert!(rest.len() >= 50_000 && !rest.ends_with(b"0\r\n\r\n"), "{path}: {} bytes", rest.len());
            assert_eq!(connect().get("/next").text(), "next", "after {path}");
        }
    }
    assert_eq!(counted(&server, "timeout"), 6.0);
    gate.open();
}

#[test]
fn a_client_that_takes_nothing_holds_up_its_origin_and_holds_no_memory() {
    let body = Content::new(302, 64 * MIB);
    let bytes = body.all();
    let sent = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&sent);
    let origin = Origin::start(move |_, _, stream| {
        write_head(stream, "", bytes.len());
        bytes.chunks(1 << 16).all(|chunk| {
            counter.fetch_add(chunk.len(), Ordering::Relaxed);
            write(stream, chunk)
        })
    });
    let server = proxy(&[&origin], "");
    for mut client in [Client::plain(&server).boxed(), Client::tls(&server).boxed()] {
        sent.store(0, Ordering::Relaxed);
        client.begin("/a.mp4");
        let senders = [origin.port(), server.https().port(), server.http().port()];
        let blocked = || senders.map(|port| Sockets::of_port(port).blocked).iter().sum::<usize>() == 2;
        let mut last = 0;
        until("origin and proxy to be blocked", || {
            let now = sent.load(Ordering::Relaxed);
            (std::mem::replace(&mut last, now) == now && blocked()).then_some(())
        });
        assert!(last < 40 << 20, "{last} bytes were taken from the origin");
        body.assert_range(0..body.len, &client.take(usize::try_from(body.len).unwrap()).unwrap());
    }
}

#[test]
fn a_client_that_leaves_ends_the_response_of_its_origin() {
    let ended = Gate::closed();
    let tell = ended.clone();
    let origin = Origin::start(move |_, _, stream| {
        write_head(stream, "", 1 << 40);
        while write(stream, vec![7; 1 << 16]) {}
        tell.pass();
        false
    });
    let server = proxy(&[&origin], "");
    for (mut client, number) in [(Client::plain(&server).boxed(), 1), (Client::tls(&server).boxed(), 2)] {
        client.begin("/film.mp4");
        client.take(1 << 20).unwrap();
        drop(client);
        ended.wait_for_arrivals(number);
    }
    ended.open();
}

#[test]
fn heads_without_an_end_or_with_too_much_in_them_are_refused() {
    let origin = Origin::start(|head, _, stream| {
        let path = target(head);
        let line = format!("X-Line: {}\r\n", "a".repeat(1000));
        match path {
            "/endless" => {
                write(stream, "HTTP/1.1 200 OK\r\n");
                while write(stream, &line) {}
                false
            }
            "/endless-interim" => {
                while write(stream, format!("HTTP/1.1 103 Early Hints\r\n{line}\r\n")) {}
                false
            }
            "/long" => answer(stream, "200 OK", &line.repeat(70), b"body"),
            "/short" => answer(stream, "200 OK", &line.repeat(40), b"body"),
            "/many" => answer(stream, "200 OK", &"X-A: b\r\n".repeat(101), b"body"),
            _ => answer(stream, "200 OK", &"X-A: b\r\n".repeat(90), b"body"),
        }
    });
    let server = proxy(&[&origin], ", retries: 0");
    let mut client = Client::plain(&server);
    for path in ["/endless", "/endless-interim", "/long", "/many"] {
        assert_eq!(client.get_final(path).status, 502, "{path}");
        for permitted in ["/short", "/some"] {
            assert_eq!(client.get(permitted).text(), "body", "{permitted} after {path}");
        }
    }
}

/// An origin whose responses are larger than all buffers on their way.
fn long_body() -> (Content, Origin) {
    let body = Content::new(303, 64 * MIB);
    let bytes = body.all();
    (body, Origin::start(move |_, _, stream| answer(stream, "200 OK", "", &bytes)))
}

#[test]
fn a_client_below_the_least_rate_loses_its_connection_and_gives_back_that_of_the_origin() {
    let (body, origin) = long_body();
    let setup = Setup::new().limits("minimum_rate: 1MiB, minimum_rate_grace: 1s");
    let server = relaying(&setup, &[&origin], ", connections: 1");
    for mut slow in [Client::plain(&server).boxed(), Client::tls(&server).boxed()] {
        slow.begin("/film.mp4");
        // The place at the origin is free again when the slow client has lost its own.
        let mut next = Client::plain(&server);
        next.ask("/film.mp4");
        assert_eq!(next.response_to_head().unwrap().status, 200);
        body.assert_range(0..body.len, &next.take(usize::try_from(body.len).unwrap()).unwrap());
        let rest = slow.rest_until_cut();
        assert!((rest.len() as u64) < body.len);
        body.assert_range(0..rest.len() as u64, &rest);
    }
}

#[test]
fn a_client_that_half_closes_gets_its_whole_response_and_one_that_resets_ends_it() {
    let (body, origin) = long_body();
    let server = relaying(&Setup::new(), &[&origin], ", connections: 1");
    let mut plain = Client::plain(&server);
    plain.ask("/film.mp4");
    plain.stream.shutdown(Shutdown::Write).unwrap();
    assert_eq!(plain.response_to_head().unwrap().status, 200);
    body.assert_range(0..body.len, &plain.rest().unwrap());
    let mut secure = Client::tls(&server);
    secure.begin("/film.mp4");
    secure.stream.close();
    body.assert_range(0..body.len, &secure.rest().unwrap());
    // The next client gets the only connection to the origin.
    let mut resets = Client::plain(&server);
    resets.begin("/film.mp4");
    set_socket_linger(&resets.stream, Some(Duration::ZERO)).unwrap();
    drop(resets);
    let mut resets = Client::tls(&server);
    resets.begin("/film.mp4");
    set_socket_linger(resets.stream.socket(), Some(Duration::ZERO)).unwrap();
    drop(resets);
    assert_eq!(Client::plain(&server).get("/film.mp4").body.len() as u64, body.len);
}

#[test]
fn an_origin_that_resets_a_body_cuts_it() {
    let origin = Origin::start(|_, _, stream| {
        write_head(stream, "", 1 << 20);
        write(stream, vec![7; 300_000]);
        set_socket_linger(&*stream, Some(Duration::ZERO)).unwrap();
        false
    });
    let server = proxy(&[&origin], ", retries: 0");
    for mut client in [Client::plain(&server).boxed(), Client::tls(&server).boxed()] {
        client.ask("/film.mp4");
        // What was not read yet is lost with the connection, and it may be the head.
        match client.response_to_head() {
            Ok(head) if head.status == 200 => assert!(client.rest_until_cut().len() <= 300_000),
            other => assert_eq!(other.unwrap().status, 502),
        }
    }
}
