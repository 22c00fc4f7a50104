//! Other methods than GET and HEAD: passed on with their body, and what they change is not served from the cache.

use std::io::Read;
use std::net::TcpStream;

use penstock_testkit::origin::{Origin, answer, write};
use penstock_testkit::{Client, Setup, Tool, unused_address};

use super::{Edge, SLICE};

/// The value of a field of a request.
fn field<'h>(head: &'h str, name: &str) -> Option<&'h str> {
    head.lines().find_map(|line| {
        let (found, value) = line.split_once(": ")?;
        found.eq_ignore_ascii_case(name).then_some(value)
    })
}

/// The body of a request, as an origin reads it.
fn body(head: &str, stream: &mut TcpStream) -> Vec<u8> {
    if let Some(length) = field(head, "content-length") {
        let mut body = vec![0; length.parse().unwrap()];
        stream.read_exact(&mut body).unwrap();
        return body;
    }
    if field(head, "transfer-encoding") != Some("chunked") {
        return Vec::new();
    }
    let (mut body, mut line) = (Vec::new(), Vec::new());
    loop {
        let mut byte = [0];
        stream.read_exact(&mut byte).unwrap();
        line.push(byte[0]);
        if line.ends_with(b"\r\n") {
            let size = usize::from_str_radix(std::str::from_utf8(&line).unwrap().trim(), 16).unwrap();
            let mut chunk = vec![0; size + 2];
            stream.read_exact(&mut chunk).unwrap();
            if size == 0 {
                return body;
            }
            body.extend_from_slice(&chunk[..size]);
            line.clear();
        }
    }
}

/// An origin that sends bodies back, and counts what else it is asked.
pub(crate) fn echo() -> Origin {
    echo_with("Cache-Control: max-age=600\r\n")
}

/// The same with these fields for GET.
pub(crate) fn echo_with(fields: &'static str) -> Origin {
    Origin::start(move |head, number, stream| {
        if head.starts_with("GET") {
            return answer(stream, "200 OK", fields, format!("{number}").as_bytes());
        }
        let body = body(head, stream);
        answer(stream, "200 OK", "X-From: origin\r\nCache-Control: max-age=600\r\n", &body)
    })
}

#[test]
fn a_body_arrives_whole_with_its_fields_and_so_does_the_answer() {
    let origin = echo();
    let edge = Edge::of(&origin);
    let mut client = Client::tls(&edge.server);
    let large = "x".repeat(5 * SLICE + 17);
    for text in ["", "hello", &large] {
        let fields = "Content-Type: text/plain\r\nX-Mine: 1\r\nConnection: X-Hop, keep-alive\r\nX-Hop: no\r\n\
                      X-Forwarded-For: 192.0.2.7\r\nX-Forwarded-Proto: gopher\r\n";
        let head = format!(
            "POST /api?utm_source=x HTTP/1.1\r\nHost: localhost\r\n{fields}Content-Length: {}\r\n\r\n",
            text.len()
        );
        let response = client.request(format!("{head}{text}"));
        assert_eq!((response.status, response.field("X-From")), (200, Some("origin")));
        assert_eq!(response.text(), text);
        let status = response.field("Cache-Status").unwrap();
        assert_eq!(status, "penstock; fwd=method; fwd-status=200");
    }
    let asked = origin.asked();
    assert_eq!(asked.len(), 3, "nothing of it is cached");
    assert!(asked[1].starts_with("POST /api?utm_source=x HTTP/1.1"), "{}", asked[1]);
    assert_eq!((field(&asked[1], "x-mine"), field(&asked[1], "x-hop")), (Some("1"), None));
    assert_eq!(field(&asked[1], "x-forwarded-proto"), Some("https"));
    let lines =
        |name: &str| asked[1].lines().filter(|line| line.to_ascii_lowercase().starts_with(name)).count();
    assert_eq!((lines("x-forwarded-for: 192.0.2.7"), lines("x-forwarded-for: 127.0.0.1")), (1, 1));
    assert_eq!(client.get("/a").status, 200, "the connection goes on");
}

#[test]
fn a_chunked_body_of_curl_is_streamed_and_100_continue_is_sent() {
    let origin = echo();
    let edge = Edge::of(&origin);
    let body = "0123456789".repeat(30_000);
    let got = Tool::curl(&edge.server)
        .args([
            "-X",
            "PUT",
            "-H",
            "Transfer-Encoding: chunked",
            "-H",
            "Expect: 100-continue",
            "--data-binary",
            "@-",
        ])
        .arg(edge.server.url("/upload"))
        .run_with_input(body.as_bytes())
        .ok();
    assert!(got.stdout == body.as_bytes(), "{} bytes", got.stdout.len());
}

