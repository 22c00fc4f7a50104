//! The console over real sockets.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use penstock_cache::purge::PurgeOrder;
use penstock_console::{AdminSocket, Backend, Console, ConsoleLimits, OrderError, Readiness};
use serde_json::{Value, json};

/// Something to show.
struct Program {
    readiness: Mutex<Readiness>,
    mode: Mutex<String>,
    metrics: String,
    fails: AtomicBool,
    /// A purge of `slow` waits for it.
    disk: Mutex<()>,
    /// Whether a purge of `slow` has begun.
    purging: AtomicBool,
}

impl Backend for Program {
    fn metrics(&self) -> String {
        assert!(!self.fails.load(Ordering::Relaxed), "a fault of the program, made by the test");
        self.metrics.clone()
    }

    fn status(&self) -> Value {
        json!({"version": "1.2.3", "uptime_seconds": 61, "connections": {"open": 7}})
    }

    fn readiness(&self) -> Readiness {
        *self.readiness.lock().unwrap()
    }

    fn chacha20(&self) -> Value {
        json!({"mode": *self.mode.lock().unwrap()})
    }

    fn set_chacha20(&self, mode: &str) -> Result<Value, String> {
        if mode == "odd" {
            return Err("`odd` is no mode".to_owned());
        }
        mode.clone_into(&mut self.mode.lock().unwrap());
        Ok(self.chacha20())
    }

    fn purge(&self, order: &PurgeOrder, _confirm: bool) -> Result<Value, OrderError> {
        match order.target.text() {
            "wrong" => Err(OrderError::Wrong("`wrong` is no URL".to_owned())),
            "full" => Err(OrderError::Failed("the disk is full".to_owned())),
            "slow" => {
                self.purging.store(true, Ordering::Relaxed);
                drop(self.disk.lock().unwrap());
                Ok(json!({}))
            }
            value => Ok(json!({"kind": order.target.kind().label(), "value": value, "soft": order.soft})),
        }
    }

    fn revoke(&self, ids: &[String], expires: &str, confirm: bool) -> Result<Value, OrderError> {
        match expires {
            "soon" => Err(OrderError::Wrong("`soon` is no time".to_owned())),
            _ => Ok(json!({"ids": ids, "expires": expires, "confirm": confirm})),
        }
    }

    fn is_own_name(&self, name: &str) -> bool {
        name == "edge1.example.com"
    }
}

const LIMITS: ConsoleLimits = ConsoleLimits {
    connections: 8,
    head_deadline: Duration::from_secs(60),
    deadline: Duration::from_secs(60),
    head_bytes: 8192,
    send_buffer: 256 * 1024,
    listeners: 1,
    interval: Duration::from_secs(1),
    points: 60,
    accept_retry: Duration::from_millis(100),
};

fn program() -> Arc<Program> {
    Arc::new(Program {
        readiness: Mutex::new(Readiness::Ready),
        mode: Mutex::new("client".to_owned()),
        metrics: "# TYPE up gauge\nup 1\n".to_owned(),
        fails: AtomicBool::new(false),
        disk: Mutex::default(),
        purging: AtomicBool::new(false),
    })
}

fn console(program: &Arc<Program>, limits: ConsoleLimits) -> Console {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let backend: Arc<dyn Backend> = Arc::<Program>::clone(program);
    Console::start(listener, backend, limits).unwrap()
}

struct Reply {
    status: u16,
    head: String,
    body: String,
}

/// Sends bytes and reads until the console closes.
fn exchange(address: &str, request: &[u8]) -> Reply {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(request).unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    Reply { status, head: head.to_ascii_lowercase(), body: body.to_owned() }
}

fn ask(console: &Console, method: &str, path: &str) -> Reply {
    let request = format!("{method} {path} HTTP/1.1\r\nHost: localhost\r\n\r\n");
    exchange(console.address(), request.as_bytes())
}

#[test]
fn metrics_are_served_in_the_text_format() {
    let console = console(&program(), LIMITS);
    let answer = ask(&console, "GET", "/metrics");
    assert_eq!(answer.status, 200);
    assert!(answer.head.contains("content-type: text/plain; version=0.0.4; charset=utf-8"));
    assert!(answer.head.contains("connection: close"));
    assert_eq!(answer.body, "# TYPE up gauge\nup 1\n");
}

