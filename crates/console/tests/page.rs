//! What the page needs: history, events, the token, and requests of the page itself.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use penstock_cache::purge::PurgeOrder;
use penstock_console::{Backend, Console, ConsoleLimits, OrderError, Readiness, Token};
use serde_json::{Value, json};

/// Something with one number, which counts the seconds.
struct Program {
    seconds: AtomicU64,
    /// Length of a text in the state.
    ballast: usize,
    token: Option<&'static str>,
    /// The second that panics.
    fails_at: u64,
}

impl Default for Program {
    fn default() -> Self {
        Self { seconds: AtomicU64::new(0), ballast: 0, token: None, fails_at: u64::MAX }
    }
}

impl Backend for Program {
    fn metrics(&self) -> String {
        String::new()
    }

    fn status(&self) -> Value {
        json!({"ballast": "x".repeat(self.ballast), "line\nbreak": true})
    }

    fn readiness(&self) -> Readiness {
        Readiness::Ready
    }

    fn chacha20(&self) -> Value {
        Value::Null
    }

    fn set_chacha20(&self, _mode: &str) -> Result<Value, String> {
        Ok(Value::Null)
    }

    fn purge(&self, order: &PurgeOrder, _confirm: bool) -> Result<Value, OrderError> {
        Ok(json!({"purged": 1, "value": order.target.text()}))
    }

    fn revoke(&self, ids: &[String], _expires: &str, _confirm: bool) -> Result<Value, OrderError> {
        Ok(json!({"revoked": ids.len()}))
    }

    fn is_own_name(&self, name: &str) -> bool {
        name == "edge1.example.com"
    }

    fn series(&self) -> Vec<&'static str> {
        vec!["seconds"]
    }

    fn second(&self) -> Vec<f32> {
        let second = self.seconds.fetch_add(1, Ordering::Relaxed);
        assert!(second != self.fails_at, "a fault of the program, made by the test");
        vec![second as f32]
    }

    fn token(&self) -> Option<Token> {
        self.token.map(|token| Token::new(token.as_bytes()))
    }
}

const LIMITS: ConsoleLimits = ConsoleLimits {
    connections: 8,
    head_deadline: Duration::from_secs(60),
    deadline: Duration::from_secs(60),
    head_bytes: 8192,
    send_buffer: 64 * 1024,
    listeners: 1,
    interval: Duration::from_millis(20),
    points: 60,
    accept_retry: Duration::from_millis(100),
};

fn console(program: Program, limits: ConsoleLimits) -> Console {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    Console::start(listener, Arc::new(program), limits).unwrap()
}

fn exchange(address: &str, request: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    (text.split(' ').nth(1).unwrap().parse().unwrap(), text)
}

fn get(console: &Console, path: &str, fields: &str) -> (u16, String) {
    exchange(console.address(), &format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n{fields}\r\n"))
}

fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < deadline, "waited in vain for {what}");
        thread::sleep(Duration::from_millis(10));
    }
}