#[test]
fn objects_that_a_method_changes_are_fetched_again() {
    let origin = Origin::start(|head, number, stream| {
        if head.starts_with("GET") {
            let fields = "Cache-Control: max-age=600\r\n";
            return answer(stream, "200 OK", fields, format!("{number}").as_bytes());
        }
        body(head, stream);
        if head.contains("/refused") {
            return answer(stream, "403 Forbidden", "", b"");
        }
        let fields = "Location: https://localhost/b\r\nContent-Location: /c?x\r\n";
        write(stream, format!("HTTP/1.1 204 No Content\r\n{fields}\r\n"))
    });
    let edge = Edge::of(&origin);
    let mut client = Client::plain(&edge.server);
    let paths = ["/a", "/b", "/c?x", "/d", "/refused"];
    let first = paths.map(|path| client.get(path).text().to_owned());
    let deleted = client.request("DELETE /a HTTP/1.1\r\nHost: localhost\r\n\r\n");
    assert_eq!((deleted.status, deleted.field("Content-Length")), (204, None));
    client.request("DELETE /refused HTTP/1.1\r\nHost: localhost\r\n\r\n");
    let second = paths.map(|path| client.get(path).text().to_owned());
    let changed: Vec<_> = paths.iter().zip(first.iter().zip(&second)).filter(|(_, (a, b))| a != b).collect();
    let changed: Vec<_> = changed.iter().map(|(path, _)| **path).collect();
    assert_eq!(changed, ["/a", "/b", "/c?x"]);
}

#[test]
fn a_body_that_is_too_large_is_413_and_one_that_breaks_off_is_not_sent_on_as_whole() {
    let origin = echo();
    let memory = penstock_testkit::memory_directory();
    let cache =
        format!("cache: {{slice: 64KiB, memory: {{directory: {}, size: 4MiB}}}}", memory.path().display());
    let server = Setup::new()
        .sites(&origin.sites())
        .section(&cache)
        .limits("body_bytes: 1000, head_deadline: 500ms")
        .start();
    server.tolerate_warning("is out: ");
    let mut client = Client::plain(&server);
    let response = client.request("POST /a HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1001\r\n\r\n");
    assert_eq!(response.status, 413);
    assert!(origin.asked().is_empty());
    let mut client = Client::plain(&server);
    let chunk = "x".repeat(900);
    client.send("POST /a HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n");
    client.send(format!("384\r\n{chunk}\r\n384\r\n{chunk}\r\n"));
    assert_eq!(client.response().unwrap().status, 413);
    let mut client = Client::plain(&server);
    client.send("POST /slow HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\nonly this");
    assert_eq!(client.response().unwrap().status, 408);
    client.assert_closed();
}

#[test]
fn an_answer_that_comes_before_the_body_ends_the_connection_behind_it() {
    let origin = Origin::start(|_, _, stream| {
        write(stream, "HTTP/1.1 401 Unauthorized\r\nContent-Length: 2\r\nConnection: close\r\n\r\nno");
        false
    });
    let edge = Edge::of(&origin);
    let mut client = Client::plain(&edge.server);
    client.send("POST /a HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100000\r\n\r\nsome of it");
    let response = client.response().unwrap();
    assert_eq!((response.status, response.text()), (401, "no"));
    assert_eq!(response.field("Connection"), Some("close"));
    client.assert_closed();
}

#[test]
fn an_answer_of_unknown_length_that_is_empty_ends() {
    let origin = Origin::start(|head, _, stream| {
        let keeps = head.contains("/chunked");
        let (framing, end) =
            if keeps { ("Transfer-Encoding: chunked", "0\r\n\r\n") } else { ("Connection: close", "") };
        write(stream, format!("HTTP/1.1 200 OK\r\n{framing}\r\n\r\n{end}")) && keeps
    });
    for sites in [origin.sites(), origin.sites_with("cache: off")] {
        let edge = Edge::before(&sites);
        for target in ["/chunked", "/closed"] {
            let mut client = Client::plain(&edge.server);
            for method in ["POST", "PUT", "DELETE", "PATCH", "GET"] {
                let what = format!("{method} {target}");
                let request = format!("{what} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n");
                // The second response is read behind the end of the first.
                client.send(request.repeat(2));
                for _ in 0..2 {
                    let response = client.response().unwrap_or_else(|error| panic!("{what}: {error}"));
                    assert_eq!((response.status, response.text()), (200, ""), "{what}");
                }
            }
        }
    }
}

/// Larger than all that the sockets on the way hold.
const UPLOAD: usize = 24 << 20;

/// Clients that send all of a body before they read, and curl, which does both, over HTTP/2.
fn upload_everything(edge: &Edge, target: &str) -> Vec<(u16, Vec<u8>)> {
    let head = format!("POST {target} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {UPLOAD}\r\n\r\n");
    let upload = vec![b'u'; UPLOAD];
    let mut answers = Vec::new();
    let mut plain = Client::plain(&edge.server);
    plain.send(&head);
    plain.send(&upload);
    answers.push(plain.response().unwrap());
    let mut tls = Client::tls(&edge.server);
    tls.send(&head);
    tls.send(&upload);
    answers.push(tls.response().unwrap());
    let mut answers: Vec<_> = answers.into_iter().map(|answer| (answer.status, answer.body)).collect();
    let curl = Tool::curl(&edge.server)
        .args(["--http2", "-H", "Expect:", "-w", "%{stderr}%{http_code}", "--data-binary", "@-"])
        .arg(edge.server.url(target))
        .run_with_input(&upload)
        .ok();
    let status = curl.stderr.trim().parse().unwrap();
    answers.push((status, curl.stdout));
    answers
}

