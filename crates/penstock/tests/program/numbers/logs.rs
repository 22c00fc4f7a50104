//! What the access log says, in which form, and of which responses.

use std::fs;
use std::os::unix::net::UnixDatagram;
use std::thread;

use penstock_testkit::{Client, DEADLINE, Server, Setup, Tool, until};
use rustix::process::Signal;

/// A server whose `log.access` has these keys. `ROOT` in the sites is its directory.
fn server_with(keys: &str, sites: &str) -> Server {
    let setup = Setup::new().sites(sites).log(&format!("access: {{{keys}}}"));
    setup.start()
}

/// The lines of a file of the server, once there are so many.
fn lines(server: &Server, file: &str, number: usize) -> Vec<String> {
    until("the lines", || {
        let text = fs::read_to_string(server.directory().join(file)).unwrap_or_default();
        let lines: Vec<String> = text.lines().map(str::to_owned).collect();
        (lines.len() >= number).then_some(lines)
    })
}

const SITE: &str = "- {hosts: [localhost], origin: {directory: root}}";

#[test]
fn a_line_has_the_fields_and_the_form_that_were_asked_for() {
    let server =
        server_with("path: a.log, format: fields, fields: [status, target, body_bytes, route]", SITE);
    server.file("clip.mp4", 1_000);
    let mut client = Client::plain(&server);
    client.get("/clip.mp4");
    client.get("/none%09");
    let seen = lines(&server, "a.log", 2);
    assert_eq!(seen[0], "200\t/clip.mp4\t1000\t-");
    assert!(seen[1].starts_with("404\t/none%09\t"), "{}", seen[1]);
    let server = server_with("path: a.log, format: combined", SITE);
    server.file("clip.mp4", 1_000);
    Client::plain(&server).get_with("/clip.mp4", "User-Agent: a\"b\r\nReferer: https://a.example/\r\n");
    let seen = lines(&server, "a.log", 1);
    assert!(seen[0].starts_with("127.0.0.1 - - ["), "{}", seen[0]);
    assert!(
        seen[0].ends_with(" +0000] \"GET /clip.mp4 HTTP/1.1\" 200 1000 \"https://a.example/\" \"a\\x22b\""),
        "{}",
        seen[0]
    );
}

#[test]
fn a_sample_is_every_so_many_or_the_errors_and_sites_can_be_chosen() {
    let server = server_with("path: a.log, sample: 1/3, fields: [target]", SITE);
    server.file("clip.mp4", 1_000);
    let mut client = Client::plain(&server);
    for number in 1..=7 {
        client.get(&format!("/clip.mp4?{number}"));
    }
    let seen = lines(&server, "a.log", 2);
    assert_eq!(seen, ["{\"target\":\"/clip.mp4?3\"}", "{\"target\":\"/clip.mp4?6\"}"]);
    let sites = "- {hosts: [localhost], origin: {directory: root}}\n- {hosts: [quiet.test], origin: {directory: root}}";
    let server =
        server_with("path: a.log, sample: errors, sites: [localhost], fields: [host, target]", sites);
    server.file("clip.mp4", 1_000);
    let mut client = Client::plain(&server);
    for (host, path) in [
        ("localhost", "/clip.mp4"),
        ("quiet.test", "/none"),
        ("elsewhere.test", "/none"),
        ("localhost", "/none"),
    ] {
        client.request(format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n"));
    }
    assert_eq!(lines(&server, "a.log", 1), ["{\"host\":\"localhost\",\"target\":\"/none\"}"]);
}

#[test]
fn lines_go_to_a_socket_of_syslog() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("log");
    let receiver = UnixDatagram::bind(&path).unwrap();
    receiver.set_read_timeout(Some(DEADLINE)).unwrap();
    let server = server_with(&format!("path: {}, fields: [status, target]", path.display()), SITE);
    server.file("clip.mp4", 1_000);
    Client::plain(&server).get("/clip.mp4");
    let mut buffer = [0; 512];
    let length = receiver.recv(&mut buffer).unwrap();
    let datagram = std::str::from_utf8(&buffer[..length]).unwrap();
    let expected = format!(
        "<190>penstock[{}]: {{\"target\":\"/clip.mp4\",\"status\":200}}",
        server.pid().as_raw_nonzero()
    );
    assert_eq!(datagram, expected);
}

/// The fields of a line, of which clients make the last three long.
const LONG: &str = "fields: [status, target, referer, user_agent]";

/// Fills the socket and the queue of a log that nothing reads, by lines of some 5 KiB: each quote becomes two bytes.
pub(crate) fn ask_until_lines_are_dropped(server: &Server) {
    let (target, quotes) = ("x".repeat(1_024), "\"".repeat(1_024));
    let request = format!(
        "GET /{target} HTTP/1.1\r\nHost: localhost\r\nReferer: {quotes}\r\nUser-Agent: {quotes}\r\n\r\n"
    );
    let mut client = Client::plain(server);
    until("lines that are dropped", || {
        for _ in 0..500 {
            assert_eq!(client.request(request.as_str()).status, 404);
        }
        let dropped = server.metrics().sum("penstock_access_log_dropped_total", &["reason=\"queue_full\""]);
        (dropped > 0.0).then_some(())
    });
}

