//! Connections that switch to another protocol.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::unix::net::UnixListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use penstock_testkit::origin::{Origin, answer, field, write};
use penstock_testkit::{Client, Server, Setup, Stream, Tool, memory_directory, until, unused_address};
use rustix::process::Signal;
use tempfile::TempDir;

use super::proxy;

const ASK: &str = "GET /live/chat?id=1 HTTP/1.1\r\nHost: localhost\r\nConnection: keep-alive, Upgrade\r\n\
    Upgrade: WebSocket\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n";

const AGREE: &str = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
    Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n";

const KEYS: &str = ", upgrades: [websocket]";

/// An origin that agrees and sends back what comes, to its end.
fn echo() -> Origin {
    Origin::start(|_, _, stream| {
        let mut bytes = vec![0; 64 * 1024];
        let mut goes_on = write(stream, AGREE);
        while goes_on {
            let count = stream.read(&mut bytes).unwrap_or(0);
            goes_on = count > 0 && write(stream, &bytes[..count]);
        }
        false
    })
}

/// An origin that agrees and then does this.
fn agreeing(behave: impl Fn(&mut TcpStream) + Send + Sync + 'static) -> Origin {
    Origin::start(move |_, _, stream| {
        if write(stream, AGREE) {
            behave(stream);
        }
        false
    })
}

fn switched<S: Read + Write>(client: &mut Client<S>) {
    client.send(ASK);
    let head = client.response_to_head().unwrap();
    assert_eq!(head.status, 101, "{}", head.head);
    assert_eq!(head.field("Upgrade"), Some("websocket"), "{}", head.head);
    assert_eq!(head.field("Connection"), Some("Upgrade"), "{}", head.head);
    assert_eq!(head.field("Sec-WebSocket-Accept"), Some("s3pPLMBiTxaQ9kYGzzhZRbK+xOo="), "{}", head.head);
    for absent in ["Content-Length", "Transfer-Encoding"] {
        assert_eq!(head.field(absent), None, "{}", head.head);
    }
}

fn both(server: &Server) -> [Client<Box<dyn Stream>>; 2] {
    [Client::plain(server).boxed(), Client::tls(server).boxed()]
}

fn noise(length: usize) -> Vec<u8> {
    (0..length).map(|at| u8::try_from(at * 31 % 251).unwrap()).collect()
}

fn caching(origin: &Origin, memory: &TempDir) -> Server {
    Setup::new()
        .workers(1)
        .section(&format!("cache: {{memory: {{directory: {}/tier, size: 16MiB}}}}", memory.path().display()))
        .sites(&format!("- origin: {{http: [\"{}\"], upgrades: [websocket]}}", origin.url()))
        .start()
}

#[test]
fn bytes_pass_both_ways_with_and_without_a_cache() {
    let (origin, memory) = (echo(), memory_directory());
    for server in [proxy(&[&origin], KEYS), caching(&origin, &memory)] {
        for mut client in both(&server) {
            switched(&mut client);
            let asked = origin.asked().pop().unwrap();
            assert!(asked.starts_with("GET /live/chat?id=1 HTTP/1.1\r\n"), "{asked}");
            for (name, value) in [
                ("connection", "Upgrade"),
                ("upgrade", "websocket"),
                ("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ=="),
                ("sec-websocket-version", "13"),
                ("via", "1.1 penstock"),
            ] {
                assert_eq!(field(&asked, name), Some(value), "{asked}");
            }
            for size in [1, 5, 16_384, 100_000] {
                let bytes = noise(size);
                client.send(&bytes);
                assert!(client.take(size).unwrap() == bytes, "{size} bytes come back as they were");
            }
            // This is no second request.
            let request = b"GET /other HTTP/1.1\r\nHost: localhost\r\n\r\n";
            client.send(request);
            assert_eq!(client.take(request.len()).unwrap(), request);
        }
        assert_eq!(server.metrics().sum("penstock_cache_slices", &[]), 0.0);
    }
    assert_eq!(origin.asked().len(), 4);
}

#[test]
fn an_origin_with_tls_switches_too() {
    let origin = echo();
    let inner = proxy(&[&origin], KEYS);
    let site = format!(
        "- origin: {{http: [\"https://{}\"], ca: {}, cache: off{KEYS}}}",
        inner.https(),
        inner.certificates().authority().display()
    );
    let outer = Setup::new().workers(1).sites(&site).start();
    for mut client in both(&outer) {
        switched(&mut client);
        let bytes = noise(300_000);
        let mut got = Vec::new();
        // The echo takes no more while nothing takes what it sends.
        for chunk in bytes.chunks(50_000) {
            client.send(chunk);
            got.extend(client.take(chunk.len()).unwrap());
        }
        assert!(got == bytes);
    }
}

