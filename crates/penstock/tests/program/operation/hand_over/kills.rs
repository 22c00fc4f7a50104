//! Successions that one of the two processes does not survive.

use std::fs;
use std::thread;
use std::time::Duration;

use penstock_testkit::{Client, until};
use rustix::fs::{CWD, FileType, Mode, mknodat};
use rustix::process::{Signal, kill_process, test_kill_process};

use super::cached::Cached;

#[test]
fn a_successor_that_is_killed_while_it_starts_changes_nothing() {
    let cached = Cached::start();
    cached.status("/one.mp4");
    let id = cached.server.pid();
    cached.server.expect_warning("not handed over");
    for round in 1..=5 {
        kill_process(cached.begin(round), Signal::KILL).unwrap();
        cached.server.logs("this process goes on", round);
        assert!(cached.status("/one.mp4").starts_with("penstock; hit"));
        assert!(cached.status(&format!("/new{round}.mp4")).contains("stored"), "it fills again");
    }
    assert_eq!(cached.server.pid(), id);
    cached.server.hand_over();
    assert!(cached.status("/one.mp4").starts_with("penstock; hit"));
}

#[test]
fn a_successor_serves_with_the_same_cache_when_the_process_before_is_killed_at_any_time() {
    for wait in [0, 5, 10, 20, 40, 80] {
        let cached = Cached::start();
        cached.status("/one.mp4");
        // It may be in time to hand over, and it may be too late to start one: either way the other one serves.
        let successor = cached.begin(1);
        thread::sleep(Duration::from_millis(wait));
        let before = cached.server.pid();
        kill_process(before, Signal::KILL).unwrap();
        cached.server.adopt(successor);
        until("the successor to serve", || {
            Client::try_connect(cached.server.http()).and_then(|mut client| client.try_get("/one.mp4").ok())
        });
        assert!(cached.status("/one.mp4").starts_with("penstock; hit"), "killed after {wait} ms");
        assert!(cached.status("/two.mp4").contains("stored"));
    }
}

#[test]
fn a_stop_while_a_successor_starts_ends_both() {
    let cached = Cached::start();
    cached.status("/one.mp4");
    // It stands still, so that it is not ready in time.
    cached.server.tolerate_warning("not handed over");
    let successor = cached.begin(1);
    kill_process(successor, Signal::STOP).unwrap();
    cached.server.signal(Signal::TERM);
    kill_process(successor, Signal::CONT).unwrap();
    assert!(cached.server.wait().success());
    until("no process to listen", || Client::try_connect(cached.server.http()).is_none().then_some(()));
}

/// A configuration that is a pipe which nothing writes to: the new process waits for it, and says nothing.
#[test]
fn a_successor_that_is_silent_for_all_of_its_time_changes_nothing() {
    let cached = Cached::start_with(|setup| setup.limits("successor_start: 1s"));
    cached.status("/one.mp4");
    let id = cached.server.pid();
    let path = cached.server.directory().join("penstock.yaml");
    let text = fs::read_to_string(&path).unwrap();
    fs::remove_file(&path).unwrap();
    mknodat(CWD, &path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    cached.server.expect_warning("not handed over: the new process was not ready within 1s");
    let silent = cached.begin(1);
    cached.server.logs("this process goes on", 1);
    assert!(test_kill_process(silent).is_err(), "it was ended");
    assert_eq!(cached.server.pid(), id);
    assert!(cached.status("/one.mp4").starts_with("penstock; hit"));
    fs::remove_file(&path).unwrap();
    // A process that speaks may need longer than that on a busy machine.
    fs::write(&path, text.replace("successor_start: 1s", "successor_start: 1m")).unwrap();
    cached.server.signal(Signal::HUP);
    cached.server.wait_for_log(" reloaded ");
    cached.server.hand_over();
    assert!(cached.status("/one.mp4").starts_with("penstock; hit"));
}
