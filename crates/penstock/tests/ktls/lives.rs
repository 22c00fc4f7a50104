//! Events in the life of a connection: clients that leave, files that shrink, reloads, the end.

use std::fs::OpenOptions;
use std::net::Shutdown;
use std::path::Path;

use penstock_testkit::{Client, until};
use rustix::process::Signal;

use crate::kernel::{ROOT, setup, with_everything};
use crate::modules::{assert_kernel_sealed, file, start_on};

pub(crate) fn abort() {
    with_everything();
    let (server, before) = start_on(&setup("on"));
    let content = file("large.mp4", 30_000_000);
    for number in 0..8 {
        let mut client = Client::tls(&server);
        client.ask("/large.mp4");
        client.response_to_head().unwrap();
        match number % 2 {
            0 => client.stream.close(),
            _ => client.stream.socket().shutdown(Shutdown::Both).unwrap(),
        }
    }
    let cut = || server.metrics().sum("penstock_short_responses_total", &["reason=\"client_closed\""]);
    until("the server to notice", || (cut() == 8.0).then_some(()));
    content.assert_range(0..content.len, &Client::tls(&server).get("/large.mp4").body);
    assert_kernel_sealed(&server, before, 9);
    assert_eq!(server.metrics().sum("penstock_egress_ended_total", &[]), 0.0);
}

pub(crate) fn truncated() {
    with_everything();
    let (server, _) = start_on(&setup("on"));
    let content = file("shrinking.mp4", 30_000_000);
    let mut client = Client::tls(&server);
    client.ask("/shrinking.mp4");
    client.response_to_head().unwrap();
    // More than the sockets hold is left to send.
    let shrinking = OpenOptions::new().write(true).open(Path::new(ROOT).join("shrinking.mp4")).unwrap();
    shrinking.set_len(1_000_000).unwrap();
    let arrived = client.rest().unwrap();
    assert!(!arrived.is_empty() && arrived.len() < 30_000_000);
    content.assert_range(0..arrived.len() as u64, &arrived);
    let cut = || server.metrics().sum("penstock_short_responses_total", &["reason=\"truncated\""]);
    until("the response to be counted", || (cut() == 1.0).then_some(()));
}

pub(crate) fn reload() {
    with_everything();
    let (server, before) = start_on(&setup("on"));
    let content = file("clip.mp4", 900_000);
    let mut client = Client::tls(&server);
    content.assert_range(0..content.len, &client.get("/clip.mp4").body);
    server.configure(&setup("off"));
    server.signal(Signal::HUP);
    server.wait_for_log("reloaded");
    content.assert_range(0..content.len, &client.get("/clip.mp4").body);
    let mut later = Client::tls(&server);
    content.assert_range(0..content.len, &later.get("/clip.mp4").body);
    let off = ["kind=\"user_space\"", "reason=\"configured_off\""];
    assert_eq!(server.metrics().sum("penstock_egress_connections_total", &off), 1.0);
    assert_kernel_sealed(&server, before, 1);
}

pub(crate) fn drain() {
    with_everything();
    let (server, _) = start_on(&setup("on"));
    let content = file("large.mp4", 10_000_000);
    let mut client = Client::tls(&server);
    client.ask("/large.mp4");
    client.response_to_head().unwrap();
    server.signal(Signal::TERM);
    // All of the body, up to close_notify: most of it was not sent when the signal came.
    let body = client.rest().unwrap();
    content.assert_range(0..content.len, &body);
    assert!(server.wait().success());
}
