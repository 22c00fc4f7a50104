//! The system calls of a worker for one connection, counted by strace. Each costs as much as hundreds of lines of code, so
//! another one needs a reason.

use std::fs;
use std::io::{Read, Write};

use std::net::TcpStream;

use penstock_testkit::{Client, Server, Setup, Strace, TlsOptions, client_hello};
use rustix::process::Signal;

/// Connections of one test: some of them are disturbed by what happens once in a while, such as a look whether the file has
/// changed.
const CONNECTIONS: usize = 20;

/// The names of a worker's calls for each of the connections that `connect` makes and that end before it returns; `None` if
/// this user may not trace.
fn calls_of(server: &Server, connect: impl Fn()) -> Option<Vec<Vec<String>>> {
    // Files are opened, and what every thread makes once is made.
    connect();
    let traces = server.directory().join("traces");
    fs::create_dir(&traces).unwrap();
    let strace = Strace::attach(server, &["-ff", "-s", "0"], &traces.join("thread"))?;
    for _ in 0..CONNECTIONS {
        connect();
        // All calls of the connection come in front of those of the next.
        server.counted("penstock_connections", &[], 0.0);
    }
    strace.detach();
    let text = fs::read_to_string(traces.join(format!("thread.{}", worker_thread(server)))).unwrap();
    let connections: Vec<Vec<String>> = text.split("accept4(").skip(1).map(calls).collect();
    assert!(connections.len() >= CONNECTIONS, "{} of {CONNECTIONS}:\n{text}", connections.len());
    Some(connections)
}

/// The number of the only worker's thread.
pub(crate) fn worker_thread(server: &Server) -> String {
    let tasks = fs::read_dir(format!("/proc/{}/task", server.pid().as_raw_nonzero())).unwrap();
    let mut workers = tasks.map(|task| task.unwrap()).filter(|task| {
        fs::read_to_string(task.path().join("comm")).is_ok_and(|name| name.trim_end() == "worker-0")
    });
    workers.next().unwrap().file_name().into_string().unwrap()
}

/// The names of the calls behind an `accept4`, up to the wait behind the `close` of the socket.
fn calls(trace: &str) -> Vec<String> {
    let mut names = vec!["accept4".to_owned()];
    for line in trace.lines().skip(1) {
        let name = line.split('(').next().unwrap_or_default();
        match name {
            "epoll_wait" if names.iter().any(|name| name == "close") => break,
            // The client may be slower than the worker.
            "epoll_wait" => {}
            "read" if line.contains("EAGAIN") => {}
            // Checks of a development build, and the writer of the access log, which is woken if it sleeps.
            "fcntl" | "futex" => {}
            _ => names.push(name.to_owned()),
        }
    }
    names
}

