//! Signals, and what systemd is told.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::path::PathBuf;

use rustix::process::{Pid, Signal, kill_process};

use penstock_testkit::{DEADLINE, Process, until};

use super::program::{Files, Running, exchange, free_port, get, program};

/// A configuration with one plain listener on `port`.
fn plain(port: u16, rest: &str) -> String {
    format!(
        "workers: 1\nlisteners: [{{address: 127.0.0.1:{port}}}]\nsites: [{{origin: {{directory: video}}}}]\n{rest}\n"
    )
}

#[test]
fn a_reload_puts_another_configuration_in_force() {
    let files = Files::new();
    let (first, second, admin) = (free_port(), free_port(), free_port());
    let file = files.write("edge.yaml", &plain(first, ""));
    let server = Running::start(program().args(["serve", "-c", &file]));
    server.line_with("ready");
    assert!(get(&format!("127.0.0.1:{first}")).ends_with("moving pictures\n"));

    files.write("edge.yaml", &plain(second, &format!("admin: {{address: 127.0.0.1:{admin}}}")));
    server.signal(Signal::HUP);
    server.line_with("reloaded ");
    assert!(get(&format!("127.0.0.1:{second}")).ends_with("moving pictures\n"));
    let mut stream = TcpStream::connect(format!("127.0.0.1:{admin}")).unwrap();
    let metrics = exchange(&mut stream, "/metrics");
    assert!(metrics.contains("penstock_reloads_total{outcome=\"applied\"} 1"), "{metrics}");
}

#[test]
fn a_broken_configuration_keeps_the_running_one_and_says_why() {
    let files = Files::new();
    let (port, admin) = (free_port(), free_port());
    let good = plain(port, &format!("admin: {{address: 127.0.0.1:{admin}}}"));
    let file = files.write("edge.yaml", &good);
    let server = Running::start(program().args(["serve", "-c", &file]));
    server.line_with("ready");

    files.write("edge.yaml", &good.replace("workers: 1", "worker: 1"));
    server.signal(Signal::HUP);
    let fault = server.line_with("ERROR");
    assert!(fault.contains("edge.yaml:1: unknown key `worker`; write `workers`"), "{fault}");
    server.line_with("kept the running configuration");
    assert!(get(&format!("127.0.0.1:{port}")).ends_with("moving pictures\n"));

    fs::remove_file(files.at("edge.yaml")).unwrap();
    server.signal(Signal::HUP);
    server.line_with("this file does not exist");
    server.line_with("kept the running configuration");
    let mut stream = TcpStream::connect(format!("127.0.0.1:{admin}")).unwrap();
    let metrics = exchange(&mut stream, "/metrics");
    assert!(metrics.contains("penstock_reloads_total{outcome=\"rejected\"} 2"), "{metrics}");
}

#[test]
fn a_reload_without_a_file_changes_nothing() {
    let files = Files::new();
    let mut command = program();
    command.args(["serve", "--plain", "--listen", "127.0.0.1:0", "--root"]).arg(files.at("video"));
    let server = Running::start(&mut command);
    server.line_with("Ctrl-C stops.");
    server.signal(Signal::HUP);
    server.line_with("nothing to reload");
    server.signal(Signal::TERM);
    assert_eq!(server.exit_code(), Some(0));
}

/// Starts a server and a response far larger than the socket buffers, of which only the head has been read.
fn with_a_running_response(files: &Files) -> (Running, TcpStream, String) {
    let body = fs::File::create(files.at("video/large.mp4")).unwrap();
    body.set_len(64 << 20).unwrap();
    let (port, admin) = (free_port(), free_port());
    let file = files.write("edge.yaml", &plain(port, &format!("admin: {{address: 127.0.0.1:{admin}}}")));
    let server = Running::start(program().args(["serve", "-c", &file]));
    server.line_with("ready");
    let mut stream = TcpStream::connect(format!("127.0.0.1:{port}")).unwrap();
    stream.set_read_timeout(Some(DEADLINE)).unwrap();
    write!(stream, "GET /large.mp4 HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").unwrap();
    let mut head = [0; 12];
    stream.read_exact(&mut head).unwrap();
    assert_eq!(&head, b"HTTP/1.1 200");
    (server, stream, format!("127.0.0.1:{admin}"))
}

