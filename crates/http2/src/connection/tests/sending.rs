//! Responses, and the end of streams.

use super::*;
use crate::hpack::Decoder as HpackDecoder;

fn decoded(decoder: &mut HpackDecoder, block: &[u8]) -> Vec<String> {
    let mut fields = Vec::new();
    let sink = |name: &[u8], value: &[u8], _| {
        fields.push(format!("{}: {}", name.escape_ascii(), value.escape_ascii()))
    };
    decoder.decode(block, &mut Vec::new(), sink).unwrap();
    fields
}

#[test]
fn a_head_is_one_frame_in_lowercase_without_connection_specific_fields() {
    let mut client = Client::with_defaults();
    let stream = client.get(1);
    let fields: [(&[u8], &[u8]); 5] = [
        (b"Content-Type", b"video/mp4"),
        (b"connection", b"close"),
        (b"Transfer-Encoding", b"chunked"),
        (b"X-A-Very-Long-Name-That-Has-More-Than-Sixty-Four-Octets-In-All-Of-It", b"A"),
        (b"etag", b"\"1\""),
    ];
    let mut out = b"before".to_vec();
    client.connection.head(stream, 103, [], false, &mut out);
    client.connection.head(stream, 200, fields, true, &mut out);
    let frames = frames(&out[6..]);
    assert_eq!(frames.iter().map(|frame| frame.flags).collect::<Vec<_>>(), [flag::END_HEADERS, 5]);
    let mut decoder = HpackDecoder::new();
    assert_eq!(decoded(&mut decoder, &frames[0].payload), [":status: 103"]);
    assert_eq!(
        decoded(&mut decoder, &frames[1].payload),
        [
            ":status: 200",
            "content-type: video/mp4",
            "x-a-very-long-name-that-has-more-than-sixty-four-octets-in-all-of-it: A",
            "etag: \\\"1\\\""
        ]
    );
    out.clear();
    client.connection.head(stream, 200, [], true, &mut out);
    client.connection.trailers(stream, [], &mut out);
    assert_eq!(out, b"", "the stream has sent its end");
}

#[test]
fn a_head_that_repeats_is_encoded_as_it_would_be_anew() {
    let (mut anew, mut repeating) = (Client::with_defaults(), Client::with_defaults());
    let long = "v".repeat(700);
    let heads = [
        (200, "a: 1\nserver: penstock"),
        (200, "a: 2\nserver: penstock"),
        (404, "a: 1\nserver: penstock"),
        (200, "set-cookie: a=1"),
        (200, &format!("x: {long}")),
        (304, ""),
    ];
    let mut number = 0;
    // Which head follows, how often, and the size of the client's table from then on.
    for (head, times, table) in [
        (0, 5, 4096),
        (1, 3, 4096),
        (0, 2, 4096),
        (3, 3, 4096),
        (2, 4, 64),
        (0, 3, 0),
        (4, 2, 4096),
        (5, 2, 4096),
    ] {
        let (status, lines) = heads[head];
        let fields = || lines.lines().filter_map(|line| line.split_once(": "));
        let fields = || fields().map(|(name, value)| (name.as_bytes(), value.as_bytes()));
        for _ in 0..times {
            number += 1;
            let (stream, same) = (anew.get(2 * number - 1), repeating.get(2 * number - 1));
            let (mut expected, mut out) = (Vec::new(), Vec::new());
            anew.connection.head(stream, status, fields(), true, &mut expected);
            let parts = [&lines.as_bytes()[..0], lines.as_bytes(), b""];
            repeating.connection.head_of(same, (status, &parts), fields(), true, &mut out);
            assert_eq!(out, expected, "{number}: {status} {lines}");
            for client in [&mut anew, &mut repeating] {
                client.connection.finished(stream);
            }
        }
        for client in [&mut anew, &mut repeating] {
            client.setting(setting::HEADER_TABLE_SIZE, table).unwrap();
            client.connection.take_control();
        }
    }
}

#[test]
fn a_head_that_repeats_is_not_encoded_again() {
    let mut client = Client::with_defaults();
    let fields: [(&[u8], &[u8]); 1] = [(b"server", b"penstock")];
    let parts = [&b"server"[..], b"penstock", b""];
    let mut send = |number: u32, parts: &HeadParts<'_>| {
        let (mut read, mut out) = (0, Vec::new());
        let stream = client.get(number);
        client.connection.head_of(
            stream,
            (200, parts),
            fields.iter().inspect(|_| read += 1).copied(),
            true,
            &mut out,
        );
        client.connection.finished(stream);
        read
    };
    // The first is remembered to be repeated, the second enters the table.
    assert_eq!([1, 3, 5, 7, 9].map(|number| send(number, &parts)), [1, 1, 1, 0, 0]);
    assert_eq!(send(11, &[b"serverp", b"enstock", b""]), 1);
    assert_eq!(send(13, &[b"serverp", b"enstock", b""]), 0);
    assert_eq!(send(15, &parts), 1);
}

