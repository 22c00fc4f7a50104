//! Old televisions: TLS 1.0 and 1.1, where the operator asks for them.

use boring::ssl::SslVersion;
use penstock_testkit::{Certificates, Client, Server, Setup, TlsOptions, Tool, until};
use rustix::process::Signal;

const BODY: &str = "the bytes of a film\n";

/// Options of a client that offers what clients offered in 2010.
const OLD: [&str; 2] = ["-cipher", "ALL:@SECLEVEL=0"];

/// Old versions are on, and a warning about them is expected.
fn server() -> Server {
    let server = setup("[\"1.0\", \"1.1\", \"1.2\", \"1.3\"]").start();
    server.expect_warning("forbidden (RFC 8996)");
    server.write("a.mp4", BODY);
    server
}

fn setup(versions: &str) -> Setup {
    let tls = format!("{}\nversions: {versions}", Certificates::yaml(&["ec", "rsa"]));
    Setup::new().limits("drain_deadline: 1m").tls(&tls)
}

fn fetch(server: &Server, arguments: &[&str]) -> penstock_testkit::Finished {
    let request = b"GET /a.mp4 HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    Tool::s_client(server).arg("-ign_eof").args(OLD).args(arguments).run_with_input(request)
}

fn tls10() -> TlsOptions {
    TlsOptions::version(SslVersion::TLS1)
}

#[test]
fn each_old_version_carries_a_film_with_each_suite() {
    let server = server();
    let file = server.file("film.mp4", 3_000_001);
    for (version, name, most) in
        [("--tlsv1.0", "TLSv1.0", "1.0"), ("--tlsv1.1", "TLSv1.1", "1.1"), ("--tlsv1.2", "TLSv1.2", "1.2")]
    {
        for (suite, iana, group) in [
            ("ECDHE-ECDSA-AES128-SHA", "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA", "X25519"),
            ("ECDHE-ECDSA-AES256-SHA", "TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA", "X25519"),
            ("ECDHE-RSA-AES128-SHA", "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA", "X25519"),
            ("ECDHE-RSA-AES256-SHA", "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA", "X25519"),
            ("AES128-SHA", "TLS_RSA_WITH_AES_128_CBC_SHA", "none"),
            ("AES256-SHA", "TLS_RSA_WITH_AES_256_CBC_SHA", "none"),
        ] {
            let target = format!("/film.mp4?{name}-{suite}");
            let ciphers = format!("{suite}:@SECLEVEL=0");
            let curl = Tool::curl(&server).args([version, "--tls-max", most, "--ciphers", &ciphers]);
            let body = curl.arg(server.url(&target)).run().ok().stdout;
            file.assert_range(0..file.len, &body);
            let tls = server.logged(&target)["tls"].clone();
            assert_eq!((&tls["version"], &tls["cipher"]), (&name.into(), &iana.into()));
            assert_eq!(tls["group"], group, "{name} {suite}");
        }
        let count = |labels: &[&str]| server.metrics().sum("penstock_handshakes_total", labels);
        assert_eq!(count(&[&format!("version=\"{name}\""), "outcome=\"ok\""]), 6.0);
    }
    let sealed = ["kind=\"user_space\"", "reason=\"cbc_suite\""];
    until("the ways to be counted", || {
        (server.metrics().sum("penstock_egress_connections_total", &sealed) == 18.0).then_some(())
    });
}

