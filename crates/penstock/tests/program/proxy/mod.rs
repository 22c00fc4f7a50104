//! Sites that relay without the cache: bytes, connections, the spread of requests.

mod edges;
mod faults;
mod upgrades;

use std::fs;
use std::io::Read;
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use penstock_testkit::origin::{
    Origin, answer, field, file, range, target, write, write_chunk, write_chunked_head, write_head,
};
use penstock_testkit::{Client, Content, Server, Setup, Strace, Tool, memory_directory, until};

use crate::system_calls::worker_thread;

const MIB: u64 = 1 << 20;

/// A server that relays from these origins, with further keys of its origin. It has no cache.
fn proxy(origins: &[&Origin], keys: &str) -> Server {
    relaying(&Setup::new(), origins, keys)
}

fn relaying(setup: &Setup, origins: &[&Origin], keys: &str) -> Server {
    let urls: Vec<String> = origins.iter().map(|origin| format!("\"{}\"", origin.url())).collect();
    let sites = format!("- origin: {{http: [{}], cache: off{keys}}}", urls.join(", "));
    let server = setup.clone().workers(1).sites(&sites).start();
    server.tolerate_warning("is out: ");
    server
}

fn counted(server: &Server, outcome: &str) -> f64 {
    server.metrics().sum("penstock_origin_requests_total", &[&format!("outcome=\"{outcome}\"")])
}

/// An origin that answers `/N` with N bytes of the content, and `/chunked/N` with the same in chunks.
fn sized_origin(body: Content) -> Origin {
    let bytes = body.all();
    Origin::start(move |head, _, stream| {
        let path = target(head);
        let length: usize = path.rsplit('/').next().unwrap().parse().unwrap();
        if !path.starts_with("/chunked/") {
            return answer(stream, "200 OK", "", &bytes[..length]);
        }
        write_chunked_head(stream, "")
            && bytes[..length].chunks(40_001).all(|chunk| write_chunk(stream, chunk))
            && write_chunk(stream, "")
    })
}

#[test]
fn bodies_of_all_sizes_arrive_as_they_were_sent() {
    let body = Content::new(301, 3 * MIB);
    let origin = sized_origin(body);
    let server = proxy(&[&origin], "");
    let sizes = [0, 1, 100, 16_000, 16_300, 16_384, 65_536, 100_003, MIB, 3 * MIB];
    for mut client in [Client::plain(&server).boxed(), Client::tls(&server).boxed()] {
        for size in sizes {
            let got = client.get(&format!("/{size}"));
            assert_eq!(got.body.len() as u64, size);
            body.assert_range(0..size, &got.body);
        }
    }
    for size in sizes {
        for path in [format!("/{size}"), format!("/chunked/{size}")] {
            for (version, url) in [
                ("--http1.1", server.plain_url(&path)),
                ("--http1.1", server.url(&path)),
                ("--http2", server.url(&path)),
                ("--http1.0", server.plain_url(&path)),
            ] {
                let got = Tool::curl(&server).arg(version).arg(url).run().ok().stdout;
                assert_eq!(got.len() as u64, size, "{path} {version}");
                body.assert_range(0..size, &got);
            }
        }
    }
    assert_eq!(server.metrics().sum("penstock_cache_slices", &[]), 0.0);
}

