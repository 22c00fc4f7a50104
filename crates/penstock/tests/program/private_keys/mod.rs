//! Private keys on keyservers: both ends, and keyservers that fail.

mod faults;
mod hanging;
mod rules;
pub(crate) mod scripted;
mod tokens;
mod wire;

use std::io::Write;
use std::net::{SocketAddr, TcpStream};
use std::thread;
use std::time::Duration;

use boring::ssl::SslVersion;
use penstock_testkit::{Client, Keyserver, Server, Setup, TlsOptions, Tool, client_hello, until};
use rustix::process::Signal;

use scripted::{Script, Scripted};

const NEW: SslVersion = SslVersion::TLS1_3;
const OLD: SslVersion = SslVersion::TLS1_2;

/// What clients verify: each kind of key in each version.
const KINDS: [(SslVersion, &str); 5] = [
    (NEW, "RSA-PSS+SHA256"),
    (NEW, "ECDSA+SHA256"),
    (OLD, "RSA-PSS+SHA384"),
    (OLD, "RSA+SHA256"),
    (OLD, "ECDSA+SHA256"),
];

/// The certificates `ec` and `rsa` with their keys on these keyservers, and with `more` for each.
pub(crate) fn certificates(servers: &[SocketAddr], more: &str) -> String {
    let servers: Vec<String> = servers.iter().map(|address| format!("\"{address}\"")).collect();
    let keyserver = servers.join(", ");
    let certificate = |name: &str| {
        format!(
            "- chain: {name}.crt\n  key: {{keyserver: [{keyserver}], ca: authority.crt, chain: other.crt, key: other.key{more}}}\n"
        )
    };
    format!("certificates:\n{}{}", certificate("ec"), certificate("rsa"))
}

/// The same with local copies of the keys.
pub(crate) fn with_fallback(servers: &[SocketAddr], more: &str) -> String {
    let yaml = certificates(servers, more);
    let copies = ["ec", "rsa"].map(|name| {
        (format!("- chain: {name}.crt\n"), format!("- chain: {name}.crt\n  fallback: {name}.key\n"))
    });
    copies.iter().fold(yaml, |yaml, (from, to)| yaml.replace(from, to))
}

pub(crate) fn plain() -> Setup {
    // A handshake waits for a process that a test has stopped.
    Setup::new().workers(1).limits("handshake_deadline: 1m")
}

/// Puts keyservers in force and waits until all are connected.
pub(crate) fn use_keyservers(server: &Server, servers: &[SocketAddr], tls: &str) {
    // At the end of a test its keyservers end before the server.
    server.tolerate_warning("it has closed the connection");
    server.reload(&plain().tls(tls));
    until("the keyservers to be up", || {
        let metrics = server.metrics();
        (metrics.sum("penstock_keyserver_up", &[]) == servers.len() as f64).then_some(())
    });
}

fn options(version: SslVersion, signatures: &'static str) -> TlsOptions {
    TlsOptions { signatures: Some(signatures), ..TlsOptions::version(version) }
}

pub(crate) fn connect(server: &Server, version: SslVersion, signatures: &'static str) -> Result<(), String> {
    let socket = TcpStream::connect(server.https()).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    options(version, signatures).handshake(server, socket).map(drop)
}

fn results(server: &Server, result: &str) -> f64 {
    server.metrics().sum("penstock_keyserver_operations_total", &[&format!("result=\"{result}\"")])
}