fn ask<S: Read + Write>(mut client: Client<S>) {
    let response = client.request("GET /a.txt HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    assert_eq!(response.text(), "a\n");
    client.assert_closed();
}

/// A server whose connections have bytes when they are accepted.
fn server() -> Server {
    let listeners = ["defer_accept: 5s", "tls: true, defer_accept: 5s"];
    let server = Setup::new().workers(1).listeners(&listeners).start();
    server.write("a.txt", "a\n");
    server
}

#[track_caller]
fn assert_least(connections: &[Vec<String>], expected: &[&str]) {
    assert_eq!(least(connections), expected, "of all:\n{connections:#?}");
}

fn least(connections: &[Vec<String>]) -> &[String] {
    connections.iter().min_by_key(|calls| calls.len()).unwrap()
}

#[test]
fn a_plain_connection_with_one_request_takes_no_more_calls_than_these() {
    let server = server();
    let Some(connections) = calls_of(&server, || ask(Client::plain(&server))) else { return };
    assert_least(
        &connections,
        &[
            "accept4", // Whether another connection waits.
            "ppoll", "read",    // Head and body.
            "sendmsg", // Whether anything came behind the request.
            "ioctl", "close",
        ],
    );
}

#[test]
fn a_tls_connection_with_one_request_takes_no_more_calls_than_these() {
    let server = server();
    let Some(connections) = calls_of(&server, || ask(Client::tls(&server))) else { return };
    // The runtime watches the socket once the handshake waits for the client.
    let flights = ["accept4", "ppoll", "read", "sendto", "epoll_ctl"];
    // The response, with tickets in front and close_notify behind.
    let response = ["read", "sendto", "ioctl", "epoll_ctl", "close"];
    // The tickets go alone if the request comes later than the end of the handshake.
    let tickets = if least(&connections).len() > flights.len() + response.len() {
        &["read", "sendto"][..]
    } else {
        &[]
    };
    assert_least(&connections, &[&flights[..], tickets, &response].concat());
}

/// The clients of one round.
const CROWD: usize = 3;

/// Rounds until one has all clients: the kernel may deliver what a client has sent a moment later.
const ROUNDS_MAX: usize = 8;

/// Asserts that a round of the clients of `send` begins with the calls `expected`.
fn assert_round(server: &Server, send: impl Fn() -> Vec<TcpStream>, expected: &[&str]) {
    let mut seen = Vec::new();
    for round in 0..ROUNDS_MAX {
        let Some(calls) = calls_of_round(server, round, &send) else { return };
        if calls.iter().take(expected.len()).eq(expected) {
            return;
        }
        seen.push(calls);
    }
    panic!("no round of {seen:?} begins with {expected:?}");
}

/// The names of a worker's calls that move bytes for requests that `send` makes while the server is stopped, so that it finds
/// them in one round; `None` if this user may not trace.
fn calls_of_round(server: &Server, round: usize, send: impl Fn() -> Vec<TcpStream>) -> Option<Vec<String>> {
    let traces = server.directory().join(format!("traces-{round}"));
    fs::create_dir(&traces).unwrap();
    let strace = Strace::attach(server, &["-ff", "-s", "0"], &traces.join("thread"))?;
    server.signal(Signal::STOP);
    wait_until_stopped(server);
    let clients = send();
    server.signal(Signal::CONT);
    for mut client in &clients {
        assert_eq!(client.read(&mut [0]).unwrap(), 1);
    }
    strace.detach();
    let text = fs::read_to_string(traces.join(format!("thread.{}", worker_thread(server)))).unwrap();
    let moving = |line: &&str| {
        ["read(", "sendmsg(", "sendto("].iter().any(|name| line.starts_with(name)) && !line.contains("EAGAIN")
    };
    Some(text.lines().filter(moving).filter_map(|line| line.split('(').next()).map(str::to_owned).collect())
}

/// Waits until every thread is stopped.
fn wait_until_stopped(server: &Server) {
    let path = format!("/proc/{}/task/{}/stat", server.pid().as_raw_nonzero(), worker_thread(server));
    loop {
        let stat = fs::read_to_string(&path).unwrap();
        // The state follows the name, which is in parentheses.
        if stat.rsplit(") ").next().unwrap().starts_with(['T', 't']) {
            return;
        }
        std::thread::yield_now();
    }
}

#[test]
fn the_responses_of_a_round_follow_each_other() {
    let server = Setup::new().workers(1).start();
    server.write("a.txt", "a\n");
    let request = b"GET /a.txt HTTP/1.1\r\nHost: localhost\r\n\r\n";
    let sockets: Vec<TcpStream> = (0..CROWD).map(|_| TcpStream::connect(server.http()).unwrap()).collect();
    for mut socket in &sockets {
        socket.write_all(request).unwrap();
        let mut response = Vec::new();
        while !response.ends_with(b"\r\n\r\na\n") {
            let mut byte = [0];
            socket.read_exact(&mut byte).unwrap();
            response.extend_from_slice(&byte);
        }
    }
    let send = || {
        let again = |mut socket: &TcpStream| {
            socket.write_all(request).unwrap();
            socket.try_clone().unwrap()
        };
        sockets.iter().map(again).collect()
    };
    assert_round(&server, send, &[["read"; CROWD], ["sendmsg"; CROWD]].concat());
}

#[test]
fn the_flights_of_a_round_follow_each_other() {
    let server = Setup::new().workers(1).start();
    let hello = client_hello(&server, &TlsOptions::default());
    // What every thread makes once is made.
    server.write("a.txt", "a\n");
    assert_eq!(Client::tls(&server).get("/a.txt").text(), "a\n");
    let send = || {
        let begin = |_| {
            let mut socket = TcpStream::connect(server.https()).unwrap();
            socket.write_all(&hello).unwrap();
            socket
        };
        (0..CROWD).map(begin).collect()
    };
    assert_round(&server, send, &[["read"; CROWD], ["sendto"; CROWD]].concat());
}