#[test]
fn a_request_and_its_response_pass_with_all_but_the_fields_of_their_connections() {
    let origin = Origin::start(|head, _, stream| {
        let fields = "ETag: \"v1\"\r\nAge: 7\r\nX-Custom: a\r\nX-Hop: b\r\nConnection: x-hop\r\nKeep-Alive: timeout=5\r\n\
             Cache-Control: no-store\r\nServer: other\r\n";
        if field(head, "if-none-match").is_some() {
            return write(stream, format!("HTTP/1.1 304 Not Modified\r\n{fields}\r\n"));
        }
        if head.starts_with("HEAD") {
            return write_head(stream, fields, 12_345);
        }
        file(head, stream, fields, b"0123456789")
    });
    let server = proxy(&[&origin], "");
    let mut client = Client::plain(&server);
    let asked = "Host: media.example:81\r\nCookie: a=1\r\nX-Mine: 1\r\nX-Hop: 2\r\nConnection: x-hop\r\nTE: trailers\r\n";
    let got = client.request(format!("GET /a%20b?q=1&r HTTP/1.1\r\n{asked}\r\n"));
    assert_eq!((got.status, got.text()), (200, "0123456789"));
    for (name, value) in
        [("ETag", Some("\"v1\"")), ("Age", Some("7")), ("X-Custom", Some("a")), ("Via", Some("1.1 penstock"))]
    {
        assert_eq!(got.field(name), value, "{}", got.head);
    }
    for absent in ["X-Hop", "Keep-Alive", "Cache-Status"] {
        assert_eq!(got.field(absent), None, "{}", got.head);
    }
    assert_eq!(got.field("Server"), Some("penstock"));
    let head = &origin.asked()[0];
    assert!(head.starts_with("GET /a%20b?q=1&r HTTP/1.1\r\n"), "{head}");
    for (name, value) in [
        ("host", Some("media.example:81")),
        ("cookie", Some("a=1")),
        ("x-mine", Some("1")),
        ("x-forwarded-for", Some("127.0.0.1")),
        ("x-forwarded-proto", Some("http")),
        ("via", Some("1.1 penstock")),
        ("x-hop", None),
        ("te", None),
        ("user-agent", None),
        ("accept-encoding", None),
    ] {
        assert_eq!(field(head, name), value, "{name} in {head}");
    }
    assert_eq!(client.get_with("/a", "If-None-Match: \"v1\"\r\n").status, 304);
    let part = client.get_range("/a", 2, 4);
    assert_eq!((part.status, part.text(), part.field("Content-Range")), (206, "234", Some("bytes 2-4/10")));
    let head = client.request("HEAD /a HTTP/1.1\r\nHost: localhost\r\n\r\n");
    assert_eq!((head.status, head.field("Content-Length")), (200, Some("12345")));
    assert_eq!(client.get("/last").status, 200, "the connection is where it should be");
}

#[test]
fn connections_to_the_origin_are_kept_and_one_that_was_closed_is_replaced() {
    let ports = Arc::new(std::sync::Mutex::new(Vec::new()));
    let seen = Arc::clone(&ports);
    let origin = Origin::start(move |head, _, stream| {
        seen.lock().unwrap().push(stream.peer_addr().unwrap().port());
        answer(stream, "200 OK", "", &vec![b'x'; 40_000]) && target(head) != "/close"
    });
    let server = proxy(&[&origin], "");
    let mut client = Client::plain(&server);
    for path in ["/1", "/2", "/close", "/3", "/4"] {
        assert_eq!(client.get(path).body.len(), 40_000, "{path}");
    }
    let ports = ports.lock().unwrap().clone();
    assert!(ports[..3].iter().all(|port| *port == ports[0]), "{ports:?}");
    assert!(ports[3] != ports[0] && ports[4] == ports[3], "{ports:?}");
}

#[test]
fn a_body_that_ends_with_its_connection_arrives_whole() {
    let origin = Origin::start(|_, _, stream| {
        write(stream, "HTTP/1.1 200 OK\r\n\r\n");
        write(stream, vec![b'x'; 200_000]);
        false
    });
    let server = proxy(&[&origin], "");
    for options in ["--http1.0", "--http1.1", "--http2"] {
        let got = Tool::curl(&server).arg(options).arg(server.url("/a")).run().ok();
        assert_eq!(got.stdout.len(), 200_000, "{options}");
    }
}

#[test]
fn uploads_reach_the_origin_with_their_client_and_host() {
    let origin = Origin::start(|head, _, stream| {
        let length: usize = field(head, "content-length").unwrap().parse().unwrap();
        let mut body = vec![0; length];
        stream.read_exact(&mut body).unwrap();
        answer(stream, "201 Created", "", &body)
    });
    let server = proxy(&[&origin], "");
    let got = Client::tls(&server)
        .request("POST /up HTTP/1.1\r\nHost: media.example\r\nContent-Length: 5\r\n\r\nhello");
    assert_eq!((got.status, got.text()), (201, "hello"));
    let head = &origin.asked()[0];
    assert_eq!(
        (field(head, "host"), field(head, "x-forwarded-proto")),
        (Some("media.example"), Some("https"))
    );
}

