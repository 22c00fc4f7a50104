//! Every rule of RFC 9113 §3 to §6 with its stream or connection error.

use super::*;

/// The state in which a frame comes, on stream 1 where there is one.
#[derive(Clone, Copy, Debug)]
enum State {
    /// Nothing was opened.
    Idle,
    /// A request whose body is missing.
    Open,
    /// A whole request whose response is missing.
    HalfClosed,
    /// A response that was sent, to a request whose body is missing.
    HalfClosedLocal,
    /// Request and response are whole, and the work has ended.
    Closed,
    /// The client reset it, and the work goes on.
    ResetByClient,
    /// The client reset it, and the work has ended.
    GoneByClient,
    /// This side reset it, and the work goes on.
    ResetByServer,
    /// This side reset it, and the work has ended.
    GoneByServer,
}

impl State {
    const ALL: [Self; 9] = [
        Self::Idle,
        Self::Open,
        Self::HalfClosed,
        Self::HalfClosedLocal,
        Self::Closed,
        Self::ResetByClient,
        Self::GoneByClient,
        Self::ResetByServer,
        Self::GoneByServer,
    ];

    fn client(self) -> Client {
        let mut client = Client::with_defaults();
        match self {
            Self::Idle => {}
            Self::Open => drop(client.post(1)),
            Self::HalfClosed => drop(client.get(1)),
            Self::HalfClosedLocal => {
                let stream = client.post(1);
                client.respond(stream, true);
            }
            Self::Closed => {
                let stream = client.get(1);
                client.respond(stream, true);
                client.connection.finished(stream);
            }
            Self::ResetByClient | Self::GoneByClient => {
                let stream = client.post(1);
                client.frame(kind::RST_STREAM, 0, 1, &8u32.to_be_bytes()).unwrap();
                if matches!(self, Self::GoneByClient) {
                    client.connection.finished(stream);
                }
            }
            Self::ResetByServer | Self::GoneByServer => {
                let stream = client.post(1);
                client.connection.reset(stream, ErrorCode::CANCEL);
                if matches!(self, Self::GoneByServer) {
                    client.connection.finished(stream);
                }
            }
        }
        client.events();
        client.control();
        client
    }
}

/// What the server does about a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Answer {
    /// It is accepted or ignored.
    Nothing,
    Stream(ErrorCode),
    Connection(ErrorCode),
}

use Answer::{Connection, Nothing, Stream};

fn answer(client: &mut Client, result: Result<(), ConnectionError>) -> Answer {
    let control = client.control();
    match result {
        Err(error) => {
            let goaway = control.last().expect("GOAWAY is queued");
            assert_eq!((goaway.kind, number(&goaway.payload[4..])), (kind::GOAWAY, error.code.get()));
            assert_eq!(client.frame(kind::PING, 0, 0, &[0; 8]), Err(error), "the error stays");
            Connection(error.code)
        }
        Ok(()) => match control.iter().find(|frame| frame.kind == kind::RST_STREAM) {
            Some(frame) => Stream(ErrorCode::new(number(&frame.payload))),
            None => Nothing,
        },
    }
}

#[test]
fn frames_in_each_state_of_a_stream_have_the_effect_of_rfc_9113_5_1() {
    const PROTOCOL: ErrorCode = ErrorCode::PROTOCOL_ERROR;
    const CLOSED: ErrorCode = ErrorCode::STREAM_CLOSED;
    let four = 8u32.to_be_bytes();
    let one = 1u32.to_be_bytes();
    // In the order of State::ALL.
    let table: [(u8, &[u8], [Answer; 9]); 4] = [
        (
            kind::DATA,
            b"body",
            [
                Connection(PROTOCOL),
                Nothing,
                Stream(CLOSED),
                Nothing,
                Stream(CLOSED),
                Stream(CLOSED),
                Stream(CLOSED),
                Nothing,
                Nothing,
            ],
        ),
        (
            kind::RST_STREAM,
            &four,
            [Connection(PROTOCOL), Nothing, Nothing, Nothing, Nothing, Nothing, Nothing, Nothing, Nothing],
        ),
        (
            kind::WINDOW_UPDATE,
            &one,
            [Connection(PROTOCOL), Nothing, Nothing, Nothing, Nothing, Nothing, Nothing, Nothing, Nothing],
        ),
        (kind::PRIORITY, &[0; 5], [Nothing; 9]),
    ];
    for (kind, payload, answers) in table {
        for (state, expected) in State::ALL.into_iter().zip(answers) {
            let mut client = state.client();
            let result = client.frame(kind, 0, 1, payload);
            assert_eq!(answer(&mut client, result), expected, "{kind} {state:?}");
        }
    }
    let trailers = [
        Nothing,
        Nothing,
        Stream(CLOSED),
        Nothing,
        Connection(CLOSED),
        Stream(CLOSED),
        Stream(CLOSED),
        Nothing,
        Nothing,
    ];
    for (state, expected) in State::ALL.into_iter().zip(trailers) {
        let mut client = state.client();
        let fields: &[(&[u8], &[u8])] = if matches!(state, State::Idle) { &GET } else { &[(b"x", b"y")] };
        let result = client.headers(1, flag::END_STREAM, fields);
        assert_eq!(answer(&mut client, result), expected, "HEADERS {state:?}");
    }
}