#[test]
fn a_keyserver_signs_for_each_kind_of_key_in_each_version() {
    let server = plain().start();
    let file = server.file("a.mp4", 100_000);
    let keyserver = Keyserver::start(&server, "one");
    use_keyservers(&server, &[keyserver.address()], &certificates(&[keyserver.address()], ""));
    for (version, signatures) in KINDS {
        connect(&server, version, signatures)
            .unwrap_or_else(|error| panic!("{version:?} {signatures}: {error}"));
    }
    assert_eq!(Client::tls(&server).get("/a.mp4").body, file.all());
    // OpenSSL verifies as well.
    for version in ["-tls1_2", "-tls1_3"] {
        Tool::s_client(&server).args([version, "-servername", "localhost"]).run().ok();
    }
    until("eight signatures", || (results(&server, "ok") == 8.0).then_some(()));
    keyserver.counted(
        "penstock_key_operations_total",
        &["client=\"other\"", "result=\"ok\"", "operation=\"ec"],
        4.0,
    );
    server.counted("penstock_handshake_part_seconds_count", &["part=\"signing_remote\""], 8.0);
    until("a line with the name and address of the client", || {
        keyserver.access_log().into_iter().find(|line| {
            line["server_name"] == "localhost"
                && line["client_address"] == "127.0.0.1"
                && line["client"] == "other"
                && line["result"] == "ok"
                && line["key_name"] == "rsa"
                && line["operation"] == "rsa_pss"
        })
    });
    let shown = keyserver.log().join("\n") + &format!("{:?}", keyserver.access_log());
    assert!(!shown.contains("PRIVATE"), "{shown}");
    let status: serde_json::Value = serde_json::from_str(&keyserver.ask_admin("/status.json")).unwrap();
    assert_eq!((&status["keys"], &status["clients"][0]["name"]), (&2.into(), &"other".into()));
}

#[test]
fn a_handshake_without_a_keyserver_ends_at_once_with_internal_error_and_others_go_on() {
    let server = plain().start();
    server.write("a.txt", "a\n");
    let address = penstock_testkit::unused_address();
    server.expect_warning("cannot be used");
    let local = "- {chain: wild.crt, key: wild.key}\n";
    server.reload(&plain().tls(&(certificates(&[address], "") + local)));
    server.wait_for_log("cannot be used");
    for (version, signatures) in KINDS {
        let error = connect(&server, version, signatures).expect_err("no key signs");
        assert!(error.contains("TLSV1_ALERT_INTERNAL_ERROR"), "{error}");
    }
    let reason = ["reason=\"private_key_unavailable\""];
    server.counted("penstock_handshake_failures_total", &reason, KINDS.len() as f64);
    server.counted(
        "penstock_tls_alerts_total",
        &["direction=\"sent\"", "internal_error"],
        KINDS.len() as f64,
    );
    // A key of this machine is not concerned.
    let socket = TcpStream::connect(server.https()).unwrap();
    let options = TlsOptions { name: Some("a.wild.example"), ..TlsOptions::default() };
    options.handshake(&server, socket).unwrap();
}

#[test]
fn a_local_copy_signs_while_the_keyserver_is_away_and_no_longer() {
    let server = plain().start();
    let mut keyserver = Keyserver::start(&server, "one");
    let servers = [keyserver.address()];
    use_keyservers(&server, &servers, &with_fallback(&servers, ""));
    let fallbacks = || server.metrics().sum("penstock_private_key_fallbacks_total", &[]);
    connect(&server, NEW, "ECDSA+SHA256").unwrap();
    assert_eq!((results(&server, "ok"), fallbacks()), (1.0, 0.0));
    server.expect_warning("cannot be used");
    server.expect_warning("local keys sign instead");
    keyserver.kill();
    server.wait_for_log("cannot be used");
    for (version, signatures) in KINDS {
        connect(&server, version, signatures).unwrap();
    }
    assert_eq!(fallbacks(), KINDS.len() as f64);
    // Once for all of them.
    server.logs("local keys sign instead", 1);
    keyserver.start_again();
    server.wait_for_log("answers again");
    connect(&server, NEW, "ECDSA+SHA256").unwrap();
    assert_eq!((results(&server, "ok"), fallbacks()), (2.0, KINDS.len() as f64));
}

