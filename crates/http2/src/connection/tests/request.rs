//! Requests that are malformed, too large or refused (RFC 9113 §8).

use super::*;

#[test]
fn a_malformed_request_resets_its_stream_and_counts_as_provoked() {
    let mut client = Client::with_defaults();
    client.headers(1, flag::END_STREAM, &[(b":method", b"GET")]).unwrap();
    assert_eq!(client.events(), ["1 refused protocol_error missing_pseudo_field"]);
    assert_eq!(client.control(), [reset(1, ErrorCode::PROTOCOL_ERROR)]);
    assert_eq!(client.connection.streams(), 0);
    // Its body was under way.
    client.frame(kind::DATA, flag::END_STREAM, 1, b"body").unwrap();
    assert_eq!((client.events(), client.control()), (vec![], vec![]));
    client.get(3);
}

#[test]
fn a_body_must_have_its_content_length() {
    let of_five = [&POST[..], &[(b"content-length", b"5")]].concat();
    let mismatch = "1 reset protocol_error content_length";
    for (pieces, events) in [
        (&[&b"hello"[..]][..], &["1 data 5 end"][..]),
        (&[b"he", b"", b"llo"], &["1 data 5 end"]),
        (&[b"hell"], &["1 data 4", mismatch]),
        (&[b"hello", b"!"], &["1 data 5", mismatch]),
        (&[b"hello!"], &[mismatch]),
        (&[b""], &[mismatch]),
    ] {
        let mut client = Client::with_defaults();
        client.headers(1, 0, &of_five).unwrap();
        client.expect_request();
        for (at, piece) in pieces.iter().enumerate() {
            let flags = if at + 1 == pieces.len() { flag::END_STREAM } else { 0 };
            client.frame(kind::DATA, flags, 1, piece).unwrap();
        }
        assert_eq!(client.events(), events);
    }
    let mut client = Client::with_defaults();
    client.headers(1, flag::END_STREAM, &of_five).unwrap();
    assert_eq!(client.events(), ["1 refused protocol_error content_length"]);
    client.headers(3, 0, &of_five).unwrap();
    client.headers(3, flag::END_STREAM, &[(b"x", b"y")]).unwrap();
    assert_eq!(client.events(), ["3 POST /", "3 reset protocol_error content_length"]);
}

#[test]
fn a_body_that_is_broken_off_leaves_a_response_under_way_alone() {
    let of_five = [&POST[..], &[(b"content-length", b"5")]].concat();
    let mismatch = "1 reset protocol_error content_length";
    for (status, end, trailers, event) in [
        (403, false, false, "1 broken off"),
        (403, false, true, "1 broken off"),
        (403, true, false, mismatch),
        (100, false, false, mismatch),
    ] {
        let mut client = Client::with_defaults();
        client.headers(1, 0, &of_five).unwrap();
        let stream = client.expect_request();
        client.frame(kind::DATA, 0, 1, b"he").unwrap();
        client.connection.head(stream, status, [], end, &mut Vec::new());
        if trailers {
            client.headers(1, flag::END_STREAM, &[(b"x", b"y")]).unwrap();
        } else {
            client.frame(kind::DATA, flag::END_STREAM, 1, b"").unwrap();
        }
        assert_eq!(client.events(), ["1 data 2", event]);
        assert_eq!(client.control().is_empty(), event != mismatch);
    }
    // What is too long is no client that stops.
    let mut client = Client::with_defaults();
    client.headers(1, 0, &of_five).unwrap();
    let stream = client.expect_request();
    client.connection.head(stream, 403, [], false, &mut Vec::new());
    client.frame(kind::DATA, 0, 1, b"hello!").unwrap();
    assert_eq!(client.events(), [mismatch]);
}

#[test]
fn trailers_end_a_body_and_must_be_valid() {
    for (fields, event) in [
        (&[(&b"checksum"[..], &b"1"[..])][..], "1 trailers checksum: 1\\r\\n"),
        (&[], "1 trailers "),
        (&[(b":path", b"/")], "1 reset protocol_error field_name"),
        (&[(b"Upper", b"1")], "1 reset protocol_error field_name"),
        (&[(b"connection", b"close")], "1 reset protocol_error connection_specific_field"),
    ] {
        let mut client = Client::with_defaults();
        client.post(1);
        client.frame(kind::DATA, 0, 1, b"body").unwrap();
        client.headers(1, flag::END_STREAM, fields).unwrap();
        assert_eq!(client.events(), ["1 data 4", event]);
    }
}