#[test]
fn blocks_of_streams_that_are_gone_still_change_the_state_of_decoding() {
    for state in [State::ResetByServer, State::GoneByServer, State::ResetByClient, State::HalfClosed] {
        let mut client = state.client();
        // With indexing: index 62 in the next block is this field.
        client.frame(kind::HEADERS, flag::END_HEADERS | flag::END_STREAM, 1, b"\x40\x01a\x01b").unwrap();
        client.events();
        client
            .frame(kind::HEADERS, flag::END_HEADERS | flag::END_STREAM, 3, b"\x82\x87\x84\x41\x01a\xbf")
            .unwrap();
        let Some(StreamEvent::Request { head, .. }) = client.connection.next_event() else {
            panic!("{state:?}")
        };
        assert_eq!(head.lines(), b"host: a\r\na: b\r\n", "{state:?}");
    }
}

#[test]
fn frames_that_are_wrong_in_any_state_end_the_connection() {
    const PROTOCOL: ErrorCode = ErrorCode::PROTOCOL_ERROR;
    const SIZE: ErrorCode = ErrorCode::FRAME_SIZE_ERROR;
    let too_large = vec![0; 16_385];
    let window = |value: u32| [&[0, 4][..], &value.to_be_bytes()].concat();
    let frame_size = |value: u32| [&[0, 5][..], &value.to_be_bytes()].concat();
    type Row<'p> = (u8, u8, u32, &'p [u8], ErrorCode, &'static str);
    let rows: [Row<'_>; 48] = [
        (kind::DATA, 0, 0, b"a", PROTOCOL, "frame_on_wrong_stream"),
        (kind::DATA, flag::PADDED, 1, b"", SIZE, "frame_length"),
        (kind::DATA, flag::PADDED, 1, b"\x01", PROTOCOL, "padding"),
        (kind::DATA, flag::PADDED, 1, b"\x04abc", PROTOCOL, "padding"),
        (kind::DATA, 0, 1, &too_large, SIZE, "frame_too_large"),
        (kind::DATA, 0, 2, b"a", PROTOCOL, "idle_stream"),
        (kind::DATA, 0, 3, b"a", PROTOCOL, "idle_stream"),
        (kind::HEADERS, 4, 0, b"\x82", PROTOCOL, "frame_on_wrong_stream"),
        (kind::HEADERS, 4, 2, b"\x82", PROTOCOL, "stream_id"),
        (kind::HEADERS, 4, 3, &too_large, SIZE, "frame_too_large"),
        (kind::HEADERS, 4 | flag::PADDED, 3, b"", SIZE, "frame_length"),
        (kind::HEADERS, 4 | flag::PADDED, 3, b"\x01", PROTOCOL, "padding"),
        (kind::HEADERS, 4 | flag::PRIORITY, 3, b"\0\0\0\0", SIZE, "frame_length"),
        (kind::HEADERS, 4 | flag::PRIORITY | flag::PADDED, 3, b"\x01\0\0\0\0\0", SIZE, "frame_length"),
        (kind::HEADERS, 4, 3, b"\xff\xff\xff", ErrorCode::COMPRESSION_ERROR, "hpack_truncated"),
        (kind::HEADERS, 4, 3, b"\xbe", ErrorCode::COMPRESSION_ERROR, "hpack_index"),
        (kind::PRIORITY, 0, 0, &[0; 5], PROTOCOL, "frame_on_wrong_stream"),
        (kind::PRIORITY, 0, 3, &[0; 4], SIZE, "frame_length"),
        (kind::RST_STREAM, 0, 0, &[0; 4], PROTOCOL, "frame_on_wrong_stream"),
        (kind::RST_STREAM, 0, 1, &[0; 3], SIZE, "frame_length"),
        (kind::RST_STREAM, 0, 1, &[0; 5], SIZE, "frame_length"),
        (kind::RST_STREAM, 0, 2, &[0; 4], PROTOCOL, "idle_stream"),
        (kind::RST_STREAM, 0, 3, &[0; 4], PROTOCOL, "idle_stream"),
        (kind::SETTINGS, 0, 1, &[], PROTOCOL, "frame_on_wrong_stream"),
        (kind::SETTINGS, 0, 0, &[0; 5], SIZE, "frame_length"),
        (kind::SETTINGS, flag::ACK, 0, &[0; 6], SIZE, "frame_length"),
        (kind::SETTINGS, 0, 0, &[0, 2, 0, 0, 0, 2], PROTOCOL, "setting_value"),
        (kind::SETTINGS, 0, 0, &[0, 9, 0, 0, 0, 2], PROTOCOL, "setting_value"),
        (kind::SETTINGS, 0, 0, &[0, 9, 0, 0, 0, 1, 0, 9, 0, 0, 0, 0], PROTOCOL, "setting_value"),
        (kind::SETTINGS, 0, 0, &window(1 << 31), ErrorCode::FLOW_CONTROL_ERROR, "window_overflow"),
        (kind::SETTINGS, 0, 0, &frame_size(16_383), PROTOCOL, "setting_value"),
        (kind::SETTINGS, 0, 0, &frame_size(1 << 24), PROTOCOL, "setting_value"),
        (kind::SETTINGS, 0, 0, &[0; 65 * 6], ErrorCode::ENHANCE_YOUR_CALM, "settings_flood"),
        (kind::PUSH_PROMISE, 4, 1, &[0; 5], PROTOCOL, "push_promise"),
        (kind::PING, 0, 1, &[0; 8], PROTOCOL, "frame_on_wrong_stream"),
        (kind::PING, 0, 0, &[0; 7], SIZE, "frame_length"),
        (kind::GOAWAY, 0, 1, &[0; 8], PROTOCOL, "frame_on_wrong_stream"),
        (kind::GOAWAY, 0, 0, &[0; 7], SIZE, "frame_length"),
        (kind::WINDOW_UPDATE, 0, 0, &[0; 4], PROTOCOL, "window_increment"),
        (kind::WINDOW_UPDATE, 0, 0, &[0x80, 0, 0, 0], PROTOCOL, "window_increment"),
        (kind::WINDOW_UPDATE, 0, 0, &[0; 3], SIZE, "frame_length"),
        (kind::WINDOW_UPDATE, 0, 0, &[0x7f, 0xff, 0, 1], ErrorCode::FLOW_CONTROL_ERROR, "window_overflow"),
        (kind::WINDOW_UPDATE, 0, 2, &[0, 0, 0, 1], PROTOCOL, "idle_stream"),
        (kind::CONTINUATION, 4, 1, &[], PROTOCOL, "continuation"),
        (kind::CONTINUATION, 4, 0, &[], PROTOCOL, "frame_on_wrong_stream"),
        (kind::PRIORITY_UPDATE, 0, 1, &[0, 0, 0, 1], PROTOCOL, "frame_on_wrong_stream"),
        (kind::PRIORITY_UPDATE, 0, 0, &[0, 0, 0], SIZE, "frame_length"),
        (kind::PRIORITY_UPDATE, 0, 0, &[0, 0, 0, 2], PROTOCOL, "stream_id"),
    ];
    for (kind, flags, stream, payload, code, reason) in rows {
        let mut client = State::Open.client();
        let result = client.frame(kind, flags, stream, payload);
        let case = format!("{kind} {flags} {stream} {}", payload.len());
        assert_eq!(result, error(code, reason), "{case}");
        assert_eq!(answer(&mut client, result), Connection(code), "{case}");
    }
}

