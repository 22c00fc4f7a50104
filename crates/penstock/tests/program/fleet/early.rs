//! Early data: a replay to another edge is known.

use penstock_testkit::tapped::{connect_ahead, session};
use penstock_testkit::{Server, until};
use rustix::process::Signal;

use super::{BODY, Fleet, until_connected};

const SHARED: &str = "tickets: {valkey: true}\nearly_data: {register: valkey}";
const GET: &[u8] = b"GET /a.mp4 HTTP/1.1\r\nHost: localhost\r\n\r\n";

fn early(server: &Server, outcome: &str, reason: &str) -> f64 {
    let labels = [format!("outcome=\"{outcome}\""), format!("reason=\"{reason}\"")];
    server.metrics().sum("penstock_early_data_total", &[&labels[0], &labels[1]])
}

/// Has the register of the fleet begun long ago, so that it can judge every ClientHello.
fn grow_old(fleet: &Fleet) {
    let name = fleet.store.name("penstock:*:strikes");
    assert_eq!(fleet.store.command(&["SET", &name, "1000"]), "OK\n");
}

#[test]
fn a_replay_to_another_edge_waits_for_a_handshake_that_never_ends() {
    let Some(fleet) = Fleet::start() else { return };
    let (one, other) = (fleet.edge("a", SHARED), fleet.edge("b", SHARED));
    grow_old(&fleet);
    let session = session(&one);
    let (mut client, tap) = connect_ahead(&one, &session, GET, 0);
    assert_eq!(client.response().unwrap().text(), BODY);
    until("the first", || (early(&one, "accepted", "none") == 1.0).then_some(()));
    let replays = [tap.replay(&other), tap.replay(&one)];
    until("the replay to the other", || (early(&other, "delayed", "replayed") == 1.0).then_some(()));
    until("the replay to the same", || (early(&one, "delayed", "replayed") == 1.0).then_some(()));
    drop(replays);
    // The other one accepts what it has not seen.
    let session = penstock_testkit::tapped::session(&one);
    assert_eq!(connect_ahead(&other, &session, GET, 0).0.response().unwrap().text(), BODY);
    until("the second", || (early(&other, "accepted", "none") == 1.0).then_some(()));
    // The replay was not answered.
    other.counted("penstock_requests_total", &[], 1.0);
}

#[test]
fn a_register_that_cannot_judge_makes_early_data_wait() {
    let Some(mut fleet) = Fleet::start() else { return };
    let server = fleet.edge("a", SHARED);
    let answered = |reason: &str| {
        let before = early(&server, "delayed", reason);
        let session = session(&server);
        // The client ends its handshake, and is answered then.
        assert_eq!(connect_ahead(&server, &session, GET, 0).0.response().unwrap().text(), BODY);
        until(reason, || (early(&server, "delayed", reason) > before).then_some(()));
    };
    drop(fleet.store.name("penstock:*:strikes"));
    answered("before_start");
    grow_old(&fleet);
    assert_eq!(fleet.store.command(&["CONFIG", "SET", "maxmemory", "1gb"]), "OK\n");
    assert_eq!(fleet.store.command(&["CONFIG", "SET", "maxmemory-policy", "allkeys-lru"]), "OK\n");
    server.expect_warning("fleet: the store drops entries when its memory is full");
    server.wait_for_log("fleet: the store drops entries when its memory is full");
    answered("no_answer");
    assert_eq!(fleet.store.command(&["CONFIG", "SET", "maxmemory-policy", "noeviction"]), "OK\n");
    fleet.store.signal(Signal::STOP);
    answered("no_answer");
    fleet.store.signal(Signal::CONT);
    until_connected(&server);
    until("early data to be accepted again", || {
        let session = session(&server);
        assert_eq!(connect_ahead(&server, &session, GET, 0).0.response().unwrap().text(), BODY);
        (early(&server, "accepted", "none") > 0.0).then_some(())
    });
    fleet.store.kill();
    until("the loss", || (server.metrics().sum("penstock_fleet_up", &[]) == 0.0).then_some(()));
    answered("no_answer");
    fleet.store.start_again();
    until_connected(&server);
    drop(fleet.store.name("penstock:*:strikes"));
    answered("before_start");
}

#[test]
fn a_store_that_comes_back_from_an_older_snapshot_accepts_no_replay() {
    let Some(mut fleet) = Fleet::start() else { return };
    let server = fleet.edge("a", SHARED);
    grow_old(&fleet);
    assert_eq!(fleet.store.command(&["SAVE"]), "OK\n");
    let session = session(&server);
    let (mut client, tap) = connect_ahead(&server, &session, GET, 0);
    assert_eq!(client.response().unwrap().text(), BODY);
    until("the first", || (early(&server, "accepted", "none") == 1.0).then_some(()));
    fleet.store.kill();
    until("the loss", || (server.metrics().sum("penstock_fleet_up", &[]) == 0.0).then_some(()));
    fleet.store.start_again();
    until_connected(&server);
    // The strike was in no snapshot. Until the edge knows that, it does not ask the store.
    let mut replays = Vec::new();
    until("the register to have begun again", || {
        replays.push(tap.replay(&server));
        let delayed = || ["no_answer", "before_start", "replayed"].map(|why| early(&server, "delayed", why));
        until("the replay", || {
            let accepted = early(&server, "accepted", "none") - 1.0;
            (accepted + delayed().iter().sum::<f64>() == replays.len() as f64).then_some(())
        });
        assert_eq!(early(&server, "accepted", "none"), 1.0, "a replay was accepted");
        (delayed()[1] > 0.0).then_some(())
    });
}
