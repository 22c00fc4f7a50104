//! The fingerprint of clients in the access log.

use penstock_testkit::Setup;

use super::fetch;

#[test]
fn the_access_log_has_the_fingerprint_where_it_is_asked_for() {
    let server = Setup::new().access_log("ja4: true").start();
    server.write("index.html", "a\n");
    fetch(&server, &["-tls1_3", "-servername", "localhost"]).ok();
    let logged = server.logged("/");
    let fingerprint = logged["tls"]["ja4"].as_str().unwrap();
    // OpenSSL with its three suites of TLS 1.3 and the empty renegotiation one, a server name, no protocol.
    assert!(fingerprint.starts_with("t13d04") && fingerprint.len() == 36, "{fingerprint}");
    assert_eq!(&fingerprint[8..11], "00_", "{fingerprint}");

    let without = Setup::new().start();
    without.write("index.html", "a\n");
    fetch(&without, &["-tls1_3"]).ok();
    assert!(without.logged("/")["tls"].get("ja4").is_none());
}