#[test]
fn a_block_larger_than_a_frame_is_divided() {
    for (length, frames_expected) in [(16_370, 1), (16_400, 2), (40_000, 3)] {
        let mut client = Client::with_defaults();
        let stream = client.get(1);
        // No octet of these has a code shorter than itself.
        let value = vec![b'&'; length];
        let fields: [(&[u8], &[u8]); 1] = [(b"x", &value)];
        let mut out = Vec::new();
        client.connection.head(stream, 404, fields, true, &mut out);
        let frames = frames(&out);
        assert_eq!(frames.len(), frames_expected, "{length}");
        assert_eq!((frames[0].kind, frames[0].flags & flag::END_STREAM), (kind::HEADERS, flag::END_STREAM));
        assert!(frames[1..].iter().all(|frame| frame.kind == kind::CONTINUATION));
        let ends: Vec<_> = frames.iter().map(|frame| frame.flags & flag::END_HEADERS != 0).collect();
        assert_eq!(ends.iter().position(|end| *end), Some(frames_expected - 1));
        let block: Vec<u8> = frames.into_iter().flat_map(|frame| frame.payload).collect();
        assert_eq!(decoded(&mut HpackDecoder::new(), &block)[1].len(), length + 3);
    }
}

#[test]
fn larger_frames_are_used_when_the_client_takes_them() {
    let mut client = Client::with_defaults();
    client.setting(setting::MAX_FRAME_SIZE, 65_536).unwrap();
    let stream = client.get(1);
    assert_eq!(client.connection.frame_bytes_max(), 65_536);
    let header = client.connection.data_header(stream, 65_535, false);
    assert_eq!(header, [0, 0xff, 0xff, kind::DATA, 0, 0, 0, 0, 1]);
}

#[test]
fn trailers_end_the_stream() {
    let mut client = Client::with_defaults();
    let stream = client.get(1);
    client.respond(stream, false);
    let mut out = Vec::new();
    let fields: [(&[u8], &[u8]); 1] = [(b"x", b"y")];
    client.connection.trailers(stream, fields, &mut out);
    assert_eq!(frames(&out)[0].flags, flag::END_HEADERS | flag::END_STREAM);
    client.connection.finished(stream);
    assert_eq!((client.control(), client.connection.streams()), (vec![], 0));
}

#[test]
fn finishing_early_resets_the_stream() {
    // Whether a body is missing, of which so many bytes have come.
    for (body, response_is_whole, expected) in [
        (None, true, None),
        (None, false, Some(ErrorCode::INTERNAL_ERROR)),
        (Some(0), true, None),
        (Some(1), true, Some(ErrorCode::NO_ERROR)),
        (Some(0), false, Some(ErrorCode::INTERNAL_ERROR)),
    ] {
        let mut client = Client::with_defaults();
        let stream = if body.is_some() { client.post(1) } else { client.get(1) };
        if let Some(length @ 1..) = body {
            client.frame(kind::DATA, 0, 1, &vec![b'x'; length]).unwrap();
        }
        client.respond(stream, response_is_whole);
        client.connection.finished(stream);
        let expected: Vec<_> = expected.into_iter().map(|code| reset(1, code)).collect();
        assert_eq!(client.control(), expected);
        client.connection.finished(stream);
        assert_eq!(client.control(), []);
    }
}

#[test]
fn nothing_is_sent_for_a_stream_that_was_reset() {
    let mut client = Client::with_defaults();
    let stream = client.get(1);
    client.connection.set_outgoing(stream, Outgoing::Data);
    client.frame(kind::RST_STREAM, 0, 1, &8u32.to_be_bytes()).unwrap();
    let mut out = Vec::new();
    client.connection.head(stream, 200, [], false, &mut out);
    client.connection.set_outgoing(stream, Outgoing::Data);
    assert_eq!(
        (out.len(), client.connection.sendable(stream), client.connection.next_stream()),
        (0, 0, None)
    );
    client.connection.reset(stream, ErrorCode::CANCEL);
    client.connection.finished(stream);
    assert_eq!(client.control(), []);
}

#[test]
fn a_connection_that_the_caller_closes_reads_nothing_more() {
    let mut client = Client::with_defaults();
    client.connection.close(ErrorCode::ENHANCE_YOUR_CALM);
    client.connection.close(ErrorCode::NO_ERROR);
    client.connection.receive(b"garbage, but ignored", client.now).unwrap();
    let control = client.control();
    assert_eq!((control.len(), number(&control[0].payload[4..])), (1, 0xb));
    assert!(client.connection.is_drained());
}

#[test]
fn a_closed_stream_that_the_application_resets_has_no_more_events() {
    let mut client = Client::with_defaults();
    let stream = client.get(1);
    client.respond(stream, true);
    client.connection.reset(stream, ErrorCode::CANCEL);
    assert_eq!(client.control(), []);
    client.frame(kind::DATA, 0, 1, b"behind the end").unwrap();
    assert_eq!((client.events(), client.control()), (vec![], vec![reset(1, ErrorCode::STREAM_CLOSED)]));
}
