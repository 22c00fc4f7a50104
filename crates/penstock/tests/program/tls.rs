//! Handshakes with the clients there are: versions, ciphers, groups, certificates, resumption, KeyUpdates, goodbyes.

use std::fs;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use boring::ssl::SslVersion;
use penstock_testkit::{Certificates, Client, Finished, Server, Setup, TlsOptions, Tool, until};
use rustix::process::Signal;

const CIPHERS: [(&str, &str, &str); 3] = [
    ("TLS_AES_128_GCM_SHA256", "AES128-GCM-SHA256", "AES_128_GCM_SHA256"),
    ("TLS_AES_256_GCM_SHA384", "AES256-GCM-SHA384", "AES_256_GCM_SHA384"),
    ("TLS_CHACHA20_POLY1305_SHA256", "CHACHA20-POLY1305", "CHACHA20_POLY1305_SHA256"),
];

#[test]
fn each_cipher_carries_a_film_in_both_versions() {
    let server = Setup::new().start();
    for (new, old, iana) in CIPHERS {
        // A name of its own: a worker may serve a replaced file for another second.
        let path = format!("/{old}.mp4");
        let file = server.file(&path[1..], 3_000_001);
        let fetch = |arguments: &[&str]| {
            let name = format!("{path}?{}", arguments.join(" ").replace(' ', "+"));
            let curl = Tool::curl(&server).args(arguments).arg(server.url(&name)).run().ok();
            file.assert_range(0..file.len, &curl.stdout);
            server.logged(&name)["tls"].clone()
        };
        let found = fetch(&["--tlsv1.3", "--tls13-ciphers", new]);
        assert_eq!((&found["version"], &found["cipher"]), (&"TLSv1.3".into(), &new.into()));
        for key in ["ECDSA", "RSA"] {
            let found = fetch(&["--tls-max", "1.2", "--ciphers", &format!("ECDHE-{key}-{old}")]);
            let iana = format!("TLS_ECDHE_{key}_WITH_{iana}");
            assert_eq!((&found["version"], &found["cipher"]), (&"TLSv1.2".into(), &iana.into()));
        }
    }
}

#[test]
fn aes_128_comes_first_unless_the_client_leads_with_chacha20() {
    let server = site().start();
    let aes_256_first = "TLS_AES_256_GCM_SHA384:TLS_CHACHA20_POLY1305_SHA256:TLS_AES_128_GCM_SHA256";
    let chacha_first = "TLS_CHACHA20_POLY1305_SHA256:TLS_AES_256_GCM_SHA384:TLS_AES_128_GCM_SHA256";
    let old_aes = "ECDHE-ECDSA-AES256-GCM-SHA384:ECDHE-ECDSA-CHACHA20-POLY1305:ECDHE-ECDSA-AES128-GCM-SHA256";
    let old_chacha = "ECDHE-ECDSA-CHACHA20-POLY1305:ECDHE-ECDSA-AES128-GCM-SHA256";
    for (arguments, cipher) in [
        (["-tls1_3", "-ciphersuites", aes_256_first], "TLS_AES_128_GCM_SHA256"),
        (["-tls1_3", "-ciphersuites", chacha_first], "TLS_CHACHA20_POLY1305_SHA256"),
        (["-tls1_2", "-cipher", old_aes], "ECDHE-ECDSA-AES128-GCM-SHA256"),
        (["-tls1_2", "-cipher", old_chacha], "ECDHE-ECDSA-CHACHA20-POLY1305"),
    ] {
        let text = fetch(&server, &arguments).ok().text();
        assert!(text.contains(&format!("Cipher is {cipher}\n")), "{arguments:?}: {text}");
    }
}

#[test]
fn chacha20_can_be_left_out() {
    let tls = format!("{}\nciphers: {{chacha20: never}}", Certificates::yaml(&["ec", "rsa"]));
    let server = site().tls(&tls).start();
    let chacha_first = "TLS_CHACHA20_POLY1305_SHA256:TLS_AES_256_GCM_SHA384";
    let text = fetch(&server, &["-tls1_3", "-ciphersuites", chacha_first]).ok().text();
    assert!(text.contains("Cipher is TLS_AES_256_GCM_SHA384\n"), "{text}");
}