#[test]
fn a_request_over_a_bound_is_to_be_answered_with_its_status_and_its_body_discarded() {
    let limits =
        Http2Limits { header_list_bytes: 1000, fields: 10, target_bytes: 100, ..Http2Limits::default() };
    let long = vec![b'x'; 900];
    let path = [b"/", &long[..100]].concat();
    let many: Vec<(&[u8], &[u8])> = vec![(b"a", b""); 7];
    let cases = [
        ([&POST[..], &[(b"x", &long)]].concat(), "431 field_section_too_large"),
        ([&POST[..], &many].concat(), "431 too_many_fields"),
        ([&POST[..3], &[(b":path", &path)]].concat(), "414 target_too_long"),
    ];
    for (fields, expected) in cases {
        let mut client = Client::new(&limits);
        client.headers(1, 0, &fields).unwrap();
        assert_eq!(client.events(), [format!("1 rejected {expected}")]);
        client.frame(kind::DATA, 0, 1, b"body").unwrap();
        assert_eq!((client.events(), client.control()), (vec![], vec![]));
        let stream = StreamId::new(1);
        client.respond(stream, true);
        client.connection.finished(stream);
        assert_eq!(client.control(), [reset(1, ErrorCode::NO_ERROR)]);
        client.get(3);
    }
}

#[test]
fn a_request_that_is_answered_before_its_body_is_reset_only_if_the_body_goes_on() {
    let closed = vec![reset(1, ErrorCode::STREAM_CLOSED)];
    for (flags, control, behind) in
        [(flag::END_STREAM, vec![], closed), (0, vec![reset(1, ErrorCode::NO_ERROR)], vec![])]
    {
        let mut client = Client::new(&Http2Limits::default());
        client.headers(1, 0, &POST).unwrap();
        client.events();
        let stream = StreamId::new(1);
        client.respond(stream, true);
        client.connection.finished(stream);
        assert_eq!((client.control(), client.connection.streams()), (vec![], 0));
        client.frame(kind::DATA, flags, 1, b"body").unwrap();
        assert_eq!((client.events(), client.control()), (vec![], control));
        // What the client has sent before it knew of a reset is ignored.
        client.frame(kind::DATA, flag::END_STREAM, 1, b"more").unwrap();
        assert_eq!(client.control(), behind);
        client.get(3);
    }
}

#[test]
fn streams_count_until_their_work_has_ended() {
    let mut client = Client::new(&Http2Limits { streams: 2, ..Http2Limits::default() });
    let first = client.get(1);
    client.get(3);
    client.headers(5, flag::END_STREAM, &GET).unwrap();
    assert_eq!(client.events(), ["5 refused refused_stream too_many_streams"]);
    assert_eq!(client.control(), [reset(5, ErrorCode::REFUSED_STREAM)]);
    // A reset by the client does not make a place.
    client.frame(kind::RST_STREAM, 0, 1, &8u32.to_be_bytes()).unwrap();
    assert_eq!(client.events(), ["1 reset cancel client"]);
    client.headers(7, flag::END_STREAM, &GET).unwrap();
    assert_eq!(client.events(), ["7 refused refused_stream too_many_streams"]);
    client.connection.finished(first);
    client.get(9);
}

#[test]
fn the_fields_of_all_streams_together_are_bounded() {
    let limits = Http2Limits { held_header_bytes: 6000, ..Http2Limits::default() };
    let mut client = Client::new(&limits);
    let value = vec![b'x'; 2000];
    let fields = [&GET[..], &[(b"x", &value)]].concat();
    let mut streams = Vec::new();
    for id in [1, 3] {
        client.headers(id, flag::END_STREAM, &fields).unwrap();
        streams.push(client.expect_request());
    }
    client.headers(5, flag::END_STREAM, &fields).unwrap();
    assert_eq!(client.events(), ["5 refused refused_stream held_field_bytes"]);
    client.connection.finished(streams[0]);
    client.headers(7, flag::END_STREAM, &fields).unwrap();
    client.expect_request();
}

#[test]
fn a_connection_ends_in_two_steps() {
    let mut client = Client::with_defaults();
    let first = client.get(1);
    client.connection.shutdown(Shutdown::Graceful);
    client.connection.shutdown(Shutdown::Graceful);
    let control = client.control();
    assert_eq!(control.len(), 2);
    assert_eq!((control[0].kind, number(&control[0].payload)), (kind::GOAWAY, MAX_31_BITS));
    // A request that was under way is served.
    let second = client.get(3);
    client.frame(kind::PING, flag::ACK, 0, &control[1].payload).unwrap();
    let control = client.control();
    assert_eq!((control[0].kind, number(&control[0].payload)), (kind::GOAWAY, 3));
    // Later ones are ignored, and their blocks decoded.
    client.headers(5, 0, &POST).unwrap();
    client.frame(kind::DATA, flag::END_STREAM, 5, b"body").unwrap();
    assert_eq!((client.events(), client.control()), (vec![], vec![]));
    assert!(!client.connection.is_drained());
    for stream in [first, second] {
        client.respond(stream, true);
        client.connection.finished(stream);
    }
    assert!(client.connection.is_drained());
    assert_eq!(client.control(), []);
}

