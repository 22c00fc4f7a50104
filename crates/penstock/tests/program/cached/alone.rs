//! Uncacheable responses pass through bounded memory at the pace of their client, and never enter the cache.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;

use penstock_testkit::origin::{
    Origin, answer, file, range, write, write_chunk, write_chunked_head, write_head,
};
use penstock_testkit::{Client, Content, DEADLINE, Gate, Server, Sockets, Tool, until};

use super::{Edge, SLICE};

const ALONE: &str = "Cache-Control: no-store\r\nETag: \"v1\"\r\n";
const MIB: u64 = 1 << 20;

/// Bytes that the files of a cache take.
fn kept_bytes(directory: &Path) -> u64 {
    let files = fs::read_dir(directory).unwrap().map(|file| file.unwrap().metadata().unwrap());
    files.filter(fs::Metadata::is_file).map(|file| file.blocks() * 512).sum()
}

/// The head of an answer for one client alone, of so many bytes.
fn head_of(length: u64) -> String {
    format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n{ALONE}\r\n")
}

#[test]
fn an_uncacheable_body_is_not_in_the_cache_even_while_it_is_sent() {
    let body = Content::new(71, 8 * MIB);
    let bytes = body.all();
    let gate = Gate::closed();
    let held = gate.clone();
    let origin = Origin::start(move |_, _, stream| {
        let half = bytes.len() / 2;
        write(stream, head_of(bytes.len() as u64));
        write(stream, &bytes[..half]);
        held.pass();
        write(stream, &bytes[half..])
    });
    let edge = Edge::of(&origin);
    let before = kept_bytes(edge.memory.path());
    let mut client = Client::tls(&edge.server);
    client.begin("/a.mp4");
    let half = body.len / 2;
    body.assert_range(0..half, &client.take(usize::try_from(half).unwrap()).unwrap());
    assert_eq!(kept_bytes(edge.memory.path()), before, "half of it has come");
    gate.let_one_pass();
    body.assert_range(half..body.len, &client.take(usize::try_from(half).unwrap()).unwrap());
    let metrics = edge.server.metrics();
    assert_eq!(metrics.sum("penstock_cache_slices", &[]), 0.0);
    assert_eq!(metrics.sum("penstock_origin_received_bytes_total", &[]), body.len as f64);
}

#[test]
fn a_client_that_takes_nothing_holds_up_its_origin() {
    let body = Content::new(72, 96 * MIB);
    let bytes = body.all();
    let sent = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&sent);
    let origin = Origin::start(move |_, _, stream| {
        write_head(stream, ALONE, bytes.len());
        bytes.chunks(SLICE).all(|chunk| {
            counter.fetch_add(chunk.len(), Ordering::Relaxed);
            write(stream, chunk)
        })
    });
    let edge = Edge::of(&origin);
    for client in [Client::tls(&edge.server).boxed(), Client::plain(&edge.server).boxed()] {
        sent.store(0, Ordering::Relaxed);
        let mut client = client;
        client.begin("/a.mp4");
        // Until the buffers on both sides of the edge are full, which the kernel lets grow to some megabytes.
        let senders = [origin.port(), edge.server.https().port(), edge.server.http().port()];
        let blocked = || senders.map(|port| Sockets::of_port(port).blocked).iter().sum::<usize>() == 2;
        let mut last = 0;
        until("origin and edge to be blocked", || {
            let now = sent.load(Ordering::Relaxed);
            (std::mem::replace(&mut last, now) == now && blocked()).then_some(())
        });
        assert!(last < 40 << 20, "{last} bytes were taken from the origin");
        let step = 8 * MIB;
        for at in (0..body.len).step_by(usize::try_from(step).unwrap()) {
            body.assert_range(at..at + step, &client.take(usize::try_from(step).unwrap()).unwrap());
        }
    }
}

