//! Private keys in tokens of SoftHSM.

use std::fs;
use std::net::TcpStream;

use penstock_testkit::{Client, Keyserver, Server, SoftToken, TlsOptions, Tool, until};

use super::{KINDS, NEW, certificates, connect, plain, use_keyservers};

/// A server, and a token beside its configuration with the keys of `ec` and `rsa`.
fn start() -> (Server, SoftToken) {
    let server = plain().start();
    let token = SoftToken::make(server.directory());
    for name in ["ec", "rsa"] {
        token.import(name, &server.certificates().path(&format!("{name}.key")));
    }
    (server, token)
}

/// A certificate whose key is in the token, as an entry of `certificates`.
fn entry(chain: &str, object: &str, more: &str) -> String {
    format!("- chain: {chain}.crt\n  key: {{pkcs11: \"{}\"{more}}}\n", SoftToken::uri(object))
}

fn tls(more: &str) -> String {
    format!("certificates:\n{}{}", entry("ec", "ec", more), entry("rsa", "rsa", more))
}

fn results(server: &Server, result: &str) -> f64 {
    server
        .metrics()
        .sum("penstock_hsm_operations_total", &["token=\"edge\"", &format!("result=\"{result}\"")])
}

fn wait_until_up(server: &Server) {
    until("the token to be up", || (server.metrics().sum("penstock_hsm_up", &[]) == 1.0).then_some(()));
}

#[test]
fn a_token_signs_for_each_kind_of_key_in_each_version() {
    let (server, _token) = start();
    // The key of another certificate is in the token under the name that this one asks for.
    server.reload(&plain().tls(&(tls("") + &entry("wild", "ec", ""))));
    wait_until_up(&server);
    for (version, signatures) in KINDS {
        connect(&server, version, signatures)
            .unwrap_or_else(|error| panic!("{version:?} {signatures}: {error}"));
    }
    assert_eq!(results(&server, "ok"), KINDS.len() as f64);
    let options = TlsOptions { name: Some("a.wild.example"), ..TlsOptions::default() };
    let error =
        options.handshake(&server, TcpStream::connect(server.https()).unwrap()).map(drop).unwrap_err();
    assert!(error.contains("TLSV1_ALERT_INTERNAL_ERROR"), "{error}");
    assert_eq!(results(&server, "wrong_signature"), 1.0);
    let answer =
        Client::connect(server.admin()).request("GET /status.json HTTP/1.1\r\nHost: localhost\r\n\r\n");
    let status: serde_json::Value = serde_json::from_slice(&answer.body).unwrap();
    let token = &status["private_keys"]["tokens"][0];
    assert_eq!((&token["name"], &token["up"]), (&"edge".into(), &true.into()), "{token}");
    // The sessions outlive a reload.
    let sessions = server.metrics().sum("penstock_hsm_sessions_total", &[]);
    server.reload(&plain().tls(&tls("")));
    connect(&server, NEW, "ECDSA+SHA256").unwrap();
    assert_eq!(server.metrics().sum("penstock_hsm_sessions_total", &[]), sessions);
}

#[test]
fn without_the_token_or_its_pin_handshakes_fail_at_once_and_come_back_with_it() {
    let server = plain().start();
    server.expect_warning("token `edge` cannot be used");
    fs::create_dir(server.directory().join("tokens")).unwrap();
    let conf = format!("directories.tokendir = {}\n", server.directory().join("tokens").display());
    fs::write(server.directory().join("softhsm2.conf"), conf).unwrap();
    fs::write(server.directory().join("pin"), "9999\n").unwrap();
    server.reload(&plain().tls(&tls("")));
    server.wait_for_log("there is no such token");
    for (version, signatures) in KINDS {
        let error = connect(&server, version, signatures).expect_err("no key signs");
        assert!(error.contains("TLSV1_ALERT_INTERNAL_ERROR"), "{error}");
    }
    fs::remove_dir(server.directory().join("tokens")).unwrap();
    // The file `pin` has the wrong one all the time: the server looks for the token again meanwhile.
    let token = SoftToken::make_without_pin(server.directory());
    token.import("ec", &server.certificates().path("ec.key"));
    server.expect_warning("private key `rsa`: it has no such private key");
    connect(&server, NEW, "ECDSA+SHA256").expect_err("the PIN is wrong");
    fs::write(server.directory().join("pin"), "1234\n").unwrap();
    server.wait_for_log("token `edge` can be used again");
    until("all sessions of the token", || connect(&server, NEW, "ECDSA+SHA256").ok());
    connect(&server, NEW, "RSA-PSS+SHA256").expect_err("it is not in the token");
    token.import("rsa", &server.certificates().path("rsa.key"));
    until("the other key", || connect(&server, NEW, "RSA-PSS+SHA256").ok());
}

