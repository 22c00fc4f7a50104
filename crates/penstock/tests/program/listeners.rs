//! Listeners of all kinds: plain, behind a balancer, IPv6; and the line that each response leaves in the access log.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::process::{Command, Stdio};
use std::time::{SystemTime, UNIX_EPOCH};

use penstock_testkit::{Certificates, Client, Process, ReservedAddress, Setup, TlsOptions, Tool, until};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

const PROXY: &str = "proxy_protocol: true";
const TLS_PROXY: &str = "tls: true, proxy_protocol: true";
const GET: &str = "GET /a.mp4 HTTP/1.1\r\nHost: localhost\r\n\r\n";

#[test]
fn plain_http_comes_straight_from_the_file() {
    let server = Setup::new().listeners(&[""]).start();
    let file = server.file("film.mp4", 9_000_001);
    let curl = Tool::curl(&server).arg(server.plain_url("/film.mp4")).run().ok();
    file.assert_range(0..file.len, &curl.stdout);
    let sent = || server.metrics().sum("penstock_sent_bytes_total", &["outlet=\"plain\""]);
    until("the bytes to be counted", || (sent() > 9_000_000.0).then_some(()));
    assert_eq!(
        server.metrics().sum("penstock_egress_connections_total", &["kind=\"plain\"", "reason=\"no_tls\""]),
        1.0
    );
}

#[test]
fn a_client_that_has_said_all_it_has_to_say_still_gets_its_answer() {
    // `nc`, some monitors: they close their side behind the request.
    let server = Setup::new().start();
    let file = server.file("film.mp4", 3_000_000);
    let mut client = Client::plain(&server);
    client.ask("/film.mp4");
    client.stream.shutdown(std::net::Shutdown::Write).unwrap();
    file.assert_range(0..file.len, &client.response().unwrap().body);
    client.assert_closed();
}

#[test]
fn many_listeners_serve_at_the_same_time() {
    let server = Setup::new().listeners(&["", "tls: true", "", "tls: true"]).start();
    let file = server.file("a.mp4", 1000);
    for place in 0..4 {
        let scheme = if place % 2 == 0 { "http" } else { "https" };
        let url = format!("{scheme}://localhost:{}/a.mp4", server.listener(place).port());
        file.assert_range(0..1000, &Tool::curl(&server).arg(url).run().ok().stdout);
    }
    let metrics = server.metrics();
    for place in 0..4 {
        let listener = format!("listener=\"{}\"", server.listener(place));
        assert_eq!(metrics.sum("penstock_connections_total", &[&listener]), 1.0, "{listener}");
    }
}

/// Runs the program as systemd does for a socket unit: its parent opened this listener and keeps it open.
fn socket_activated(listener: &TcpListener, options: &[&str]) -> Command {
    // A shell, since only the process itself knows its number before the program runs.
    const SCRIPT: &str = "exec 3<&0 0</dev/null; LISTEN_PID=$$ LISTEN_FDS=1 exec \"$@\"";
    let mut command = Command::new("sh");
    command.args(["-c", SCRIPT, "sh", penstock_testkit::program(), "serve", "--plain"]).args(options);
    command.stdin(Stdio::from(OwnedFd::from(listener.try_clone().unwrap()))).stdout(Stdio::null());
    command.stderr(Stdio::piped());
    command
}

#[test]
fn a_socket_of_the_service_manager_is_the_listener_with_its_address() {
    let reserved = ReservedAddress::reserve();
    let listener = reserved.listen();
    let address = listener.local_addr().unwrap();
    let root = penstock_testkit::disk_directory();
    std::fs::write(root.path().join("a.txt"), "from the root").unwrap();
    let (root, listen) = (root.path().to_str().unwrap(), address.to_string());
    let options = ["--root", root, "--workers", "2", "--listen", &listen];
    for _ in 0..2 {
        let mut server = Process::spawn(&mut socket_activated(&listener, &options)).unwrap();
        // Clients wait in the queue of the socket until the program serves, and while there is none.
        for _ in 0..8 {
            let mut client = Client::connect(address).stream;
            client.write_all(b"GET /a.txt HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").unwrap();
            let mut answer = String::new();
            client.read_to_string(&mut answer).unwrap();
            assert!(answer.starts_with("HTTP/1.1 200 OK") && answer.ends_with("from the root"), "{answer}");
        }
        kill_process(Pid::from_child(&server), Signal::TERM).unwrap();
        assert_eq!(until("its end", || server.try_wait().unwrap()).code(), Some(0));
    }
}