#[test]
fn versions_can_be_left_out() {
    let tls = format!("{}\nversions: [\"1.3\"]", Certificates::yaml(&["ec"]));
    let server = site().tls(&tls).start();
    fetch(&server, &["-tls1_3"]).ok();
    let refused = fetch(&server, &["-tls1_2"]);
    assert!(refused.stderr.contains("alert protocol version"), "{}", refused.stderr);
    let failures = || server.metrics().sum("penstock_handshakes_total", &["outcome=\"failed\""]);
    until("the failure to be counted", || (failures() == 1.0).then_some(()));
}

#[test]
fn the_name_chooses_the_certificate() {
    let server = site().tls(&Certificates::yaml(&["ec", "rsa", "other", "wild"])).start();
    for (name, certificate) in [
        ("localhost", "ec"),
        ("video.example", "ec"),
        ("VIDEO.example", "ec"),
        ("other.example", "other"),
        ("a.wild.example", "wild"),
        ("b.wild.example", "wild"),
        // A wildcard covers one label, no more and no less.
        ("a.b.wild.example", "ec"),
        ("wild.example", "ec"),
        ("unknown.example", "ec"),
    ] {
        assert_eq!(subject(&fetch(&server, &["-servername", name]).ok()), certificate, "{name}");
    }
    assert_eq!(subject(&fetch(&server, &[]).ok()), "ec", "no name at all");
    // curl insists on the right name.
    let curl = |host: &str, arguments: &[&str]| {
        let target = format!("{host}:443:127.0.0.1:{}", server.https().port());
        let curl = Tool::curl(&server).args(["--connect-to", &target]).args(arguments);
        curl.arg(format!("https://{host}/a.mp4")).run()
    };
    assert_eq!(curl("a.wild.example", &[]).ok().text(), BODY);
    assert_eq!(curl("other.example", &["--tls-max", "1.2"]).ok().text(), BODY);
    const WRONG_NAME: i32 = 60;
    curl("a.b.wild.example", &[]).exits_with(WRONG_NAME);
    let resolve = format!("video.example:{}:127.0.0.1", server.https().port());
    let url = format!("https://video.example:{}/a.mp4", server.https().port());
    assert_eq!(Tool::curl(&server).args(["--resolve", &resolve, &url]).run().ok().text(), BODY);
}

#[test]
fn the_default_certificate_answers_unknown_names() {
    let certificates = "certificates:\n- {chain: ec.crt, key: ec.key}\n\
                        - {chain: other.crt, key: other.key, default: true}";
    let server = site().tls(certificates).start();
    assert_eq!(subject(&fetch(&server, &["-servername", "localhost"]).ok()), "ec");
    assert_eq!(subject(&fetch(&server, &["-servername", "unknown.example"]).ok()), "other");
    assert_eq!(subject(&fetch(&server, &[]).ok()), "other", "no name at all");
}

#[test]
fn clients_that_know_ecdsa_get_it_and_the_others_get_rsa() {
    let server = site().start();
    for (arguments, certificate, signature) in [
        (&["-tls1_3"][..], "ec", "ECDSA"),
        (&["-tls1_2"], "ec", "ECDSA"),
        (&["-tls1_3", "-sigalgs", "RSA-PSS+SHA256:RSA-PSS+SHA384"], "rsa", "RSA-PSS"),
        (&["-tls1_2", "-sigalgs", "RSA-PSS+SHA256:RSA+SHA256"], "rsa", "RSA-PSS"),
        (&["-tls1_2", "-sigalgs", "RSA+SHA256"], "rsa", "RSA"),
        (&["-tls1_2", "-cipher", "ECDHE-RSA-AES128-GCM-SHA256"], "rsa", "RSA-PSS"),
        (&["-tls1_2", "-sigalgs", "RSA+SHA256:ECDSA+SHA256"], "ec", "ECDSA"),
    ] {
        let finished = fetch(&server, arguments).ok();
        assert_eq!(subject(&finished), certificate, "{arguments:?}");
        let signature = format!("Peer signature type: {signature}\n");
        assert!(finished.text().contains(&signature), "{arguments:?}: {}", finished.text());
    }
}