#[test]
fn bytes_right_behind_either_head_are_passed_on() {
    let origin = Origin::start(|_, _, stream| {
        let _agreed = write(stream, format!("{AGREE}welcome"));
        let mut bytes = [0; 5];
        if stream.read_exact(&mut bytes).is_ok() {
            write(stream, bytes);
        }
        false
    });
    let server = proxy(&[&origin], KEYS);
    for mut client in both(&server) {
        client.send(format!("{ASK}early"));
        assert_eq!(client.response_to_head().unwrap().status, 101);
        assert_eq!(client.rest().unwrap(), b"welcomeearly");
    }
}

#[test]
fn each_side_may_end_its_own_direction_first() {
    // The client ends first, and still gets what the origin answers to all that it sent.
    let origin = agreeing(|stream| {
        let mut all = Vec::new();
        let _count = stream.read_to_end(&mut all);
        write(stream, format!("{} bytes", all.len()));
    });
    let server = proxy(&[&origin], KEYS);
    let mut socket = TcpStream::connect(server.http()).unwrap();
    socket.write_all(format!("{ASK}{}", "x".repeat(50_000)).as_bytes()).unwrap();
    socket.shutdown(Shutdown::Write).unwrap();
    let mut all = String::new();
    socket.read_to_string(&mut all).unwrap();
    assert!(all.ends_with("\r\n\r\n50000 bytes"), "{all}");

    // The origin ends first, and still gets what the client sends.
    let got = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&got);
    let origin = agreeing(move |stream| {
        write(stream, "last words");
        stream.shutdown(Shutdown::Write).unwrap();
        let mut all = Vec::new();
        let _count = stream.read_to_end(&mut all);
        counted.store(all.len() as u64, Ordering::SeqCst);
    });
    let server = proxy(&[&origin], KEYS);
    let mut client = Client::plain(&server);
    switched(&mut client);
    assert_eq!(client.rest().unwrap(), b"last words");
    client.send(noise(70_000));
    drop(client);
    until("the origin has all", || (got.load(Ordering::SeqCst) == 70_000).then_some(()));
    let line = server.logged("/live/chat?id=1");
    assert_eq!((line["status"].as_u64(), line["outcome"].as_str()), (Some(101), Some("complete")), "{line}");
    assert_eq!(line["body_bytes"].as_u64(), Some(10), "{line}");
}

#[test]
fn a_side_that_takes_nothing_holds_the_other_one_back() {
    let sent = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&sent);
    let origin = agreeing(move |stream| {
        let piece = noise(64 * 1024);
        while write(stream, &piece) {
            counted.fetch_add(piece.len() as u64, Ordering::SeqCst);
        }
    });
    let server = proxy(&[&origin], KEYS);
    for mut client in both(&server) {
        sent.store(0, Ordering::SeqCst);
        switched(&mut client);
        // What has been sent stands still: the sockets are full, and this program holds one piece.
        let mut before = u64::MAX;
        until("the origin has to wait", || {
            let now = sent.load(Ordering::SeqCst);
            let stands = now == before && now > 0;
            before = now;
            thread::sleep(std::time::Duration::from_millis(100));
            stands.then_some(())
        });
        let length = usize::try_from(before).unwrap() + (8 << 20);
        let got = client.take(length).unwrap();
        let piece = noise(64 * 1024);
        assert!(got.chunks(64 * 1024).all(|chunk| *chunk == piece[..chunk.len()]), "all comes in order");
    }
}

#[test]
fn what_does_not_switch_is_an_ordinary_response() {
    let origin = Origin::start(|head, _, stream| {
        let asked = if field(head, "upgrade").is_some() { "asked" } else { "not asked" };
        answer(stream, if head.contains("/403") { "403 Forbidden" } else { "200 OK" }, "", asked.as_bytes())
    });
    let server = proxy(&[&origin], KEYS);
    let fields = |protocol: &str| format!("Connection: Upgrade\r\nUpgrade: {protocol}\r\n");
    for mut client in both(&server) {
        for (path, protocol, status, body) in [
            ("/403", "websocket", 403, "asked"),
            ("/200", "websocket", 200, "asked"),
            ("/200", "h2c", 200, "not asked"),
            ("/200", "other", 200, "not asked"),
        ] {
            let got = client.get_with(path, &fields(protocol));
            assert_eq!((got.status, got.text()), (status, body), "{path} {protocol}");
        }
        let post = format!(
            "POST /200 HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n{}\r\n",
            fields("websocket")
        );
        assert_eq!(client.request(post).text(), "not asked");
        client.assert_open();
    }
    let without = proxy(&[&origin], "");
    assert_eq!(Client::plain(&without).get_with("/200", &fields("websocket")).text(), "not asked");
}