#[test]
fn a_running_response_finishes_while_draining_and_the_admin_port_is_free() {
    let files = Files::new();
    let (server, mut stream, admin) = with_a_running_response(&files);
    server.signal(Signal::TERM);
    server.line_with("draining");
    until("the admin port to close", || TcpStream::connect(&admin).is_err().then_some(()));
    let mut rest = Vec::new();
    stream.read_to_end(&mut rest).unwrap();
    assert!(rest.len() > 64 << 20, "only {} bytes came", rest.len());
    server.line_with("stopped");
    assert_eq!(server.exit_code(), Some(0));
}

#[test]
fn sigquit_and_sigint_stop_as_sigterm_does_and_at_once_without_a_connection_to_wait_for() {
    let files = Files::new();
    for signal in [Signal::QUIT, Signal::INT, Signal::TERM] {
        let port = free_port();
        let file = files.write("edge.yaml", &plain(port, "limits: {lame_duck: 1h}"));
        let server = Running::start(program().args(["serve", "-c", &file]));
        server.line_with("ready");
        server.signal(signal);
        server.line_with("draining");
        server.line_with("stopped");
        assert_eq!(server.exit_code(), Some(0), "{signal:?}");
    }
}

#[test]
fn a_lame_duck_without_health_checks_ends_with_its_last_connection() {
    let files = Files::new();
    let port = free_port();
    let file = files.write("edge.yaml", &plain(port, "limits: {lame_duck: 1h}"));
    let server = Running::start(program().args(["serve", "-c", &file]));
    server.line_with("ready");
    let mut idle = TcpStream::connect(format!("127.0.0.1:{port}")).unwrap();
    // After a response, so that the server has accepted it.
    idle.write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    let mut first = Vec::new();
    while !first.ends_with(b"moving pictures\n") {
        let mut byte = [0];
        idle.read_exact(&mut byte).unwrap();
        first.push(byte[0]);
    }
    server.signal(Signal::QUIT);
    server.line_with("stopping: health checks fail");
    let response = exchange(&mut idle, "/");
    assert!(response.starts_with("HTTP/1.1 200") && response.ends_with("moving pictures\n"), "{response}");
    drop(idle);
    server.line_with("stopped");
    assert_eq!(server.exit_code(), Some(0));
}

#[test]
fn a_start_waits_for_ports_of_a_process_that_has_just_been_killed() {
    let files = Files::new();
    let (port, admin) = (free_port(), free_port());
    let [taken, taken_admin] = [port, admin].map(|port| TcpListener::bind(("127.0.0.1", port)).unwrap());
    let file = files.write("edge.yaml", &plain(port, &format!("admin: {{address: 127.0.0.1:{admin}}}")));
    let server = Running::start(program().args(["serve", "-c", &file]));
    server.line_with(&format!("127.0.0.1:{admin} is in use; waiting"));
    drop(taken_admin);
    server.line_with(&format!("127.0.0.1:{port} is in use; waiting"));
    drop(taken);
    server.line_with("ready");
    assert!(get(&format!("127.0.0.1:{port}")).ends_with("moving pictures\n"));
}

#[test]
fn a_second_signal_stops_at_once() {
    let files = Files::new();
    let (server, mut stream, _admin) = with_a_running_response(&files);
    server.signal(Signal::TERM);
    server.line_with("draining");
    server.signal(Signal::INT);
    server.line_with("stopping at once");
    assert_eq!(server.exit_code(), Some(0));
    let mut rest = Vec::new();
    // Cut short, by an end or a reset.
    drop(stream.read_to_end(&mut rest));
    assert!(rest.len() < 64 << 20, "the response was finished after all");
}

/// The socket of a service manager, and what it is told next.
fn notified(files: &Files) -> (PathBuf, impl Fn() -> String + use<>) {
    let path = files.at("notify");
    let socket = UnixDatagram::bind(&path).unwrap();
    socket.set_read_timeout(Some(DEADLINE)).unwrap();
    let next = move || {
        let mut message = [0; 512];
        let length = socket.recv(&mut message).unwrap();
        String::from_utf8(message[..length].to_vec()).unwrap()
    };
    (path, next)
}

