//! What a keyserver allows, and to whom.

use std::fs;
use std::time::Duration;

use penstock_testkit::{Keyserver, Server, Tool, until};
use rcgen::KeyPair;
use rustix::process::Signal;

use super::{NEW, OLD, certificates, connect, plain, results, use_keyservers, with_fallback};

fn start(yaml: &str) -> (Server, Keyserver) {
    let server = plain().start();
    let keyserver = Keyserver::with(&server, "one", yaml);
    (server, keyserver)
}

#[test]
fn a_client_signs_with_the_keys_of_its_list_until_a_reload_changes_it() {
    let (server, keyserver) = start("clients: [{name: other, keys: [ec]}]");
    let servers = [keyserver.address()];
    use_keyservers(&server, &servers, &certificates(&servers, ""));
    server.expect_warning("has no key");
    connect(&server, NEW, "ECDSA+SHA256").unwrap();
    connect(&server, NEW, "RSA-PSS+SHA256").expect_err("the list has no rsa");
    assert_eq!(results(&server, "refused"), 1.0);
    keyserver.configure("clients: [{name: other, keys: [rsa]}]");
    keyserver.signal(Signal::HUP);
    keyserver.wait_for_log("reloaded");
    connect(&server, NEW, "RSA-PSS+SHA256").unwrap();
    connect(&server, NEW, "ECDSA+SHA256").expect_err("the list has no ec any more");
    assert_eq!(server.metrics().sum("penstock_keyserver_connections_total", &[]), 1.0, "it is the same");
    keyserver.configure("clients: [{name: other}]");
    keyserver.signal(Signal::HUP);
    keyserver.wait_for_log("kept the running configuration");
    connect(&server, NEW, "RSA-PSS+SHA256").unwrap();
}

#[test]
fn a_client_whose_certificate_was_revoked_signs_no_more_on_its_open_connection() {
    const WEEK: Duration = Duration::from_secs(7 * 24 * 3600);
    let server = plain().start();
    server.certificates().revoke("revoked.pem", &[], WEEK);
    let keyserver =
        Keyserver::with(&server, "one", "crl: ../revoked.pem\nclients: [{name: other, keys: [ec]}]");
    let servers = [keyserver.address()];
    use_keyservers(&server, &servers, &certificates(&servers, ""));
    connect(&server, NEW, "ECDSA+SHA256").unwrap();
    keyserver.signal(Signal::HUP);
    keyserver.wait_for_log("reloaded");
    connect(&server, NEW, "ECDSA+SHA256").unwrap();
    assert_eq!(
        server.metrics().sum("penstock_keyserver_connections_total", &[]),
        1.0,
        "the rules are the same"
    );
    server.certificates().revoke("revoked.pem", &["other"], WEEK);
    keyserver.signal(Signal::HUP);
    server.tolerate_warning("keyserver");
    until("the refusal", || connect(&server, NEW, "ECDSA+SHA256").is_err().then_some(()));
    connect(&server, NEW, "ECDSA+SHA256").expect_err("its certificate is revoked");
}

#[test]
fn counters_of_keyservers_do_not_fall_when_a_reload_changes_their_group() {
    let (server, keyserver) = start("clients: [{name: other, keys: [ec]}]");
    let (servers, away) = ([keyserver.address()], [penstock_testkit::unused_address()]);
    let counts = || {
        let fallbacks = server.metrics().sum("penstock_private_key_fallbacks_total", &[]);
        (results(&server, "ok"), results(&server, "refused"), fallbacks)
    };
    server.expect_warning("local keys sign instead");
    server.expect_warning("has no key");
    for rounds in 1..=3 {
        let group = format!(", deadline: {rounds}s");
        use_keyservers(&server, &servers, &with_fallback(&servers, &group));
        connect(&server, NEW, "ECDSA+SHA256").unwrap();
        connect(&server, NEW, "RSA-PSS+SHA256").unwrap();
        assert_eq!(counts(), (f64::from(rounds), f64::from(rounds), f64::from(rounds)));
        // A reload that changes nothing, or another key, counts nothing twice.
        use_keyservers(
            &server,
            &servers,
            &(with_fallback(&servers, &group) + "- {chain: wild.crt, key: wild.key}\n"),
        );
        assert_eq!(counts(), (f64::from(rounds), f64::from(rounds), f64::from(rounds)));
    }
    // A name that is gone takes its counts with it, and brings them back.
    server.expect_warning("cannot be used");
    server.reload(&plain().tls(&with_fallback(&away, "")));
    assert_eq!(counts(), (0.0, 0.0, 3.0));
    server.reload(&plain());
    assert_eq!(counts(), (0.0, 0.0, 0.0), "no certificate has its key elsewhere");
    use_keyservers(&server, &servers, &with_fallback(&servers, ""));
    assert_eq!(counts(), (3.0, 3.0, 3.0));
}