#[test]
fn bytes_are_relayed_as_soon_as_they_come() {
    let gate = Gate::closed();
    let held = gate.clone();
    let origin = Origin::start(move |head, _, stream| {
        let chunked = head.contains("/chunked");
        let framing = if chunked { "Transfer-Encoding: chunked" } else { "Content-Length: 15" };
        write(stream, format!("HTTP/1.1 200 OK\r\n{framing}\r\n{ALONE}\r\n"));
        for word in ["one, ", "two, ", "three"] {
            let piece = if chunked { format!("5\r\n{word}\r\n") } else { word.to_owned() };
            write(stream, piece);
            held.pass();
        }
        if chunked { write_chunk(stream, "") } else { true }
    });
    let edge = Edge::of(&origin);
    for path in ["/length", "/chunked"] {
        let mut client = Client::tls(&edge.server);
        client.begin(path);
        for word in ["one, ", "two, ", "three"] {
            let expected = if path == "/chunked" { format!("5\r\n{word}\r\n") } else { word.to_owned() };
            // The origin waits for the test: the server must have relayed it at once.
            assert_eq!(client.take(expected.len()).unwrap(), expected.as_bytes());
            gate.let_one_pass();
        }
        let end: &[u8] = if path == "/chunked" { b"0\r\n\r\n" } else { b"" };
        assert_eq!(client.take(end.len()).unwrap(), end);
    }
}

#[test]
fn a_body_that_breaks_off_is_continued_from_where_it_ended() {
    let body = Content::new(73, 3 * MIB);
    let bytes = body.all();
    let origin = Origin::start(move |head, number, stream| {
        let first = range(head).map_or(0, |(first, _)| first);
        if number < 12 {
            // A quarter of a megabyte at a time; it is as if it answered and died each time.
            let (end, left) = (bytes.len(), bytes.len() - first);
            let status = match number {
                0 => "200 OK".to_owned(),
                _ => format!("206 Partial Content\r\nContent-Range: bytes {first}-{}/{end}", end - 1),
            };
            write(stream, format!("HTTP/1.1 {status}\r\nContent-Length: {left}\r\n{ALONE}\r\n"));
            write(stream, &bytes[first..first + left.min(250_000)]);
            return false;
        }
        file(head, stream, ALONE, &bytes)
    });
    let edge = Edge::of(&origin);
    let got = Client::tls(&edge.server).get("/film.mp4");
    body.assert_range(0..body.len, &got.body);
    let asked = origin.asked();
    assert_eq!(range(&asked[1]).unwrap().0, 250_000, "{}", asked[1]);
    assert!(asked[1].to_ascii_lowercase().contains("if-range: \"v1\""), "{}", asked[1]);
    assert_eq!(asked.len(), 13, "each of them made progress");
}

#[test]
fn an_origin_that_ignores_range_and_breaks_off_is_read_again_up_to_there() {
    let body = Content::new(74, MIB);
    let bytes = body.all();
    let origin = Origin::start(move |_, number, stream| {
        if number == 0 {
            write(stream, head_of(bytes.len() as u64));
            write(stream, &bytes[..300_001]);
            return false;
        }
        answer(stream, "200 OK", ALONE, &bytes)
    });
    let edge = Edge::of(&origin);
    body.assert_range(0..body.len, &Client::plain(&edge.server).get("/film.mp4").body);
    assert_eq!(origin.asked().len(), 2);
}

#[test]
fn a_body_that_is_never_continued_is_cut_short() {
    let origin = Origin::start(move |_, number, stream| {
        if number == 0 {
            write(stream, head_of(100));
            write(stream, "some");
        }
        false
    });
    let edge = Edge::before(&origin.sites_with("retries: 0"));
    let mut client = Client::tls(&edge.server);
    client.begin("/film.mp4");
    assert_eq!(client.rest_until_cut(), b"some");
    assert!(origin.asked().len() > 2, "it was asked for the rest");
}

#[test]
fn without_a_length_an_early_end_is_seen_as_one() {
    let origin = Origin::start(move |_, _, stream| {
        let framing = "Transfer-Encoding: chunked";
        write(stream, format!("HTTP/1.1 200 OK\r\n{framing}\r\n{ALONE}\r\n5\r\nhello\r\n"));
        false
    });
    let edge = Edge::of(&origin);
    let mut client = Client::tls(&edge.server);
    client.ask("/live.ts");
    if client.response_to_head().unwrap().status == 200 {
        let rest = client.rest_until_cut();
        assert!(!rest.ends_with(b"0\r\n\r\n"), "it does not look whole");
    }
    assert_eq!(origin.asked().len(), 1);
}

