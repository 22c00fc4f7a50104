//! Successions that one of the two processes does not survive.

use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use penstock_testkit::{Client, Server, until};
use rustix::fs::{CWD, FileType, Mode, mknodat};
use rustix::process::{Pid, Signal, kill_process, test_kill_process};

use super::cached::{CACHED, Cached, SMALL};

#[test]
fn a_successor_that_is_killed_while_it_starts_changes_nothing() {
    let cached = Cached::start();
    cached.status("/one.mp4");
    let id = cached.server.pid();
    cached.server.expect_warning("not handed over");
    for round in 1..=5 {
        let (path, text) = make_pipe_of_configuration(&cached);
        kill_process(cached.begin(round), Signal::KILL).unwrap();
        cached.server.logs("this process goes on", round);
        fs::remove_file(&path).unwrap();
        fs::write(&path, text).unwrap();
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

/// Waits until a process has ended that is no child of this one.
pub(super) fn wait_for_end(id: Pid) {
    wait_for_state(id, 'Z');
}

/// Waits until a process has this state (proc(5)), or is no more.
fn wait_for_state(id: Pid, state: char) {
    let stat = || fs::read_to_string(format!("/proc/{id}/stat"));
    until(&format!("state {state} of process {id}"), || {
        stat().map_or(true, |stat| stat.contains(&format!(") {state} "))).then_some(())
    });
}

/// Waits until both processes have ended after a stop of the first.
fn both_end(cached: &Cached, successor: Pid) {
    assert!(cached.server.wait().success());
    wait_for_end(successor);
    assert!(Client::try_connect(cached.server.http()).is_none());
}

/// The successor reads its configuration for as long as nothing writes to that.
#[test]
fn a_stop_while_a_successor_reads_its_configuration_ends_both() {
    let cached = Cached::start();
    cached.status("/one.mp4");
    make_pipe_of_configuration(&cached);
    cached.server.expect_warning("not handed over: the new process has ended before it was ready");
    let successor = cached.begin(1);
    cached.server.signal(Signal::TERM);
    both_end(&cached, successor);
}

/// From `begin` on the successor notes signals, and obeys them once it is ready.
#[test]
fn a_stop_while_a_successor_takes_over_ends_both() {
    for subject in ["begin", "all"] {
        let cached = watched();
        cached.status("/one.mp4");
        tell_between(&cached.server, "stop", subject);
        let successor = cached.begin(1);
        both_end(&cached, successor);
    }
}

#[test]
fn a_process_before_that_hangs_once_everything_is_handed_over_keeps_nothing_from_being_served() {
    let cached = watched();
    let server = &cached.server;
    cached.status("/one.mp4");
    cached.large.assert_range(0..CACHED, &Client::tls(server).get("/large.mp4").body);
    let mut slow = Client::tls(server);
    slow.begin("/large.mp4");
    // Before it hears that the other one is ready: it still accepts, and cannot.
    tell_between(server, "hang", "ready");
    let successor = cached.begin(1);
    let before = server.pid();
    // What it has accepted by then is lost.
    wait_for_state(before, 'T');
    server.adopt(successor);
    serves(&cached, "hang");
    // More than the tier holds: what the other one sends must stay.
    for number in 0..80 {
        cached.status(&format!("/other{number}.mp4"));
    }
    kill_process(before, Signal::CONT).unwrap();
    server.wait_for_log("has taken over");
    cached.large.assert_range(0..CACHED, &slow.take(usize::try_from(CACHED).unwrap()).unwrap());
    drop(slow);
    assert!(server.wait_for_predecessor().success());
    serves(&cached, "later");
}

/// Makes the configuration a pipe that nothing writes to: a new process waits for it, and says nothing. Returns the path and the
/// text that was there.
fn make_pipe_of_configuration(cached: &Cached) -> (PathBuf, String) {
    let path = cached.server.directory().join("penstock.yaml");
    let text = fs::read_to_string(&path).unwrap();
    fs::remove_file(&path).unwrap();
    mknodat(CWD, &path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    (path, text)
}

#[test]
fn a_successor_that_is_silent_for_all_of_its_time_changes_nothing() {
    let cached = Cached::start_with(|setup| setup.limits("successor_start: 1s"));
    cached.status("/one.mp4");
    let id = cached.server.pid();
    let (path, text) = make_pipe_of_configuration(&cached);
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

/// Stands between the two processes; see its text.
const BETWEEN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/program/operation/hand_over/between.py");

/// A server with each kind of listener, so that each message is sent, whose successors are started by [`BETWEEN`].
fn watched() -> Cached {
    let listeners = ["tls: true, protocols: [h1, h2, h3]", ""];
    let cached = Cached::start_with(|setup| setup.listeners(&listeners).replaceable());
    fs::hard_link(penstock_testkit::program(), cached.server.directory().join("real")).unwrap();
    cached.server.replace_program(Path::new(BETWEEN));
    cached
}

/// Tells [`BETWEEN`] what to do at which message of the next succession.
fn tell_between(server: &Server, victim: &str, subject: &str) {
    let program = server.directory().join("real");
    let text = format!("{victim}\n{subject}\n{}\n", program.display());
    fs::write(server.directory().join("between"), text).unwrap();
}

/// Lines that begin or end a succession.
fn lines_with(server: &Server, fragment: &str) -> usize {
    server.log().iter().filter(|line| line.contains(fragment)).count()
}

/// Has one answered by a process that goes on and that uses the cache.
fn serves(cached: &Cached, subject: &str) {
    until("an answer that leaves the connection open", || {
        let answer = Client::try_connect(cached.server.http())?.try_get("/one.mp4").ok()?;
        answer.field("Connection").is_none().then_some(())
    });
    for _ in 0..4 {
        let status = cached.status("/one.mp4");
        assert!(status.starts_with("penstock; hit"), "behind {subject}: {status}");
    }
    let status = cached.status(&format!("/{subject}.mp4"));
    assert!(status.contains("stored"), "it fills behind {subject}: {status}");
    assert_eq!(Client::tls(&cached.server).get("/one.mp4").status, 200);
    assert_eq!(cached.server.metrics().sum("penstock_cache_damaged_slices_total", &[]), 0.0, "{subject}");
}

/// Asks for a change over a connection of the process before.
fn change(client: &mut Client<std::net::TcpStream>) {
    let answer = client.request("POST /changed.mp4 HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n");
    assert_eq!(answer.status, 200);
}

#[test]
fn a_successor_that_is_killed_behind_any_message_until_the_drain_leaves_the_process_before_serving() {
    let cached = watched();
    let server = &cached.server;
    let id = server.pid();
    cached.status("/one.mp4");
    drop(Client::tls(server).get("/large.mp4"));
    let mut slow = Client::tls(server);
    slow.begin("/large.mp4");
    server.expect_warning("not handed over: the new process has ended before it was ready");
    server.expect_warning("the new process has failed");
    // It may have ended before its message was read.
    server.tolerate_warning("not handed over: the new process has ended as soon as it was ready");
    let subjects = ["begin", "sockets", "quic", "tickets", "tier", "all", "ready", "leaving", "changed"];
    for (subject, round) in subjects.into_iter().zip(1..) {
        let mut kept = Client::plain(server);
        assert_eq!(kept.get("/one.mp4").status, 200);
        tell_between(server, "new", subject);
        let before = lines_with(server, "has taken over");
        cached.begin(round);
        if subject == "changed" {
            until("the succession", || (lines_with(server, "has taken over") > before).then_some(()));
            change(&mut kept);
        }
        until(&format!("the end behind {subject}"), || {
            let goes_on =
                lines_with(server, "this process goes on") + lines_with(server, "this process serves again");
            (goes_on == round).then_some(())
        });
        serves(&cached, subject);
        assert_eq!(server.pid(), id);
    }
    cached.large.assert_range(0..CACHED, &slow.take(usize::try_from(CACHED).unwrap()).unwrap());
    drop(slow);
    server.restore_program();
    server.hand_over();
    serves(&cached, "none");
}

#[test]
fn a_successor_that_is_killed_later_leaves_running_responses_whole() {
    let cached = watched();
    let server = &cached.server;
    drop(Client::tls(server).get("/large.mp4"));
    let mut slow = Client::tls(server);
    slow.begin("/large.mp4");
    tell_between(server, "new", "busy");
    let successor = cached.begin(1);
    server.wait_for_log("running responses may finish");
    wait_for_end(successor);
    cached.large.assert_range(0..CACHED, &slow.take(usize::try_from(CACHED).unwrap()).unwrap());
    drop(slow);
    assert!(server.wait().success());
}

#[test]
fn a_successor_serves_with_the_same_cache_when_the_process_before_is_killed_behind_any_message() {
    let subjects =
        ["begin", "sockets", "quic", "tickets", "tier", "all", "ready", "leaving", "changed", "busy"];
    for subject in subjects {
        let cached = watched();
        let server = &cached.server;
        cached.status("/one.mp4");
        let whole = Client::tls(server).get("/large.mp4");
        cached.large.assert_range(0..CACHED, &whole.body);
        let mut slow = Client::tls(server);
        slow.begin("/large.mp4");
        let mut kept = Client::plain(server);
        assert_eq!(kept.get("/one.mp4").status, 200);
        tell_between(server, "old", subject);
        let successor = cached.begin(1);
        if subject == "changed" {
            server.wait_for_log("has taken over");
            change(&mut kept);
        }
        assert!(!server.wait().success(), "it was killed behind {subject}");
        server.adopt(successor);
        let start = slow.rest_until_cut();
        cached.large.assert_range(0..start.len() as u64, &start);
        serves(&cached, subject);
        let whole = Client::tls(server).get("/large.mp4");
        cached.large.assert_range(0..CACHED, &whole.body);
    }
}

#[test]
fn a_successor_with_more_workers_that_fails_leaves_datagrams_to_those_of_the_process_before() {
    if !crate::http3::has_client() {
        return;
    }
    let cached = watched();
    let server = &cached.server;
    cached.status("/one.mp4");
    let file = server.directory().join("penstock.yaml");
    let text = fs::read_to_string(&file).unwrap();
    fs::write(&file, text.replace("workers: 2", "workers: 5")).unwrap();
    server.expect_warning("not handed over: the new process has ended before it was ready");
    tell_between(server, "unsaid", "ready");
    cached.begin(1);
    server.logs("this process goes on", 1);
    // Each has an id of its own, and so a worker.
    for _ in 0..12 {
        cached.small.assert_range(0..SMALL, &crate::http3::content(server, "/one.mp4"));
    }
}
