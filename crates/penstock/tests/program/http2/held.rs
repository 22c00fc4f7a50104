//! Clients that hold a connection or a stream without using it, or leave in the middle.

use std::net::Shutdown;

use penstock_testkit::frames::{
    DATA, END_HEADERS, END_STREAM, GOAWAY, HEADERS, NO_WINDOW, PING, PREFACE, Peer, RST_STREAM, SETTINGS,
    block, frame, get, request, window,
};
use penstock_testkit::origin::Origin;
use penstock_testkit::{Client, Setup, until};
use rustix::process::Signal;

use super::{before, setup};
use crate::cached::unread::{UNREAD, Unread};

/// Streams of a connection.
const STREAMS: usize = 50;
/// SETTINGS_INITIAL_WINDOW_SIZE of 1 MiB.
const WIDE_STREAMS: [u8; 6] = [0, 4, 0, 0x10, 0, 0];

const NO_ERROR: u32 = 0;
const CANCEL: u32 = 8;

/// A server that soon loses its patience.
fn impatient() -> Setup {
    setup().limits("head_deadline: 1s, minimum_rate: 1MiB, minimum_rate_grace: 1s, idle_timeout: 2s")
}

#[test]
fn a_preface_or_a_frame_that_is_never_finished_ends_the_connection() {
    let server = impatient().start();
    server.file("1k.bin", 1024);
    let settings = frame(SETTINGS, 0, 0, &[]);
    let unfinished: [Vec<u8>; 4] = [
        PREFACE[..10].to_vec(),
        PREFACE.to_vec(),
        [PREFACE, &settings, &get(1, "/1k.bin")[..12]].concat(),
        [PREFACE, &settings, &frame(HEADERS, END_STREAM, 1, &request("GET", "/1k.bin"))].concat(),
    ];
    for bytes in unfinished {
        let mut peer = Peer::tls(&server);
        peer.send(&bytes);
        peer.rest();
        assert_eq!(Client::tls(&server).get("/1k.bin").status, 200);
    }
}

#[test]
fn streams_without_a_window_are_reset_and_what_they_held_is_free() {
    let server = impatient().start();
    let file = server.file("1m.bin", 1 << 20);
    server.file("1k.bin", 1024);
    let mut peer = Peer::tls(&server).open(&NO_WINDOW);
    for (stream, path) in [(1, "/1m.bin"), (3, "/1m.bin"), (5, "/1k.bin"), (7, "/1k.bin")] {
        peer.send(&get(stream, path));
    }
    for _ in 0..4 {
        let reset = peer.expect(RST_STREAM);
        assert_eq!(reset.code(), CANCEL, "{reset:?}");
    }
    // The connection is in order.
    peer.send(&[get(9, "/1m.bin"), window(9, 2 << 20), window(0, 2 << 20)].concat());
    assert_eq!(peer.body(9), file.all());
    server.counted("penstock_http2_resets_total", &["cause=\"too_slow\""], 4.0);
    server.counted("penstock_short_responses_total", &["reason=\"too_slow\""], 4.0);
    server.counted("penstock_http2_streams", &[], 0.0);
}

/// A small cached object is sent from a copy in the memory of the process, which a stream must not hold for ever.
#[test]
fn streams_without_a_window_are_reset_while_they_hold_copies_of_cached_objects() {
    let origin =
        Origin::answering("200 OK", "Cache-Control: max-age=600\r\nETag: \"a\"\r\n", "a small object");
    let (_memory, server) = before(&origin, impatient());
    // The second request of a worker for an object makes the copy.
    let mut other = Client::tls(&server);
    for _ in 0..3 {
        assert_eq!(other.get("/small").text(), "a small object");
    }
    let mut peer = Peer::tls(&server).open(&NO_WINDOW);
    (0..STREAMS).for_each(|place| peer.send(&get(stream(place), "/small")));
    for _ in 0..STREAMS {
        assert_eq!(peer.expect(RST_STREAM).code(), CANCEL);
    }
    server.counted("penstock_http2_streams", &[], 0.0);
    peer.send(&[get(stream(STREAMS), "/small"), window(stream(STREAMS), 100)].concat());
    assert_eq!(peer.body(stream(STREAMS)), b"a small object");
    assert_eq!(origin.asked().len(), 1);
}