#[test]
fn health_is_200_only_while_serving() {
    let program = program();
    let console = console(&program, LIMITS);
    for (health, status, body) in [(Readiness::Ready, 200, "ok\n"), (Readiness::Draining, 503, "draining\n")]
    {
        *program.readiness.lock().unwrap() = health;
        let answer = ask(&console, "GET", "/healthz");
        assert_eq!((answer.status, answer.body.as_str()), (status, body));
    }
}

#[test]
fn status_is_a_json_document() {
    let console = console(&program(), LIMITS);
    let answer = ask(&console, "GET", "/status.json?pretty");
    assert_eq!(answer.status, 200);
    assert!(answer.head.contains("content-type: application/json"));
    let status: Value = serde_json::from_str(&answer.body).unwrap();
    assert_eq!(status["connections"]["open"], 7);
}

#[test]
fn the_index_links_all_pages_and_loads_its_own_files_only() {
    let console = console(&program(), LIMITS);
    let answer = ask(&console, "GET", "/");
    assert_eq!(answer.status, 200);
    assert!(answer.head.contains("content-type: text/html; charset=utf-8"));
    assert!(answer.head.contains("content-security-policy: default-src 'none'"));
    for path in ["/metrics", "/status.json", "/history.json", "/healthz", "/page/page.css", "/page/icon.svg"]
    {
        assert!(answer.body.contains(&format!("href=\"{path}\"")), "{path}");
        assert_eq!(ask(&console, "GET", path).status, 200, "{path}");
    }
    assert!(answer.body.contains("1.2.3") && answer.body.contains("up 1 min"));
    let sources = answer.body.split("src=\"").skip(1).map(|rest| rest.split('"').next().unwrap());
    for source in sources {
        let script = ask(&console, "GET", source);
        assert_eq!(script.status, 200, "{source}");
        assert!(script.head.contains("content-type: text/javascript"), "{}", script.head);
    }
    assert!(!answer.body.contains("http://") && !answer.body.contains("https://"));
    assert!(!answer.body.contains("style=") && !answer.body.contains("<style"), "the policy refuses it");
}

#[test]
fn head_is_get_without_the_body() {
    let console = console(&program(), LIMITS);
    let answer = ask(&console, "HEAD", "/metrics");
    assert_eq!(answer.status, 200);
    assert!(answer.head.contains("content-length: 21"));
    assert_eq!(answer.body, "");
}

#[test]
fn an_unknown_path_is_404_and_another_method_is_405() {
    let console = console(&program(), LIMITS);
    assert_eq!(ask(&console, "GET", "/metrics/").status, 404);
    assert_eq!(ask(&console, "POST", "/nowhere").status, 404);
    let answer = ask(&console, "DELETE", "/metrics");
    assert_eq!(answer.status, 405);
    assert!(answer.head.contains("allow: get, head"));
}

#[test]
fn the_switch_is_shown_by_get_and_turned_by_post() {
    let program = program();
    let console = console(&program, LIMITS);
    assert!(ask(&console, "GET", "/ciphers/chacha20?mode=never").body.contains("\"client\""));
    let answer = ask(&console, "POST", "/ciphers/chacha20?mode=never");
    assert_eq!(answer.status, 200);
    assert!(answer.body.contains("\"never\""), "{}", answer.body);
    assert!(ask(&console, "GET", "/ciphers/chacha20").body.contains("\"never\""));
    for target in ["/ciphers/chacha20", "/ciphers/chacha20?never", "/ciphers/chacha20?mode=odd"] {
        assert_eq!(ask(&console, "POST", target).status, 400, "{target}");
    }
    let answer = ask(&console, "DELETE", "/ciphers/chacha20");
    assert_eq!(answer.status, 405);
    assert!(answer.head.contains("allow: get, head, post"));
    assert_eq!(*program.mode.lock().unwrap(), "never");
}

#[test]
fn a_web_page_cannot_turn_the_switch() {
    let program = program();
    let console = console(&program, LIMITS);
    let request = b"POST /ciphers/chacha20?mode=never HTTP/1.1\r\nHost: localhost\r\n\
        Origin: https://evil.example\r\nContent-Length: 0\r\n\r\n";
    assert_eq!(exchange(console.address(), request).status, 403);
    assert_eq!(*program.mode.lock().unwrap(), "client");
}