/// A page that listens, and the lines of its events.
fn listen(console: &Console) -> BufReader<TcpStream> {
    let mut stream = TcpStream::connect(console.address()).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    stream.write_all(b"GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    BufReader::new(stream)
}

fn next_event(lines: &mut BufReader<TcpStream>) -> Value {
    loop {
        let mut line = String::new();
        assert!(lines.read_line(&mut line).unwrap() > 0, "the events have ended");
        if let Some(data) = line.strip_prefix("data: ") {
            return serde_json::from_str(data).unwrap();
        }
    }
}

#[test]
fn events_have_the_state_at_once_and_then_the_numbers_of_each_second() {
    let console = console(Program::default(), LIMITS);
    let mut events = listen(&console);
    let first = next_event(&mut events);
    assert_eq!((&first["values"], &first["status"]["line\nbreak"]), (&json!([]), &json!(true)));
    let mut seen = [next_event(&mut events), next_event(&mut events)].map(|event| {
        assert!(event["at"].as_u64().unwrap() > 1_700_000_000);
        event["values"][0].as_f64().unwrap()
    });
    assert!(seen[0] < seen[1], "{seen:?}");
    seen[0] = next_event(&mut events)["values"][0].as_f64().unwrap();
    assert!(seen[1] < seen[0], "{seen:?}");
}

#[test]
fn the_history_has_one_number_for_each_second_and_ends_with_the_newest() {
    let limits = ConsoleLimits { interval: Duration::from_secs(1), ..LIMITS };
    let console = console(Program::default(), limits);
    let history = until("two seconds", || {
        let (status, text) = get(&console, "/history.json", "");
        assert_eq!(status, 200);
        let history: Value = serde_json::from_str(text.split_once("\r\n\r\n").unwrap().1).unwrap();
        (history["series"]["seconds"].as_array().unwrap().len() >= 3).then_some(history)
    });
    assert_eq!(history["step_seconds"], 1);
    assert_eq!(history["series"]["seconds"].as_array().unwrap()[..1], [json!(0)]);
    let (_, last) = get(&console, "/history.json?seconds=1", "");
    let last: Value = serde_json::from_str(last.split_once("\r\n\r\n").unwrap().1).unwrap();
    assert_eq!(last["series"]["seconds"].as_array().unwrap().len(), 1);
    for wrong in ["/history.json?seconds=x", "/history.json?minutes=1", "/history.json?seconds=-1"] {
        assert_eq!(get(&console, wrong, "").0, 400, "{wrong}");
    }
}

#[test]
fn a_page_more_than_may_listen_gets_503_and_has_a_place_when_another_leaves() {
    let console = console(Program::default(), LIMITS);
    let mut first = listen(&console);
    next_event(&mut first);
    let (status, text) = get(&console, "/events", "");
    assert_eq!(status, 503);
    assert!(text.contains("as many pages listen as may"), "{text}");
    drop(first);
    until("the place", || {
        let mut second = listen(&console);
        let mut line = String::new();
        second.read_line(&mut line).unwrap();
        line.starts_with("HTTP/1.1 200").then(|| next_event(&mut second))
    });
}

#[test]
fn a_page_that_does_not_read_is_closed() {
    let limits = ConsoleLimits { deadline: Duration::from_secs(1), ..LIMITS };
    let console = console(Program { ballast: 1 << 20, ..Program::default() }, limits);
    let stuck = listen(&console);
    // Its place is free again although it has neither read nor left.
    until("the place", || {
        let mut second = listen(&console);
        let mut line = String::new();
        second.read_line(&mut line).unwrap();
        line.starts_with("HTTP/1.1 200").then_some(())
    });
    drop(stuck);
}

#[test]
fn a_page_that_reads_outlives_the_deadline_of_a_response() {
    let limits = ConsoleLimits { deadline: Duration::from_millis(500), ..LIMITS };
    let console = console(Program::default(), limits);
    let mut events = listen(&console);
    let begun = Instant::now();
    while begun.elapsed() < 4 * limits.deadline {
        next_event(&mut events);
    }
}

#[test]
fn a_panic_costs_one_point() {
    let console = console(Program { fails_at: 2, ..Program::default() }, LIMITS);
    let mut events = listen(&console);
    until("the seconds after", || {
        let event = next_event(&mut events);
        event["values"][0].as_f64().filter(|second| *second > 3.0)
    });
}

#[test]
fn without_the_token_health_checks_alone_are_answered() {
    let console = console(Program { token: Some("0123456789abcdef"), ..Program::default() }, LIMITS);
    let paths = [
        "/",
        "/metrics",
        "/status.json",
        "/history.json",
        "/events",
        "/page/page.js",
        "/ciphers/chacha20",
        "/x",
    ];
    for path in paths {
        for fields in [
            "",
            "Authorization: Bearer 0123456789abcdeF\r\n",
            "Authorization: Bearer 0123456789abcde\r\n",
            "Authorization: Bearer \r\n",
            "Authorization: Bearer 0123456789abcdef\r\nAuthorization: Bearer x\r\n",
            // `0123456789abcdef:`, the token as a name.
            "Authorization: Basic MDEyMzQ1Njc4OWFiY2RlZjo=\r\n",
        ] {
            let (status, text) = get(&console, path, fields);
            assert_eq!(status, 401, "{path} {fields}");
            assert!(text.contains("www-authenticate: Basic realm=\"penstock\""), "{text}");
        }
    }
    for line in ["POST /cache/purge?url=/a", "PURGE /a", "POST /ciphers/chacha20?mode=never"] {
        let request = format!("{line} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n");
        assert_eq!(exchange(console.address(), &request).0, 401, "{line}");
    }
    assert_eq!(get(&console, "/healthz", "").0, 200);
    // `ops:0123456789abcdef`.
    for right in ["Bearer 0123456789abcdef", "bearer 0123456789abcdef", "Basic b3BzOjAxMjM0NTY3ODlhYmNkZWY="]
    {
        let field = format!("Authorization: {right}\r\n");
        for path in ["/", "/metrics", "/status.json", "/history.json", "/page/page.js"] {
            assert_eq!(get(&console, path, &field).0, 200, "{path} {right}");
        }
        let request = format!("PURGE /a HTTP/1.1\r\nHost: video.example\r\n{field}\r\n");
        assert_eq!(exchange(console.address(), &request).0, 200);
    }
}

#[test]
fn the_page_itself_may_purge_and_a_page_of_another_origin_may_not() {
    let console = console(Program::default(), LIMITS);
    let status = |host: &str, origin: &str, site: &str| {
        let request = format!(
            "POST /cache/purge?url=/a HTTP/1.1\r\nHost: {host}\r\nOrigin: {origin}\r\nSec-Fetch-Site: {site}\r\n\r\n"
        );
        exchange(console.address(), &request).0
    };
    assert_eq!(status("127.0.0.1:9600", "http://127.0.0.1:9600", "same-origin"), 200);
    assert_eq!(status("edge1.example.com", "https://edge1.example.com", "same-origin"), 200);
    for (host, origin, site) in [
        ("127.0.0.1:9600", "http://127.0.0.1:9601", "same-site"),
        ("127.0.0.1:9600", "http://127.0.0.1:9601", "same-origin"),
        ("127.0.0.1:9600", "https://evil.example", "cross-site"),
        ("127.0.0.1:9600", "http://127.0.0.1:9600", "cross-site"),
        ("127.0.0.1:9600", "null", "same-origin"),
        ("localhost", "http://localhost.evil.example", "same-origin"),
    ] {
        assert_eq!(status(host, origin, site), 403, "{host} {origin} {site}");
    }
    assert_eq!(status("evil.example", "http://evil.example", "same-origin"), 421);
    // Its Host is that of a site, so it proves nothing.
    let request = "PURGE /a HTTP/1.1\r\nHost: evil.example\r\nOrigin: http://evil.example\r\n\r\n";
    assert_eq!(exchange(console.address(), request).0, 403);
}