#[test]
fn systemd_is_told_of_start_reload_and_stop() {
    let files = Files::new();
    let (socket, next) = notified(&files);
    let file = files.write("edge.yaml", &plain(free_port(), ""));
    let server = Running::start(program().args(["serve", "-c", &file]).env("NOTIFY_SOCKET", &socket));
    assert_eq!(next(), "READY=1\n");
    server.signal(Signal::HUP);
    let reloading = next();
    let time = reloading.strip_prefix("RELOADING=1\nMONOTONIC_USEC=").unwrap();
    assert!(time.trim_end().parse::<u64>().unwrap() > 0, "{reloading}");
    assert_eq!(next(), "READY=1\n");
    server.signal(Signal::TERM);
    // `drain_deadline`, and 15 s for the rest.
    assert_eq!(next(), "STOPPING=1\nEXTEND_TIMEOUT_USEC=45000000\n");
    assert_eq!(server.exit_code(), Some(0));
}

#[test]
fn systemd_is_told_which_process_has_taken_over_and_nothing_more_by_the_one_before() {
    let files = Files::new();
    let (socket, next) = notified(&files);
    let file = files.write("edge.yaml", &plain(free_port(), ""));
    let server = Running::start(program().args(["serve", "-c", &file]).env("NOTIFY_SOCKET", &socket));
    assert_eq!(next(), "READY=1\n");
    server.signal(Signal::USR2);
    let told = next();
    let id = told.strip_prefix("MAINPID=").and_then(|rest| rest.strip_suffix("\nREADY=1\n"));
    let successor = Pid::from_raw(id.expect(&told).parse().unwrap()).unwrap();
    // It has no connection.
    assert_eq!(server.exit_code(), Some(0));
    kill_process(successor, Signal::TERM).unwrap();
    assert!(next().starts_with("STOPPING=1\n"), "by the successor, and not by the one before");
}

#[test]
fn systemd_is_told_that_a_process_is_the_main_one_again_when_its_successor_has_failed() {
    let files = Files::new();
    let ((socket, next), port) = (notified(&files), free_port());
    // As long as a connection is open, for that time at most, it can serve again.
    let file = files.write("edge.yaml", &plain(port, "limits: {lame_duck: 1m}"));
    let server = Running::start(program().args(["serve", "-c", &file]).env("NOTIFY_SOCKET", &socket));
    assert_eq!(next(), "READY=1\n");
    let mut kept = TcpStream::connect(("127.0.0.1", port)).unwrap();
    kept.set_read_timeout(Some(DEADLINE)).unwrap();
    kept.write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    assert!(kept.read(&mut [0; 1024]).unwrap() > 0);
    server.signal(Signal::USR2);
    let told = next();
    let id = told.strip_prefix("MAINPID=").and_then(|rest| rest.strip_suffix("\nREADY=1\n"));
    kill_process(Pid::from_raw(id.expect(&told).parse().unwrap()).unwrap(), Signal::KILL).unwrap();
    assert_eq!(next(), format!("MAINPID={}\nREADY=1\n", server.pid()));
    assert!(get(&format!("127.0.0.1:{port}")).ends_with("moving pictures\n"));
    drop(kept);
    server.signal(Signal::TERM);
    assert!(next().starts_with("STOPPING=1\n"));
    assert_eq!(server.exit_code(), Some(0));
}

#[test]
fn a_watchdog_of_systemd_gets_reports_again_and_again_also_from_a_process_that_it_has_not_started() {
    let files = Files::new();
    let (socket, next) = notified(&files);
    let file = files.write("edge.yaml", &plain(free_port(), ""));
    let mut command = program();
    command.args(["serve", "-c", &file]);
    command.env("NOTIFY_SOCKET", &socket).env("WATCHDOG_USEC", "200000").env("WATCHDOG_PID", "1");
    let server = Running::start(&mut command);
    assert_eq!(next(), "READY=1\n");
    for _ in 0..3 {
        assert_eq!(next(), "WATCHDOG=1\n");
    }
    server.signal(Signal::HUP);
    until("the reload", || next().starts_with("RELOADING=1").then_some(()));
    until("its end", || (next() == "READY=1\n").then_some(()));
    assert_eq!(next(), "WATCHDOG=1\n");
    server.signal(Signal::TERM);
    until("the stop", || next().starts_with("STOPPING=1").then_some(()));
    assert_eq!(server.exit_code(), Some(0));
}

