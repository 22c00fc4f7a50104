//! Servers that start again and again while their orders fail.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use penstock_testkit::{Server, until};
use rustix::process::Signal;

use super::pebble::Pebble;
use super::{Ports, files_below, orders, status, wait_for_certificate};

const RESTS: &str = "the last order failed: ";

/// How many orders the authority was asked for.
fn asked(pebble: &Pebble) -> usize {
    pebble.log().matches("POST /order-plz").count()
}

fn wait_for_failure(server: &Server, words: &str) {
    until("the state", || {
        let name = &status(server)["names"][0];
        let has_words = name["error"].as_str().is_some_and(|error| error.contains(words));
        (name["state"] == "failing" && has_words).then_some(())
    });
}

#[test]
fn a_server_that_starts_again_and_again_rests_after_one_rejected_order_unless_its_settings_change() {
    let ports = Ports::reserve();
    let Some(pebble) = ports.pebble() else { return };
    let pebble = pebble.start();
    let blocked = "- {hosts: [blocked.example], origin: {directory: root}}";
    let mut server = ports.setup(&pebble.section("storage: acme")).sites(blocked).start();
    server.expect_warning("acme: no certificate for blocked.example: the CA says: ");
    wait_for_failure(&server, "rejectedIdentifier");
    let once = asked(&pebble);
    assert!(once > 0, "{}", pebble.log());
    for _ in 0..3 {
        server.start_again(Signal::KILL);
        server.tolerate_warning("acme: no certificate for blocked.example: ");
        wait_for_failure(&server, "rejectedIdentifier");
        assert!(server.wait_for_log(RESTS).contains("the next attempt is in "));
        assert_eq!(orders(&server, "rejected"), 0.0);
    }
    assert_eq!(asked(&pebble), once, "{}", pebble.log());

    let other = ports.setup(&pebble.section("storage: acme, challenge: tls-alpn-01")).sites(blocked);
    server.configure(&other);
    server.start_again(Signal::TERM);
    server.tolerate_warning("acme: no certificate for blocked.example: ");
    until("a rejection", || (orders(&server, "rejected") >= 1.0).then_some(()));
    // What was kept is removed by hand.
    let kept = files_below(&server.directory().join("acme/failures")).pop().unwrap();
    assert!(kept.ends_with("blocked.example"), "{}", kept.display());
    assert_eq!(kept.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    fs::remove_file(kept).unwrap();
    server.start_again(Signal::TERM);
    server.tolerate_warning("acme: no certificate for blocked.example: ");
    until("a rejection", || (orders(&server, "rejected") >= 1.0).then_some(()));
}

#[test]
fn an_order_that_the_end_of_its_process_has_cut_short_counts_as_failed() {
    let ports = Ports::reserve();
    let Some(pebble) = ports.pebble() else { return };
    let pebble = pebble.start();
    let (begun, command) =
        (pebble.root().with_file_name("begun"), pebble.root().with_file_name("set-record"));
    let shown = begun.display();
    // It outlives the server, whose output the harness reads to its end.
    let script = format!(
        "#!/bin/sh\nexec >/dev/null 2>&1\n[ \"$1\" = present ] || exit 0\necho >{shown}\nwhile [ -e {shown} ]; do sleep 0.1; done\n"
    );
    fs::write(&command, script).unwrap();
    fs::set_permissions(&command, fs::Permissions::from_mode(0o700)).unwrap();
    let section =
        pebble.section(&format!("storage: acme, challenge: dns-01, command: {}", command.display()));
    let mut server = ports.setup(&section).start();
    until("the command", || begun.exists().then_some(()));
    server.start_again(Signal::KILL);
    server.wait_for_log(
        "acme: no certificate for a.example: the last order failed: the server ended during the order",
    );
    wait_for_failure(&server, "the server ended during the order");
    let once = asked(&pebble);
    server.start_again(Signal::KILL);
    wait_for_failure(&server, "the server ended during the order");
    assert_eq!(asked(&pebble), once, "{}", pebble.log());
    fs::remove_file(begun).unwrap();

    server.configure(&ports.setup(&pebble.section("storage: acme")));
    server.start_again(Signal::TERM);
    wait_for_certificate(&server, "a.example", "");
    let failures = server.directory().join("acme/failures");
    until("nothing kept of the failure", || files_below(&failures).is_empty().then_some(()));
}