#[test]
fn a_socket_of_the_service_manager_without_a_listener_is_an_error_that_names_it() {
    let reserved = ReservedAddress::reserve();
    let listener = reserved.listen();
    let root = penstock_testkit::disk_directory();
    let options = ["--root", root.path().to_str().unwrap(), "--listen", "127.0.0.1:0"];
    let ended = socket_activated(&listener, &options).output().unwrap();
    let said = String::from_utf8_lossy(&ended.stderr).into_owned();
    let remedy = format!("write `- address: {}` under `listeners`", listener.local_addr().unwrap());
    assert!(said.contains(&remedy), "{said}");
    assert_eq!(ended.status.code(), Some(2), "{said}");
}

#[test]
fn ipv6_clients_are_served_and_logged() {
    let server = Setup::new().listeners(&["address: \"[::1]:0\", tls: true", "address: \"[::1]:0\""]).start();
    let file = server.file("a.mp4", 1000);
    for (place, scheme) in ["https", "http"].into_iter().enumerate() {
        let url = format!("{scheme}://[::1]:{}/a.mp4?{scheme}", server.listener(place).port());
        file.assert_range(0..1000, &Tool::curl(&server).args(["--globoff", &url]).run().ok().stdout);
        let line = server.logged(&format!("/a.mp4?{scheme}"));
        assert_eq!((&line["client_ip"], &line["host"]), (&"::1".into(), &"[::1]".into()), "{line}");
    }
}

#[test]
fn curl_passes_as_a_balancer() {
    let server = Setup::new().listeners(&[PROXY, TLS_PROXY]).start();
    let file = server.file("a.mp4", 1000);
    for url in [server.plain_url("/a.mp4"), server.url("/a.mp4")] {
        let curl = Tool::curl(&server).args(["--haproxy-protocol", "-w", "%{local_port}", "-o"]);
        let port: u64 = curl.arg(server.directory().join("copy")).arg(url).run().ok().text().parse().unwrap();
        file.assert_file(&server.directory().join("copy"));
        until("its port in the log", || {
            server.access_log().iter().any(|line| line["client_port"] == port).then_some(())
        });
    }
}

#[test]
fn the_client_that_a_balancer_names_is_the_one_that_is_logged() {
    let server = Setup::new().listeners(&[PROXY, TLS_PROXY]).start();
    server.write("a.mp4", "x");
    for (number, (header, client)) in [
        (b"PROXY TCP4 192.0.2.7 198.51.100.1 51234 443\r\n".to_vec(), "192.0.2.7:51234"),
        (b"PROXY TCP6 2001:db8::7 2001:db8::1 51234 443\r\n".to_vec(), "[2001:db8::7]:51234"),
        (version_2(0x21, 0x11, &[192, 0, 2, 8, 198, 51, 100, 1, 0xc8, 0x22, 1, 187]), "192.0.2.8:51234"),
        (version_2(0x21, 0x21, &ipv6_addresses()), "[2001:db8::9]:51234"),
    ]
    .into_iter()
    .enumerate()
    {
        for (place, way) in ["http", "https"].into_iter().enumerate() {
            let target = format!("/a.mp4?{way}-{number}");
            let request = format!("GET {target} HTTP/1.1\r\nHost: localhost\r\n\r\n");
            let mut socket = Client::connect(server.listener(place)).stream;
            if way == "http" {
                // Header and request in one packet.
                socket.write_all(&[&header, request.as_bytes()].concat()).unwrap();
                assert_eq!(Client::over(socket).response().unwrap().status, 200, "{target}");
            } else {
                socket.write_all(&header).unwrap();
                let stream = TlsOptions::default().handshake(&server, socket).unwrap();
                assert_eq!(Client::over(stream).request(request).status, 200, "{target}");
            }
            assert_eq!(client_of(&server.logged(&target)), client, "{target}");
        }
    }
}

#[test]
fn a_balancer_that_names_no_client_is_the_client_itself() {
    let server = Setup::new().listeners(&[PROXY]).start();
    server.write("a.mp4", "x");
    for (number, header) in [
        b"PROXY UNKNOWN\r\n".to_vec(),
        b"PROXY UNKNOWN ffff::1 ffff::2 1 2\r\n".to_vec(),
        // LOCAL: a health check of the balancer itself.
        version_2(0x20, 0x00, &[]),
        // An address of a kind that has no port.
        version_2(0x21, 0x31, &[0; 216]),
    ]
    .into_iter()
    .enumerate()
    {
        let mut socket = Client::connect(server.listener(0)).stream;
        let own = socket.local_addr().unwrap();
        socket.write_all(&header).unwrap();
        let target = format!("/a.mp4?{number}");
        let request = format!("GET {target} HTTP/1.1\r\nHost: localhost\r\n\r\n");
        assert_eq!(Client::over(socket).request(request).status, 200, "{target}");
        assert_eq!(client_of(&server.logged(&target)), own.to_string(), "{target}");
    }
}

