//! Several servers of one origin: weights, health, retries, and how many connections.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use penstock_testkit::origin::{Origin, answer, write};
use penstock_testkit::{Client, Gate, until, unused_address};

use super::Edge;

const FRESH: &str = "Cache-Control: max-age=0\r\n";

fn up(edge: &Edge, origin: &Origin) -> f64 {
    edge.server.metrics().sum("penstock_origin_target_up", &[&format!("target=\"{}\"", origin.url())])
}

#[test]
fn weights_share_out_the_requests() {
    let servers = [0, 1].map(|_| Origin::answering("200 OK", FRESH, "x"));
    let [large, small] = &servers;
    let edge = Edge::before(&format!(
        "- origin: {{http: [{{url: \"{}\", weight: 3}}, \"{}\"]}}",
        large.url(),
        small.url()
    ));
    let mut client = Client::plain(&edge.server);
    for number in 0..20 {
        assert_eq!(client.get(&format!("/{number}")).status, 200);
    }
    assert_eq!((large.asked().len(), small.asked().len()), (15, 5));
}

#[test]
fn a_server_that_fails_is_taken_out_and_comes_back() {
    let broken = Arc::new(AtomicBool::new(true));
    let state = Arc::clone(&broken);
    let first = Origin::start(move |_, _, stream| {
        let status = if state.load(Ordering::Relaxed) { "503 No" } else { "200 OK" };
        answer(stream, status, FRESH, b"first")
    });
    let second = Origin::answering("200 OK", FRESH, "second");
    let edge = Edge::before(&format!("- origin: {{http: [\"{}\", \"{}\"]}}", first.url(), second.url()));
    edge.server.expect_warning(&format!("origin {} is out: it answers 503", first.url()));
    let mut client = Client::plain(&edge.server);
    let mut number = 0;
    let mut get = || {
        number += 1;
        client.get(&format!("/{number}")).text().to_owned()
    };
    until("the first is out", || {
        assert_eq!(get(), "second", "what the first cannot answer, the second does");
        (up(&edge, &first) == 0.0).then_some(())
    });
    let asked = first.asked().len();
    assert_eq!(asked, 3, "it is out after three failures");
    until("retries are counted", || {
        let retries = edge.server.metrics().sum("penstock_origin_retries_total", &[]);
        (retries >= 3.0).then_some(())
    });
    broken.store(false, Ordering::Relaxed);
    until("the first answers again", || (get() == "first").then_some(()));
    until("it is seen", || (up(&edge, &first) == 1.0).then_some(()));
    edge.server.wait_for_log("answers again");
}

#[test]
fn checks_take_out_a_server_without_requests_and_bring_it_back() {
    let well = Arc::new(AtomicBool::new(false));
    let state = Arc::clone(&well);
    let origin = Origin::start(move |head, _, stream| {
        let fine = !head.starts_with("GET /healthz?deep=1 ") || state.load(Ordering::Relaxed);
        answer(stream, if fine { "200 OK" } else { "500 No" }, FRESH, b"x")
    });
    let edge = Edge::before(
        &origin.sites_with("health: {path: \"/healthz?deep=1\", interval: 1s, unhealthy_after: 2}"),
    );
    edge.server.expect_warning("is out: /healthz?deep=1 is answered with 500");
    until("it is out", || (up(&edge, &origin) == 0.0).then_some(()));
    assert_eq!(Client::plain(&edge.server).get("/a").status, 200, "the only one is asked all the same");
    assert_eq!(up(&edge, &origin), 0.0, "only checks bring it back");
    well.store(true, Ordering::Relaxed);
    until("it is back", || (up(&edge, &origin) == 1.0).then_some(()));
}

#[test]
fn a_get_that_broke_off_is_sent_once_more_and_no_more() {
    let origin = Origin::start(|head, number, stream| {
        if head.starts_with("GET /good ") && number > 0 {
            return answer(stream, "200 OK", "Connection: close\r\n", b"good");
        }
        write(stream, "HTTP/1.1 2");
        false
    });
    let edge = Edge::of(&origin);
    let mut client = Client::plain(&edge.server);
    assert_eq!(client.get("/good").text(), "good");
    assert_eq!(client.get("/bad").status, 502);
    assert_eq!(origin.asked().len(), 4);
}

#[test]
fn without_retries_nothing_is_sent_twice() {
    let origin = Origin::start(|_, _, _| false);
    let edge = Edge::before(&origin.sites_with("retries: 0"));
    assert_eq!(Client::plain(&edge.server).get("/a").status, 502);
    assert_eq!(origin.asked().len(), 1);
}

#[test]
fn no_more_connections_are_opened_than_are_allowed() {
    let (most, now) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (seen_most, seen_now) = (Arc::clone(&most), Arc::clone(&now));
    let gate = Gate::closed();
    let held = gate.clone();
    let origin = Origin::start(move |_, _, stream| {
        seen_most.fetch_max(seen_now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
        held.pass();
        seen_now.fetch_sub(1, Ordering::SeqCst);
        answer(stream, "200 OK", FRESH, b"x")
    });
    let edge = Edge::before(&origin.sites_with("connections: 3, timeouts: {connect: 60s}"));
    thread::scope(|scope| {
        for client in 0..20 {
            let edge = &edge;
            scope.spawn(move || {
                let mut connection = Client::plain(&edge.server);
                for number in 0..3 {
                    assert_eq!(connection.get(&format!("/{client}/{number}")).status, 200);
                }
            });
        }
        gate.wait_for_arrivals(3);
        let connections = || edge.server.metrics().sum("penstock_connections", &[]);
        until("every client to be there", || (connections() == 20.0).then_some(()));
        gate.open();
    });
    assert_eq!(origin.asked().len(), 60);
    assert_eq!(most.load(Ordering::SeqCst), 3, "at once");
}

#[test]
fn a_request_that_waits_too_long_for_a_connection_gets_503() {
    let gate = Gate::closed();
    let held = gate.clone();
    let origin = Origin::start(move |head, _, stream| {
        if head.starts_with("GET /held ") {
            held.pass();
        }
        answer(stream, "200 OK", FRESH, b"x")
    });
    let edge = Edge::before(&origin.sites_with("connections: 1, timeouts: {connect: 200ms}"));
    let mut held = Client::plain(&edge.server);
    held.ask("/held");
    until("the origin is asked", || (!origin.asked().is_empty()).then_some(()));
    let refused = Client::plain(&edge.server).get("/other");
    assert_eq!(refused.status, 503);
    assert!(refused.field("Cache-Status").unwrap().contains("detail=busy"));
    assert_eq!(refused.field("Retry-After"), Some("1"));
    assert_eq!(edge.fetched("busy"), 1.0);
    gate.let_one_pass();
    assert_eq!(held.response_to_head().unwrap().status, 200);
    assert_eq!(up(&edge, &origin), 1.0, "that says nothing about the server");
}

#[test]
fn a_server_that_is_gone_costs_a_few_requests_a_moment_and_no_answer() {
    let gone = unused_address();
    let there = Origin::answering("200 OK", FRESH, "here");
    let edge = Edge::before(&format!("- origin: {{http: [\"http://{gone}\", \"{}\"]}}", there.url()));
    edge.server.expect_warning("is out: cannot connect");
    let mut client = Client::plain(&edge.server);
    for number in 0..10 {
        assert_eq!(client.get(&format!("/{number}")).text(), "here");
    }
}