#[test]
fn an_answer_before_the_end_of_an_upload_arrives_whole() {
    let kept = std::sync::Mutex::new(Vec::new());
    let refusal = vec![b'r'; 100_000];
    let page = refusal.clone();
    let origin = Origin::start(move |head, _, stream| {
        stream.read_exact(&mut [0; 1000]).unwrap();
        write(stream, "HTTP/1.1 403 Forbidden\r\nContent-Length: 100000\r\n\r\n");
        if head.contains("/stops") {
            // The connection stays open, and the rest of the request unread.
            kept.lock().unwrap().push(stream.try_clone().unwrap());
        }
        for (number, piece) in page.chunks(4096).enumerate() {
            if number == 1 && head.contains("/pauses") {
                // Meanwhile curl ends its stream, before Content-Length, because of the status.
                std::thread::sleep(std::time::Duration::from_millis(500));
            }
            std::io::Write::write_all(stream, piece).unwrap();
        }
        if head.contains("/reads") {
            drop(std::io::copy(stream, &mut std::io::sink()));
        }
        false
    });
    for sites in [origin.sites(), origin.sites_with("cache: off")] {
        let edge = Edge::tuned(&sites, "4MiB", &["body_bytes: 64MiB"]);
        for target in ["/reads", "/stops", "/reads/pauses"] {
            for (status, body) in upload_everything(&edge, target) {
                assert_eq!((status, body.len()), (403, refusal.len()), "{target} of {sites}");
                assert!(body == refusal);
            }
        }
    }
}

#[test]
fn an_upload_goes_on_while_its_answer_comes() {
    let origin = Origin::start(|_, _, stream| {
        let length = UPLOAD / 8;
        write(stream, format!("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n"));
        let mut bytes = vec![0; 64 << 10];
        for _ in 0..UPLOAD / bytes.len() {
            stream.read_exact(&mut bytes).unwrap();
            std::io::Write::write_all(stream, &bytes[..8 << 10]).unwrap();
        }
        false
    });
    for sites in [origin.sites(), origin.sites_with("cache: off")] {
        let edge = Edge::tuned(&sites, "4MiB", &["body_bytes: 64MiB"]);
        for (status, body) in upload_everything(&edge, "/echo") {
            assert_eq!((status, body.len()), (200, UPLOAD / 8), "{sites}");
        }
    }
}

#[test]
fn an_upload_that_a_directory_does_not_take_is_405_for_clients_that_send_it_all_first() {
    let memory = penstock_testkit::memory_directory();
    let edge = Edge { server: Setup::new().start(), memory };
    for (status, body) in upload_everything(&edge, "/a") {
        assert_eq!((status, &body[..3]), (405, &b"405"[..]));
    }
}

#[test]
fn only_listed_methods_are_passed_on_and_only_signed_requests() {
    let origin = echo();
    let edge = Edge::before(&format!("{}\n  methods: [PUT]\n  forwarded: forwarded", origin.sites()));
    let mut client = Client::plain(&edge.server);
    let post = client.request("POST /a HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\nhi");
    assert_eq!((post.status, post.field("Allow")), (405, Some("GET, HEAD, OPTIONS, PUT")));
    let put = client.request("PUT /a HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\nhi");
    assert_eq!(put.text(), "hi");
    let asked = origin.asked();
    let forwarded = field(&asked[0], "forwarded").unwrap();
    assert_eq!(forwarded, "for=127.0.0.1;proto=http;host=\"localhost\"");
    let keys = tempfile::tempdir().unwrap();
    let key = keys.path().join("a.key");
    std::fs::write(&key, "0123456789abcdef").unwrap();
    let signed = format!("\n  signed_urls: {{keys: [{{id: a, file: {}}}]}}", key.display());
    let edge = Edge::before(&(origin.sites() + &signed));
    edge.server.tolerate_warning("may be read by every user");
    let mut client = Client::plain(&edge.server);
    let refused = client.request("PUT /a HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\nhi");
    assert_eq!(refused.status, 403);
    assert_eq!(origin.asked().len(), 1);
}

#[test]
fn an_origin_that_is_gone_is_502_for_other_methods_too() {
    let address = unused_address();
    let edge = Edge::before(&format!("- origin: {{http: [\"http://{address}\"]}}"));
    let mut client = Client::plain(&edge.server);
    let response = client.request("POST /a HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\nhi");
    assert_eq!(response.status, 502);
    assert!(response.field("Cache-Status").unwrap().contains("fwd=method; detail=unreachable"));
}