#[test]
fn errors_of_one_stream_reset_it_and_leave_the_others() {
    let rows: [(u8, u8, &[u8], ErrorCode, &str); 4] = [
        (kind::WINDOW_UPDATE, 0, &[0; 4], ErrorCode::PROTOCOL_ERROR, "window_increment"),
        (kind::WINDOW_UPDATE, 0, &[0x7f, 0xff, 0xff, 0xff], ErrorCode::FLOW_CONTROL_ERROR, "window_overflow"),
        (kind::PRIORITY, 0, &[0; 4], ErrorCode::FRAME_SIZE_ERROR, "frame_length"),
        (
            kind::HEADERS,
            flag::END_HEADERS,
            b"\0\x01a\x01b",
            ErrorCode::PROTOCOL_ERROR,
            "trailers_without_end",
        ),
    ];
    for (kind, flags, payload, code, reason) in rows {
        let mut client = State::Open.client();
        client.get(3);
        assert_eq!(client.frame(kind, flags, 1, payload), Ok(()));
        assert_eq!(client.control(), [reset(1, code)], "{reason}");
        assert_eq!(client.events(), [format!("1 reset {} {reason}", code.label())]);
        assert_eq!(client.connection.streams(), 2, "the place is taken until the work has ended");
        client.get(5);
    }
}

