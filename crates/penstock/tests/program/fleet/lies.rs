//! A store that lets edges in, and then sends what no answer is.

use std::time::Duration;

use penstock_testkit::{Lie, LyingStore, until};

use super::{Fleet, fetch, operations};

const SHARED: &str = "session_cache: {valkey: true}\ntickets: {valkey: true}\nearly_data: {register: valkey}";

/// Memory of the whole process. It needs a third of this without answers; a string without a limit would take the whole memory.
const PEAK: u64 = 128 << 20;

/// Lets an edge meet the store again and again.
fn met(begin: &'static str, rest: &'static str, pause: Duration, reason: &str) {
    let Some(fleet) = Fleet::start() else { return };
    let store = LyingStore::start(Lie { begin, rest, pause });
    let server = fleet.setup_at(&format!("redis://{}", store.address()), "a", SHARED).start();
    server.expect_warning("fleet: the store cannot be used");
    server.tolerate_warning("fleet: the store does not answer");
    server.write("a.mp4", super::BODY);
    let lost = |labels: &[&str]| server.metrics().sum("penstock_fleet_connections_lost_total", labels);
    for losses in 1..=4 {
        until("the loss", || (lost(&[]) >= f64::from(losses)).then_some(()));
        assert_eq!(fetch(&server, &["-tls1_2", "-no_ticket"]), "New");
    }
    // An edge that gets little of the processor gives up sooner than it has read so much.
    let (expected, unanswered) = (format!("reason=\"{reason}\""), "reason=\"unanswered\"");
    let (every, slow) = (lost(&[]), lost(&[unanswered]));
    assert!(lost(&[&expected]) >= 1.0 || slow == every, "{every} losses, {slow} of them by time");
    assert_eq!(operations(&server, "session_find", "ok"), 0.0);
    let peak = server.memory_peak();
    assert!(peak < PEAK, "{begin:?} and {rest:?}: {peak} bytes");
    // Of one outage, a line for each reason.
    let said: Vec<_> =
        server.log().into_iter().filter(|line| line.contains("fleet: the store cannot be used")).collect();
    assert!((1..=3).contains(&said.len()), "{said:?}");
}

#[test]
fn a_string_without_an_end_is_read_up_to_a_limit() {
    met("$5000000000\r\n", "x", Duration::ZERO, "too_large");
}

#[test]
fn an_array_without_an_end_is_read_up_to_a_limit() {
    met("*2000000000\r\n", ":1\r\n", Duration::ZERO, "too_large");
}

#[test]
fn arrays_in_arrays_without_an_end_are_refused() {
    met("", "*1\r\n", Duration::ZERO, "broken");
}

#[test]
fn messages_without_an_end_are_read_up_to_a_limit() {
    met("", ">2\r\n+m\r\n+x\r\n", Duration::ZERO, "too_large");
}

#[test]
fn an_answer_of_a_byte_a_second_is_none() {
    met("$5000\r\n", "x", Duration::from_secs(1), "unanswered");
}
