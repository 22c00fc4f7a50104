//! Requests in time, and responses under way.

use penstock_testkit::{Client, Tool, until};

use super::{client, get, server};

const TOO_MANY: u16 = 429;

#[test]
fn a_client_above_its_rate_gets_429_with_the_time_to_wait_and_others_are_served() {
    let server = server("limits: {requests: {rate: 2/m, burst: 3}}");
    server.write("a.mp4", "x");
    let mut connection = client(&server, "192.0.2.1");
    let answers: Vec<_> = (0..5).map(|_| connection.get("/a.mp4")).collect();
    let statuses: Vec<u16> = answers.iter().map(|answer| answer.status).collect();
    assert_eq!(statuses, [200, 200, 200, TOO_MANY, TOO_MANY]);
    let wait: u64 = answers[3].field("retry-after").unwrap().parse().unwrap();
    assert!((1..=30).contains(&wait), "{wait}");
    // A new connection is the same client, and its neighbour another one.
    assert_eq!(get(&server, "192.0.2.1", "").status, TOO_MANY);
    assert_eq!(get(&server, "192.0.2.2", "").status, 200);
    server.counted("penstock_request_rejections_total", &["reason=\"client_rate\""], 3.0);
}

#[test]
fn all_clients_together_have_a_rate_over_both_versions() {
    let server = server("limits: {all: {requests: {rate: 1/h, burst: 4}}}");
    server.write("a.mp4", "x");
    let url = server.url("/a.mp4");
    let curl = |version: &str| {
        let curl =
            Tool::curl(&server).args(["-o", "/dev/null", "-w", "%{http_code} %header{retry-after}", version]);
        curl.arg(&url).run().ok().text()
    };
    assert_eq!((curl("--http1.1").trim(), curl("--http2").trim()), ("200", "200"));
    assert_eq!((get(&server, "192.0.2.1", "").status, get(&server, "192.0.2.2", "").status), (200, 200));
    for version in ["--http1.1", "--http2"] {
        let said = curl(version);
        let wait: u64 = said.strip_prefix("429 ").unwrap().parse().unwrap();
        assert!((3500..=3600).contains(&wait), "{said}");
    }
}

#[test]
fn responses_under_way_are_bounded_and_end_with_their_connection() {
    const LENGTH: u64 = 20_000_000;
    let server = server("limits: {connections: 2}");
    server.file("film.mp4", LENGTH);
    server.write("a.mp4", "x");
    let begin = |address: &str| {
        let mut client = client(&server, address);
        client.ask("/film.mp4");
        let status = client.response_to_head().unwrap().status;
        (client, status)
    };
    let held = [begin("192.0.2.1"), begin("192.0.2.1")];
    assert!(held.iter().all(|(_, status)| *status == 200));
    let refused = get(&server, "192.0.2.1", "");
    assert_eq!((refused.status, refused.field("retry-after")), (TOO_MANY, Some("1")));
    assert_eq!(get(&server, "192.0.2.2", "").status, 200);
    server.counted("penstock_request_rejections_total", &["reason=\"client_connections\""], 1.0);
    drop(held);
    until("a free place", || (get(&server, "192.0.2.1", "").status == 200).then_some(()));
    // Streams of one connection count each.
    drop(Client::tls(&server));
}
