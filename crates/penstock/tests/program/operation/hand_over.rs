//! A new process succeeds the one that serves (SIGUSR2), and no client notices.

mod cached;
mod kills;
mod load;
mod quic;
mod stop;

use penstock_testkit::{Client, Server, Setup, Tool, until};
use rustix::process::Signal;

use self::cached::{CACHED, Cached};
use super::{LARGE, ask_admin, downloading, finish, text_of};

/// The answer to a new connection says that it goes on. The process before may accept some until each worker has left its listeners.
fn is_served_by_successor(server: &Server) {
    until("the successor's answer", || {
        let answer = Client::plain(server).get("/a.txt");
        assert_eq!(answer.status, 200);
        answer.field("Connection").is_none().then_some(())
    });
}

#[test]
fn a_successor_accepts_while_the_process_before_ends_its_responses() {
    let server = Setup::new().limits("drain_deadline: 1m").start();
    server.write("a.txt", "a\n");
    let large = server.file("large.mp4", LARGE);
    let mut kept = Client::tls(&server);
    assert_eq!(kept.get("/a.txt").field("Connection"), None);
    let mut slow = downloading(Client::tls(&server));
    let before = server.hand_over();
    assert_ne!(server.pid(), before);
    is_served_by_successor(&server);
    assert_eq!(ask_admin(&server, "/healthz"), (200, "ok\n".to_owned()));
    let last = kept.get("/a.txt");
    assert_eq!((last.status, last.field("Connection")), (200, Some("close")), "from the process before");
    kept.assert_closed();
    large.assert_range(0..LARGE, &finish(&mut slow));
    drop(slow);
    assert!(server.wait_for_predecessor().success());
    is_served_by_successor(&server);
    server.wait_for_log("the process before has ended");
}

#[test]
fn a_session_ticket_of_the_process_before_resumes() {
    let server = Setup::new().start();
    server.write("a.txt", "a\n");
    let session = server.directory().join("session.pem");
    let fetch = |option: &str| {
        let request = b"GET /a.txt HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
        let client =
            Tool::s_client(&server).args(["-ign_eof", "-tls1_3", "-servername", "localhost", option]);
        client.arg(&session).run_with_input(request).ok().text()
    };
    assert!(fetch("-sess_out").contains("\nNew, "));
    server.hand_over();
    let again = fetch("-sess_in");
    assert!(again.contains("\nReused, "), "{again}");
}

#[test]
fn a_configuration_that_is_not_valid_changes_nothing() {
    let setup = Setup::new();
    let server = setup.start();
    server.write("a.txt", "a\n");
    let id = server.pid();
    server.configure(&Setup::new().whole(&format!("{}nothing: 1\n", text_of(&setup))));
    server.expect_warning("unknown key");
    server.expect_warning("not handed over: the new process has ended before it was ready");
    server.signal(Signal::USR2);
    server.wait_for_log("this process goes on");
    is_served_by_successor(&server);
    server.configure(&setup);
    server.hand_over();
    assert_ne!(server.pid(), id);
    is_served_by_successor(&server);
}

#[test]
fn a_successor_has_the_memory_tier_at_once_and_no_byte_of_a_running_response_changes() {
    let cached = Cached::start();
    assert!(cached.status("/one.mp4").contains("fwd=uri-miss"));
    let whole = Client::tls(&cached.server).get("/large.mp4");
    cached.large.assert_range(0..CACHED, &whole.body);
    let mut slow = Client::tls(&cached.server);
    slow.begin("/large.mp4");
    let asked = cached.asked();
    cached.server.hand_over();
    for _ in 0..4 {
        assert!(cached.status("/one.mp4").starts_with("penstock; hit"), "without an empty moment");
    }
    assert_eq!(cached.asked(), asked);
    cached.server.wait_for_log("running responses may finish");
    // More than the tier holds: what the process before sends must stay.
    for number in 0..80 {
        cached.status(&format!("/other{number}.mp4"));
    }
    cached.large.assert_range(0..CACHED, &slow.take(usize::try_from(CACHED).unwrap()).unwrap());
    drop(slow);
    assert!(cached.server.wait_for_predecessor().success());
    cached.server.wait_for_log("the process before has ended");
    for number in 0..80 {
        cached.status(&format!("/later{number}.mp4"));
    }
    assert!(cached.status("/later79.mp4").starts_with("penstock; hit"));
    assert_eq!(cached.server.metrics().sum("penstock_cache_damaged_slices_total", &[]), 0.0);
}

#[test]
fn what_a_client_changes_in_the_process_before_is_asked_for_again_by_the_successor() {
    let cached = Cached::start();
    let mut kept = Client::plain(&cached.server);
    assert_eq!(kept.get("/one.mp4").status, 200);
    assert!(cached.status("/one.mp4").starts_with("penstock; hit"));
    cached.server.hand_over();
    assert!(cached.status("/one.mp4").starts_with("penstock; hit"));
    let changed = kept.request("POST /one.mp4 HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n");
    assert_eq!((changed.status, changed.field("Connection")), (200, Some("close")), "by the process before");
    until("a request to the origin", || {
        (!cached.status("/one.mp4").starts_with("penstock; hit")).then_some(())
    });
}