#[test]
fn the_preface_and_settings_come_first() {
    for (bytes, reason) in [
        (&b"GET / HTTP/1.1\r\n"[..], "preface"),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\rX", "preface"),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\x08\x06\0\0\0\0\0", "settings_missing"),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\x01\0\0\0\0", "settings_missing"),
    ] {
        let mut client = Client::without_preface(&Http2Limits::default());
        assert!(client.connection.is_unfinished());
        assert_eq!(client.connection.receive(bytes, client.now), error(ErrorCode::PROTOCOL_ERROR, reason));
    }
}

#[test]
fn the_server_announces_its_limits_and_acknowledges_settings() {
    let mut client = Client::without_preface(&Http2Limits::default());
    let first = client.control();
    assert_eq!((first[0].kind, first[0].payload.len()), (kind::SETTINGS, 30));
    assert_eq!(first[1..], [update(0, 1024 * 1024 - 65_535)]);
    client.connection.receive(PREFACE, client.now).unwrap();
    assert!(!client.connection.is_unfinished());
    client.setting(0x99, 1).unwrap();
    assert_eq!(
        client.control(),
        [Frame { kind: kind::SETTINGS, flags: flag::ACK, stream: 0, payload: vec![] }]
    );
    client.frame(kind::PING, 0, 0, b"12345678").unwrap();
    let pong = Frame { kind: kind::PING, flags: flag::ACK, stream: 0, payload: b"12345678".to_vec() };
    assert_eq!(client.control(), [pong]);
}

#[test]
fn a_field_block_may_be_cut_anywhere_but_not_interrupted() {
    let block = Client::with_defaults().block(&GET);
    for cut in 0..=block.len() {
        let mut client = Client::with_defaults();
        client.frame(kind::HEADERS, flag::END_STREAM, 1, &block[..cut]).unwrap();
        assert!(client.connection.is_unfinished());
        client.frame(kind::CONTINUATION, 0, 1, &[]).unwrap();
        client.frame(kind::CONTINUATION, flag::END_HEADERS, 1, &block[cut..]).unwrap();
        assert_eq!(client.events(), ["1 GET / end"]);
        assert!(!client.connection.is_unfinished());
    }
    for (kind, stream) in
        [(kind::DATA, 1), (kind::HEADERS, 3), (kind::CONTINUATION, 3), (kind::SETTINGS, 0), (0x77, 0)]
    {
        let mut client = Client::with_defaults();
        client.frame(kind::HEADERS, flag::END_STREAM, 1, &block).unwrap();
        assert_eq!(client.frame(kind, 0, stream, &[]), error(ErrorCode::PROTOCOL_ERROR, "continuation"));
    }
}