#[test]
fn a_switch_that_does_not_answer_the_request_is_502() {
    let origin = Origin::start(|head, _, stream| {
        let other = AGREE.replace("Upgrade: websocket", "Upgrade: other");
        let bare = AGREE.replace("Connection: Upgrade\r\n", "");
        let long = AGREE.replace("Upgrade: websocket", "Content-Length: 3\r\nUpgrade: websocket");
        let answer = match head.split(' ').nth(1) {
            Some("/other") => &other,
            Some("/bare") => &bare,
            Some("/long") => &long,
            _ => AGREE,
        };
        write(stream, answer);
        false
    });
    let server = proxy(&[&origin], ", upgrades: [websocket], retries: 0");
    let mut client = Client::tls(&server);
    assert_eq!(client.get("/unasked").status, 502);
    for path in ["/other", "/bare", "/long"] {
        assert_eq!(
            client.get_with(path, "Connection: Upgrade\r\nUpgrade: websocket\r\n").status,
            502,
            "{path}"
        );
    }
    client.assert_open();
}

#[test]
fn an_end_without_order_of_either_side_ends_the_other() {
    let ended = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&ended);
    let origin = agreeing(move |stream| {
        let _end = stream.read(&mut [0; 16]);
        counted.fetch_add(1, Ordering::SeqCst);
    });
    let server = proxy(&[&origin], KEYS);
    for (number, mut client) in both(&server).into_iter().enumerate() {
        switched(&mut client);
        drop(client);
        until("the origin sees the end", || {
            (ended.load(Ordering::SeqCst) == number as u64 + 1).then_some(())
        });
    }
    // An origin that is killed resets its connections.
    let origin = agreeing(|stream| {
        let _byte = stream.read(&mut [0; 1]);
        rustix::net::sockopt::set_socket_linger(&*stream, Some(std::time::Duration::ZERO)).unwrap();
    });
    let server = proxy(&[&origin], KEYS);
    for mut client in both(&server) {
        switched(&mut client);
        client.send("x");
        assert!(client.rest().is_err(), "the end does not look like one in order");
    }
    server.counted("penstock_short_responses_total", &["reason=\"origin\""], 2.0);
}

#[test]
fn a_tunnel_without_bytes_ends_and_one_with_bytes_stays() {
    let origin = echo();
    let server = proxy(&[&origin], ", upgrades: [websocket], upgrade_idle: 1s");
    for mut client in both(&server) {
        switched(&mut client);
        for _ in 0..4 {
            thread::sleep(std::time::Duration::from_millis(400));
            client.send("ping");
            assert_eq!(client.take(4).unwrap(), b"ping");
        }
        assert_eq!(client.rest().unwrap(), b"");
    }
    server.counted("penstock_short_responses_total", &["reason=\"idle\""], 2.0);
}

#[test]
fn a_drain_ends_a_tunnel_at_its_deadline_and_not_before() {
    let origin = echo();
    let sites = format!("- origin: {{http: [\"{}\"], cache: off{KEYS}}}", origin.url());
    let server = Setup::new().workers(1).limits("drain_deadline: 2s").sites(&sites).start();
    let mut client = Client::tls(&server);
    switched(&mut client);
    server.signal(Signal::TERM);
    server.wait_for_log("drain");
    client.send("still here");
    assert_eq!(client.take(10).unwrap(), b"still here");
    assert_eq!(client.rest().unwrap(), b"");
    server.wait();
    let line = server.logged("/live/chat?id=1");
    assert_eq!((line["status"].as_u64(), line["outcome"].as_str()), (Some(101), Some("drain")), "{line}");
}

/// The Python of an environment with websockets, which `scripts/install-needs test` makes.
const PYTHON: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/tools/websockets/bin/python3");

/// Client and server of another author: messages of all sizes, pings, and the closing handshake.
const LIBRARY: &str = r"
import asyncio, ssl, sys, websockets
authority, plain, secure = sys.argv[1], sys.argv[2], sys.argv[3]
async def echo(socket):
    async for message in socket:
        await socket.send(message)
async def main():
    async with websockets.serve(echo, '127.0.0.1', int(sys.argv[4]), max_size=None):
        context = ssl.create_default_context(cafile=authority)
        for url, options in [(plain, {}), (secure, {'ssl': context})]:
            async with websockets.connect(url, max_size=None, proxy=None, **options) as socket:
                for size in [0, 1, 125, 126, 65535, 65536, 3000000]:
                    for message in ['x' * size, bytes(size)]:
                        await socket.send(message)
                        assert await socket.recv() == message, size
                await (await socket.ping())
            assert socket.close_code == 1000, socket.close_code