/// A pipe of one page whose reader has stopped, as of a log shipper that hangs.
#[test]
fn a_stderr_that_is_not_read_keeps_nothing_from_being_answered_or_from_ending() {
    let files = Files::new();
    let (port, secure) = (free_port(), free_port());
    let listener = format!("listeners: [{{address: 127.0.0.1:{secure}, tls: true}}, {{");
    let tls = "tls: {certificates: [{chain: ec.crt, key: ec.key}]}";
    let file = files.write("edge.yaml", &plain(port, tls).replace("listeners: [{", &listener));
    let (reader, writer) = std::io::pipe().unwrap();
    rustix::pipe::fcntl_setpipe_size(&writer, 4096).unwrap();
    let mut command = program();
    command.args(["serve", "--log-level", "debug", "-c", &file]).stderr(writer);
    let mut child = Process::spawn(&mut command).unwrap();
    drop(command);
    let pid = Pid::from_child(&child);
    // More lines than the pipe and the queue hold.
    let fill = || {
        for _ in 0..1500 {
            let mut stream = until("the listener", || TcpStream::connect(("127.0.0.1", secure)).ok());
            stream.set_read_timeout(Some(DEADLINE)).unwrap();
            stream.write_all(b"no handshake\r\n").unwrap();
            drop(stream.read_to_end(&mut Vec::new()));
        }
    };
    fill();
    assert!(get(&format!("127.0.0.1:{port}")).ends_with("moving pictures\n"));
    let mut lines = BufReader::new(&reader).lines().map_while(Result::ok);
    lines.find(|line| line.contains("lines of this log were lost")).expect("lost lines are told");
    fill();
    kill_process(pid, Signal::TERM).unwrap();
    let ended = until("the end", || child.try_wait().unwrap());
    assert_eq!(ended.code(), Some(0));
}

/// systemd gives a service a socket, which cannot be opened by the name of the stream.
#[test]
fn standard_output_may_be_a_socket_and_carry_the_access_log() {
    let files = Files::new();
    let port = free_port();
    let file = files.write("edge.yaml", &plain(port, "log: {access: /dev/stdout}"));
    let (ours, theirs) = UnixStream::pair().unwrap();
    ours.set_read_timeout(Some(DEADLINE)).unwrap();
    let mut lines = BufReader::new(ours).lines();
    let mut child =
        Process::spawn(program().args(["serve", "-c", &file]).stdout(OwnedFd::from(theirs))).unwrap();
    let address = format!("127.0.0.1:{port}");
    let pid = Pid::from_child(&child);
    until("the listener", || TcpStream::connect(&address).ok());
    for signal in [Signal::USR1, Signal::HUP, Signal::TERM] {
        assert!(get(&address).ends_with("moving pictures\n"));
        let line = lines.next().unwrap().unwrap();
        assert!(line.contains("\"status\":200") && line.ends_with('}'), "{line}");
        kill_process(pid, signal).unwrap();
    }
    assert_eq!(until("the end", || child.try_wait().unwrap()).code(), Some(0));
    assert!(lines.next().is_none());
}

#[test]
fn the_admin_listener_moves_to_another_address_of_the_same_port() {
    let files = Files::new();
    let (port, admin) = (free_port(), free_port());
    let text = |address: &str| plain(port, &format!("admin: {{address: {address}}}"));
    let file = files.write("edge.yaml", &text(&format!("127.0.0.1:{admin}")));
    let server = Running::start(program().args(["serve", "-c", &file]));
    server.line_with("ready");
    let metrics =
        |host: &str| exchange(&mut TcpStream::connect(format!("{host}:{admin}")).unwrap(), "/metrics");
    for (address, reachable) in
        [("0.0.0.0", "127.0.0.2"), ("127.0.0.3", "127.0.0.3"), ("0.0.0.0", "127.0.0.4")]
    {
        files.write("edge.yaml", &text(&format!("{address}:{admin}")));
        server.signal(Signal::HUP);
        server.line_with("reloaded ");
        assert!(metrics(reachable).contains("penstock_reloads_total{outcome=\"rejected\"} 0"));
    }
    // One that cannot be had leaves the old one.
    files.write("edge.yaml", &text(&format!("192.0.2.1:{admin}")));
    server.signal(Signal::HUP);
    server.line_with("kept the running configuration");
    assert!(metrics("127.0.0.4").contains("penstock_reloads_total{outcome=\"rejected\"} 1"));
}
