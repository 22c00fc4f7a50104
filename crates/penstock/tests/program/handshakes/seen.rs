//! The graphs of docs/handshakes.md, from the numbers they are drawn with.

use std::io::{Read, Write};

use boring::ssl::SslVersion;
use penstock_testkit::{Client, ContentType, Records, Server, Setup, TlsOptions, Tool, until};
use serde_json::Value;

const PARTS: &str = "penstock_handshake_part_seconds";
const AFTER: &str = "penstock_handshakes_after_response_total";
const ALERTS: &str = "penstock_tls_alerts_total";

/// The handshakes in `/status.json`.
fn status(server: &Server) -> Value {
    let response =
        Client::connect(server.admin()).request("GET /status.json HTTP/1.1\r\nHost: localhost\r\n\r\n");
    let status: Value = serde_json::from_slice(&response.body).unwrap();
    status["handshakes"].clone()
}

/// The seconds that went into one part, for one kind of certificate.
fn spent(server: &Server, part: &str, certificate: &str) -> f64 {
    let labels = [format!("part=\"{part}\""), format!("certificate=\"{certificate}\"")];
    server.metrics().sum(&format!("{PARTS}_sum"), &[&labels[0], &labels[1]])
}

#[test]
fn the_time_of_a_handshake_is_split_by_part_and_kind_of_certificate() {
    let server = Setup::new().start();
    let mut handshakes = 0.0;
    for version in [SslVersion::TLS1_2, SslVersion::TLS1_3] {
        for (signatures, certificate) in [("ECDSA+SHA256", "ecdsa"), ("RSA-PSS+SHA256", "rsa")] {
            let before = ["signing", "key_exchange", "waiting"].map(|part| spent(&server, part, certificate));
            let options = TlsOptions { signatures: Some(signatures), ..TlsOptions::version(version) };
            Client::tls_with(&server, &options).assert_open();
            handshakes += 1.0;
            server.counted("penstock_handshakes_total", &["outcome=\"ok\""], handshakes);
            let after = ["signing", "key_exchange", "waiting"].map(|part| spent(&server, part, certificate));
            for (before, after) in before.iter().zip(after) {
                assert!(after > *before, "{version:?} {certificate}: {after}");
            }
        }
    }
    for certificate in ["ecdsa", "rsa"] {
        let labels = ["part=\"rest\"", &format!("certificate=\"{certificate}\"")];
        assert_eq!(server.metrics().sum(&format!("{PARTS}_count"), &labels), 2.0);
    }
    // The parts are the whole.
    let metrics = server.metrics();
    let parts = metrics.sum(&format!("{PARTS}_sum"), &[]);
    let whole = metrics.sum("penstock_handshake_seconds_sum", &[]);
    assert!((parts - whole).abs() < 1e-6, "{parts} {whole}");

    let status = status(&server);
    assert_eq!(status["rsa_share"], 0.5);
    assert_eq!(status["certificates"]["ecdsa"]["count"], 2);
    assert!(status["parts_seconds"]["rsa"]["signing"].as_f64().unwrap() > 0.0, "{status}");
    assert!(status["seconds"]["full"]["p99"].as_f64().unwrap() > 0.0, "{status}");
    assert!(status["seconds"]["resumed"]["p50"].is_null(), "{status}");
}