#[test]
fn the_same_requests_go_to_the_same_server_and_only_those_of_one_that_is_gone_move() {
    let named =
        |name: &'static str| Origin::start(move |_, _, stream| answer(stream, "200 OK", "", name.as_bytes()));
    let (one, two) = (named("one"), named("two"));
    let dead = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let is_dead = Arc::clone(&dead);
    let three = Origin::start(move |_, _, stream| {
        !is_dead.load(Ordering::Relaxed) && answer(stream, "200 OK", "", b"three")
    });
    let server = proxy(&[&one, &two, &three], ", spread: {by: path}, retries: 3");
    let mut client = Client::plain(&server);
    let mut ask = || -> Vec<String> {
        (0..300).map(|number| client.get(&format!("/{number}?{number}")).text().to_owned()).collect()
    };
    let first = ask();
    assert_eq!(ask(), first);
    for name in ["one", "two", "three"] {
        let share = first.iter().filter(|found| *found == name).count();
        // Their addresses, which are others in each run, decide it.
        assert!((50..150).contains(&share), "{name} has {share} of 300");
    }
    dead.store(true, Ordering::Relaxed);
    for (before, after) in first.iter().zip(ask()) {
        assert!(if before == "three" { after != "three" } else { after == *before }, "{before} {after}");
    }
}

/// Answers the request behind a PROXY header of version 2 with the client that it names, or with `LOCAL`. The end of a head
/// that came first is the start of that header.
fn name_proxied_client(start: &str, stream: &mut TcpStream) -> bool {
    let mut fixed = [0; 12];
    stream.read_exact(&mut fixed).unwrap();
    assert_eq!((start, &fixed[..8]), ("\r\n\r\n", &b"\0\r\nQUIT\n"[..]));
    let mut addresses = vec![0; usize::from(u16::from_be_bytes([fixed[10], fixed[11]]))];
    stream.read_exact(&mut addresses).unwrap();
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).unwrap();
        head.extend(byte);
    }
    let named = match (fixed[8], fixed[9], &addresses[..]) {
        (0x20, 0, []) => "LOCAL".to_owned(),
        (0x21, 0x11, [a, b, c, d, _, _, _, _, high, low, _, _]) => {
            format!("{a}.{b}.{c}.{d}:{}", u16::from_be_bytes([*high, *low]))
        }
        other => panic!("{other:?}"),
    };
    answer(stream, "200 OK", "", named.as_bytes());
    // It carries one request: nothing comes behind it before the end.
    stream.read(&mut [0]).unwrap() > 0
}

#[test]
fn a_server_is_told_the_client_by_the_proxy_protocol() {
    let checked = Arc::new(AtomicUsize::new(0));
    let checks = Arc::clone(&checked);
    let origin = Origin::start(move |start, _, stream| {
        checks.fetch_add(1, Ordering::Relaxed);
        name_proxied_client(start, stream)
    });
    let server = proxy(&[&origin], ", proxy_protocol: v2, health: {path: /, interval: 1s}");
    until("a check of its health", || (checked.load(Ordering::Relaxed) > 0).then_some(()));
    let mut client = Client::plain(&server);
    let own = client.stream.local_addr().unwrap().to_string();
    for _ in 0..2 {
        assert_eq!(client.get("/a").text(), own);
    }
    let posted = client.request("POST /up HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n");
    assert_eq!(posted.text(), own);
    assert_eq!(server.metrics().sum("penstock_origin_target_up", &[]), 1.0, "a check names no client");
}

/// The calls of the only worker while `ask` runs, one a line; `None` if this user may not trace.
fn traced(server: &Server, ask: impl FnOnce()) -> Option<String> {
    let traces = server.directory().join("traces");
    fs::create_dir(&traces).unwrap();
    let strace = Strace::attach(server, &["-ff", "-s", "0"], &traces.join("thread"))?;
    ask();
    strace.detach();
    Some(fs::read_to_string(traces.join(format!("thread.{}", worker_thread(server)))).unwrap())
}

