//! Clients that use streams, field sections and keys in ways that no browser does, while other clients are answered.

use std::thread;

use penstock_testkit::{Content, Server, until};
use serde_json::Value;

use super::floods::{EXCESSIVE_LOAD, attack};
use super::{fetch, has_client, setup};

/// `H3_STREAM_CREATION_ERROR` of RFC 9114 §8.1.
const STREAM_CREATION_ERROR: u64 = 0x103;

/// `PROTOCOL_VIOLATION` of RFC 9000 §20.1.
const PROTOCOL_VIOLATION: u64 = 0x0a;

/// `QPACK_DECOMPRESSION_FAILED` of RFC 9204 §6.
const DECOMPRESSION_FAILED: u64 = 0x200;

struct Scene {
    server: Server,
    file: Content,
}

impl Scene {
    fn new() -> Self {
        let server = setup().start();
        let file = server.file("clip.mp4", 1_000_000);
        server.file("long.mp4", 30_000_000);
        server.write("small.txt", "hello");
        Self { server, file }
    }

    /// Answers another client while the attack goes on, and once more after it.
    fn attack(&self, arguments: &[&str]) -> Value {
        let other = || {
            let exchange = fetch(&self.server, "", &["GET /clip.mp4"]);
            self.file.assert_range(0..self.file.len, &exchange.responses[0].content);
        };
        let report = thread::scope(|scope| {
            let attacking = scope.spawn(|| attack(&self.server, arguments));
            while !attacking.is_finished() {
                other();
            }
            attacking.join().unwrap()
        });
        other();
        self.server.counted("penstock_http3_streams", &[], 0.0);
        report
    }
}

#[test]
fn field_sections_that_refer_to_a_table_which_the_server_has_not_end_their_connection() {
    if !has_client() {
        return;
    }
    assert_eq!(Scene::new().attack(&["reference"])["code"], DECOMPRESSION_FAILED);
}

#[test]
fn a_field_section_that_grows_beyond_its_bound_ends_its_connection() {
    if !has_client() {
        return;
    }
    let scene = Scene::new();
    assert_eq!(scene.attack(&["expand", "60000"])["code"], EXCESSIVE_LOAD);
    assert_eq!(
        scene.server.metrics().sum("penstock_http_requests_total", &["version=\"h3\"", "status=\"431\""]),
        0.0
    );
}

#[test]
fn fields_for_the_table_of_qpack_are_read_and_dropped() {
    if !has_client() {
        return;
    }
    // 6 MB for a table of 0 bytes.
    assert_eq!(Scene::new().attack(&["insert", "100000"])["answered"], "200");
}

#[test]
fn keys_may_be_updated_again_and_again() {
    if !has_client() {
        return;
    }
    assert_eq!(Scene::new().attack(&["updates", "200"])["answered"], "200");
}

#[test]
fn streams_of_unknown_types_are_dropped_and_a_second_control_stream_ends_its_connection() {
    if !has_client() {
        return;
    }
    let scene = Scene::new();
    // A client may have eight streams of its own, of which HTTP/3 takes three, and gets none for those that were dropped.
    let report = scene.attack(&["unknown", "500"]);
    assert_eq!((&report["answered"], &report["done"]), (&"200".into(), &5.into()));
    assert_eq!(scene.attack(&["control"])["code"], STREAM_CREATION_ERROR);
}

#[test]
fn a_packet_behind_the_end_of_its_connection_is_dropped() {
    if !has_client() {
        return;
    }
    let scene = Scene::new();
    assert_eq!(scene.attack(&["late"])["code"], STREAM_CREATION_ERROR);
    let dropped = ["reason=\"ended_connection\""];
    let count = |name: &str, labels: &[&str]| scene.server.metrics().sum(name, labels);
    until("a dropped packet", || {
        (count("penstock_quic_dropped_datagrams_total", &dropped) > 0.0).then_some(())
    });
    assert_eq!(count("penstock_quic_answered_datagrams_total", &["answer=\"stateless_reset\""]), 0.0);
}

#[test]
fn reserved_bits_end_their_connection() {
    if !has_client() {
        return;
    }
    let scene = Scene::new();
    assert_eq!(scene.attack(&["reserved"])["code"], PROTOCOL_VIOLATION);
}

#[test]
fn hundreds_of_responses_that_their_client_stops_leave_nothing_behind() {
    if !has_client() {
        return;
    }
    let scene = Scene::new();
    assert_eq!(scene.attack(&["stops", "400"])["answered"], "200");
    scene.server.counted("penstock_http3_resets_total", &["cause=\"client\""], 400.0);
}

#[test]
fn a_client_that_opens_all_streams_that_it_may_again_and_again_is_answered_each_time() {
    if !has_client() {
        return;
    }
    let scene = Scene::new();
    let report = scene.attack(&["churn", "3000"]);
    assert_eq!((&report["done"], &report["answered"]), (&3000.into(), &"200".into()));
    assert_eq!(scene.attack(&["credits", "20000"])["answered"], "200");
}