#[test]
fn another_version_is_never_mixed_in() {
    let (old, new) = (Content::new(75, 4 * MIB), Content::new(76, 4 * MIB));
    let (old_bytes, new_bytes) = (old.all(), new.all());
    let origin = Origin::start(move |head, number, stream| match number {
        0 => file(head, stream, ALONE, &old_bytes),
        _ => file(head, stream, "Cache-Control: no-store\r\nETag: \"v2\"\r\n", &new_bytes),
    });
    let edge = Edge::of(&origin);
    let mut client = Client::tls(&edge.server);
    client.begin("/film.mp4");
    let got = client.rest_until_cut();
    old.assert_range(0..got.len() as u64, &got);
    assert!(got.len() as u64 <= MIB, "{} bytes", got.len());
    assert_eq!(edge.fetched("changed"), 1.0);
}

#[test]
fn a_client_that_leaves_ends_the_request_to_the_origin() {
    let (tell, told) = channel();
    let tell = Mutex::new(tell);
    let origin = Origin::start(move |_, _, stream| {
        write(stream, head_of(1 << 40));
        while write(stream, vec![7; SLICE]) {}
        tell.lock().unwrap().send(()).unwrap();
        false
    });
    let edge = Edge::of(&origin);
    let mut client = Client::tls(&edge.server);
    client.begin("/film.mp4");
    client.take(SLICE).unwrap();
    drop(client);
    told.recv_timeout(DEADLINE).unwrap();
    until("it is counted", || (edge.fetched("no_readers") == 1.0).then_some(()));
}

#[test]
fn heads_conditions_and_ranges_of_it_are_answered_as_of_anything() {
    let body = Content::new(77, 300_000);
    let origin = Origin::with_file(&body, ALONE);
    let edge = Edge::of(&origin);
    let mut client = Client::tls(&edge.server);
    let head = client.request("HEAD /a.mp4 HTTP/1.1\r\nHost: localhost\r\n\r\n");
    assert_eq!((head.status, head.field("Content-Length")), (200, Some("300000")));
    assert_eq!(client.get_with("/a.mp4", "If-None-Match: \"v1\"\r\n").status, 304);
    assert_eq!(client.get_with("/a.mp4", "If-Match: \"v2\"\r\n").status, 412);
    body.assert_range(0..body.len, &client.get("/a.mp4").body);
    let part = client.get_range("/a.mp4", 70_000, 200_000);
    assert_eq!(part.status, 206);
    body.assert_range(70_000..200_001, &part.body);
}

#[test]
fn it_comes_whole_in_chunks_and_with_a_length_and_from_an_origin_with_tls() {
    let body = Content::new(78, 5 * MIB + 12_345);
    let bytes = body.all();
    let origin = Origin::start(move |head, _, stream| {
        if head.contains("/whole") {
            return file(head, stream, ALONE, &bytes);
        }
        write_chunked_head(stream, ALONE);
        for (chunk, step) in bytes.chunks(7_001).zip(0..) {
            // In pieces that know nothing of chunks.
            let framed = [format!("{:x}\r\n", chunk.len()).as_bytes(), chunk, b"\r\n"].concat();
            let (one, other) = framed.split_at(framed.len().min(step % 5_000));
            if !(write(stream, one) && write(stream, other)) {
                return false;
            }
        }
        write_chunk(stream, "")
    });
    let inner = Edge::of(&origin);
    let authority = inner.server.certificates().authority();
    let keys = format!("http: [\"https://{}\"], ca: {}", inner.server.https(), authority.display());
    let outer = Edge::before(&format!("- origin: {{{keys}}}"));
    let fetched = |server: &Server, path| {
        let got = Tool::curl(server).arg(server.url(path)).run().ok();
        body.assert_range(0..body.len, &got.stdout);
    };
    fetched(&inner.server, "/chunked");
    fetched(&inner.server, "/whole");
    assert_eq!(inner.server.metrics().sum("penstock_cache_slices", &[]), 0.0);
    // Its origin is a server with TLS.
    fetched(&outer.server, "/whole");
    assert_eq!(outer.server.metrics().sum("penstock_cache_slices", &[]), 0.0);
}

#[test]
fn an_answer_to_what_may_have_had_an_effect_is_not_asked_for_twice() {
    let origin = Origin::start(move |_, _, stream| {
        write(stream, head_of(100));
        write(stream, "some");
        false
    });
    let edge = Edge::of(&origin);
    edge.server.tolerate_warning("is out: ");
    let mut client = Client::plain(&edge.server);
    client.send("POST /buy HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n");
    assert_eq!(client.response_to_head().unwrap().status, 200);
    assert_eq!(client.rest_until_cut(), b"some");
    assert_eq!(origin.asked().len(), 1);
}
