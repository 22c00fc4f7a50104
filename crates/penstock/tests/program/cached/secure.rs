//! Origins over TLS: verified, named, resumed.

use penstock_testkit::{Certificates, Client, Server, Setup};

use super::Edge;

/// A server in front of this one, by HTTPS. `more` are further keys of the origin.
fn before(origin: &Server, more: &str) -> Edge {
    let address = origin.https();
    Edge::before(&format!("- origin: {{http: [\"https://{address}\"]{more}}}"))
}

fn ca(server: &Server) -> String {
    format!(", ca: {}", server.certificates().authority().display())
}

/// It is 502, says why, and nothing is kept.
fn is_refused(edge: &Edge, reason: &str) {
    let mut client = Client::plain(&edge.server);
    for _ in 0..2 {
        let response = client.get("/film.mp4");
        assert_eq!(response.status, 502, "{}", response.head);
        let said = response.field("Cache-Status").unwrap();
        assert!(said.contains(&format!("detail={reason}")), "{said}");
        assert!(!said.contains("stored"), "{said}");
    }
    assert_eq!(edge.fetched(reason), 2.0);
    let metrics = edge.server.metrics();
    assert_eq!(metrics.sum("penstock_cache_slices", &[]), 0.0);
}

#[test]
fn an_https_origin_is_verified_and_its_sessions_are_resumed() {
    // One request for each connection, so that there is something to resume.
    let origin = Setup::new().limits("requests_per_connection: 1").start();
    let video = origin.file("film.mp4", 500_000);
    let edge = before(&origin, &ca(&origin));
    video.assert_range(0..500_000, &Client::tls(&edge.server).get("/film.mp4").body);
    let metrics = origin.metrics();
    assert!(metrics.sum("penstock_handshakes_total", &["resumed=\"true\""]) >= 1.0);
    assert_eq!(metrics.sum("penstock_handshakes_total", &["version=\"TLSv1.3\""]), 8.0);
}

#[test]
fn tls_1_2_is_spoken_where_nothing_newer_is() {
    let tls = format!("{}\nversions: [\"1.2\"]", Certificates::yaml(&["rsa"]));
    let origin = Setup::new().tls(&tls).start();
    let video = origin.file("film.mp4", 100_000);
    let edge = before(&origin, &ca(&origin));
    video.assert_range(0..100_000, &Client::tls(&edge.server).get("/film.mp4").body);
}

#[test]
fn a_certificate_of_an_unknown_authority_is_502() {
    let (origin, stranger) = (Setup::new().start(), Setup::new().start());
    origin.file("film.mp4", 1000);
    is_refused(&before(&origin, &ca(&stranger)), "certificate");
}

#[test]
fn a_certificate_of_another_name_is_502() {
    let origin = Setup::new().start();
    origin.file("film.mp4", 1000);
    is_refused(&before(&origin, &format!("{}, host: elsewhere.example", ca(&origin))), "certificate");
}

#[test]
fn a_server_that_speaks_no_tls_is_502() {
    let origin = Setup::new().start();
    let edge = Edge::before(&format!("- origin: {{http: [\"https://{}\"]{}}}", origin.http(), ca(&origin)));
    is_refused(&edge, "handshake");
}

#[test]
fn the_name_it_is_asked_by_goes_into_host_and_server_name() {
    // Clients that ask for no known name get `ec`, which does not name `other.example`.
    let origin = Setup::new()
        .tls(&Certificates::yaml(&["ec", "other"]))
        .sites("- hosts: [\"other.example\"]\n  origin: {directory: root}")
        .start();
    let video = origin.file("film.mp4", 1000);
    let edge = before(&origin, &format!("{}, host: other.example", ca(&origin)));
    video.assert_range(0..1000, &Client::plain(&edge.server).get("/film.mp4").body);
}