asyncio.run(main())
print('well')
";

#[test]
fn client_and_server_of_another_author_talk_through_it() {
    if !std::path::Path::new(PYTHON).exists() {
        penstock_testkit::not_tested(
            "WebSocket with the library websockets; scripts/install-needs test installs it",
        );
        return;
    }
    let address = unused_address();
    let sites = format!("- origin: {{http: [\"http://{address}\"], cache: off{KEYS}}}");
    let server = Setup::new().workers(1).sites(&sites).start();
    let said = Tool::new(PYTHON)
        .args(["-c", LIBRARY])
        .arg(server.certificates().authority())
        .arg(server.plain_url("/").replace("http", "ws"))
        .arg(server.url("/").replace("https", "wss"))
        .arg(address.port().to_string())
        .run()
        .ok()
        .text();
    assert_eq!(said.trim(), "well");
}

#[test]
fn an_origin_that_takes_nothing_holds_the_client_back_and_loses_nothing() {
    let may_read = Arc::new(AtomicBool::new(false));
    let gate = Arc::clone(&may_read);
    let origin = agreeing(move |stream| {
        until("the client has to wait", || gate.load(Ordering::SeqCst).then_some(()));
        let mut all = Vec::new();
        let _count = stream.read_to_end(&mut all);
        let is_same = all == noise(all.len());
        write(stream, format!("{} {is_same}", all.len()));
    });
    let server = proxy(&[&origin], KEYS);
    let mut socket = TcpStream::connect(server.http()).unwrap();
    socket.write_all(ASK.as_bytes()).unwrap();
    let mut head = vec![0; 16];
    socket.read_exact(&mut head).unwrap();
    socket.set_nonblocking(true).unwrap();
    let bytes = noise(64 << 20);
    let (mut sent, mut before) = (0, usize::MAX);
    while sent != before {
        before = sent;
        while let Ok(count @ 1..) = socket.write(&bytes[sent..]) {
            sent += count;
        }
        thread::sleep(std::time::Duration::from_millis(200));
    }
    assert!(sent < bytes.len(), "it takes no more than sockets hold");
    may_read.store(true, Ordering::SeqCst);
    socket.set_nonblocking(false).unwrap();
    socket.shutdown(Shutdown::Write).unwrap();
    let mut rest = String::new();
    socket.read_to_string(&mut rest).unwrap();
    assert!(rest.ends_with(&format!("\r\n\r\n{sent} true")), "{sent} {rest}");
}

#[test]
fn requests_of_http_2_to_such_a_site_are_ordinary_ones() {
    let origin = Origin::start(|head, _, stream| {
        answer(stream, "200 OK", "", field(head, "upgrade").unwrap_or("nothing").as_bytes())
    });
    let server = proxy(&[&origin], KEYS);
    let curl = || Tool::curl(&server).args(["--http2", "-w", " %{http_code} %{http_version}"]);
    assert_eq!(curl().arg(server.url("/")).run().ok().text(), "nothing 200 2");
    let websocket = ["-H", "Sec-WebSocket-Version: 13", "-H", "Upgrade: websocket"];
    let refused = curl().args(websocket).arg(server.url("/")).run().text();
    assert!(!refused.contains("websocket"), "{refused}");
    assert_eq!(origin.asked().iter().filter(|head| field(head, "upgrade").is_some()).count(), 0);
}

#[test]
fn a_unix_socket_switches_too() {
    let directory = penstock_testkit::disk_directory();
    let path = directory.path().join("app.sock");
    let listener = UnixListener::bind(&path).unwrap();
    thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut head = vec![0; 4096];
        let mut count = 0;
        while !head[..count].ends_with(b"\r\n\r\n") {
            count += stream.read(&mut head[count..]).unwrap();
        }
        stream.write_all(AGREE.as_bytes()).unwrap();
        let mut all = Vec::new();
        stream.read_to_end(&mut all).unwrap();
        stream.write_all(&all).unwrap();
    });
    let sites = format!("- origin: {{http: [\"unix:{}\"], cache: off{KEYS}}}", path.display());
    let server = Setup::new().workers(1).sites(&sites).start();
    let mut socket = TcpStream::connect(server.http()).unwrap();
    socket.write_all(format!("{ASK}to a socket").as_bytes()).unwrap();
    socket.shutdown(Shutdown::Write).unwrap();
    let mut all = String::new();
    socket.read_to_string(&mut all).unwrap();
    assert!(all.starts_with("HTTP/1.1 101 ") && all.ends_with("\r\n\r\nto a socket"), "{all}");
}
