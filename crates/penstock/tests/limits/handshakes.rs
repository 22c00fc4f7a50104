//! Handshakes that cannot succeed, and bytes that are none.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};

use boring::ssl::{Ssl, SslContext, SslMethod, SslVerifyMode, SslVersion};
use penstock_testkit::{Client, Random, Server, Setup, TlsOptions, client_hello};

use crate::{ends, no_connections};

const FAILURES: &str = "penstock_handshake_failures_total";
const ALERTS: &str = "penstock_tls_alerts_total";

/// A server that still serves.
fn serves(server: &Server) {
    server.write("a.txt", "a\n");
    assert_eq!(Client::tls(server).get("/a.txt").text(), "a\n");
    assert_eq!(Client::plain(server).get("/a.txt").text(), "a\n");
}

#[test]
fn plain_http_on_the_tls_port_is_told_to_use_https() {
    let server = Setup::new().start();
    let methods = ["GET", "HEAD", "POST", "PUT"];
    for method in methods {
        let mut client = Client::connect(server.https());
        client.send(format!("{method} / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\nhello"));
        let response = client.response().unwrap();
        assert_eq!((response.status, response.field("Connection")), (400, Some("close")), "{method}");
        assert!(response.text().contains("https://"), "{}", response.text());
        client.assert_closed();
    }
    server.counted(FAILURES, &["reason=\"http_request\""], 4.0);
    server.counted(FAILURES, &[], 4.0);
    serves(&server);
    no_connections(&server);
}

#[test]
fn tls_on_the_plain_port_is_400() {
    let server = Setup::new().start();
    for version in [SslVersion::TLS1_2, SslVersion::TLS1_3] {
        let mut client = Client::connect(server.http());
        client.send(client_hello(&server, &TlsOptions::version(version)));
        assert_eq!(client.response().unwrap().status, 400);
        client.assert_closed();
    }
    let refused = TlsOptions::default().handshake(&server, Client::plain(&server).stream);
    assert!(refused.is_err_and(|error| error.contains("HTTP") || error.contains("VERSION")));
    server.counted("penstock_request_rejections_total", &["reason=\"tls_on_plain_port\""], 3.0);
    serves(&server);
}

#[test]
fn garbage_on_either_port_ends_and_is_counted() {
    const TRIES: u32 = 150;
    let server = Setup::new().limits("head_deadline: 1s").start();
    let mut random = Random::from_environment();
    for _ in 0..TRIES {
        let length = 1 + random.below(3000);
        let mut bytes: Vec<u8> = (0..length).map(|_| random.number().to_le_bytes()[0]).collect();
        if random.below(2) == 0 {
            // The head of a record, so that the rest is looked at.
            let length = u16::try_from(bytes.len()).unwrap().to_be_bytes();
            bytes.splice(0..0, [20 + (bytes[0] & 3), 3, bytes[0] & 3, length[0], length[1]]);
        }
        for address in [server.https(), server.http()] {
            let mut client = Client::connect(address);
            // A server that knows enough may end it before everything is sent.
            drop(client.stream.write_all(&bytes));
            drop(client.stream.shutdown(Shutdown::Write));
            ends(&mut client);
        }
    }
    server.counted(FAILURES, &[], f64::from(TRIES));
    server.counted("penstock_handshakes_total", &["outcome=\"ok\""], 0.0);
    server.counted("penstock_requests_total", &["status=\"2xx\""], 0.0);
    serves(&server);
    no_connections(&server);
}