#[test]
fn a_receiver_of_syslog_that_does_not_read_delays_no_request_and_gets_later_lines_once_it_reads() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("log");
    let receiver = UnixDatagram::bind(&path).unwrap();
    receiver.set_read_timeout(Some(DEADLINE)).unwrap();
    let server = server_with(&format!("path: {}, {LONG}", path.display()), SITE);
    server.file("clip.mp4", 1_000);
    ask_until_lines_are_dropped(&server);
    // Nothing reads any more when it ends.
    server.tolerate_warning("the access log is stuck in a write");
    let mut client = Client::plain(&server);
    assert_eq!(client.get("/clip.mp4").status, 200);
    thread::scope(|scope| {
        let reading = scope.spawn(|| {
            let mut buffer = [0; 16_384];
            loop {
                let length = receiver.recv(&mut buffer).unwrap();
                if buffer[..length].ends_with(b"{\"target\":\"/the-end\",\"status\":404}") {
                    return;
                }
            }
        });
        until("the last line", || {
            client.get("/the-end");
            reading.is_finished().then_some(())
        });
    });
}

#[test]
fn a_receiver_of_syslog_that_does_not_read_does_not_keep_the_program_from_ending() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("log");
    let _receiver = UnixDatagram::bind(&path).unwrap();
    let server = server_with(&format!("path: {}, {LONG}", path.display()), SITE);
    ask_until_lines_are_dropped(&server);
    server.expect_warning("the access log is stuck in a write");
    server.signal(Signal::TERM);
    assert!(server.wait().success());
}

#[test]
fn a_line_says_why_a_request_was_refused_what_the_player_said_and_how_the_network_was() {
    let sites = "- hosts: [localhost]\n  origin: {directory: root}\n  access: {deny: [127.0.0.0/8]}\n\
                 - {hosts: [open.test], origin: {directory: root}}";
    let server = Setup::new().sites(sites).start();
    server.file("large.mp4", 500_000);
    let mut client = Client::plain(&server);
    assert_eq!(client.request("GET /refused HTTP/1.1\r\nHost: localhost\r\n\r\n").status, 403);
    assert_eq!(server.logged("/refused")["refusal"], "address_denied");
    client.request(
        "GET /large.mp4 HTTP/1.1\r\nHost: open.test\r\nCMCD-Session: sid=\"session-7\",cid=\"film\"\r\n\
         traceparent: 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01\r\n\r\n",
    );
    let line = server.logged("/large.mp4");
    assert_eq!((&line["cmcd_session"], &line["cmcd_content"]), (&"session-7".into(), &"film".into()));
    assert_eq!(line["trace_id"], "4bf92f3577b34da6a3ce929d0e0e4736");
    assert!(line["rtt_ms"].is_number() && line["refusal"].is_null(), "{line}");
    let curl = Tool::curl(&server).args(["--http2", "-k", "-H", "Host: open.test", "-o", "/dev/null"]);
    curl.arg(server.url("/large.mp4?h2")).run().ok();
    let line = server.logged("/large.mp4?h2");
    assert!(line["rtt_ms"].is_number() && line["trace_id"].is_null(), "{line}");
}

#[test]
fn connections_that_end_without_a_request_leave_lines_if_they_are_wanted() {
    let setup = || Setup::new().limits("head_deadline: 1s");
    let log = "access: {path: access.jsonl, connections: true}";
    let server = setup().log(log).start();
    server.file("clip.mp4", 1_000);
    let ended = |number| {
        until("lines of connections", || {
            let lines = server.access_log();
            let lines: Vec<_> = lines.into_iter().filter(|line| line["outcome"] == "no_request").collect();
            (lines.len() >= number).then_some(lines)
        })
    };
    drop(Client::plain(&server));
    let line = ended(1).pop().unwrap();
    assert_eq!((&line["client_ip"], &line["status"]), (&"127.0.0.1".into(), &0.into()), "{line}");
    assert!(line["tls"].is_null() && line["refusal"].is_null(), "{line}");
    drop(Client::tls(&server));
    let line = ended(2).pop().unwrap();
    assert_eq!(line["tls"]["version"], "TLSv1.3", "{line}");
    Tool::s_client(&server).args(["-tls1_1", "-cipher", "ALL:@SECLEVEL=0"]).run();
    let line = ended(3).pop().unwrap();
    assert!(line["refusal"].is_string() && line["tls"].is_null(), "{line}");
    // One that has had an answer leaves no such line, whatever it sent.
    Client::plain(&server).get("/clip.mp4");
    Client::plain(&server).request("no request\r\n\r\n");
    drop(Client::plain(&server));
    assert_eq!(ended(4).len(), 4);
    let quiet = setup().start();
    quiet.file("clip.mp4", 1_000);
    drop(Client::plain(&quiet));
    Client::plain(&quiet).get("/clip.mp4");
    quiet.logged("/clip.mp4");
    assert_eq!(quiet.access_log().len(), 1);
}

#[test]
fn a_response_that_a_drain_cuts_leaves_a_line() {
    let setup = Setup::new().limits("drain_deadline: 1s");
    let server = setup.start();
    server.file("large.mp4", 64_000_000);
    let mut client = Client::plain(&server);
    let head = client.begin("/large.mp4");
    assert_eq!(head.status, 200);
    server.signal(Signal::TERM);
    server.wait();
    let line = server.logged("/large.mp4");
    assert_eq!(line["outcome"], "drain", "{line}");
    assert!(line["body_bytes"].as_u64().is_some_and(|sent| (1..64_000_000).contains(&sent)), "{line}");
}