#[test]
fn the_last_stream_of_a_goaway_is_never_above_that_of_an_earlier_one() {
    let last = |client: &mut Client| {
        let goaways = client.control().into_iter().filter(|frame| frame.kind == kind::GOAWAY);
        goaways.map(|frame| number(&frame.payload)).collect::<Vec<_>>()
    };
    for is_fault in [false, true] {
        let mut client = Client::with_defaults();
        client.get(1);
        client.connection.shutdown(Shutdown::Final);
        assert_eq!(last(&mut client), [1]);
        client.headers(3, flag::END_STREAM, &GET).unwrap();
        if is_fault {
            client.frame(kind::PING, 0, 1, &[0; 8]).unwrap_err();
        } else {
            client.connection.close(ErrorCode::NO_ERROR);
        }
        assert_eq!(last(&mut client), [1], "{is_fault}");
    }
}

#[test]
fn a_goaway_of_the_client_is_an_event_and_streams_go_on() {
    let mut client = Client::with_defaults();
    let stream = client.get(1);
    client.frame(kind::GOAWAY, 0, 0, &[0, 0, 0, 0, 0, 0, 0, 0, b'b', b'y', b'e']).unwrap();
    assert_eq!(client.events(), ["goaway no_error"]);
    let mut out = Vec::new();
    client.connection.head(stream, 200, [], true, &mut out);
    assert_eq!(frames(&out).len(), 1);
}

/// Literals that are not put into the table, without Huffman code.
fn literal_block(fields: &[(&[u8], &[u8])]) -> Vec<u8> {
    let mut block = Vec::new();
    for (name, value) in fields {
        block.push(0);
        for text in [name, value] {
            block.push(u8::try_from(text.len()).unwrap());
            block.extend_from_slice(text);
        }
    }
    block
}

#[test]
fn requests_that_differ_in_their_path_are_read_as_they_would_be_alone() {
    let limits = Http2Limits { target_bytes: 60, header_list_bytes: 300, ..Http2Limits::default() };
    let mut client = Client::new(&limits);
    let long = "/".to_owned() + &"x".repeat(70);
    let nearly = "/".to_owned() + &"x".repeat(55);
    let paths = ["/a", "/a", "/b?c", "/", "a", "*", "", "/\u{e9}", "/a b", &long, "/a\r\n", &nearly, "/a"];
    let methods = [("GET", "https"), ("OPTIONS", "https"), ("GET", "ftp")];
    let more = [&[][..], &[(&b"range"[..], &b"bytes=0-1"[..]), (b"cookie", b"a=1"), (b"priority", b"u=1")]];
    let mut number = 1;
    for (method, scheme) in methods {
        for more in more {
            for path in paths {
                let fields: [(&[u8], &[u8]); 4] = [
                    (b":method", method.as_bytes()),
                    (b":path", path.as_bytes()),
                    (b":scheme", scheme.as_bytes()),
                    (b":authority", b"a.example"),
                ];
                let block = literal_block(&[&fields[..], more].concat());
                let mut alone = Client::new(&limits);
                let received = [&mut client, &mut alone].map(|client| {
                    client
                        .frame(kind::HEADERS, flag::END_HEADERS | flag::END_STREAM, number, &block)
                        .unwrap();
                    let event = client.connection.next_event().unwrap();
                    let stream = StreamId::new(number);
                    let priority = client.connection.priority(stream);
                    client.connection.finished(stream);
                    client.connection.take_control();
                    format!("{event:?} {priority:?}")
                });
                assert_eq!(received[0], received[1], "{method} {scheme} {path}");
                number += 2;
            }
        }
    }
}

#[test]
fn a_block_is_read_anew_when_the_table_has_changed() {
    let mut client = Client::with_defaults();
    // The first is put into the table by itself, and then named by its index.
    let insert = |value: &[u8]| [&[0x40, 1, b'x', 1][..], value].concat();
    let named = [&literal_block(&GET)[..], &[0xbe]].concat();
    let mut lines = Vec::new();
    for (number, block) in (0..).zip([
        [literal_block(&GET), insert(b"1")].concat(),
        named.clone(),
        named.clone(),
        [literal_block(&GET), insert(b"2")].concat(),
        named.clone(),
        named,
    ]) {
        client.frame(kind::HEADERS, flag::END_HEADERS | flag::END_STREAM, 2 * number + 1, &block).unwrap();
        let Some(StreamEvent::Request { stream, head, .. }) = client.connection.next_event() else {
            panic!()
        };
        client.connection.finished(stream);
        lines.push(head.lines().last_chunk::<4>().map(|end| end[1]));
    }
    assert_eq!(lines, [b'1', b'1', b'1', b'2', b'2', b'2'].map(Some));
}
