//! Cipher suites: the configured order, and the switch of ChaCha20.

use boring::ssl::SslVersion;
use penstock_testkit::{Certificates, Client, Server, Setup, TlsOptions};
use rustix::process::Signal;

const AES_128: u16 = 0x1301;
const AES_256: u16 = 0x1302;
const CHACHA20: u16 = 0x1303;

fn with(ciphers: &str) -> Setup {
    Setup::new().tls(&format!("{}\nciphers: {ciphers}", Certificates::yaml(&["ec", "rsa"])))
}

/// The suite that a TLS 1.3 client with this offer gets; also shows that it carries a response.
fn suite(server: &Server, offer: &'static [u16]) -> String {
    let options = TlsOptions { suites: offer, ..TlsOptions::version(SslVersion::TLS1_3) };
    agreed(server, &options)
}

fn agreed(server: &Server, options: &TlsOptions) -> String {
    server.write("a.txt", "a\n");
    let mut client = Client::tls_with(server, options);
    assert_eq!(client.get("/a.txt").text(), "a\n");
    client.stream.facts().current_cipher().unwrap().standard_name().unwrap().to_owned()
}

/// The response of the admin listener: status and body.
fn ask(server: &Server, method: &str, target: &str) -> (u16, String) {
    let mut client = Client::connect(server.admin());
    client.send(format!("{method} {target} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n"));
    let response = client.response().unwrap();
    (response.status, response.text().to_owned())
}

#[test]
fn the_listed_order_decides_and_what_is_not_listed_is_not_spoken() {
    let server = with(
        "\n  tls13: [TLS_AES_256_GCM_SHA384, TLS_AES_128_GCM_SHA256]\
         \n  tls12: [ECDHE-RSA-AES128-GCM-SHA256, TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384]",
    )
    .start();
    assert_eq!(suite(&server, &[AES_128, AES_256]), "TLS_AES_256_GCM_SHA384");
    assert_eq!(suite(&server, &[CHACHA20, AES_128]), "TLS_AES_128_GCM_SHA256");
    let old = |ciphers| TlsOptions { ciphers: Some(ciphers), ..TlsOptions::version(SslVersion::TLS1_2) };
    // The certificate follows the suites: ECDSA would have no suite with AES-128.
    for (offer, wanted) in [
        (
            "ECDHE-ECDSA-AES128-GCM-SHA256:ECDHE-RSA-AES128-GCM-SHA256",
            "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
        ),
        (
            "ECDHE-RSA-AES256-GCM-SHA384:ECDHE-ECDSA-AES256-GCM-SHA384",
            "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",
        ),
    ] {
        assert_eq!(agreed(&server, &old(offer)), wanted, "{offer}");
    }
    let refused = TlsOptions { suites: &[CHACHA20], ..TlsOptions::version(SslVersion::TLS1_3) };
    assert!(refused.handshake(&server, Client::connect(server.https()).stream).is_err());
    server.counted("penstock_handshake_failures_total", &["reason=\"no_shared_cipher\""], 1.0);
}

#[test]
fn the_admin_listener_turns_chacha20_off_and_on_for_new_connections() {
    const LAST: &str = "penstock_chacha20_last_choice";
    let server = with("{chacha20: auto}").start();
    assert_eq!(suite(&server, &[CHACHA20, AES_128]), "TLS_CHACHA20_POLY1305_SHA256");
    let options = TlsOptions { suites: &[CHACHA20, AES_128], ..TlsOptions::version(SslVersion::TLS1_3) };
    let mut old = Client::tls_with(&server, &options);

    let (status, shown) = ask(&server, "POST", "/ciphers/chacha20?mode=never");
    assert_eq!(status, 200, "{shown}");
    assert!(shown.contains("\"mode\": \"never\"") && shown.contains("\"last_choice\": true"), "{shown}");
    assert_eq!(suite(&server, &[CHACHA20, AES_128]), "TLS_AES_128_GCM_SHA256");
    // No client is turned away, and connections stay.
    assert_eq!(suite(&server, &[CHACHA20]), "TLS_CHACHA20_POLY1305_SHA256");
    assert_eq!(old.get("/a.txt").text(), "a\n");
    server.counted(LAST, &[], 1.0);
    server.counted("penstock_chacha20_mode", &["mode=\"never\"", "set_by=\"admin\""], 1.0);

    assert_eq!(ask(&server, "POST", "/ciphers/chacha20?mode=off").0, 400);
    assert_eq!(ask(&server, "POST", "/ciphers/chacha20?mode=client").0, 200);
    assert_eq!(suite(&server, &[CHACHA20, AES_128]), "TLS_CHACHA20_POLY1305_SHA256");
    server.counted(LAST, &[], 0.0);
    server.counted("penstock_chacha20_switches_total", &["cause=\"admin\""], 2.0);
}

#[test]
fn a_reload_ends_what_was_ordered() {
    let server = with("{chacha20: never}").start();
    assert_eq!(suite(&server, &[CHACHA20, AES_256]), "TLS_AES_256_GCM_SHA384");
    assert_eq!(ask(&server, "POST", "/ciphers/chacha20?mode=client").0, 200);
    assert_eq!(suite(&server, &[CHACHA20, AES_256]), "TLS_CHACHA20_POLY1305_SHA256");
    server.signal(Signal::HUP);
    server.wait_for_log("reloaded");
    let (_, shown) = ask(&server, "GET", "/ciphers/chacha20");
    assert!(shown.contains("\"set_by\": \"configuration\""), "{shown}");
    assert_eq!(suite(&server, &[CHACHA20, AES_256]), "TLS_AES_256_GCM_SHA384");
}