#[test]
fn revoking_is_a_post_with_ids_and_a_time() {
    let console = console(&program(), LIMITS);
    let said = |method: &str, target: &str| {
        let answer = ask(&console, method, target);
        (answer.status, serde_json::from_str::<Value>(&answer.body).unwrap_or_default())
    };
    let wanted = json!({"ids": ["a&b", "c"], "expires": "6h", "confirm": true});
    assert_eq!(said("POST", "/tokens/revoke?id=a%26b&expires=6h&id=c&fleet=1"), (200, wanted));
    let refused = said("POST", "/tokens/revoke?id=a&expires=soon");
    assert_eq!(refused, (400, json!({"error": "`soon` is no time"})));
    assert_eq!(said("POST", "/tokens/revoke?id=a").0, 400);
    assert_eq!(said("GET", "/tokens/revoke?id=a&expires=6h").0, 405);
}

#[test]
fn purging_is_a_post_or_the_method_purge() {
    let console = console(&program(), LIMITS);
    let said = |method: &str, target: &str| {
        let answer = ask(&console, method, target);
        (answer.status, serde_json::from_str::<Value>(&answer.body).unwrap_or_default())
    };
    let wanted =
        |kind: &str, value: &str, soft: bool| (200, json!({"kind": kind, "value": value, "soft": soft}));
    assert_eq!(said("POST", "/cache/purge?url=https://a/b?c"), wanted("url", "https://a/b?c", false));
    assert_eq!(
        said("POST", "/cache/purge?prefix=https%3A%2F%2Fa%2F%26&soft=1"),
        wanted("prefix", "https://a/&", true)
    );
    assert_eq!(said("POST", "/cache/purge?soft=0&tag=news"), wanted("tag", "news", false));
    assert_eq!(said("POST", "/cache/purge?everything=1"), wanted("everything", "", false));
    assert_eq!(said("PURGE", "/vod/a.mp4?x").1["kind"], "url");
    for target in ["", "?", "?url=", "?url=/a&tag=b", "?url=%zz", "?uri=/a", "?soft=1"] {
        assert_eq!(said("POST", &format!("/cache/purge{target}")).0, 400, "{target}");
    }
    assert_eq!(said("POST", "/cache/purge?url=wrong").0, 400);
    assert_eq!(said("POST", "/cache/purge?url=full"), (500, json!({"error": "the disk is full"})));
    assert_eq!(said("GET", "/cache/purge?url=/a").0, 405);
    let from_a_page = b"PURGE /a HTTP/1.1\r\nHost: a\r\nOrigin: https://evil.example\r\n\r\n";
    assert_eq!(exchange(console.address(), from_a_page).status, 403);
    let with_host = b"PURGE /a HTTP/1.1\r\nHost: video.example.com\r\nSoft-Purge: 1\r\n\r\n";
    let answer = exchange(console.address(), with_host);
    assert!(
        answer.body.contains("http://video.example.com/a") && answer.body.contains("true"),
        "{}",
        answer.body
    );
}

#[test]
fn a_head_over_8_kib_is_431_and_garbage_is_400() {
    let console = console(&program(), LIMITS);
    let mut long = b"GET / HTTP/1.1\r\nHost: localhost\r\nX: ".to_vec();
    long.resize(8192, b'a');
    assert_eq!(exchange(console.address(), &long).status, 431);
    assert_eq!(exchange(console.address(), b"\x16\x03\x01\x02\x00\x01").status, 400);
    assert_eq!(ask(&console, "GET", "/healthz").status, 200);
}

#[test]
fn curl_reads_a_large_scrape_whole() {
    let metrics = "penstock_requests_total{status=\"2xx\"} 1\n".repeat(100_000);
    let program = Arc::new(Program {
        readiness: Mutex::new(Readiness::Ready),
        mode: Mutex::default(),
        metrics: metrics.clone(),
        fails: AtomicBool::new(false),
        disk: Mutex::default(),
        purging: AtomicBool::new(false),
    });
    let console = console(&program, LIMITS);
    let url = format!("http://{}/metrics", console.address());
    let output = Command::new("curl").args(["--silent", "--fail", "--noproxy", "*", &url]).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    assert!(output.stdout == metrics.as_bytes());
}

#[test]
fn a_client_that_closes_its_half_still_gets_the_answer() {
    let console = console(&program(), LIMITS);
    let mut stream = TcpStream::connect(console.address()).unwrap();
    stream.write_all(b"GET /healthz HTTP/1.0\r\n\r\n").unwrap();
    stream.shutdown(std::net::Shutdown::Write).unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    assert!(text.starts_with("HTTP/1.0 200") && text.ends_with("ok\n"), "{text}");
}

