//! Sessions of TLS 1.2 that the server keeps, for clients without tickets.

use penstock_testkit::{Certificates, Server, Setup, Tool, until};
use rustix::process::Signal;

use super::{BODY, start};

#[test]
fn curl_resumes_what_the_server_keeps() {
    let server = start(Setup::new());
    let curl = Tool::curl(&server).args(["--tls-max", "1.2", "-H", "Connection: close"]);
    let curl = curl.args([server.url("/a.mp4"), server.url("/a.mp4"), server.url("/a.mp4")]).run().ok();
    assert_eq!(curl.text(), BODY.repeat(3));
    let metrics = server.metrics();
    let count = |resumed| metrics.sum("penstock_handshakes_total", &["version=\"TLSv1.2\"", resumed]);
    assert_eq!((count("resumed=\"false\""), count("resumed=\"true\"")), (1.0, 2.0));
    assert_eq!(lookups(&server, "hit"), 2.0);
    assert_eq!(metrics.sum("penstock_session_cache_sessions", &[]), 1.0);
    let bytes = metrics.sum("penstock_session_cache_bytes", &[]);
    assert!((150.0..300.0).contains(&bytes), "{bytes}");
}

#[test]
fn a_session_outlives_a_reload() {
    let server = start(Setup::new());
    let session = Session::of(&server);
    assert_eq!(session.fetch(&server, &["-sess_out"], "localhost"), "New");
    assert_eq!(session.fetch(&server, &["-sess_in"], "localhost"), "Reused");
    server.signal(Signal::HUP);
    until("the reload", || {
        let reloads = server.metrics().sum("penstock_reloads_total", &["outcome=\"applied\""]);
        (reloads > 0.0).then_some(())
    });
    assert_eq!(session.fetch(&server, &["-sess_in"], "localhost"), "Reused");
}

#[test]
fn each_certificate_resumes_under_its_own_name_only() {
    let server = start(Setup::new().tls(&Certificates::yaml(&["ec", "other"])));
    for (name, another) in [("localhost", "other.example"), ("other.example", "localhost")] {
        let session = Session::of(&server);
        assert_eq!(session.fetch(&server, &["-sess_out"], name), "New");
        assert_eq!(session.fetch(&server, &["-sess_in"], name), "Reused");
        assert_eq!(session.fetch(&server, &["-sess_in"], another), "New", "{name} as {another}");
    }
    assert_eq!((lookups(&server, "hit"), lookups(&server, "miss")), (2.0, 2.0));
}

#[test]
fn clients_with_tickets_take_no_room() {
    let server = start(Setup::new());
    let file = server.directory().join("ticket.pem");
    let file = file.to_str().unwrap();
    for (option, state) in [("-sess_out", "New"), ("-sess_in", "Reused")] {
        let request = b"GET /a.mp4 HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
        let text =
            Tool::s_client(&server).args(["-ign_eof", "-tls1_2", option, file]).run_with_input(request).ok();
        assert!(text.text().contains(&format!("\n{state}, TLSv1.2")), "{}", text.text());
    }
    assert_eq!(server.metrics().sum("penstock_session_cache_stored_total", &[]), 0.0);
    assert_eq!(lookups(&server, "hit") + lookups(&server, "miss"), 0.0);
}

#[test]
fn without_a_cache_every_handshake_is_a_full_one() {
    let tls = format!("{}\nsession_cache: none", Certificates::yaml(&["ec"]));
    let server = start(Setup::new().tls(&tls));
    let session = Session::of(&server);
    // A server that keeps nothing gives no identifier, and so the client has nothing to offer.
    assert_eq!(session.fetch(&server, &["-sess_out"], "localhost"), "New");
    assert_eq!(session.fetch(&server, &[], "localhost"), "New");
    assert_eq!(server.metrics().sum("penstock_session_cache_stored_total", &[]), 0.0);
}

#[test]
fn a_session_of_another_server_gets_a_full_handshake() {
    let (server, other) = (start(Setup::new()), start(Setup::new()));
    let session = Session::of(&server);
    assert_eq!(session.fetch(&other, &["-sess_out"], "localhost"), "New");
    assert_eq!(session.fetch(&server, &["-sess_in"], "localhost"), "New");
    assert_eq!(lookups(&server, "miss"), 1.0);
}

/// Where `openssl s_client` keeps a session.
struct Session(String);

impl Session {
    fn of(server: &Server) -> Self {
        Self(server.directory().join("session.pem").to_str().unwrap().to_owned())
    }

    /// Fetches the file over TLS 1.2 without tickets; says whether the session was `New` or `Reused`.
    fn fetch(&self, server: &Server, options: &[&str], name: &str) -> String {
        let client = Tool::s_client(server).args(["-ign_eof", "-tls1_2", "-no_ticket", "-servername", name]);
        let client = options.iter().fold(client, |client, option| client.args([*option, &self.0]));
        let request = b"GET /a.mp4 HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
        let text = client.run_with_input(request).ok().text();
        assert!(text.contains(BODY), "{text}");
        let state = text.lines().find_map(|line| line.split_once(", TLSv1.2, Cipher is "));
        state.unwrap_or_else(|| panic!("{text}")).0.to_owned()
    }
}

fn lookups(server: &Server, outcome: &str) -> f64 {
    let outcome = format!("outcome=\"{outcome}\"");
    server.metrics().sum("penstock_session_cache_lookups_total", &[&outcome])
}
