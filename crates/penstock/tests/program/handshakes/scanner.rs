//! Findings of testssl.sh, the scanner that operators run against their servers.
//!
//! Its checks are split so that they run side by side. Left out is only the simulation of clients, which finds nothing
//! but names what they would agree on.

use std::fs;
use std::time::Duration;

use penstock_testkit::{Certificates, Server, Setup, Tool, until};
use rcgen::KeyPair;
use rustix::process::Signal;
use serde_json::Value;

/// All checks together take 40 s of CPU time.
const TIME_LIMIT: Duration = Duration::from_secs(600);

/// A server as an operator would set it up, with certificates as an authority would issue them.
fn server() -> Server {
    let sites = "- {origin: {directory: root}, headers: {hsts: 180d, cors: \"*\"}}";
    let server = Setup::new().sites(sites).start();
    let public = server.certificates();
    public.public_leaf("public-ec", &["localhost", "127.0.0.1"], &KeyPair::generate().unwrap());
    let rsa = fs::read_to_string(public.path("rsa.key")).unwrap();
    public.public_leaf("public-rsa", &["localhost", "127.0.0.1"], &KeyPair::from_pem(&rsa).unwrap());
    server.configure(&Setup::new().sites(sites).tls(&Certificates::yaml(&["public-ec", "public-rsa"])));
    server.signal(Signal::HUP);
    until("the reload", || {
        (server.metrics().sum("penstock_reloads_total", &["outcome=\"applied\""]) == 1.0).then_some(())
    });
    server
}

/// Runs some of the checks and gives their findings: what was looked at, how bad it is, and in words.
fn findings(server: &Server, checks: &[&str]) -> Vec<(String, String, String)> {
    let file = server.directory().join("findings.json");
    let scanner = Tool::new("testssl").time_limit(TIME_LIMIT).directory(server.directory()).args(checks);
    // No DNS, no calls to other hosts, and no hurry on a busy machine.
    let scanner = scanner.args(["--nodns", "none", "--ip", "127.0.0.1", "--warnings", "off", "--color", "0"]);
    let scanner = scanner.args(["--connect-timeout", "60", "--openssl-timeout", "60", "--add-ca"]);
    let scanner = scanner.arg(server.certificates().authority()).arg("--jsonfile").arg(&file);
    let said = scanner.arg(server.url("/")).run().text();
    let found: Value = serde_json::from_str(&fs::read_to_string(&file).unwrap()).unwrap();
    let text = |finding: &Value, key: &str| finding[key].as_str().unwrap().to_owned();
    let found: Vec<_> = found.as_array().unwrap().iter().collect();
    let found = found.iter().map(|one| (text(one, "id"), text(one, "severity"), text(one, "finding")));
    let found: Vec<_> = found.collect();
    assert!(found.iter().any(|(id, ..)| id == "scanTime"), "it did not come to its end:\n{said}");
    let bad = |severity: &str| ["MEDIUM", "HIGH", "CRITICAL", "FATAL"].contains(&severity);
    let bad: Vec<_> = found.iter().filter(|(_, severity, _)| bad(severity)).collect();
    assert!(bad.is_empty(), "{bad:?}\n{said}");
    found
}

/// Fails unless this was looked at and found so.
#[track_caller]
fn assert_found(found: &[(String, String, String)], id: &str, severity: &str, words: &str) {
    let one = found.iter().find(|(looked_at, ..)| looked_at == id);
    let (_, as_bad, said) = one.unwrap_or_else(|| panic!("nothing was said of {id}: {found:?}"));
    assert!(as_bad == severity && said.contains(words), "{id}: {as_bad} {said}");
}

#[test]
fn testssl_finds_nothing_in_protocols_and_ciphers() {
    let server = server();
    let found = findings(&server, &["--protocols", "--standard", "--fs", "--server-preference"]);
    for old in ["SSLv2", "SSLv3", "TLS1", "TLS1_1"] {
        assert_found(&found, old, if old.starts_with("SSL") { "OK" } else { "INFO" }, "not offered");
    }
    assert_found(&found, "TLS1_3", "OK", "offered");
    assert_found(&found, "cipher_order", "OK", "server");
}

#[test]
fn testssl_finds_nothing_in_certificates_and_fields() {
    let server = server();
    let found = findings(&server, &["--server-defaults", "--headers"]);
    for certificate in ["<cert#1>", "<cert#2>"] {
        assert_found(&found, &format!("cert_chain_of_trust {certificate}"), "OK", "passed.");
        assert_found(&found, &format!("cert_trust {certificate}"), "OK", "Ok via SAN");
    }
    assert_found(&found, "HSTS_time", "OK", "180 days");
}

#[test]
fn testssl_finds_no_vulnerability_and_no_bug() {
    let server = server();
    let found = findings(&server, &["--vulnerable", "--grease"]);
    assert_found(&found, "heartbleed", "OK", "not vulnerable");
    assert_found(&found, "secure_client_renego", "OK", "not vulnerable");
    assert_found(&found, "GREASE", "OK", "No bugs found");
}