#[test]
fn a_small_response_waits_for_its_window_and_is_logged_once() {
    let server = setup().start();
    let file = server.file("1k.bin", 1024);
    let mut peer = Peer::tls(&server).open(&NO_WINDOW);
    peer.send(&[get(1, "/1k.bin?waits"), get(3, "/1k.bin?leaves")].concat());
    assert_eq!((peer.expect(HEADERS).stream, peer.expect(HEADERS).stream), (1, 3));
    peer.send(&window(1, 500));
    let mut body = peer.expect(DATA).payload;
    assert_eq!(body.len(), 500);
    peer.send(&[frame(RST_STREAM, 0, 3, &CANCEL.to_be_bytes()), window(1, 1000)].concat());
    body.extend(peer.expect(DATA).payload);
    assert_eq!(body, file.all());
    let (whole, left) = (server.logged("/1k.bin?waits"), server.logged("/1k.bin?leaves"));
    assert_eq!((&whole["body_bytes"], &whole["outcome"]), (&1024.into(), &"complete".into()), "{whole}");
    assert_eq!((&left["body_bytes"], &left["outcome"]), (&0.into(), &"client_closed".into()), "{left}");
    server.counted("penstock_http2_streams", &[], 0.0);
    assert_eq!(server.access_log().len(), 2);
    assert_eq!(server.metrics().sum("penstock_http_requests_total", &["version=\"h2\""]), 2.0);
}

#[test]
fn streams_that_may_not_send_give_up_slices_that_others_need_and_go_on_with_a_window() {
    // Streams whose own window is empty; streams that share the empty window of their connection.
    for settings in [NO_WINDOW, WIDE_STREAMS] {
        let unread = Unread::before(setup());
        let mut peers = Vec::new();
        for first in (0..UNREAD).step_by(STREAMS) {
            let mut peer = Peer::tls(&unread.server).open(&settings);
            for place in 0..STREAMS {
                peer.send(&get(stream(place), &format!("/{}", first + place)));
            }
            peers.push((first, peer));
        }
        unread.serve_others();
        for (first, mut peer) in peers {
            peer.send(&window(0, 1 << 30));
            (0..STREAMS).for_each(|place| peer.send(&window(stream(place), 1 << 20)));
            let mut bodies = vec![Vec::new(); STREAMS];
            let mut left = STREAMS;
            while left > 0 {
                let frame = peer.expect(DATA);
                let place = usize::try_from(frame.stream / 2).unwrap();
                bodies[place].extend_from_slice(&frame.payload);
                left -= usize::from(frame.flags & END_STREAM != 0);
            }
            for (place, body) in bodies.iter().enumerate() {
                unread.assert_object(first + place, body);
            }
        }
    }
}

/// The number of a connection's request.
fn stream(place: usize) -> u32 {
    u32::try_from(2 * place + 1).unwrap()
}

#[test]
fn a_client_that_ends_its_side_gets_what_it_has_asked_for() {
    let server = setup().start();
    let file = server.file("1m.bin", 1 << 20);
    let mut peer = Peer::plain(&server).open(&[0, 4, 0, 0x20, 0, 0]);
    peer.send(&[window(0, 2 << 20), get(1, "/1m.bin")].concat());
    peer.0.shutdown(Shutdown::Write).unwrap();
    let frames = peer.rest();
    let body = frames.iter().filter(|frame| frame.kind == DATA).flat_map(|frame| &frame.payload);
    assert_eq!(body.copied().collect::<Vec<u8>>(), file.all());
    until("the connection to end", || {
        (server.metrics().sum("penstock_http2_streams", &[]) == 0.0).then_some(())
    });
}

#[test]
fn an_upload_that_stops_holds_nothing_for_ever() {
    let origin = crate::cached::passing::echo();
    let setup = impatient().limits("upload_rate: 1KiB, upload_rate_grace: 1s");
    let (_memory, server) = before(&origin, setup);
    let mut peer = Peer::tls(&server).open(&[]);
    peer.send(&frame(HEADERS, END_HEADERS, 1, &request("POST", "/api")));
    peer.send(&frame(DATA, 0, 1, b"a few bytes"));
    // A response of 408, or the end of the stream.
    let answer = loop {
        let frame = peer.receive().expect("an answer on the stream");
        if frame.stream == 1 {
            break frame;
        }
    };
    assert!([HEADERS, RST_STREAM].contains(&answer.kind), "{answer:?}");
    server.counted("penstock_http2_streams", &[], 0.0);
}