/// Clients that send half a head and then nothing.
fn slow_clients(console: &Console, count: usize) -> Vec<TcpStream> {
    let connect = |_| {
        let mut stream = TcpStream::connect(console.address()).unwrap();
        stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: lo").unwrap();
        stream
    };
    (0..count).map(connect).collect()
}

#[test]
fn slow_clients_do_not_hold_up_others() {
    let console = console(&program(), LIMITS);
    let slow = slow_clients(&console, LIMITS.connections - 1);
    for _ in 0..20 {
        assert_eq!(ask(&console, "GET", "/metrics").status, 200);
    }
    for mut stream in slow {
        stream.write_all(b"calhost\r\n\r\n").unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        assert!(text.starts_with("HTTP/1.1 200"), "the slow ones were not dropped: {text}");
    }
}

/// A connection whose purge has begun and waits for the disk.
fn slow_purge(console: &Console, program: &Program) -> TcpStream {
    let mut stream = TcpStream::connect(console.address()).unwrap();
    stream.write_all(b"POST /cache/purge?url=slow HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    while !program.purging.load(Ordering::Relaxed) {
        std::thread::yield_now();
    }
    stream
}

/// Reads until the console closes; the bytes that came.
fn closed(mut stream: TcpStream) -> Vec<u8> {
    let mut text = Vec::new();
    if let Err(error) = stream.read_to_end(&mut text) {
        assert_eq!(error.kind(), io::ErrorKind::ConnectionReset);
    }
    text
}

#[test]
fn more_half_open_connections_than_allowed_do_not_hold_up_a_health_check() {
    let console = console(&program(), LIMITS);
    let slow = slow_clients(&console, 4 * LIMITS.connections);
    assert_eq!(ask(&console, "GET", "/healthz").status, 200);
    // All but the newest were closed for those that came later.
    for stream in slow.into_iter().take(3 * LIMITS.connections) {
        assert_eq!(closed(stream), b"");
    }
}

#[test]
fn a_client_that_waits_for_its_answer_is_not_closed_for_a_new_one() {
    let program = program();
    let console = console(&program, LIMITS);
    let disk = program.disk.lock().unwrap();
    let mut purge = slow_purge(&console, &program);
    let slow = slow_clients(&console, 2 * LIMITS.connections);
    assert_eq!(ask(&console, "GET", "/healthz").status, 200);
    drop(disk);
    let mut text = String::new();
    purge.read_to_string(&mut text).unwrap();
    assert!(text.starts_with("HTTP/1.1 200"), "{text}");
    drop(slow);
}

#[test]
fn a_purge_that_waits_for_a_disk_does_not_hold_up_a_health_check() {
    let program = program();
    let console = console(&program, LIMITS);
    let disk = program.disk.lock().unwrap();
    let mut purge = slow_purge(&console, &program);
    for _ in 0..4 {
        assert_eq!(ask(&console, "GET", "/healthz").status, 200);
    }
    drop(disk);
    let mut text = String::new();
    purge.read_to_string(&mut text).unwrap();
    assert!(text.starts_with("HTTP/1.1 200"), "{text}");
}

#[test]
fn a_head_that_does_not_end_is_closed_at_its_deadline() {
    let limits = ConsoleLimits { head_deadline: Duration::from_millis(100), ..LIMITS };
    let console = console(&program(), limits);
    for stream in slow_clients(&console, 2) {
        assert_eq!(closed(stream), b"");
    }
    assert_eq!(ask(&console, "GET", "/healthz").status, 200);
}

#[test]
fn a_foreign_name_in_host_is_refused_everywhere_but_in_health_checks() {
    let console = console(&program(), LIMITS);
    let status = |host: &str, method: &str, path: &str| {
        let request = format!("{method} {path} HTTP/1.1\r\nHost: {host}\r\n\r\n");
        exchange(console.address(), request.as_bytes()).status
    };
    let own = [
        "localhost:9600",
        "LOCALHOST.",
        "127.0.0.1",
        "192.0.2.7:9600",
        "[2001:db8::1]:9600",
        "edge1.example.com",
    ];
    for host in own {
        assert_eq!(status(host, "GET", "/metrics"), 200, "{host}");
    }
    for host in ["evil.example", "evil.example:9600", "localhost.evil.example", "127.0.0.1.evil.example", ""]
    {
        for path in ["/", "/metrics", "/status.json", "/ciphers/chacha20", "/nowhere"] {
            assert_eq!(status(host, "GET", path), 421, "{host} {path}");
        }
        assert_eq!(status(host, "POST", "/cache/purge?everything=1"), 421, "{host}");
        assert_eq!(status(host, "GET", "/healthz"), 200, "{host}");
    }
    // A proxy's form of the target counts as well.
    let request = b"GET http://evil.example/metrics HTTP/1.1\r\nHost: localhost\r\n\r\n";
    assert_eq!(exchange(console.address(), request).status, 421);
}