#[test]
fn a_resumed_session_needs_no_signature() {
    let server = Setup::new().start();
    let session = server.directory().join("session.pem");
    let session = session.to_str().unwrap();
    for version in ["-tls1_2", "-tls1_3"] {
        for argument in ["-sess_out", "-sess_in"] {
            let tool = Tool::s_client(&server).args([version, argument, session, "-ign_eof"]);
            tool.run_with_input(b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
        }
    }
    server.counted("penstock_handshakes_total", &["resumed=\"true\"", "certificate=\"none\""], 2.0);
    server.counted("penstock_handshakes_total", &["resumed=\"false\"", "certificate=\"ecdsa\""], 2.0);
    assert_eq!(spent(&server, "signing", "none"), 0.0);
    // Only TLS 1.3 exchanges keys again.
    assert!(spent(&server, "key_exchange", "none") > 0.0);
    let status = status(&server);
    assert_eq!((&status["resumed_share"], &status["rsa_share"]), (&0.5.into(), &0.0.into()));
}

#[test]
fn a_handshake_is_counted_by_what_its_client_was_answered_last() {
    let server = Setup::new().start();
    server.write("a.txt", "a\n");
    let reconnect_after = |path: &str, status: u16| {
        let mut client = Client::tls(&server);
        // Some clients open the next connection before they close the last one.
        assert_eq!(client.get(path).status, status, "{path}");
        until("the response to be counted", || {
            let requests =
                server.metrics().sum("penstock_requests_total", &[&format!("status=\"{}xx\"", status / 100)]);
            (requests > 0.0).then_some(())
        });
        client
    };
    let first = reconnect_after("/missing.m3u8", 404);
    server.counted(AFTER, &["status=\"none\"", "resumed=\"false\""], 1.0);
    let second = reconnect_after("/a.txt", 200);
    server.counted(AFTER, &["status=\"4xx\"", "resumed=\"false\""], 1.0);
    drop((first, second));
    // The kernel hands connections to any worker; all of them know.
    for number in 1..=10 {
        Client::tls(&server).assert_open();
        server.counted(AFTER, &["status=\"2xx\"", "resumed=\"false\""], f64::from(number));
    }
    server.counted(AFTER, &[], 12.0);
    assert_eq!(status(&server)["after_response"]["4xx"], 1);
}

#[test]
fn clients_behind_a_balancer_are_told_apart_by_the_address_it_names() {
    let server = Setup::new().listeners(&["tls: true, proxy_protocol: true"]).start();
    let connect = |client: &str| {
        let mut socket = Client::connect(server.https()).stream;
        socket.write_all(format!("PROXY TCP4 {client} 192.0.2.1 40000 443\r\n").as_bytes()).unwrap();
        Client::over(TlsOptions::default().handshake(&server, socket).unwrap())
    };
    assert_eq!(connect("198.51.100.1").get("/missing.m3u8").status, 404);
    server.counted("penstock_requests_total", &["status=\"4xx\""], 1.0);
    connect("198.51.100.2").assert_open();
    server.counted(AFTER, &["status=\"none\""], 2.0);
    connect("198.51.100.1").assert_open();
    server.counted(AFTER, &["status=\"4xx\""], 1.0);
    // The addresses stay out of the log of the program.
    assert!(!server.log().iter().any(|line| line.contains("198.51.100")));
}

#[test]
fn a_second_client_hello_is_counted_whether_it_comes_or_not() {
    let server = Setup::new().start();
    Client::tls(&server).assert_open();
    server.counted("penstock_hello_retry_requests_total", &[], 0.0);
    // Its only key share is for a group that the server does not speak.
    let options = TlsOptions { groups: Some("P-384:X25519"), ..TlsOptions::default() };
    Client::tls_with(&server, &options).assert_open();
    server.counted("penstock_hello_retry_requests_total", &[], 1.0);
    /// Ends after what was written first.
    struct Once(std::net::TcpStream, bool);
    impl Read for Once {
        fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
            self.0.read(into)
        }
    }
    impl Write for Once {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            if std::mem::replace(&mut self.1, true) {
                return Err(std::io::ErrorKind::BrokenPipe.into());
            }
            self.0.write_all(bytes).map(|()| bytes.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let socket = Once(Client::connect(server.https()).stream, false);
    assert!(options.handshake(&server, socket).is_err());
    server.counted("penstock_hello_retry_requests_total", &[], 2.0);
    server.counted("penstock_handshakes_total", &["outcome=\"failed\""], 1.0);
    assert_eq!(status(&server)["hello_retry_requests"], 2);
}

#[test]
fn alerts_on_established_connections_are_counted_by_name() {
    let server = Setup::new().start();
    let mut polite = Client::tls(&server);
    polite.assert_open();
    polite.stream.close();
    server.counted(ALERTS, &["direction=\"received\"", "alert=\"close_notify\""], 1.0);
    server.counted(ALERTS, &["direction=\"sent\"", "alert=\"close_notify\""], 1.0);

    let mut rude = Records::connect(&server);
    rude.assert_open();
    const FATAL: u8 = 2;
    const BAD_RECORD_MAC: u8 = 20;
    rude.stream.send(ContentType::Alert, &[FATAL, BAD_RECORD_MAC]).unwrap();
    server.counted(ALERTS, &["direction=\"received\"", "alert=\"bad_record_mac\""], 1.0);

    let mut broken = Records::connect(&server);
    broken.assert_open();
    let mut record = broken.stream.seal(ContentType::ApplicationData, b"GET / HTTP/1.1\r\n\r\n");
    *record.last_mut().unwrap() ^= 1;
    broken.stream.socket().write_all(&record).unwrap();
    server.counted(ALERTS, &["direction=\"sent\"", "alert=\"bad_record_mac\""], 1.0);
    server.counted("penstock_connections", &[], 0.0);
}