#[test]
fn a_keyserver_that_is_stopped_costs_one_deadline_and_then_nothing() {
    let server = plain().start();
    let keyserver = Keyserver::start(&server, "one");
    let servers = [keyserver.address()];
    use_keyservers(&server, &servers, &certificates(&servers, ", deadline: 300ms"));
    server.expect_warning("stopped to answer");
    keyserver.signal(Signal::STOP);
    connect(&server, NEW, "ECDSA+SHA256").expect_err("no answer comes");
    server.wait_for_log("stopped to answer");
    assert_eq!(results(&server, "timed_out"), 1.0);
    for _ in 0..20 {
        connect(&server, NEW, "RSA-PSS+SHA256").expect_err("there is no connection");
    }
    // None of these waited: no operation was sent.
    assert_eq!((results(&server, "timed_out"), results(&server, "unavailable")), (1.0, 20.0));
    keyserver.signal(Signal::CONT);
    server.wait_for_log("answers again");
    until("a signature", || connect(&server, NEW, "ECDSA+SHA256").ok());
}

#[test]
fn many_operations_are_under_way_at_a_time_and_are_answered_in_any_order() {
    const HANDSHAKES: usize = 40;
    let server = plain().start();
    // It answers none of them before it has all, so that one after the other they would all fail.
    let keyserver = Scripted::start(&server, Script::Gather(HANDSHAKES));
    let servers = [keyserver.address.address()];
    use_keyservers(&server, &servers, &certificates(&servers, ", deadline: 20s"));
    thread::scope(|scope| {
        for _ in 0..HANDSHAKES {
            scope.spawn(|| connect(&server, NEW, "ECDSA+SHA256").unwrap());
        }
    });
    assert_eq!(keyserver.operations(), HANDSHAKES as u64);
    assert_eq!(server.metrics().sum("penstock_keyserver_connections_total", &[]), 1.0);
}

#[test]
fn a_client_that_leaves_while_the_keyserver_works_frees_its_operation_and_its_handshake() {
    let server = plain().start();
    let silent = Scripted::start(&server, Script::SilentAfter(0));
    let servers = [silent.address.address()];
    use_keyservers(&server, &servers, &certificates(&servers, ", deadline: 60s"));
    let under_way = || {
        ["penstock_private_key_operations_under_way", "penstock_keyserver_operations_under_way"]
            .map(|name| server.metrics().sum(name, &[]))
    };
    let mut client = TcpStream::connect(server.https()).unwrap();
    client.write_all(&client_hello(&server, &options(NEW, "ECDSA+SHA256"))).unwrap();
    until("the operation", || (under_way() == [1.0, 1.0]).then_some(()));
    drop(client);
    server.counted("penstock_handshake_failures_total", &["reason=\"gone_before_signing\""], 1.0);
    until("its end", || (under_way() == [0.0, 0.0]).then_some(()));
    assert_eq!((results(&server, "abandoned"), results(&server, "timed_out")), (1.0, 0.0));
    assert_eq!(server.metrics().sum("penstock_keyserver_up", &[]), 1.0, "the keyserver is not to blame");
}

#[test]
fn the_doctor_has_each_keyserver_sign_once() {
    let server = plain().start();
    let keyserver = Keyserver::start(&server, "one");
    let away = penstock_testkit::unused_address();
    server.tolerate_warning("cannot be used");
    server.reload(&plain().tls(&certificates(&[keyserver.address(), away], ", deadline: 5s")));
    let doctor =
        Tool::penstock().args(["doctor", "--json", "-c"]).arg(server.directory().join("penstock.yaml"));
    let document: serde_json::Value = serde_json::from_slice(&doctor.run().ok().stdout).unwrap();
    let findings = document["findings"].as_array().unwrap().iter();
    let own: Vec<_> = findings.clone().filter(|finding| finding["name"] == "certificate").collect();
    let place = format!("its key on keyserver {} or {away}", keyserver.address());
    let of_keyservers = |finding: &&&serde_json::Value| finding["value"].as_str().unwrap().contains(&place);
    assert_eq!(own.iter().filter(of_keyservers).count(), 2, "{own:?}");
    assert!(own.iter().any(|finding| finding["what"] == "for keyservers"), "{own:?}");
    let signers: Vec<_> = findings.filter(|finding| finding["name"] == "private_key").collect();
    assert_eq!(signers.len(), 4, "{signers:?}");
    for signer in signers {
        let value = signer["value"].as_str().unwrap();
        if signer["what"] == format!("keyserver {}", keyserver.address()) {
            assert!(value.starts_with("signs in ") && value.contains("certificate ends in"), "{signer}");
        } else {
            assert_eq!(signer["what"], format!("keyserver {away}"));
            assert_eq!((value, &signer["verdict"]), ("there is no connection with it", &"problem".into()));
        }
    }
}