#[test]
fn additions_to_a_header_are_passed_over() {
    let server = Setup::new().listeners(&[PROXY]).start();
    server.write("a.mp4", "x");
    let mut body = vec![192, 0, 2, 8, 198, 51, 100, 1, 0xc8, 0x22, 1, 187];
    // PP2_TYPE_AUTHORITY, and a long one of no meaning.
    body.extend_from_slice(&[0x02, 0, 9]);
    body.extend_from_slice(b"localhost");
    body.extend_from_slice(&[0xee, 4, 0]);
    body.extend_from_slice(&[0; 1024]);
    let mut socket = Client::connect(server.listener(0)).stream;
    socket.write_all(&[&version_2(0x21, 0x11, &body), GET.as_bytes()].concat()).unwrap();
    assert_eq!(Client::over(socket).response().unwrap().status, 200);
    assert_eq!(client_of(&server.logged("/a.mp4")), "192.0.2.8:51234");
}

#[test]
fn a_header_that_comes_in_pieces_is_put_together() {
    let server = Setup::new().listeners(&[PROXY]).start();
    server.write("a.mp4", "x");
    let version_1 = b"PROXY TCP4 192.0.2.7 198.51.100.1 51234 443\r\n".to_vec();
    let version_2 = version_2(0x21, 0x11, &[192, 0, 2, 7, 198, 51, 100, 1, 0xc8, 0x22, 1, 187]);
    for (number, header) in [version_1, version_2].into_iter().enumerate() {
        let mut socket = Client::connect(server.listener(0)).stream;
        let target = format!("/a.mp4?{number}");
        let request = format!("GET {target} HTTP/1.1\r\nHost: localhost\r\n\r\n");
        for byte in [&header, request.as_bytes()].concat() {
            socket.write_all(&[byte]).unwrap();
        }
        assert_eq!(Client::over(socket).response().unwrap().status, 200);
        assert_eq!(client_of(&server.logged(&target)), "192.0.2.7:51234");
    }
}

#[test]
fn a_connection_without_the_required_proxy_header_is_not_served() {
    let server = Setup::new().listeners(&[PROXY, TLS_PROXY]).start();
    server.write("a.mp4", "x");
    let mut client = Client::connect(server.listener(0));
    client.send(GET);
    assert!(client.response().is_err());
    assert!(TlsOptions::default().handshake(&server, Client::connect(server.listener(1)).stream).is_err());
    let counted =
        || server.metrics().sum("penstock_request_rejections_total", &["reason=\"no_proxy_header\""]);
    until("both to be counted", || (counted() == 2.0).then_some(()));
    // Behind an unexpected header there is no request.
    let plain = Setup::new().start();
    let mut client = Client::plain(&plain);
    client.send(format!("PROXY TCP4 192.0.2.7 198.51.100.1 51234 443\r\n{GET}"));
    assert_eq!(client.response().unwrap().status, 400);
}

#[test]
fn each_response_leaves_a_line_with_what_one_wants_to_know() {
    let server = Setup::new().tls(&Certificates::yaml(&["ec"])).start();
    server.file("clip.mp4", 100_000);
    let curl = |arguments: &[&str], url: String| {
        let curl = Tool::curl(&server).args([
            "-o",
            "/dev/null",
            "-A",
            "Player \"1.0\"",
            "-e",
            "https://page.example/",
        ]);
        curl.args(arguments).arg(url).run().ok();
    };
    curl(&["-r", "0-999"], server.url("/clip.mp4?session=%22a%22"));
    let line = server.logged("/clip.mp4?session=%22a%22");
    for (key, value) in [
        ("client_ip", "127.0.0.1"),
        ("host", "localhost"),
        ("method", "GET"),
        ("referer", "https://page.example/"),
        ("user_agent", "Player \"1.0\""),
        ("range", "bytes=0-999"),
        ("protocol", "HTTP/1.1"),
        ("outlet", "user_space"),
        ("outcome", "complete"),
    ] {
        assert_eq!(line[key], value, "{key} in {line}");
    }
    assert_eq!(
        (&line["status"], &line["body_bytes"], &line["request_number"]),
        (&206.into(), &1000.into(), &1.into())
    );
    assert_eq!(line["tls"]["version"], "TLSv1.3");
    assert_eq!(line["tls"]["cipher"], "TLS_AES_128_GCM_SHA256");
    assert_eq!(line["tls"]["resumed"], false);
    assert!(line["ttfb_ms"].as_f64() <= line["duration_ms"].as_f64() && line["ttfb_ms"].is_f64(), "{line}");
    let time = line["time"].as_str().unwrap();
    assert!(Tool::new("date").args(["-u", "-d", time]).run().ok().code == 0, "{time}");

    curl(&["--http1.0"], server.plain_url("/none.mp4"));
    let line = server.logged("/none.mp4");
    assert_eq!(
        (&line["status"], &line["protocol"], &line["outlet"]),
        (&404.into(), &"HTTP/1.0".into(), &"plain".into())
    );
    assert_eq!((&line["tls"], &line["range"]), (&Value::Null, &Value::Null), "{line}");
}