#[test]
fn requests_of_a_page_of_another_origin_change_nothing() {
    let program = program();
    let console = console(&program, LIMITS);
    let status = |line: &str, site: &str| {
        let request = format!("{line} HTTP/1.1\r\nHost: localhost\r\nSec-Fetch-Site: {site}\r\n\r\n");
        exchange(console.address(), request.as_bytes()).status
    };
    for line in [
        "POST /cache/purge?everything=1",
        "PURGE /a",
        "POST /ciphers/chacha20?mode=never",
        "POST /tokens/revoke?id=a&expires=1h",
    ] {
        for foreign in ["cross-site", "same-site", "odd"] {
            assert_eq!(status(line, foreign), 403, "{line} {foreign}");
        }
    }
    assert_eq!(*program.mode.lock().unwrap(), "client");
    for own in ["same-origin", "none"] {
        assert_eq!(status("POST /cache/purge?everything=1", own), 200, "{own}");
    }
}

#[test]
fn a_client_that_stops_reading_is_closed_at_the_deadline() {
    let program = Arc::new(Program {
        readiness: Mutex::new(Readiness::Ready),
        mode: Mutex::default(),
        metrics: "x".repeat(32 << 20), // more than the socket buffers of both sides hold
        fails: AtomicBool::new(false),
        disk: Mutex::default(),
        purging: AtomicBool::new(false),
    });
    let limits = ConsoleLimits { connections: 1, deadline: Duration::from_secs(1), ..LIMITS };
    let console = console(&program, limits);
    let mut stuck = TcpStream::connect(console.address()).unwrap();
    stuck.write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    // The only slot is free again although the first client has read nothing.
    assert_eq!(ask(&console, "GET", "/healthz").status, 200);
    let mut received = Vec::new();
    drop(stuck.read_to_end(&mut received));
    assert!(received.len() < 32 << 20);
}

#[test]
fn a_panic_in_the_backend_costs_only_its_own_connection() {
    let program = program();
    let console = console(&program, LIMITS);
    program.fails.store(true, Ordering::Relaxed);
    for _ in 0..2 * LIMITS.connections {
        let mut stream = TcpStream::connect(console.address()).unwrap();
        stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
        let mut text = Vec::new();
        assert!(stream.read_to_end(&mut text).is_err() || text.is_empty());
    }
    program.fails.store(false, Ordering::Relaxed);
    assert_eq!(ask(&console, "GET", "/metrics").status, 200);
}

#[test]
fn dropping_the_console_frees_its_port() {
    let console = console(&program(), LIMITS);
    let address = console.address().to_owned();
    let open = slow_clients(&console, 2);
    assert_eq!(ask(&console, "GET", "/healthz").status, 200);
    drop(console);
    assert_eq!(TcpStream::connect(address).unwrap_err().kind(), io::ErrorKind::ConnectionRefused);
    drop(open);
}

#[test]
fn a_unix_socket_answers_as_an_address_does() {
    let path = std::env::temp_dir().join(format!("penstock-console-{}.sock", std::process::id()));
    let socket = AdminSocket::Unix(std::os::unix::net::UnixListener::bind(&path).unwrap());
    let console = Console::start(socket, program() as Arc<dyn Backend>, LIMITS).unwrap();
    assert_eq!(console.address(), format!("unix:{}", path.display()));
    let mut stream = std::os::unix::net::UnixStream::connect(&path).unwrap();
    stream.write_all(b"GET /status.json HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 ") && answer.contains("\"1.2.3\""), "{answer}");
    drop(console);
    let closed = std::os::unix::net::UnixStream::connect(&path);
    assert_eq!(closed.unwrap_err().kind(), io::ErrorKind::ConnectionRefused);
    std::fs::remove_file(&path).unwrap();
}