#[test]
fn clients_without_an_entry_or_a_certificate_of_the_authorities_get_no_answer() {
    let (server, keyserver) = start("clients: [{name: edge9.example, keys: [\"*\"]}]");
    server.expect_warning("cannot be used");
    server.reload(&plain().tls(&certificates(&[keyserver.address()], "")));
    keyserver.counted("penstock_key_unknown_clients_total", &[], 1.0);
    connect(&server, NEW, "ECDSA+SHA256").expect_err("it is no client");
    let other = Tool::new("openssl")
        .args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"])
        .args(["-subj", "/CN=edge9.example", "-days", "1", "-keyout", "self.key", "-out", "self.crt"]);
    other.directory(server.directory()).run().ok();
    for arguments in [&[][..], &["-cert", "self.crt", "-key", "self.key"]] {
        let before = keyserver.metrics().sum("penstock_key_handshake_failures_total", &[]);
        let client = Tool::new("openssl").args(["s_client", "-connect", &keyserver.address().to_string()]);
        client.args(arguments).directory(server.directory()).run();
        keyserver.counted("penstock_key_handshake_failures_total", &[], before + 1.0);
    }
    assert_eq!(keyserver.metrics().sum("penstock_key_operations_total", &["result=\"ok\""]), 0.0);
}

#[test]
fn a_rate_refuses_what_is_above_it() {
    let (server, keyserver) = start("clients: [{name: other, keys: [\"*\"], rate: 3}]");
    let servers = [keyserver.address()];
    use_keyservers(&server, &servers, &certificates(&servers, ""));
    let signed = (0..30).filter(|_| connect(&server, NEW, "ECDSA+SHA256").is_ok()).count();
    assert!((3..30).contains(&signed), "{signed}");
    keyserver.counted("penstock_key_operations_total", &["result=\"rate_limited\""], 1.0);
    server.tolerate_warning("failed repeatedly");
}

#[test]
fn old_hashes_are_signed_only_where_that_is_configured() {
    let (server, keyserver) = start("clients: [{name: other, keys: [\"*\"]}]");
    let servers = [keyserver.address()];
    let tls = certificates(&servers, "") + "versions: [\"1.0\", \"1.1\", \"1.2\", \"1.3\"]\n";
    server.tolerate_warning("versions");
    use_keyservers(&server, &servers, &tls);
    let old = || {
        let client = Tool::s_client(&server).args(["-tls1_1", "-cipher", "ECDHE-RSA-AES128-SHA:@SECLEVEL=0"]);
        client.run().code == 0
    };
    server.expect_warning("refuses to sign with the key");
    assert!(!old(), "SHA-1 and MD5");
    assert_eq!(results(&server, "refused"), 1.0);
    keyserver.configure("clients: [{name: other, keys: [\"*\"]}]\nlegacy_hashes: true");
    keyserver.signal(Signal::HUP);
    keyserver.wait_for_log("reloaded");
    assert!(old());
    connect(&server, OLD, "RSA+SHA256").unwrap();
}

#[test]
fn a_drain_answers_what_is_under_way_and_closes_idle_connections() {
    let (server, mut keyserver) = start("clients: [{name: other, keys: [\"*\"]}]");
    let servers = [keyserver.address()];
    use_keyservers(&server, &servers, &certificates(&servers, ""));
    connect(&server, NEW, "ECDSA+SHA256").unwrap();
    server.expect_warning("cannot be used");
    assert!(keyserver.stop().is_some_and(|status| status.success()), "{:?}", keyserver.log());
    server.wait_for_log("it has closed the connection");
    let ok = keyserver.access_log().into_iter().filter(|line| line["result"] == "ok").count();
    assert_eq!(ok, 1, "the log is whole");
}

#[test]
fn a_key_that_is_renewed_serves_the_certificate_that_is_renewed() {
    let (server, keyserver) = start("clients: [{name: other, keys: [\"*\"]}]");
    let servers = [keyserver.address()];
    use_keyservers(&server, &servers, &certificates(&servers, ""));
    connect(&server, NEW, "ECDSA+SHA256").unwrap();
    // The new key comes first, under another name, so that each certificate has its key at all times.
    let key = KeyPair::generate().unwrap();
    fs::write(keyserver.keys().join("ec-new.key"), key.serialize_pem()).unwrap();
    keyserver.wait_for_log("3 in all");
    let before = results(&server, "ok");
    server.certificates().leaf("ec", &["localhost"], &key);
    server.wait_for_log("ec.crt has changed");
    connect(&server, NEW, "ECDSA+SHA256").unwrap();
    assert_eq!(results(&server, "ok"), before + 1.0);
    until("a signature by the new key", || {
        keyserver.access_log().into_iter().find(|line| line["key_name"] == "ec-new")
    });
}

#[test]
fn the_file_of_a_keyserver_is_checked_line_by_line() {
    let server = plain().start();
    let file = server.directory().join("wrong.yaml");
    fs::write(
        &file,
        "address: 127.0.0.1:2407\nchain: ec.crt\nkey: ec.key\nca: authority.crt\nkeyz: []\nclients: []\n",
    )
    .unwrap();
    let check = || Tool::penstock().args(["keyserver", "--check", "-c"]).arg(&file).run();
    let wrong = check().exits_with(2);
    for fault in
        ["wrong.yaml:5", "unknown key `keyz`", "write `key`", "no client may sign", "there are no keys"]
    {
        assert!(wrong.stderr.contains(fault), "{fault}: {}", wrong.stderr);
    }
    fs::write(
        &file,
        "address: 127.0.0.1:2407\nchain: ec.crt\nkey: ec.key\nca: authority.crt\nkeys: [{directory: .}]\nclients: [{name: a, keys: [\"*\"]}]\n",
    )
    .unwrap();
    check().ok();
}
