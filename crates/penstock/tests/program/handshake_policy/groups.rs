//! Key exchange groups: whose order decides, and when a client is asked again.

use boring::ssl::SslVersion;
use penstock_testkit::{Certificates, Client, Finished, Server, Setup, TlsOptions};

use super::fetch;

const RETRIES: &str = "penstock_hello_retry_requests_total";

fn with(lines: &str) -> Server {
    let server = Setup::new().tls(&format!("{}\n{lines}", Certificates::yaml(&["ec"]))).start();
    server.write("a.txt", "a\n");
    server
}

/// OpenSSL sends a key share of the first group it offers, and only that.
fn openssl(server: &Server, groups: &str) -> Finished {
    fetch(server, &["-tls1_3", "-groups", groups]).ok()
}

#[test]
fn a_key_share_that_will_do_is_taken_rather_than_asking_for_a_better_one() {
    let server = with("groups: [X25519, P-256]");
    for (offer, group) in
        [("P-256:X25519", "ECDH, prime256v1"), ("X25519:P-256", "X25519"), ("P-256", "ECDH, prime256v1")]
    {
        let text = openssl(&server, offer).text();
        assert!(text.contains(&format!("Server Temp Key: {group}")), "{offer}: {text}");
    }
    server.counted(RETRIES, &[], 0.0);
}

#[test]
fn a_client_without_a_usable_share_is_asked_for_the_best_group_it_knows() {
    let server = with("groups: [X25519, P-256]");
    let text = openssl(&server, "P-384:P-256:X25519").text();
    assert!(text.contains("Server Temp Key: X25519"), "{text}");
    server.counted(RETRIES, &[], 1.0);
}

#[test]
fn the_best_group_can_be_worth_a_round_trip() {
    let server = with("groups: [X25519, P-256]\nhello_retry: best");
    let text = openssl(&server, "P-256:X25519").text();
    assert!(text.contains("Server Temp Key: X25519"), "{text}");
    server.counted(RETRIES, &[], 1.0);
}

#[test]
fn p_384_is_spoken_where_it_is_listed() {
    // In TLS 1.2 a client that knows no P-256 takes no certificate with such a key either.
    let tls = format!("{}\ngroups: [X25519, P-384]", Certificates::yaml(&["rsa"]));
    let server = Setup::new().tls(&tls).start();
    server.write("a.txt", "a\n");
    for version in [SslVersion::TLS1_2, SslVersion::TLS1_3] {
        let options = TlsOptions { groups: Some("P-384"), ..TlsOptions::version(version) };
        let mut client = Client::tls_with(&server, &options);
        assert_eq!(client.stream.facts().curve_name(), Some("P-384"));
        assert_eq!(client.get("/a.txt").text(), "a\n");
    }
    server.counted(RETRIES, &[], 0.0);
}