#[test]
fn an_old_connection_answers_everything_that_a_new_one_does() {
    let server = server();
    let file = server.file("film.mp4", 300_000);
    server.write("empty.mp4", "");
    for version in [SslVersion::TLS1, SslVersion::TLS1_1] {
        let options = TlsOptions { ciphers: Some("ECDHE-RSA-AES128-SHA"), ..TlsOptions::version(version) };
        let mut client = Client::tls_with(&server, &options);
        assert_eq!(client.get("/a.mp4").text(), BODY);
        let head = client.head_with("/film.mp4", "");
        assert_eq!((head.status, head.field("Content-Length")), (200, Some("300000")));
        file.assert_range(1000..70_001, &client.get_range("/film.mp4", 1000, 70_000).body);
        let several = client.get_with("/film.mp4", "Range: bytes=0-0, 5-9, 299999-\r\n");
        assert_eq!(several.status, 206);
        assert!(several.body.windows(5).any(|five| five == file.bytes(5..10)));
        assert_eq!((client.get("/empty.mp4").status, client.get("/none.mp4").status), (200, 404));
        client.send("GET /a.mp4 HTTP/1.1\r\nHost: localhost\r\n\r\n".repeat(3));
        for _ in 0..3 {
            assert_eq!(client.response().unwrap().text(), BODY);
        }
        file.assert_range(0..file.len, &client.get("/film.mp4").body);
        client.send("GET /a.mp4 HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
        assert_eq!(client.response().unwrap().text(), BODY);
        client.assert_closed();
    }
}

#[test]
fn a_client_of_tls_1_0_that_reads_slowly_loses_nothing_in_a_drain() {
    const LENGTH: u64 = 24_000_000;
    let server = server();
    let file = server.file("film.mp4", LENGTH);
    let mut client = Client::tls_with(&server, &tls10());
    client.begin("/film.mp4");
    // It reads nothing now, and others are served meanwhile.
    assert_eq!(Client::tls(&server).get("/a.mp4").text(), BODY);
    server.signal(Signal::TERM);
    server.wait_for_log("draining");
    file.assert_range(0..LENGTH, &client.body(LENGTH).unwrap());
    client.assert_closed();
    assert!(server.wait().success());
}

#[test]
fn an_old_client_that_half_closes_gets_its_whole_response_and_one_that_disconnects_ends_it() {
    let server = server();
    let file = server.file("film.mp4", 40_000_000);
    let short = || server.metrics().sum("penstock_short_responses_total", &["reason=\"client_closed\""]);
    for (number, version) in [(1.0, SslVersion::TLS1), (2.0, SslVersion::TLS1_1)] {
        let request = || {
            let mut client = Client::tls_with(&server, &TlsOptions::version(version));
            client.ask("/film.mp4");
            assert_eq!(client.response_to_head().unwrap().status, 200);
            client
        };
        let mut half_closed = request();
        half_closed.stream.close();
        file.assert_range(0..file.len, &half_closed.rest().unwrap());
        drop(request());
        until("the end of the response", || (short() == number).then_some(()));
    }
}

#[test]
fn in_tls_1_0_one_byte_goes_ahead_of_each_record_and_later_versions_need_none() {
    let server = server();
    for (version, head, first) in [("-tls1", "17 03 01", 0x20), ("-tls1_1", "17 03 02", 0x30)] {
        let text = fetch(&server, &[version, "-msg"]).ok().text();
        assert!(text.contains(BODY), "{text}");
        let lines = text.lines().map(str::trim).filter(|line| line.starts_with(head));
        let lengths: Vec<usize> = lines
            .map(|line| usize::from_str_radix(&line[head.len()..].replace(' ', ""), 16).unwrap())
            .collect();
        // The first ones may be the client's own; it splits in TLS 1.0 as well.
        assert!(lengths.contains(&first) == (version == "-tls1"), "{version}: {lengths:x?}");
    }
}

#[test]
fn old_clients_resume_by_ticket_and_by_session_id() {
    let server = server();
    let session = server.directory().join("session.pem");
    let session = session.to_str().unwrap();
    for version in ["-tls1", "-tls1_1"] {
        for how in [&[][..], &["-no_ticket"]] {
            let begin = [&[version, "-sess_out", session], how].concat();
            let text = fetch(&server, &begin).ok().text();
            assert!(text.contains("\nNew, ") && text.contains(BODY), "{version} {how:?}: {text}");
            let again = [&[version, "-sess_in", session], how].concat();
            let text = fetch(&server, &again).ok().text();
            assert!(text.contains("\nReused, ") && text.contains(BODY), "{version} {how:?}: {text}");
        }
    }
    // A session keeps its version: it does not bring a newer client down to it.
    let text = fetch(&server, &["-sess_in", session]).ok().text();
    assert!(text.contains("\nNew, TLSv1.3"), "{text}");
}

#[test]
fn new_clients_get_what_they_got_before() {
    let server = server();
    for (arguments, found) in [
        (&[][..], "TLSv1.3, Cipher is TLS_AES_128_GCM_SHA256"),
        (&["-tls1_2"], "TLSv1.2, Cipher is ECDHE-ECDSA-AES128-GCM-SHA256"),
        (&["-no_tls1_3"], "TLSv1.2, Cipher is ECDHE-ECDSA-AES128-GCM-SHA256"),
    ] {
        let text = fetch(&server, arguments).ok().text();
        assert!(text.contains(&format!("New, {found}\n")), "{arguments:?}: {text}");
    }
}

#[test]
fn a_client_that_was_made_to_fall_back_is_told_so() {
    let server = server();
    for version in ["-tls1", "-tls1_1"] {
        let refused = fetch(&server, &[version, "-fallback_scsv"]);
        assert!(refused.stderr.contains("inappropriate fallback"), "{version}: {}", refused.stderr);
    }
    server.metrics();
}

#[test]
fn signatures_over_sha_1_are_made_only_where_old_versions_are_on() {
    let sha1 = |server: &Server, algorithm: &str| fetch(server, &["-tls1_2", "-sigalgs", algorithm]);
    let old = server();
    for algorithm in ["RSA+SHA1", "ECDSA+SHA1"] {
        let text = sha1(&old, algorithm).ok().text();
        assert!(text.contains("Peer signing digest: SHA1") && text.contains(BODY), "{algorithm}: {text}");
        let better = sha1(&old, &format!("{algorithm}:RSA+SHA256:ECDSA+SHA256")).ok().text();
        assert!(better.contains("Peer signing digest: SHA256"), "{better}");
    }
    let new = Setup::new().start();
    for algorithm in ["RSA+SHA1", "ECDSA+SHA1"] {
        let refused = sha1(&new, algorithm);
        assert!(refused.stderr.contains("alert handshake failure"), "{algorithm}: {}", refused.stderr);
    }
}

#[test]
fn only_the_versions_named_are_spoken() {
    let server = setup("[\"1.1\", \"1.2\"]").start();
    server.expect_warning("TLS 1.1 is broken");
    server.write("a.mp4", BODY);
    assert!(fetch(&server, &["-tls1_1"]).ok().text().contains(BODY));
    let refused = fetch(&server, &["-tls1"]);
    assert!(refused.stderr.contains("alert protocol version"), "{}", refused.stderr);
    let usual = Setup::new().start();
    for version in ["-tls1", "-tls1_1"] {
        let refused = fetch(&usual, &[version]);
        assert!(refused.stderr.contains("alert protocol version"), "{version}: {}", refused.stderr);
    }
}