#[test]
fn requests_of_one_connection_are_numbered_and_jq_can_read_them() {
    let server = Setup::new().start();
    server.file("clip.mp4", 1000);
    let mut client = Client::tls(&server);
    for number in 1..=50 {
        client.get_with(&format!("/clip.mp4?{number}"), "User-Agent: \u{fc}\t\"\\\r\n");
    }
    server.logged("/clip.mp4?50");
    let log = server.directory().join("access.jsonl");
    let jq = |filter: &str| Tool::new("jq").args(["-s", "-c", filter]).arg(&log).run().ok().text();
    assert_eq!(jq("[.[].request_number] == [range(1; 51)]"), "true\n");
    assert_eq!(jq("[.[].body_bytes] | unique"), "[1000]\n");
    assert_eq!(jq("[.[].client_port] | unique | length"), "1\n");
    let agent = jq(".[0].user_agent");
    assert_eq!(agent, "\"\u{fc}\\t\\\"\\\\\"\n");
    let counted = |name: &str| server.metrics().sum(name, &[]);
    until("the lines to be counted", || (counted("penstock_access_log_written_total") == 50.0).then_some(()));
    assert_eq!(counted("penstock_access_log_dropped_total"), 0.0);
}

#[test]
fn a_line_has_the_time_at_which_the_request_was_complete() {
    let server = Setup::new().start();
    server.file("film.mp4", 40_000_000);
    let mut client = Client::tls(&server);
    client.begin("/film.mp4");
    // The response has begun, so its request was complete before. It ends in a later millisecond.
    let milliseconds = || SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis();
    let begun = milliseconds();
    until("a later millisecond", || (milliseconds() > begun + 1).then_some(()));
    drop(client);
    let line = server.logged("/film.mp4");
    let time = line["time"].as_str().unwrap();
    let complete = Tool::new("date").args(["-u", "+%s%3N", "-d", time]).run().ok().text();
    assert!(complete.trim().parse::<u128>().unwrap() <= begun, "{line}");
}

#[test]
fn a_response_that_ends_early_says_why_in_the_log() {
    let server = Setup::new().start();
    server.file("film.mp4", 40_000_000);
    let mut client = Client::tls(&server);
    client.begin("/film.mp4");
    drop(client);
    let line = server.logged("/film.mp4");
    assert_eq!(line["outcome"], "client_closed");
    let bytes = line["body_bytes"].as_u64().unwrap();
    assert!(bytes > 0 && bytes < 40_000_000, "{line}");
}

/// A header of version 2: command, family and protocol, what follows.
fn version_2(command: u8, family: u8, body: &[u8]) -> Vec<u8> {
    let mut header = b"\r\n\r\n\0\r\nQUIT\n".to_vec();
    header.extend_from_slice(&[command, family]);
    header.extend_from_slice(&u16::try_from(body.len()).unwrap().to_be_bytes());
    header.extend_from_slice(body);
    header
}

/// From `[2001:db8::9]:51234` to `[2001:db8::1]:443`.
fn ipv6_addresses() -> Vec<u8> {
    let octets = |text: &str| text.parse::<std::net::Ipv6Addr>().unwrap().octets();
    [&octets("2001:db8::9")[..], &octets("2001:db8::1"), &51234u16.to_be_bytes(), &443u16.to_be_bytes()]
        .concat()
}

fn client_of(line: &Value) -> String {
    let ip = line["client_ip"].as_str().unwrap().parse().unwrap();
    let port = u16::try_from(line["client_port"].as_u64().unwrap()).unwrap();
    SocketAddr::new(ip, port).to_string()
}