/// The next records after a good ClientHello, and how the failure is counted. The keys have changed by then, so that
/// whatever comes in the clear is a record that they do not open.
const SECOND_FLIGHTS: [(&str, &[u8], &str); 8] = [
    ("random bytes", b"\x9f\x00\xfe\x83\x22\x11\x64\x8a\x01\x02\x03\x04", "unsupported_version"),
    (
        "application data that no key opens",
        b"\x17\x03\x03\x00\x20################################",
        "bad_record",
    ),
    ("a second ClientHello", b"\x16\x03\x03\x00\x04\x01\x00\x00\x00", "bad_record"),
    ("a record of an unknown type", b"\x63\x03\x03\x00\x01\x00", "bad_record"),
    ("a record longer than any may be", b"\x17\x03\x03\xff\xff", "too_long"),
    ("a fatal alert in the clear", b"\x15\x03\x03\x00\x02\x02\x28", "bad_record"),
    ("a ChangeCipherSpec with another content", b"\x14\x03\x03\x00\x01\x02", "bad_record"),
    ("plain HTTP", b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", "unsupported_version"),
];

#[test]
fn garbage_in_the_middle_of_a_handshake_ends_it_with_a_reason() {
    let server = Setup::new().start();
    let hello = client_hello(&server, &TlsOptions::default());
    let mut counted = Vec::new();
    for (name, flight, _) in SECOND_FLIGHTS {
        let before = server.metrics();
        let mut client = Client::connect(server.https());
        client.send(&hello);
        let mut first = [0; 5];
        client.stream.read_exact(&mut first).unwrap();
        assert_eq!(first[0], 22, "the server's first record");
        client.send(flight);
        ends(&mut client);
        let reasons = server.metrics().0.into_iter().filter(|(series, count)| {
            series.starts_with(FAILURES) && before.0.get(series).copied().unwrap_or(0.0) + 1.0 == *count
        });
        let reasons: Vec<String> =
            reasons.filter_map(|(series, _)| Some(series.split('"').nth(1)?.to_owned())).collect();
        counted.push((name, reasons.join(" and ")));
    }
    let wanted = SECOND_FLIGHTS.map(|(name, _, reason)| (name, reason.to_owned()));
    assert_eq!(counted, wanted);
    serves(&server);
    no_connections(&server);
}

/// Flips a bit in everything that is sent after the first answer.
struct Tampering(TcpStream, bool);

impl Read for Tampering {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.1 = true;
        self.0.read(into)
    }
}

impl Write for Tampering {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut bytes = bytes.to_vec();
        if self.1 {
            *bytes.last_mut().unwrap() ^= 1;
        }
        self.0.write(&bytes)
    }
    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

#[test]
fn a_finished_that_was_tampered_with_is_bad_record_mac() {
    let server = Setup::new().start();
    for version in [SslVersion::TLS1_2, SslVersion::TLS1_3] {
        let socket = Client::connect(server.https()).stream;
        let shaken = TlsOptions::version(version).handshake(&server, Tampering(socket, false));
        let error = match shaken {
            Ok(mut stream) => stream.read(&mut [0]).unwrap_err().to_string(),
            Err(error) => error,
        };
        assert!(error.contains("BAD_RECORD_MAC"), "{version:?}: {error}");
    }
    server.counted(FAILURES, &[], 2.0);
    server.counted(FAILURES, &["reason=\"bad_record\""], 2.0);
    server.counted(ALERTS, &["direction=\"sent\"", "alert=\"bad_record_mac\""], 2.0);
    serves(&server);
}

#[test]
fn a_client_that_distrusts_the_certificate_is_counted_by_its_alert() {
    let server = Setup::new().start();
    for version in [SslVersion::TLS1_2, SslVersion::TLS1_3] {
        let mut context = SslContext::builder(SslMethod::tls()).unwrap();
        context.set_verify(SslVerifyMode::PEER);
        context.set_max_proto_version(Some(version)).unwrap();
        let socket = Client::connect(server.https()).stream;
        assert!(Ssl::new(&context.build()).unwrap().connect(socket).is_err());
    }
    server.counted(FAILURES, &["reason=\"alert_unknown_ca\""], 2.0);
    server.counted(ALERTS, &["direction=\"received\"", "alert=\"unknown_ca\""], 2.0);
    server.counted(FAILURES, &[], 2.0);
}