#[test]
fn sessions_are_resumed_in_both_versions_and_after_a_reload() {
    let server = site().start();
    let session = server.directory().join("session.pem");
    let session = session.to_str().unwrap();
    let resumed =
        |answer: &str| server.metrics().sum("penstock_handshakes_total", &["resumed=\"true\"", answer]);
    for (argument, version) in [("-tls1_2", "version=\"TLSv1.2\""), ("-tls1_3", "version=\"TLSv1.3\"")] {
        let first = fetch(&server, &[argument, "-sess_out", session]).ok().text();
        assert!(first.contains("\nNew, TLSv1.") && first.contains(BODY), "{first}");
        assert_eq!(resumed(version), 0.0);
        let second = fetch(&server, &[argument, "-sess_in", session]).ok().text();
        assert!(second.contains("\nReused, TLSv1.") && second.contains(BODY), "{second}");
        assert_eq!(resumed(version), 1.0);
        let logged = || server.access_log().iter().any(|line| line["tls"]["resumed"] == true).then_some(());
        until("the resumed session in the log", logged);
        server.signal(Signal::HUP);
        until("the reload", || {
            let reloads = server.metrics().sum("penstock_reloads_total", &["outcome=\"applied\""]);
            (reloads > if version.contains("1.2") { 0.0 } else { 1.0 }).then_some(())
        });
        let third = fetch(&server, &[argument, "-sess_in", session]).ok().text();
        assert!(third.contains("\nReused, TLSv1."), "{third}");
        assert_eq!(resumed(version), 2.0);
    }
}

#[test]
fn curl_resumes_its_own_sessions() {
    let server = site().start();
    // In TLS 1.2 curl resumes only what the server keeps, not what tickets keep.
    let curl = Tool::curl(&server).args(["--tlsv1.3", "-H", "Connection: close"]);
    let curl = curl.args([server.url("/a.mp4"), server.url("/a.mp4"), server.url("/a.mp4")]).run().ok();
    assert_eq!(curl.text(), BODY.repeat(3));
    let metrics = server.metrics();
    let count = |resumed| metrics.sum("penstock_handshakes_total", &["version=\"TLSv1.3\"", resumed]);
    assert_eq!((count("resumed=\"false\""), count("resumed=\"true\"")), (1.0, 2.0));
}

#[test]
fn a_broken_ticket_gets_a_full_handshake() {
    let server = site().start();
    let other = site().start();
    for version in ["-tls1_2", "-tls1_3"] {
        let session = server.directory().join("session.pem");
        let session = session.to_str().unwrap();
        fetch(&other, &[version, "-sess_out", session]).ok();
        let text = fetch(&server, &[version, "-sess_in", session]).text();
        assert!(text.contains("\nNew, TLSv1."), "{version}: {text}");
    }
}

#[test]
fn http_1_1_is_agreed_on_where_it_is_offered() {
    let server = site().start();
    for offer in ["h3,http/1.1", "http/1.1"] {
        for version in ["-tls1_2", "-tls1_3"] {
            let text = fetch(&server, &[version, "-alpn", offer]).ok().text();
            assert!(text.contains("ALPN protocol: http/1.1\n") && text.contains(BODY), "{offer}: {text}");
        }
    }
    // A client of HTTP/1.0 understands the response without an agreement.
    let text = fetch(&server, &["-alpn", "http/1.0"]).ok().text();
    assert!(text.contains("No ALPN negotiated\n") && text.contains(BODY), "{text}");
    let text = fetch(&server, &[]).ok().text();
    assert!(text.contains("No ALPN negotiated\n") && text.contains(BODY), "{text}");
}

#[test]
fn http_2_is_agreed_on_before_http_1_1() {
    let server = site().start();
    for offer in ["h2,http/1.1", "http/1.1,h2", "h2"] {
        for version in ["-tls1_2", "-tls1_3"] {
            let client = Tool::s_client(&server).args([version, "-servername", "localhost", "-alpn", offer]);
            let text = client.run_with_input(b"").text();
            assert!(text.contains("ALPN protocol: h2\n"), "{offer}: {text}");
        }
    }
}