#[test]
fn the_number_of_what_is_unfinished_changes_when_it_was_finished() {
    let mut client = Client::with_defaults();
    let block = client.block(&GET);
    assert_eq!(client.connection.unfinished(), None);
    client.frame(kind::HEADERS, flag::END_STREAM, 1, &block).unwrap();
    let first = client.connection.unfinished().expect("a block is unfinished");
    client.frame(kind::CONTINUATION, 0, 1, &[]).unwrap();
    assert_eq!(client.connection.unfinished(), Some(first), "CONTINUATION does not finish it");
    client.frame(kind::CONTINUATION, flag::END_HEADERS, 1, &[]).unwrap();
    assert_eq!(client.connection.unfinished(), None);
    let ping = [&FrameHeader::new(8, kind::PING, 0, 0).write()[..], &[0; 8]].concat();
    let mut seen = vec![first];
    client.connection.receive(&ping[..3], client.now).unwrap();
    for _ in 0..3 {
        let number = client.connection.unfinished().expect("a frame has begun");
        assert!(!seen.contains(&number));
        seen.push(number);
        for byte in &ping[3..12] {
            client.connection.receive(&[*byte], client.now).unwrap();
            assert_eq!(client.connection.unfinished(), Some(number));
        }
        client.connection.receive(&[&ping[12..], &ping[..3]].concat(), client.now).unwrap();
    }
}

#[test]
fn stream_numbers_grow() {
    let mut client = Client::with_defaults();
    client.get(5);
    assert_eq!(client.headers(3, flag::END_STREAM, &GET), error(ErrorCode::PROTOCOL_ERROR, "stream_id"));
}

#[test]
fn unknown_frames_and_flags_and_the_reserved_bit_are_ignored() {
    let mut client = Client::with_defaults();
    client.frame(0x77, 0xff, 9, &[1; 5000]).unwrap();
    client.frame(kind::PING, 0xfe, 1 << 31, &[0; 8]).unwrap();
    let block = client.block(&GET);
    client.frame(kind::HEADERS, 0xd7, 1 | 1 << 31, &block).unwrap();
    assert_eq!(client.events(), ["1 GET / end"]);
    // Padding and the priority of RFC 7540.
    let block = [&[2, 0, 0, 0, 1, 9][..], &client.block(&GET), &[0, 0]].concat();
    client.frame(kind::HEADERS, flag::PADDED | flag::PRIORITY | 5, 3, &block).unwrap();
    assert_eq!(client.events(), ["3 GET / end"]);
}

#[test]
fn the_result_does_not_depend_on_how_the_bytes_are_cut() {
    let mut client = Client::with_defaults();
    let mut bytes = Vec::new();
    let mut add = |kind, flags, stream, payload: &[u8]| {
        bytes.extend(FrameHeader::new(payload.len(), kind, flags, stream).write());
        bytes.extend(payload);
    };
    let blocks = [client.block(&POST), client.block(&GET), client.block(&[(b"x", b"y")])];
    add(kind::HEADERS, flag::END_HEADERS, 1, &blocks[0]);
    add(kind::DATA, flag::PADDED, 1, b"\x03hello\0\0\0");
    add(kind::HEADERS, flag::END_STREAM, 3, &blocks[1][..3]);
    add(kind::CONTINUATION, flag::END_HEADERS, 3, &blocks[1][3..]);
    add(0x20, 0, 0, b"unknown");
    add(kind::PRIORITY_UPDATE, 0, 0, b"\0\0\0\x03u=1");
    add(kind::DATA, 0, 1, b" world");
    add(kind::HEADERS, flag::END_HEADERS | flag::END_STREAM, 1, &blocks[2]);
    add(kind::PING, 0, 0, b"12345678");
    let run = |size: usize| {
        let mut client = Client::with_defaults();
        let mut body = Vec::new();
        let mut events = Vec::new();
        for piece in bytes.chunks(size) {
            client.connection.receive(piece, client.now).unwrap();
            while let Some(event) = client.connection.next_event() {
                match event {
                    StreamEvent::Data { bytes, .. } => body.extend(bytes),
                    other => events.push(describe(&other)),
                }
            }
        }
        assert!(!client.connection.is_unfinished());
        assert_eq!(client.connection.priority(StreamId::new(3)).urgency, 1);
        (body, events, client.control())
    };
    let whole = run(bytes.len());
    assert_eq!(whole.0, b"hello world");
    assert_eq!(whole.1, ["1 POST /", "3 GET / end", "1 trailers x: y\\r\\n"]);
    for size in 1..80 {
        assert_eq!(run(size), whole, "{size}");
    }
}
