//! Clients that send what costs a server more than it costs them. The connection ends with the code of RFC 9113 §7, the
//! reason is counted, and other clients are served.

use penstock_testkit::frames::{
    ACK, CONTINUATION, DATA, END_HEADERS, END_STREAM, Frame, GOAWAY, HEADERS, NO_WINDOW, PING, PREFACE,
    PRIORITY, PRIORITY_UPDATE, PUSH_PROMISE, Peer, RST_STREAM, SETTINGS, WINDOW_UPDATE, block, frame, get,
    request, window,
};
use penstock_testkit::{Client, Server};

use super::setup;

const PROTOCOL_ERROR: u32 = 1;
const FLOW_CONTROL_ERROR: u32 = 3;
const FRAME_SIZE_ERROR: u32 = 6;
const REFUSED_STREAM: u32 = 7;
const CANCEL: u32 = 8;
const COMPRESSION_ERROR: u32 = 9;
const ENHANCE_YOUR_CALM: u32 = 11;

/// An attack: what it is counted as, the code of the GOAWAY, SETTINGS, and frames.
type Attack = (&'static str, u32, &'static [u8], Vec<u8>);

/// Stream numbers of a client, from the first on.
fn streams(count: u32) -> impl Iterator<Item = u32> {
    (0..count).map(|number| 2 * number + 1)
}

/// A block that fills the table with one large entry and then names it again and again.
fn bomb(times: usize) -> Vec<u8> {
    // Literal with incremental indexing, name `x`; 3000 bytes as an integer of 7 bits: 127 + (2873 = 57 | 22 << 7).
    let mut bomb = vec![0x40, 1, b'x', 127, 0x80 | 57, 22];
    bomb.extend(vec![b'y'; 3000]);
    // The first entry after the 61 of the static table.
    bomb.extend(vec![0x80 | 62; times]);
    bomb
}

/// HEADERS without an end, and many CONTINUATION frames.
fn endless_head(count: usize, payload: &[u8]) -> Vec<u8> {
    let mut frames = frame(HEADERS, END_STREAM, 1, &request("GET", "/"));
    frames.extend(frame(CONTINUATION, 0, 1, payload).repeat(count));
    frames
}

/// Attacks by the number of frames or by what they decode to.
fn floods() -> Vec<Attack> {
    let reset = |stream: u32| frame(RST_STREAM, 0, stream, &CANCEL.to_be_bytes());
    let all = |count: u32, make: &dyn Fn(u32) -> Vec<u8>| streams(count).flat_map(make).collect::<Vec<u8>>();
    let field = block(&[("x-large", &"y".repeat(100))]);
    let update = |number: u32| frame(PRIORITY_UPDATE, 0, 0, &[&number.to_be_bytes()[..], b"u=1"].concat());
    vec![
        // CVE-2023-44487: the client resets each request at once.
        (
            "reset_flood",
            ENHANCE_YOUR_CALM,
            &NO_WINDOW,
            all(1000, &|id| [get(id, "/1m.bin"), reset(id)].concat()),
        ),
        // CVE-2025-8671: the client makes the server reset each request.
        (
            "provoked_reset_flood",
            ENHANCE_YOUR_CALM,
            &NO_WINDOW,
            all(300, &|id| [get(id, "/1m.bin"), window(id, 0)].concat()),
        ),
        ("ping_flood", ENHANCE_YOUR_CALM, &[], frame(PING, 0, 0, &[7; 8]).repeat(500)),
        ("settings_flood", ENHANCE_YOUR_CALM, &[], frame(SETTINGS, 0, 0, &NO_WINDOW).repeat(200)),
        // Each acknowledges nothing.
        ("priority_flood", ENHANCE_YOUR_CALM, &[], all(3000, &update)),
        ("priority_flood", ENHANCE_YOUR_CALM, &[], all(3000, &|id| frame(PRIORITY, 0, id, &[0, 0, 0, 0, 9]))),
        ("window_update_flood", ENHANCE_YOUR_CALM, &[], window(0, 1).repeat(5000)),
        ("ignored_frame_flood", ENHANCE_YOUR_CALM, &[], frame(200, 0, 0, b"unknown").repeat(9000)),
        // CVE-2024-27316 and its kin: a head without end, of large fields, of nothing, and compressed.
        ("continuation_flood", ENHANCE_YOUR_CALM, &[], endless_head(3000, &field)),
        ("continuation_flood", ENHANCE_YOUR_CALM, &[], endless_head(9000, &[])),
        ("field_section_flood", ENHANCE_YOUR_CALM, &[], {
            let head = [request("GET", "/"), bomb(10_000)].concat();
            frame(HEADERS, END_STREAM | END_HEADERS, 1, &head)
        }),
        ("empty_data_flood", ENHANCE_YOUR_CALM, &[], {
            let head = frame(HEADERS, END_HEADERS, 1, &request("POST", "/"));
            [head, frame(DATA, 0, 1, b"").repeat(9000)].concat()
        }),
        // Requests that the server refuses, one after the other.
        ("refused_stream_flood", ENHANCE_YOUR_CALM, &NO_WINDOW, all(3000, &|id| get(id, "/1m.bin"))),
    ]
}