#[test]
fn clients_of_another_protocol_get_an_alert() {
    let server = site().start();
    for (place, offer) in ["h3", "spdy/3.1,h2c", "ftp", "acme-tls/1", "imap,smtp"].into_iter().enumerate() {
        for version in ["-tls1_2", "-tls1_3"] {
            let refused = fetch(&server, &[version, "-alpn", offer]);
            let error = "alert no application protocol";
            assert!(refused.code != 0 && refused.stderr.contains(error), "{offer}: {}", refused.stderr);
        }
        let alert = ["direction=\"sent\"", "alert=\"no_application_protocol\""];
        let sent = || server.metrics().sum("penstock_tls_alerts_total", &alert);
        until("the alerts to be counted", || (sent() == 2.0 * (place + 1) as f64).then_some(()));
    }
}

#[test]
fn each_group_is_spoken_the_post_quantum_one_first() {
    let server = site().start();
    for (offer, group, version) in [
        ("X25519MLKEM768:X25519:P-256", "X25519MLKEM768", SslVersion::TLS1_3),
        ("X25519MLKEM768", "X25519MLKEM768", SslVersion::TLS1_3),
        // Ours comes first, whatever comes first there.
        ("P-256:X25519:X25519MLKEM768", "X25519MLKEM768", SslVersion::TLS1_3),
        // The client has sent a key share that will do, and no other.
        ("P-256:X25519", "P-256", SslVersion::TLS1_3),
        ("P-256", "P-256", SslVersion::TLS1_3),
        ("P-256:X25519", "X25519", SslVersion::TLS1_2),
        ("P-256", "P-256", SslVersion::TLS1_2),
    ] {
        let options = TlsOptions { groups: Some(offer), ..TlsOptions::version(version) };
        let mut client = Client::tls_with(&server, &options);
        assert_eq!(client.stream.facts().curve_name(), Some(group), "{offer}");
        let target = format!("/a.mp4?{offer}-{}", client.stream.facts().version_str());
        assert_eq!(client.get(&target).text(), BODY);
        assert_eq!(server.logged(&target)["tls"]["group"], group, "{offer}");
    }
    // What OpenSSL offers by itself.
    assert!(fetch(&server, &[]).ok().text().contains("Server Temp Key: X25519, 253 bits"));
}

#[test]
fn a_client_whose_guess_is_wrong_is_asked_again() {
    let server = site().start();
    let options = TlsOptions { groups: Some("P-384:P-256"), ..TlsOptions::version(SslVersion::TLS1_3) };
    let mut client = Client::tls_with(&server, &options);
    assert!(client.stream.facts().used_hello_retry_request());
    assert_eq!(client.stream.facts().curve_name(), Some("P-256"));
    assert_eq!(client.get("/a.mp4").text(), BODY);
}

#[test]
fn a_client_without_a_common_group_gets_an_alert() {
    let server = site().start();
    let options = TlsOptions { groups: Some("P-384"), ..TlsOptions::default() };
    let error = options.handshake(&server, Client::connect(server.https()).stream).err().unwrap();
    assert!(error.to_ascii_uppercase().contains("HANDSHAKE_FAILURE"), "{error}");
    let count = || server.metrics().sum("penstock_handshake_failures_total", &["reason=\"no_shared_group\""]);
    until("the failure to be counted", || (count() == 1.0).then_some(()));
}

#[test]
fn a_client_hello_in_many_packets_is_put_together() {
    let server = site().start();
    for size in [1, 50, 700] {
        let socket = InPieces { socket: Client::connect(server.https()).stream, size };
        let options = TlsOptions { groups: Some("X25519MLKEM768"), ..TlsOptions::default() };
        let mut client = Client::over(options.handshake(&server, socket).unwrap());
        assert_eq!(client.get("/a.mp4").text(), BODY, "pieces of {size}");
    }
}

