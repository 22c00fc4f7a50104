//! Clients that take their time.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::thread::sleep;
use std::time::Duration;

use penstock_testkit::{Client, Response, Server, Setup, TlsOptions};
use rustix::net::sockopt::set_socket_recv_buffer_size;

use crate::{ends, no_connections};

/// One byte in this time, which is far less than the deadlines below.
const STEP: Duration = Duration::from_millis(50);

/// Sends the start, then one byte after the other until a response comes.
fn drip<S: Read + Write>(client: &mut Client<S>, socket: &TcpStream, start: &str) -> Response {
    client.send(start);
    socket.set_read_timeout(Some(STEP)).unwrap();
    for _ in 0..200 {
        // Once the response is on its way, this may not be read any more.
        drop(client.stream.write_all(b"a"));
        match client.response() {
            Ok(response) => return response,
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
            Err(error) => panic!("no response to a slow request: {error}"),
        }
    }
    panic!("after ten seconds the server still waits for the end of a head that had 300 ms")
}

fn socket_of(stream: &TcpStream) -> TcpStream {
    stream.try_clone().unwrap()
}

#[test]
fn a_head_that_comes_byte_by_byte_is_408_after_its_deadline_in_total() {
    let server = Setup::new().limits("head_deadline: 300ms").start();
    let mut plain = Client::plain(&server);
    let mut tls = Client::tls(&server);
    for start in ["GET / HTTP/1.1\r\nHost: localhost\r\nX: ", "G", "\r\n"] {
        let socket = socket_of(&plain.stream);
        let response = drip(&mut plain, &socket, start);
        assert_eq!((response.status, response.field("Connection")), (408, Some("close")));
        ends(&mut plain);
        let socket = socket_of(tls.stream.socket());
        let response = drip(&mut tls, &socket, start);
        assert_eq!((response.status, response.field("Connection")), (408, Some("close")));
        ends(&mut tls);
        plain = Client::plain(&server);
        tls = Client::tls(&server);
    }
    server.counted("penstock_request_rejections_total", &["reason=\"head_too_slow\""], 6.0);
    drop((plain, tls));
    no_connections(&server);
}

#[test]
fn each_head_has_a_deadline_of_its_own_that_begins_with_its_first_byte() {
    let server = Setup::new().limits("head_deadline: 300ms").start();
    server.write("a.txt", "a\n");
    let mut client = Client::tls(&server);
    for _ in 0..3 {
        // As long as another connection takes to be told that its head came too slowly.
        let mut slow = Client::tls(&server);
        slow.send("GET /a");
        assert_eq!(slow.response().unwrap().status, 408);
        assert_eq!(client.get("/a.txt").text(), "a\n");
    }
    // The start of the next head comes with the last byte of this one.
    client.send("GET /a.txt HTTP/1.1\r\nHost: localhost\r\n\r\nGET /a");
    assert_eq!(client.response().unwrap().text(), "a\n");
    assert_eq!(client.response().unwrap().status, 408);
    client.assert_closed();
}

#[test]
fn an_idle_connection_is_closed_without_a_word() {
    let server = Setup::new().limits("idle_timeout: 1s, head_deadline: 500ms").start();
    server.write("a.txt", "a\n");
    let (mut plain, mut tls) = (Client::plain(&server), Client::tls(&server));
    let (mut used, mut used_tls) = (Client::plain(&server), Client::tls(&server));
    assert_eq!(used.get("/a.txt").text(), "a\n");
    assert_eq!(used_tls.get("/a.txt").text(), "a\n");
    plain.assert_closed();
    tls.assert_closed();
    used.assert_closed();
    used_tls.assert_closed();
    server.counted("penstock_request_rejections_total", &[], 0.0);
    drop((plain, tls, used, used_tls));
    no_connections(&server);
}

#[test]
fn a_body_that_does_not_come_costs_the_connection_and_not_the_answer() {
    let server = Setup::new().limits("head_deadline: 300ms").start();
    server.write("a.txt", "a\n");
    for lines in ["Content-Length: 5", "Transfer-Encoding: chunked"] {
        let mut client = Client::tls(&server);
        client.send(format!("GET /a.txt HTTP/1.1\r\nHost: localhost\r\n{lines}\r\n\r\n"));
        let response = client.response().unwrap();
        assert_eq!((response.status, response.field("Connection")), (200, Some("close")));
        client.assert_closed();
    }
    let mut client = Client::plain(&server);
    let socket = socket_of(&client.stream);
    let start = "GET /a.txt HTTP/1.1\r\nHost: localhost\r\nContent-Length: 60000\r\n\r\n";
    let response = drip(&mut client, &socket, start);
    assert_eq!((response.status, response.field("Connection")), (200, Some("close")));
    ends(&mut client);
    no_connections(&server);
}

#[test]
fn a_handshake_ends_at_its_deadline_however_it_is_stretched() {
    let server = Setup::new().limits("handshake_deadline: 500ms").start();
    let silent = Client::connect(server.https());
    let hello = penstock_testkit::client_hello(&server, &TlsOptions::default());
    let mut half = Client::connect(server.https());
    half.send(&hello[..hello.len() / 2]);
    // Gets the server's flight and does not answer it.
    let mut mute = Client::connect(server.https());
    mute.send(&hello);
    let mut slow = Client::connect(server.https());
    slow.stream.set_read_timeout(Some(STEP)).unwrap();
    let drips = hello.iter().take(200).take_while(|&&byte| {
        drop(slow.stream.write_all(&[byte]));
        let end = slow.stream.read(&mut [0]);
        matches!(end, Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut))
    });
    assert!(drips.count() < 200, "after ten seconds the server still waits for the hello");
    for mut client in [silent, half, mute] {
        ends(&mut client);
    }
    server.counted("penstock_handshake_failures_total", &["reason=\"timeout\""], 4.0);
    server.counted("penstock_handshake_failures_total", &[], 4.0);
    no_connections(&server);
}

