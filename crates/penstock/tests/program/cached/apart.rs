//! Origins that write the head and the body of a response apart.

use std::fs;
use std::sync::Mutex;
use std::sync::mpsc::channel;
use std::thread;

use penstock_testkit::origin::{Origin, answer, target, write, write_head};
use penstock_testkit::{Client, Strace, until};

use super::Edge;

/// With Nagle's algorithm the origin keeps the body back until the head is acknowledged, which the kernel delays.
#[test]
fn a_head_without_its_body_is_acknowledged_at_once() {
    for keys in ["cache: on", "cache: off"] {
        let (go_on, may_go_on) = channel();
        let may_go_on = Mutex::new(may_go_on);
        let origin = Origin::start(move |head, _, stream| {
            if target(head) != "/apart" {
                return write(stream, "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nbeside");
            }
            let head = write_head(stream, "", 5);
            may_go_on.lock().unwrap().recv().unwrap();
            head && write(stream, "apart")
        });
        let edge = Edge::before(&origin.sites_with(keys));
        let trace = edge.server.directory().join("trace");
        let Some(_strace) = Strace::attach(&edge.server, &["-e", "trace=setsockopt"], &trace) else { return };
        let acknowledged = || fs::read_to_string(&trace).unwrap_or_default().matches("TCP_QUICKACK").count();
        let mut client = Client::plain(&edge.server);
        assert_eq!(client.get("/beside").text(), "beside");
        assert_eq!(acknowledged(), 0, "{keys}");
        let asking = thread::spawn(move || client.get("/apart").text().to_owned());
        until("the acknowledgement", || (acknowledged() == 1).then_some(()));
        go_on.send(()).unwrap();
        assert_eq!(asking.join().unwrap(), "apart");
        assert_eq!(acknowledged(), 1, "{keys}");
    }
}

#[test]
fn a_response_without_a_body_needs_no_acknowledgement() {
    let origin = Origin::start(|_, _, stream| answer(stream, "204 No Content", "", b""));
    let edge = Edge::of(&origin);
    let trace = edge.server.directory().join("trace");
    let Some(_strace) = Strace::attach(&edge.server, &["-e", "trace=setsockopt"], &trace) else { return };
    assert_eq!(Client::plain(&edge.server).get("/").status, 204);
    assert!(!fs::read_to_string(&trace).unwrap_or_default().contains("TCP_QUICKACK"));
}