#[test]
fn clients_with_nothing_in_common_get_the_alert_that_says_so() {
    let server = Setup::new().start();
    let tls12 = || TlsOptions::version(SslVersion::TLS1_2);
    for (options, alert, reason) in [
        (TlsOptions::version(SslVersion::TLS1_1), "PROTOCOL_VERSION", "unsupported_version"),
        (TlsOptions::version(SslVersion::TLS1), "PROTOCOL_VERSION", "unsupported_version"),
        (TlsOptions { ciphers: Some("AES128-SHA"), ..tls12() }, "HANDSHAKE_FAILURE", "no_shared_cipher"),
        (
            TlsOptions { groups: Some("P-384"), ..TlsOptions::default() },
            "HANDSHAKE_FAILURE",
            "no_shared_group",
        ),
    ] {
        let socket = Client::connect(server.https()).stream;
        let error = options.handshake(&server, socket).err().unwrap();
        assert!(error.contains(alert), "{reason}: {error}");
        println!("{reason}: {error}");
    }
    server.counted(FAILURES, &["reason=\"unsupported_version\""], 2.0);
    server.counted(FAILURES, &["reason=\"no_shared_cipher\""], 1.0);
    server.counted(FAILURES, &["reason=\"no_shared_group\""], 1.0);
    server.counted(ALERTS, &["direction=\"sent\""], 4.0);
}

#[test]
fn a_handshake_cut_off_at_any_byte_is_a_client_that_closed() {
    let server = Setup::new().start();
    let hello = client_hello(&server, &TlsOptions::default());
    let cuts = [0, 1, 4, 5, 6, 9, 100, hello.len() - 1, hello.len()];
    for cut in cuts {
        let mut client = Client::connect(server.https());
        client.send(&hello[..cut]);
        client.stream.shutdown(Shutdown::Write).unwrap();
        ends(&mut client);
    }
    server.counted(FAILURES, &["reason=\"closed_by_client\""], cuts.len() as f64);
    server.counted(FAILURES, &[], cuts.len() as f64);
    no_connections(&server);
}

#[test]
fn lengths_that_lie_take_no_memory() {
    let server = Setup::new().start();
    serves(&server);
    let before = server.memory();
    // A message of 16 MiB in records of the longest kind, and a record of 64 KiB.
    let message = [&[1, 0xff, 0xff, 0xff][..], &[0; 16_380]].concat();
    let record = [&[22, 3, 1, 0x40, 0][..], &message].concat();
    for bytes in [record, [&[22, 3, 1, 0xff, 0xff][..], &vec![0; 70_000]].concat()] {
        let mut clients: Vec<_> = (0..50).map(|_| Client::connect(server.https())).collect();
        for client in &mut clients {
            drop(client.stream.write_all(&bytes));
        }
        clients.iter_mut().for_each(ends);
    }
    server.counted(FAILURES, &["reason=\"too_long\""], 100.0);
    let grown = server.memory().saturating_sub(before);
    // 100 connections, none of which may hold more than the record it began.
    assert!(grown < 8 << 20, "grown by {grown} bytes");
    no_connections(&server);
}

#[test]
fn a_client_hello_in_the_smallest_pieces_is_put_together() {
    /// One byte in each packet.
    struct ByteByByte(TcpStream);
    impl Read for ByteByByte {
        fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
            self.0.read(into)
        }
    }
    impl Write for ByteByByte {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.write(&bytes[..1])
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let server = Setup::new().start();
    server.write("a.txt", "a\n");
    for version in [SslVersion::TLS1_2, SslVersion::TLS1_3] {
        let socket = ByteByByte(Client::connect(server.https()).stream);
        let stream = TlsOptions::version(version).handshake(&server, socket).unwrap();
        assert_eq!(Client::over(stream).get("/a.txt").text(), "a\n");
    }
    // One byte in each record (RFC 8446 §5.1 allows it): the server's answer shows that it understood.
    let hello = client_hello(&server, &TlsOptions::version(SslVersion::TLS1_3));
    let mut client = Client::connect(server.https());
    let records: Vec<u8> = hello[5..].iter().flat_map(|&byte| [22, 3, 1, 0, 1, byte]).collect();
    client.send(records);
    let mut answer = [0; 6];
    client.stream.read_exact(&mut answer).unwrap();
    assert_eq!((answer[0], answer[5]), (22, 2), "a ServerHello");
}