/// Frames that no client may send.
fn violations() -> Vec<Attack> {
    let head = |stream: u32, flags: u8, block: &[u8]| frame(HEADERS, END_STREAM | flags, stream, block);
    vec![
        ("frame_on_wrong_stream", PROTOCOL_ERROR, &[], frame(DATA, 0, 0, b"x")),
        ("idle_stream", PROTOCOL_ERROR, &[], frame(DATA, 0, 5, b"x")),
        ("idle_stream", PROTOCOL_ERROR, &[], window(5, 1)),
        ("stream_id", PROTOCOL_ERROR, &[], get(2, "/")),
        ("continuation", PROTOCOL_ERROR, &[], frame(CONTINUATION, 0, 1, b"")),
        ("continuation", PROTOCOL_ERROR, &[], [head(1, 0, b""), get(3, "/")].concat()),
        ("push_promise", PROTOCOL_ERROR, &[], frame(PUSH_PROMISE, END_HEADERS, 1, &[0, 0, 0, 2])),
        ("setting_value", PROTOCOL_ERROR, &[0, 2, 0, 0, 0, 2], Vec::new()),
        ("window_increment", PROTOCOL_ERROR, &[], window(0, 0)),
        ("window_overflow", FLOW_CONTROL_ERROR, &[], window(0, 0x7fff_ffff)),
        ("frame_too_large", FRAME_SIZE_ERROR, &[], frame(DATA, 0, 1, &vec![0; 16_385])),
        ("frame_length", FRAME_SIZE_ERROR, &[], frame(PING, 0, 0, b"seven b")),
        ("frame_length", FRAME_SIZE_ERROR, &[], frame(SETTINGS, ACK, 0, &NO_WINDOW)),
        ("hpack_index", COMPRESSION_ERROR, &[], head(1, END_HEADERS, &[0x80])),
        (
            "hpack_integer",
            COMPRESSION_ERROR,
            &[],
            head(1, END_HEADERS, &[0x3f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]),
        ),
    ]
}

/// Sends an attack and returns what came back until the connection ended.
fn outcome(server: &Server, is_tls: bool, (_, _, settings, frames): &Attack) -> Vec<Frame> {
    fn of<S: std::io::Read + std::io::Write>(peer: Peer<S>, settings: &[u8], frames: &[u8]) -> Vec<Frame> {
        let mut peer = peer.open(settings);
        peer.try_send(frames);
        peer.rest()
    }
    if is_tls { of(Peer::tls(server), settings, frames) } else { of(Peer::plain(server), settings, frames) }
}

#[track_caller]
fn withstands(attacks: &[Attack]) {
    let server = setup().start();
    let file = server.file("1m.bin", 1 << 20);
    let mut bystander = Client::tls(&server);
    for attack in attacks {
        let (reason, code, ..) = attack;
        for is_tls in [true, false] {
            let count = || {
                let label = format!("reason=\"{reason}\"");
                server.metrics().sum("penstock_http2_connection_errors_total", &[&label])
            };
            let before = count();
            let frames = outcome(&server, is_tls, attack);
            let goaway = frames.iter().find(|frame| frame.kind == GOAWAY);
            let goaway = goaway.unwrap_or_else(|| panic!("{reason}: no GOAWAY in {} frames", frames.len()));
            assert_eq!(goaway.code(), *code, "{reason}, TLS {is_tls}");
            penstock_testkit::until("the reason to be counted", || (count() > before).then_some(()));
            file.assert_range(0..file.len, &bystander.get("/1m.bin").body);
        }
    }
    server.counted("penstock_http2_streams", &[], 0.0);
}