#[test]
fn a_client_hello_in_many_records_is_put_together() {
    let server = site().start();
    for version in [SslVersion::TLS1_2, SslVersion::TLS1_3] {
        let socket = InRecords { socket: Client::connect(server.https()).stream, size: 40, hello: true };
        let options = TlsOptions::version(version);
        let mut client = Client::over(options.handshake(&server, socket).unwrap());
        assert_eq!(client.get("/a.mp4").text(), BODY, "{version:?}");
    }
}

#[test]
fn key_updates_during_and_between_downloads_are_followed() {
    // In the kernel an update of keys may end the connection, on kernels that cannot follow it.
    let tls = format!("{}\nkernel: off", Certificates::yaml(&["ec"]));
    let server = Setup::new().tls(&tls).start();
    let first = server.file("first.mp4", 24_000_000);
    let second = server.file("second.mp4", 3_000_000);
    let counted = || server.metrics().sum("penstock_tls_key_updates_total", &[]);
    let updated = |times: f64| until("the update", || (counted() == times).then_some(()));

    let all_sent = Arc::new(AtomicBool::new(false));
    let done = Arc::clone(&all_sent);
    let client = Tool::s_client(&server).args(["-tls1_3", "-quiet", "-no_ign_eof"]);
    let mut client = client.start_reading_slowly_until(move || done.load(Ordering::Relaxed));
    client.say("GET /first.mp4 HTTP/1.1\r\nHost: localhost\r\n\r\n");
    until("the download to begin", || {
        (server.metrics().sum("penstock_sent_bytes_total", &[]) > 100_000.0).then_some(())
    });
    // `K` asks the server to change its keys too, `k` does not. Each line has to be read alone.
    client.say("K\n");
    updated(1.0);
    client.say("k\n");
    updated(2.0);
    client.say("K\n");
    updated(3.0);
    assert!(server.access_log().is_empty(), "the download is still running");
    all_sent.store(true, Ordering::Relaxed);
    assert_eq!(server.logged("/first.mp4")["outcome"], "complete");

    client.say("K\n");
    updated(4.0);
    client.say("k\n");
    updated(5.0);
    client.say("GET /second.mp4 HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    let finished = client.finish().ok();
    let body = |from: usize| {
        let rest = &finished.stdout[from..];
        from + 4 + rest.windows(4).position(|four| four == b"\r\n\r\n").unwrap()
    };
    let start = body(0);
    let end = start + 24_000_000;
    first.assert_range(0..first.len, &finished.stdout[start..end]);
    second.assert_range(0..second.len, &finished.stdout[body(end)..]);
}

#[test]
fn the_server_says_goodbye() {
    let server = site().start();
    for version in ["-tls1_2", "-tls1_3"] {
        let finished = fetch(&server, &[version]).ok();
        assert!(finished.text().contains("\nclosed\n"), "{}", finished.text());
        assert!(!finished.stderr.contains("unexpected eof"), "{}", finished.stderr);
    }
}

#[test]
fn a_client_that_disconnects_in_a_response_ends_it() {
    let server = Setup::new().start();
    server.file("film.mp4", 40_000_000);
    let short = || server.metrics().sum("penstock_short_responses_total", &["reason=\"client_closed\""]);
    let request = "GET /film.mp4 HTTP/1.1\r\nHost: localhost\r\n\r\n";
    for (number, version) in [(1.0, SslVersion::TLS1_2), (2.0, SslVersion::TLS1_3)] {
        let mut client = Client::tls_with(&server, &TlsOptions::version(version));
        client.send(request);
        assert_eq!(client.response_to_head().unwrap().status, 200);
        // The response goes on after close_notify, and ends when the socket is closed.
        client.stream.close();
        drop(client);
        until("the end of the response", || (short() == number).then_some(()));
    }
    let open = || server.metrics().sum("penstock_connections", &["protocol=\"https\""]);
    until("the end of all connections", || (open() == 0.0).then_some(()));
    assert_eq!(server.logged("/film.mp4")["outcome"], "client_closed");
}

#[test]
fn a_new_certificate_is_taken_up_without_dropping_a_connection() {
    let server = site().tls(&Certificates::yaml(&["ec"])).start();
    let mut old = Client::tls(&server);
    assert_eq!(old.get("/a.mp4").text(), BODY);
    let other = server.certificates();
    fs::copy(other.path("other.crt"), other.path("ec.crt")).unwrap();
    fs::copy(other.path("other.key"), other.path("ec.key")).unwrap();
    server.signal(Signal::HUP);
    server.wait_for_log("reloaded");
    until("the new certificate", || (subject(&fetch(&server, &[]).ok()) == "other").then_some(()));
    assert_eq!(old.get("/a.mp4").text(), BODY);
    let open = || server.metrics().sum("penstock_connections", &["protocol=\"https\""]);
    until("the end of the other connections", || (open() == 1.0).then_some(()));
}

#[test]
fn handshakes_are_counted_by_what_they_agreed_on() {
    let server = site().start();
    fetch(&server, &["-tls1_3", "-groups", "P-256", "-ciphersuites", "TLS_AES_256_GCM_SHA384"]).ok();
    fetch(&server, &["-tls1_2", "-cipher", "ECDHE-RSA-AES128-GCM-SHA256"]).ok();
    let metrics = server.metrics();
    let count = |labels: &[&str]| metrics.sum("penstock_handshakes_total", labels);
    let new =
        ["version=\"TLSv1.3\"", "cipher=\"TLS_AES_256_GCM_SHA384\"", "group=\"P-256\"", "outcome=\"ok\""];
    assert_eq!(count(&new), 1.0);
    let old = ["version=\"TLSv1.2\"", "cipher=\"TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256\"", "outcome=\"ok\""];
    assert_eq!(count(&old), 1.0);
    assert_eq!(count(&[]), 2.0);
    assert_eq!(metrics.sum("penstock_handshake_seconds_count", &["resumed=\"false\""]), 2.0);
}

const BODY: &str = "the bytes of a film\n";

/// A server with one small file.
fn site() -> Site {
    Site(Setup::new())
}

struct Site(Setup);

impl Site {
    fn tls(self, yaml: &str) -> Self {
        Self(self.0.tls(yaml))
    }

    fn start(self) -> Server {
        let server = self.0.start();
        server.write("a.mp4", BODY);
        server
    }
}

/// `openssl s_client` with these arguments; it asks for that file and says what was agreed on.
fn fetch(server: &Server, arguments: &[&str]) -> Finished {
    let request = b"GET /a.mp4 HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    let finished = Tool::s_client(server).arg("-ign_eof").args(arguments).run_with_input(request);
    if finished.code == 0 {
        assert!(finished.text().contains(BODY), "{}", finished.text());
    }
    finished
}

/// The common name of the certificate that `openssl s_client` was shown.
fn subject(finished: &Finished) -> String {
    let text = finished.text();
    let line = text.lines().find_map(|line| line.strip_prefix("subject=CN = "));
    line.unwrap_or_else(|| panic!("no subject in {text}")).to_owned()
}

/// Sends everything in small packets.
struct InPieces {
    socket: TcpStream,
    size: usize,
}

impl Write for InPieces {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // So that the kernel does not put them together before the server has seen some of them.
        std::thread::sleep(Duration::from_micros(200));
        self.socket.write(&bytes[..bytes.len().min(self.size)])
    }

    fn flush(&mut self) -> io::Result<()> {
        self.socket.flush()
    }
}

impl Read for InPieces {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.socket.read(into)
    }
}

/// Cuts the first record, the ClientHello, into many.
struct InRecords {
    socket: TcpStream,
    size: usize,
    hello: bool,
}

impl Write for InRecords {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if !std::mem::take(&mut self.hello) {
            return self.socket.write(bytes);
        }
        let (header, hello) = bytes.split_at(5);
        let length = usize::from(u16::from_be_bytes([header[3], header[4]]));
        assert_eq!((header[0], length), (22, hello.len()), "one whole handshake record");
        for piece in hello.chunks(self.size) {
            let length = u16::try_from(piece.len()).expect("a small piece").to_be_bytes();
            self.socket.write_all(&[&header[..3], &length, piece].concat())?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.socket.flush()
    }
}

impl Read for InRecords {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.socket.read(into)
    }
}