#[test]
fn a_balancer_that_says_nothing_or_nonsense_is_let_go() {
    let server = Setup::new().listeners(&["proxy_protocol: true", "tls: true, proxy_protocol: true"]).start();
    server.write("a.txt", "a\n");
    let mut silent = [Client::connect(server.http()), Client::connect(server.https())];
    let nonsense: [&[u8]; 5] = [
        b"GET /a.txt HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"PROXY TCP4 1.2.3.4\r\n",
        b"PROXY TCP4 999.2.3.4 5.6.7.8 1 2\r\n",
        b"\r\n\r\n\0\r\nQUIT\n\x31\x11\0\x0c............",
        &[b'P'; 5000],
    ];
    for bytes in nonsense {
        for address in [server.http(), server.https()] {
            let mut client = Client::connect(address);
            client.send(bytes);
            ends(&mut client);
        }
    }
    for client in &mut silent {
        ends(client);
    }
    server.counted("penstock_request_rejections_total", &["reason=\"no_proxy_header\""], 12.0);
    let mut good = Client::plain(&server);
    good.send("PROXY TCP4 192.0.2.7 127.0.0.1 1111 80\r\n");
    assert_eq!(good.get("/a.txt").text(), "a\n");
    assert_eq!(server.logged("/a.txt")["client_ip"], "192.0.2.7");
}

/// A file that no socket buffer on the way holds.
const LARGE: u64 = 64 << 20;

fn start_download<S: Read + Write>(client: &mut Client<S>) {
    client.begin("/large.mp4");
}

#[test]
fn a_client_that_stops_reading_is_let_go_by_the_minimum_rate() {
    let server = Setup::new().limits("minimum_rate: 1GiB, minimum_rate_grace: 1s").start();
    server.file("large.mp4", LARGE);
    let (mut plain, mut tls) = (Client::plain(&server), Client::tls(&server));
    start_download(&mut plain);
    start_download(&mut tls);
    server.counted("penstock_short_responses_total", &["reason=\"too_slow\""], 2.0);
    no_connections(&server);
    for rest in [plain.rest(), tls.rest()] {
        assert!(rest.is_err() || rest.is_ok_and(|bytes| bytes.len() < 64 << 20), "it got everything");
    }
    server.counted("penstock_short_responses_total", &[], 2.0);
}

/// A server whose minimum rate lets what a client takes earn seconds, and what lies in the socket buffer minutes.
fn server_with_short_grace() -> Server {
    Setup::new().limits("minimum_rate: 8KiB, minimum_rate_grace: 1s, idle_timeout: 10m").start()
}

/// A client whose own buffer holds little, and that has begun to read a response.
fn client_with_small_buffer(server: &Server, path: &str, fields: &str) -> Client<TcpStream> {
    let mut client = Client::plain(server);
    set_socket_recv_buffer_size(&client.stream, 4096).unwrap();
    client.send(format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n{fields}\r\n"));
    client
}

#[test]
fn bytes_that_a_client_has_not_acknowledged_earn_no_time() {
    let server = server_with_short_grace();
    server.file("large.mp4", LARGE);
    let mut client = client_with_small_buffer(&server, "/large.mp4", "");
    server.counted("penstock_short_responses_total", &["reason=\"too_slow\""], 1.0);
    no_connections(&server);
    assert!(!client.rest().is_ok_and(|rest| rest.len() as u64 >= LARGE), "it got everything");
}

#[test]
fn a_client_that_never_reads_does_not_keep_a_response_in_the_socket_buffer() {
    const LEN: u64 = 256 << 10;
    let server = server_with_short_grace();
    server.file("clip.mp4", LEN);
    for (number, fields) in [(1.0, ""), (2.0, "Connection: close\r\n")] {
        let mut client = client_with_small_buffer(&server, "/clip.mp4", fields);
        server.counted("penstock_requests_total", &[], number);
        no_connections(&server);
        assert!(client.rest().is_err(), "the kernel still sent the rest");
    }
}

#[test]
fn a_client_that_takes_more_than_the_minimum_rate_gets_everything() {
    const LEN: u64 = 1 << 20;
    let setup = Setup::new().listeners(&["tls: true, send_buffer: 16KiB, unsent_low_water: 16KiB"]);
    let server: Server = setup.limits("minimum_rate: 64KiB, minimum_rate_grace: 1s").start();
    let file = server.file("clip.mp4", LEN);
    let socket = Client::connect(server.https()).stream;
    set_socket_recv_buffer_size(&socket, 16 * 1024).unwrap();
    let mut client = Client::over(TlsOptions::default().handshake(&server, socket).unwrap());
    client.send("GET /clip.mp4 HTTP/1.1\r\nHost: localhost\r\nRange: bytes=0-\r\n\r\n");
    // Four times the minimum rate, for as long as several graces.
    let mut received = Vec::new();
    let mut step = vec![0; 25_600];
    while !received.ends_with(&file.bytes(LEN - 16..LEN)) {
        client.stream.read_exact(&mut step[..1]).unwrap();
        received.push(step[0]);
        let mut budget = step.len();
        while budget > 0 && !received.ends_with(&file.bytes(LEN - 16..LEN)) {
            let count = client.stream.read(&mut step[..budget]).unwrap();
            received.extend_from_slice(&step[..count]);
            budget -= count;
        }
        sleep(Duration::from_millis(100));
    }
    let body = received.len() - usize::try_from(LEN).unwrap();
    file.assert_range(0..LEN, &received[body..]);
    server.counted("penstock_short_responses_total", &[], 0.0);
}