#[test]
fn a_wrong_signature_reaches_no_client_and_is_counted() {
    for script in [Script::Wrong, Script::Garbage] {
        let server = plain().start();
        let liar = Scripted::start(&server, script);
        let servers = [liar.address.address()];
        use_keyservers(&server, &servers, &certificates(&servers, ""));
        for (count, (version, signatures)) in KINDS.into_iter().take(4).enumerate() {
            let error = connect(&server, version, signatures).expect_err("the signature is wrong");
            assert!(error.contains("TLSV1_ALERT_INTERNAL_ERROR"), "{error}");
            assert_eq!(results(&server, "wrong_signature"), (count + 1) as f64);
        }
        // Another server that is honest makes up for it, and after five failures the liar gets no more.
        let honest = Keyserver::start(&server, "honest");
        let servers = [servers[0], honest.address()];
        use_keyservers(&server, &servers, &certificates(&servers, ""));
        server.expect_warning("failed repeatedly");
        for _ in 0..20 {
            connect(&server, NEW, "RSA-PSS+SHA256").unwrap();
        }
        assert!(liar.operations() < 20, "{} operations", liar.operations());
    }
}

#[test]
fn a_keyserver_that_fails_again_and_again_is_asked_less_and_another_signs() {
    const INTERNAL: u8 = 8;
    for script in [Script::Error(INTERNAL), Script::SilentAfter(1)] {
        let server = plain().start();
        let faulty = Scripted::start(&server, script);
        let honest = Keyserver::start(&server, "honest");
        let servers = [faulty.address.address(), honest.address()];
        use_keyservers(&server, &servers, &certificates(&servers, ", deadline: 2s"));
        server.tolerate_warning("stopped to answer");
        server.tolerate_warning("failed repeatedly");
        for _ in 0..30 {
            connect(&server, NEW, "ECDSA+SHA256").unwrap();
        }
        assert!(faulty.operations() < 30, "{script:?}: {} operations", faulty.operations());
        assert_eq!(server.metrics().sum("penstock_handshake_failures_total", &[]), 0.0);
    }
}

#[test]
fn an_unknown_key_is_an_error_of_that_key_only() {
    let server = plain().start();
    let keyserver = Keyserver::start(&server, "one");
    let servers = [keyserver.address()];
    std::fs::remove_file(keyserver.keys().join("rsa.key")).unwrap();
    keyserver.wait_for_log("1 private keys have changed");
    use_keyservers(&server, &servers, &certificates(&servers, ""));
    server.expect_warning("has no key");
    for _ in 0..20 {
        connect(&server, NEW, "RSA-PSS+SHA256").expect_err("the keyserver has not that key");
        connect(&server, NEW, "ECDSA+SHA256").unwrap();
    }
    assert_eq!((results(&server, "refused"), results(&server, "ok")), (20.0, 20.0));
    keyserver.counted("penstock_key_operations_total", &["result=\"key_not_found\""], 20.0);
    std::fs::copy(server.directory().join("rsa.key"), keyserver.keys().join("rsa.key")).unwrap();
    until("the key", || connect(&server, NEW, "RSA-PSS+SHA256").ok());
    server.logs("has no key", 1);
    server.logs("signs with the key", 1);
}
