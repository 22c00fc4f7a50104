//! A session belongs to the server name it began under.

use penstock_testkit::{Certificates, Finished, Server, Setup, Tool, until};

use super::{BODY, start};

/// Whether `openssl s_client` resumed what it offered; it is served either way.
fn connect(server: &Server, arguments: &[&str]) -> bool {
    let request = b"GET /a.mp4 HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    let tool = Tool::s_client(server).args(["-ign_eof", "-verify_quiet"]).args(arguments);
    let finished: Finished = tool.run_with_input(request).ok();
    let text = finished.text();
    assert!(text.contains(BODY), "{arguments:?}: {text}");
    text.contains("\nReused, ")
}

#[test]
fn a_session_of_one_name_does_not_resume_under_another() {
    let server = start(Setup::new().tls(&Certificates::yaml(&["ec", "rsa", "other"])));
    let session = server.directory().join("session.pem");
    let session = session.to_str().unwrap();
    for version in ["-tls1_2", "-tls1_3"] {
        let begin = || connect(&server, &[version, "-servername", "localhost", "-sess_out", session]);
        let again = |name: &[&str]| connect(&server, &[&[version, "-sess_in", session], name].concat());
        assert!(!begin());
        assert!(again(&["-servername", "LOCALHOST"]), "{version}: the same name");
        // TLS 1.3 has used the ticket up as far as clients care; for the server it is still good.
        assert!(!again(&["-servername", "video.example"]), "{version}: another name of the certificate");
        assert!(!again(&["-servername", "other.example"]), "{version}: a name of another certificate");
        assert!(!again(&["-noservername"]), "{version}: no name");
        assert!(again(&["-servername", "localhost"]), "{version}: it has not been spoilt");
    }
    let unsuitable = ["outcome=\"unsuitable\""];
    until("the tickets of other names to be counted", || {
        let count = server.metrics().sum("penstock_tls_tickets_offered_total", &unsuitable);
        (count == 6.0).then_some(())
    });
}

#[test]
fn a_machine_that_shares_the_keys_but_not_the_name_does_not_resume_for_it() {
    let (one, other) = (Setup::new(), Setup::new());
    let tickets = tempfile::tempdir().unwrap();
    let rotate = ["tickets", "rotate", tickets.path().to_str().unwrap()];
    Tool::penstock().args(rotate).run().ok();
    let tls = |name: &str| {
        format!("{}\ntickets: {{directory: {}}}", Certificates::yaml(&[name]), tickets.path().display())
    };
    let (one, other) = (start(one.tls(&tls("ec"))), start(other.tls(&tls("other"))));
    let session = one.directory().join("session.pem");
    let session = session.to_str().unwrap();
    for version in ["-tls1_2", "-tls1_3"] {
        assert!(!connect(&one, &[version, "-servername", "localhost", "-sess_out", session]));
        assert!(
            !connect(&other, &[version, "-servername", "other.example", "-sess_in", session]),
            "{version}"
        );
        // Otherwise an attacker who redirects a client to another machine of the fleet could pass off that machine's
        // responses as those of the right one: a resumed session shows no certificate.
        assert!(!connect(&other, &[version, "-servername", "localhost", "-sess_in", session]), "{version}");
        assert!(connect(&one, &[version, "-servername", "localhost", "-sess_in", session]), "{version}");
    }
}
