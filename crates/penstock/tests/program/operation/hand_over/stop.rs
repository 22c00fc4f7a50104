//! A service manager stops both processes while the one before still sends responses, or that one hangs.

use penstock_testkit::{Client, Server, Setup, until};
use rustix::process::{Signal, kill_process};

use super::super::{LARGE, downloading, finish};
use super::kills::wait_for_end;

fn patient() -> Server {
    let server = Setup::new().limits("drain_deadline: 1m").start();
    server.write("a.txt", "a\n");
    server
}

#[test]
fn a_stop_of_both_processes_lets_the_one_before_finish_and_the_successor_ends_last() {
    let server = patient();
    let large = server.file("large.mp4", LARGE);
    let mut slow = downloading(Client::tls(&server));
    let before = server.hand_over();
    for process in [before, server.pid()] {
        kill_process(process, Signal::TERM).unwrap();
    }
    server.wait_for_log("waiting for the process before, which still sends responses");
    large.assert_range(0..LARGE, &finish(&mut slow));
    drop(slow);
    assert!(server.wait_for_predecessor().success());
    assert!(server.wait().success());
    server.wait_for_log("the process before has ended");
}

#[test]
fn a_second_signal_ends_a_process_that_was_succeeded_at_once() {
    for is_drained in [false, true] {
        let server = patient();
        server.file("large.mp4", LARGE);
        let mut slow = downloading(Client::tls(&server));
        let before = server.hand_over();
        if is_drained {
            server.wait_for_log("running responses may finish within");
        }
        kill_process(before, Signal::TERM).unwrap();
        server.wait_for_log("another signal stops at once");
        kill_process(before, Signal::TERM).unwrap();
        assert!(server.wait_for_predecessor().success());
        assert!((slow.rest_until_cut().len() as u64) < LARGE);
        until("the successor's answer", || {
            (Client::plain(&server).get("/a.txt").status == 200).then_some(())
        });
    }
}

#[test]
fn a_second_signal_ends_a_successor_that_only_waits_for_the_process_before() {
    let server = patient();
    let large = server.file("large.mp4", LARGE);
    let mut slow = downloading(Client::tls(&server));
    let before = server.hand_over();
    server.signal(Signal::TERM);
    server.wait_for_log("waiting for the process before, which still sends responses");
    server.signal(Signal::TERM);
    wait_for_end(server.pid());
    assert!(!server.log().iter().any(|line| line.contains("not all has ended")), "it waits no longer");
    // The process before does not hear of it.
    large.assert_range(0..LARGE, &finish(&mut slow));
    drop(slow);
    kill_process(before, Signal::TERM).unwrap();
    assert!(server.wait_for_predecessor().success());
    assert!(server.wait().success());
}