/// The results of these calls together, where they are bytes.
fn bytes_of(trace: &str, calls: &[&str]) -> u64 {
    let named = trace.lines().filter(|line| calls.iter().any(|call| line.starts_with(&format!("{call}("))));
    let result = |line: &str| line.rsplit_once("= ")?.1.split(' ').next()?.parse::<u64>().ok();
    named.filter_map(result).sum()
}

#[test]
fn a_plain_body_is_spliced_and_never_enters_the_program() {
    let body = Content::new(303, 8 * MIB);
    let origin = sized_origin(body);
    let server = proxy(&[&origin], "");
    let mut client = Client::plain(&server);
    client.get("/1");
    let Some(trace) = traced(&server, || {
        body.assert_range(0..body.len, &client.get(&format!("/{}", body.len)).body);
    }) else {
        return;
    };
    let spliced = bytes_of(&trace, &["splice"]);
    // Into the pipe and out of it.
    assert!(spliced >= 2 * (body.len - 16 * 1024), "{spliced} of {}:\n{trace}", 2 * body.len);
    let read = bytes_of(&trace, &["read", "recvfrom", "recvmsg", "readv"]);
    let written = bytes_of(&trace, &["write", "sendto", "sendmsg", "writev"]);
    // Heads, and what of the body came with the head.
    assert!(read < 20 * 1024 && written < 20 * 1024, "{read} bytes read, {written} written:\n{trace}");
}

#[test]
fn more_bodies_than_pipes_are_relayed_too() {
    const CLIENTS: usize = 80;
    let body = Content::new(304, 2 * MIB);
    let origin = sized_origin(body);
    let server = proxy(&[&origin], "");
    let mut clients: Vec<_> = (0..CLIENTS).map(|_| Client::plain(&server)).collect();
    for client in &mut clients {
        client.begin(&format!("/{}", body.len));
    }
    // Each client has as much as its socket takes; then the pipes are in use.
    for mut client in clients {
        body.assert_range(0..body.len, &client.take(usize::try_from(body.len).unwrap()).unwrap());
    }
    drop(origin);
}

#[test]
fn a_range_of_a_large_object_is_relayed_as_a_range() {
    let body = Content::new(305, 2 * MIB);
    let bytes = body.all();
    let origin = Origin::start(move |head, _, stream| file(head, stream, "", &bytes));
    let server = proxy(&[&origin], "");
    let part = Client::tls(&server).get_range("/film.mp4", 500_000, 1_500_000);
    assert_eq!(part.status, 206);
    body.assert_range(500_000..1_500_001, &part.body);
    assert_eq!(range(&origin.asked()[0]), Some((500_000, 1_500_000)));
}

#[test]
fn a_server_sees_the_one_authority_that_the_rules_were_applied_to() {
    let origin = Origin::start(|head, _, stream| {
        let seen = ["host", "x-forwarded-host"].map(|name| field(head, name).unwrap_or_default());
        answer(stream, "200 OK", "", seen.join(" ").as_bytes())
    });
    for cache in ["", ", cache: off"] {
        let sites = format!("- {{hosts: [public.example], origin: {{http: [\"{}\"]{cache}}}}}", origin.url());
        let memory = memory_directory();
        let tier = format!("cache: {{memory: {{directory: {}, size: 16MiB}}}}", memory.path().display());
        let server = Setup::new().workers(1).sites(&sites).section(&tier).start();
        let ask = |request: &str| {
            let response = Client::plain(&server).request(request);
            (response.status, String::from_utf8(response.body).unwrap())
        };
        let post = "Host: vip.example\r\nContent-Length: 0\r\n\r\n";
        for authority in ["public.example", "public.example:8080"] {
            let (status, seen) = ask(&format!("POST http://{authority}/secret HTTP/1.1\r\n{post}"));
            let (host, forwarded) = seen.split_once(' ').unwrap();
            assert_eq!((status, forwarded), (200, authority), "{cache}");
            if !cache.is_empty() {
                assert_eq!(host, authority, "a relay asks its server by the host that the client asked");
            }
        }
        let (status, _) = ask(&format!(
            "POST http://vip.example/secret HTTP/1.1\r\nHost: public.example\r\n{}",
            "Content-Length: 0\r\n\r\n"
        ));
        assert_eq!(status, 421, "{cache}");
    }
}