#[test]
fn floods_end_their_connection_and_no_other() {
    withstands(&floods());
}

#[test]
fn violations_of_the_protocol_end_their_connection_with_their_code() {
    withstands(&violations());
}

#[test]
fn streams_beyond_the_limit_are_refused_and_the_others_go_on() {
    let server = setup().start();
    let file = server.file("100k.bin", 100_000);
    let mut peer = Peer::tls(&server).open(&NO_WINDOW);
    let requests: Vec<u8> = streams(140).flat_map(|id| get(id, "/100k.bin")).collect();
    peer.send(&requests);
    let refused: Vec<Frame> = (0..12).map(|_| peer.expect(RST_STREAM)).collect();
    assert!(refused.iter().all(|frame| frame.code() == REFUSED_STREAM), "{refused:?}");
    let numbers: Vec<u32> = refused.iter().map(|frame| frame.stream).collect();
    assert_eq!(numbers, streams(140).skip(128).collect::<Vec<_>>());
    server.counted("penstock_http2_streams_refused_total", &["reason=\"too_many_streams\""], 12.0);
    server.counted("penstock_http2_streams", &[], 128.0);
    // A stream that the client resets makes a place for another.
    peer.send(&frame(RST_STREAM, 0, 1, &CANCEL.to_be_bytes()));
    server.counted("penstock_http2_streams", &[], 127.0);
    peer.send(&[get(281, "/100k.bin"), window(281, 200_000), window(0, 200_000)].concat());
    assert_eq!(peer.body(281), file.all());
}

#[test]
fn frames_of_unknown_types_and_of_old_priorities_are_ignored() {
    let server = setup().start();
    let file = server.file("1k.bin", 1024);
    let mut peer = Peer::plain(&server);
    peer.send(PREFACE);
    peer.send(&frame(SETTINGS, 0, 0, &[0xff, 0xff, 1, 2, 3, 4]));
    peer.send(&frame(77, 0xff, 0, b"whatever"));
    peer.send(&frame(PRIORITY, 0, 1, &[0, 0, 0, 1, 255]));
    peer.send(&get(1, "/1k.bin"));
    assert_eq!(peer.body(1), file.all());
    peer.send(&frame(PING, 0, 0, b"12345678"));
    let answer = peer.expect(PING);
    assert_eq!((answer.flags, &answer.payload[..]), (ACK, &b"12345678"[..]));
}

#[test]
fn a_malformed_request_loses_its_stream_and_the_next_one_is_answered() {
    let server = setup().start();
    let file = server.file("1k.bin", 1024);
    let mut peer = Peer::tls(&server).open(&[]);
    let usual = [(":method", "GET"), (":scheme", "https"), (":path", "/1k.bin"), (":authority", "localhost")];
    let with = |more: &[(&str, &str)]| block(&[&usual[..], more].concat());
    let malformed = [
        with(&[("Upper", "case")]),
        with(&[("connection", "close")]),
        with(&[("te", "gzip")]),
        with(&[(":path", "/again")]),
        with(&[("x", "y"), (":late", "z")]),
        with(&[("x", "line\r\nbreak")]),
        with(&[("host", "other.example")]),
        block(&usual[1..]),
        block(&[(":status", "200"), usual[0], usual[1], usual[2]]),
    ];
    let mut stream = 1;
    for block in malformed {
        peer.send(&frame(HEADERS, END_HEADERS | END_STREAM, stream, &block));
        let reset = peer.expect(RST_STREAM);
        assert_eq!((reset.stream, reset.code()), (stream, PROTOCOL_ERROR), "{}", block.escape_ascii());
        peer.send(&get(stream + 2, "/1k.bin"));
        assert_eq!(peer.body(stream + 2), file.all());
        stream += 4;
    }
}

#[test]
fn frames_of_one_byte_at_a_time_are_frames_all_the_same() {
    let server = setup().start();
    let file = server.file("1k.bin", 1024);
    let mut peer = Peer::tls(&server);
    let all = [
        PREFACE,
        &frame(SETTINGS, 0, 0, &[]),
        &get(1, "/1k.bin"),
        &frame(WINDOW_UPDATE, 0, 1, &[0, 0, 0, 9]),
    ];
    for byte in all.concat() {
        peer.send(&[byte]);
    }
    assert_eq!(peer.body(1), file.all());
}