#[test]
fn an_idle_connection_is_told_before_it_ends() {
    let server = impatient().start();
    let file = server.file("1k.bin", 1024);
    let mut peer = Peer::tls(&server).open(&[]);
    peer.send(&get(1, "/1k.bin"));
    assert_eq!(peer.body(1), file.all());
    assert_eq!(peer.expect(GOAWAY).code(), NO_ERROR);
    assert!(peer.receive().is_none());
}

#[test]
fn a_reload_that_changes_the_bounds_of_heads_says_goaway_with_the_next_request() {
    let server = setup().start();
    let file = server.file("1k.bin", 1024);
    let mut peer = Peer::tls(&server).open(&[]);
    peer.send(&get(1, "/1k.bin"));
    assert_eq!(peer.body(1), file.all());
    server.reload(&setup().limits("drain_deadline: 31s"));
    peer.send(&get(3, "/1k.bin"));
    assert_eq!(peer.body(3), file.all());
    server.reload(&setup().limits("head_bytes: 9000"));
    peer.send(&get(5, "/1k.bin"));
    let first = peer.expect(GOAWAY);
    assert_eq!((&first.payload[..4], first.code()), (&[0x7f, 0xff, 0xff, 0xff][..], NO_ERROR));
    assert_eq!(peer.body(5), file.all());
    let last = peer.expect(GOAWAY);
    assert_eq!((&last.payload[..4], last.code()), (&5_u32.to_be_bytes()[..], NO_ERROR));
    assert!(peer.receive().is_none());
}

#[test]
fn a_drain_says_goaway_twice_and_ends_with_the_last_response() {
    let server = setup().limits("drain_deadline: 30s").start();
    let file = server.file("1m.bin", 1 << 20);
    let mut peer = Peer::tls(&server).open(&NO_WINDOW);
    peer.send(&get(1, "/1m.bin"));
    peer.expect(HEADERS);
    server.signal(Signal::TERM);
    let first = peer.expect(GOAWAY);
    assert_eq!((&first.payload[..4], first.code()), (&[0x7f, 0xff, 0xff, 0xff][..], NO_ERROR));
    // It did not know of the end when it sent this.
    peer.send(&get(3, "/1m.bin"));
    let second = peer.expect(GOAWAY);
    let last = u32::from_be_bytes(second.payload[..4].try_into().unwrap());
    assert!([1, 3].contains(&last) && second.code() == NO_ERROR, "{second:?}");
    for stream in (1..=last).step_by(2) {
        peer.send(&[window(0, 2 << 20), window(stream, 2 << 20)].concat());
        assert_eq!(peer.body(stream), file.all());
    }
    peer.rest();
    assert!(server.wait().success());
}

/// A body of a request that needs none, in frames of one byte: each would take an allocation of its own.
#[test]
fn bodies_in_frames_of_one_byte_take_no_more_memory_than_their_bytes() {
    const CONNECTIONS: usize = 2;
    let server = setup().start();
    let file = server.file("1m.bin", 1 << 20);
    let open = || {
        let mut peer = Peer::tls(&server).open(&NO_WINDOW);
        for stream in [1, 3, 5, 7] {
            // Too long to be waited for.
            let head = [request("GET", "/1m.bin"), block(&[("content-length", "262144")])].concat();
            peer.send(&frame(HEADERS, END_HEADERS, stream, &head));
            peer.expect(HEADERS);
        }
        peer
    };
    let mut peers: Vec<Peer<_>> = (0..CONNECTIONS).map(|_| open()).collect();
    let before = server.memory();
    let round: Vec<u8> = [1, 3, 5, 7].into_iter().flat_map(|stream| frame(DATA, 0, stream, b"x")).collect();
    let rounds = round.repeat(4096);
    for peer in &mut peers {
        // 32 KiB of payload on each stream, an eighth of what its window allows.
        (0..8).for_each(|_| peer.send(&rounds));
        peer.send(&frame(PING, 0, 0, &[7; 8]));
        peer.expect(PING);
    }
    let grown = server.memory().saturating_sub(before);
    assert!(grown < 4 << 20, "{grown} bytes for {CONNECTIONS} connections");
    for peer in &mut peers {
        peer.send(&[window(0, 1 << 20), window(7, 1 << 20)].concat());
        assert_eq!(peer.body(7), file.all());
    }
}