#[test]
fn a_local_copy_signs_while_the_token_is_away() {
    let server = plain().start();
    for warning in ["token `edge` cannot be used", "local keys sign instead of token `edge`"] {
        server.expect_warning(warning);
    }
    fs::write(server.directory().join("pin"), "1234").unwrap();
    let copy = |name: &str| {
        tls("")
            .replace(&format!("- chain: {name}.crt"), &format!("- fallback: {name}.key\n  chain: {name}.crt"))
    };
    server.reload(&plain().tls(&copy("ec")));
    server.wait_for_log("cannot be used");
    for _ in 0..10 {
        connect(&server, NEW, "ECDSA+SHA256").unwrap();
    }
    connect(&server, NEW, "RSA-PSS+SHA256").expect_err("it has no copy");
    assert_eq!(server.metrics().sum("penstock_private_key_fallbacks_total", &[]), 10.0);
}

#[test]
fn a_keyserver_signs_with_keys_of_a_token_and_of_a_directory() {
    let server = plain().start();
    let directory = server.directory().join("one");
    fs::create_dir(&directory).unwrap();
    let token = SoftToken::make(&directory);
    token.import("video", &server.certificates().path("ec.key"));
    let uri = SoftToken::uri("video");
    let keyserver = Keyserver::with(
        &server,
        "one",
        &format!(
            "keys: [{{directory: keys}}, {{pkcs11: \"{uri}\"}}]\nclients: [{{name: other, keys: [video, rsa]}}]"
        ),
    );
    // The key of `ec` is in the token only.
    fs::remove_file(keyserver.keys().join("ec.key")).unwrap();
    keyserver.wait_for_log("2 in all");
    let servers = [keyserver.address()];
    use_keyservers(&server, &servers, &certificates(&servers, ""));
    for (version, signatures) in KINDS {
        connect(&server, version, signatures)
            .unwrap_or_else(|error| panic!("{version:?} {signatures}: {error}"));
    }
    until("the log of the token's key", || {
        let lines = keyserver.access_log();
        lines.into_iter().find(|line| line["key_name"] == "video" && line["result"] == "ok")
    });
    assert_eq!(keyserver.metrics().sum("penstock_hsm_up", &["token=\"edge\""]), 1.0);
    assert_eq!(keyserver.metrics().sum("penstock_hsm_operations_total", &["result=\"ok\""]), 2.0);
    let status: serde_json::Value = serde_json::from_str(&keyserver.ask_admin("/status.json")).unwrap();
    assert_eq!((&status["keys"], &status["tokens"][0]["up"]), (&2.into(), &true.into()));
}

#[test]
fn a_token_signs_with_ed25519_for_an_edge_and_for_a_keyserver() {
    let (server, token) = start();
    let certificate = Tool::new("openssl")
        .args(["req", "-x509", "-newkey", "ed25519", "-nodes", "-days", "30", "-subj", "/CN=ed.example"])
        .args(["-addext", "subjectAltName=DNS:ed.example", "-keyout", "ed.key", "-out", "ed.crt"]);
    certificate.directory(server.directory()).run().ok();
    token.import("ed", &server.directory().join("ed.key"));
    let handshake = || {
        let client = Tool::new("openssl").args(["s_client", "-connect", &server.https().to_string()]);
        let client = client.args(["-servername", "ed.example", "-sigalgs", "ed25519", "-tls1_3"]);
        client.args(["-verify_return_error", "-CAfile", "ed.crt"]).directory(server.directory()).run().ok();
    };
    server.reload(&plain().tls(&(tls("") + &entry("ed", "ed", ""))));
    wait_until_up(&server);
    handshake();
    assert_eq!(results(&server, "ok"), 1.0);
    let directory = server.directory().join("one");
    fs::create_dir(&directory).unwrap();
    SoftToken::make(&directory).import("ed", &server.directory().join("ed.key"));
    let uri = SoftToken::uri("ed");
    let yaml = format!("keys: [{{pkcs11: \"{uri}\"}}]\nclients: [{{name: other, keys: [ed]}}]");
    let keyserver = Keyserver::with(&server, "one", &yaml);
    let servers = [keyserver.address()];
    use_keyservers(&server, &servers, &certificates(&servers, "").replace("ec.crt", "ed.crt"));
    handshake();
    assert_eq!(keyserver.metrics().sum("penstock_hsm_operations_total", &["result=\"ok\""]), 1.0);
}

#[test]
fn a_key_that_wants_a_login_before_each_signature_is_refused_with_the_reason() {
    let (server, token) = start();
    token.want_logins();
    server.expect_warning("CKA_ALWAYS_AUTHENTICATE");
    server.reload(&plain().tls(&tls("")));
    wait_until_up(&server);
    connect(&server, NEW, "ECDSA+SHA256").unwrap_err();
    assert_eq!((results(&server, "refused"), results(&server, "ok")), (1.0, 0.0));
}
