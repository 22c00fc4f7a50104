//! Attacks, each with the reason that ends the connection.

use super::*;
use crate::limits::FloodLimits;

/// Repeats `attack` with stream numbers 1, 3, 5 ... until the connection ends; returns how often it was done.
fn run(
    limits: &Http2Limits,
    mut attack: impl FnMut(&mut Client, u32) -> Result<(), ConnectionError>,
) -> (u32, ConnectionError) {
    let mut client = Client::new(limits);
    for count in 0..100_000 {
        if let Err(error) = attack(&mut client, 2 * count + 1) {
            return (count, error);
        }
        assert!(client.connection.control.len() <= limits.control_bytes);
        client.connection.take_control();
        client.events();
    }
    panic!("nothing stops the attack");
}

type Attack = fn(&mut Client, u32) -> Result<(), ConnectionError>;

/// CVE-2025-8671: a request, a frame that makes the server reset its stream, and the end of the work.
fn provoke(client: &mut Client, id: u32, kind: u8, payload: &[u8]) -> Result<(), ConnectionError> {
    client.headers(id, flag::END_STREAM, &GET)?;
    let result = client.frame(kind, 0, id, payload);
    client.connection.finished(StreamId::new(id));
    result
}

#[test]
fn every_flood_ends_with_its_reason_at_its_limit() {
    let limits = Http2Limits::default();
    let floods = &limits.floods;
    // CVE-2023-44487.
    let rapid_reset: Attack = |client, id| provoke(client, id, kind::RST_STREAM, &[0, 0, 0, 8]);
    let zero_update: Attack = |client, id| provoke(client, id, kind::WINDOW_UPDATE, &[0; 4]);
    let window_overflow: Attack =
        |client, id| provoke(client, id, kind::WINDOW_UPDATE, &[0x7f, 0xff, 0xff, 0xff]);
    let data_after_end: Attack = |client, id| provoke(client, id, kind::DATA, b"x");
    let priority_length: Attack = |client, id| provoke(client, id, kind::PRIORITY, &[0; 4]);
    let malformed: Attack = |client, id| client.headers(id, flag::END_STREAM, &GET[..3]);
    let refused: Attack = |client, id| client.headers(id, flag::END_STREAM, &GET);
    let empty_data: Attack = |client, id| {
        if id == 1 {
            client.headers(1, 0, &POST)?;
        }
        client.frame(kind::DATA, 0, 1, &[])
    };
    let padding_alone: Attack = |client, id| {
        if id == 1 {
            client.headers(1, 0, &POST)?;
        }
        client.frame(kind::DATA, flag::PADDED, 1, &[1, 0])
    };
    let table: [(&str, u16, Attack); 16] = [
        ("reset_flood", floods.resets, rapid_reset),
        ("provoked_reset_flood", floods.provoked_resets, zero_update),
        ("provoked_reset_flood", floods.provoked_resets, window_overflow),
        ("provoked_reset_flood", floods.provoked_resets, data_after_end),
        ("provoked_reset_flood", floods.provoked_resets, priority_length),
        ("provoked_reset_flood", floods.provoked_resets, malformed),
        ("refused_stream_flood", floods.refused_streams + 128, refused),
        ("ping_flood", floods.pings, |client, _| client.frame(kind::PING, 0, 0, &[0; 8])),
        ("ping_flood", floods.pings, |client, _| client.frame(kind::PING, flag::ACK, 0, &[0; 8])),
        // Two of the limit were sent by the client of the tests.
        ("settings_flood", floods.settings - 2, |client, _| client.frame(kind::SETTINGS, 0, 0, &[])),
        ("empty_data_flood", floods.empty_data, empty_data),
        ("empty_data_flood", floods.empty_data, padding_alone),
        ("priority_flood", floods.priorities, |client, _| {
            client.frame(kind::PRIORITY_UPDATE, 0, 0, b"\0\0\0\x01u=1")
        }),
        ("priority_flood", floods.priorities, |client, id| client.frame(kind::PRIORITY, 0, id, &[0; 5])),
        ("window_update_flood", floods.window_updates, |client, _| client.window_update(0, 1)),
        ("ignored_frame_flood", floods.ignored, |client, _| client.frame(0x33, 0, 0, &[])),
    ];
    for (reason, limit, attack) in table {
        let (count, error) = run(&limits, attack);
        assert_eq!((error.code, error.reason), (ErrorCode::ENHANCE_YOUR_CALM, reason));
        assert_eq!(count, u32::from(limit), "{reason}");
    }
}

#[test]
fn a_client_that_takes_content_may_reset_as_many_streams() {
    let mut client = Client::with_defaults();
    let reset = [0, 0, 0, 8];
    for id in (1..20_000).step_by(4) {
        // A player that seeks: one of two requests has begun to be answered.
        let stream = client.get(id);
        client.respond(stream, false);
        client.connection.data_header(stream, 1, false);
        client.headers(id + 2, flag::END_STREAM, &GET).unwrap();
        client.frame(kind::RST_STREAM, 0, id, &reset).unwrap();
        if id % 8 == 1 {
            client.frame(kind::RST_STREAM, 0, id + 2, &reset).unwrap();
        } else {
            client.respond(StreamId::new(id + 2), true);
        }
        client.connection.finished(stream);
        client.connection.finished(StreamId::new(id + 2));
        client.connection.take_control();
        client.events();
    }
    let limit = u32::from(FloodLimits::default().resets);
    let rapid = (0..1000).map(|number| provoke(&mut client, 20_001 + 2 * number, kind::RST_STREAM, &reset));
    let (cut_at, result) = (0..).zip(rapid).find(|(_, result)| result.is_err()).expect("a bound");
    assert_eq!(result, error(ErrorCode::ENHANCE_YOUR_CALM, "reset_flood"));
    assert!((limit - 2..=limit).contains(&cut_at), "what was taken saves nothing up: {cut_at}");
}

#[test]
fn a_tenth_of_each_limit_is_allowed_in_each_second() {
    let mut client = Client::with_defaults();
    for second in 0..100 {
        for _ in 0..20 {
            client.frame(kind::PING, 0, 0, &[0; 8]).unwrap_or_else(|error| panic!("{second}: {error}"));
        }
        client.connection.take_control();
        client.wait(1);
    }
}

#[test]
fn continuation_frames_are_bounded_in_number_and_bytes() {
    let calm = error(ErrorCode::ENHANCE_YOUR_CALM, "continuation_flood");
    let mut client = Client::with_defaults();
    client.frame(kind::HEADERS, 0, 1, &[]).unwrap();
    let results: Vec<_> = (0..100).map(|_| client.frame(kind::CONTINUATION, 0, 1, &[])).collect();
    assert_eq!(results.iter().position(|result| *result == calm), Some(16));

    let mut client = Client::with_defaults();
    client.frame(kind::HEADERS, 0, 1, &[0; 16_384]).unwrap();
    client.frame(kind::CONTINUATION, 0, 1, &[0; 16_384]).unwrap();
    assert_eq!(client.frame(kind::CONTINUATION, 0, 1, &[0; 1]), calm);
}

#[test]
fn a_small_block_that_decodes_into_many_bytes_ends_the_connection() {
    // An entry of 4,000 bytes, and a block that refers to it 16,000 times.
    let mut client = Client::with_defaults();
    let mut block = b"\x82\x87\x84\x41\x01a\x40\x01x\x7f".to_vec();
    block.extend([0xa1, 0x1e]);
    block.extend([b'y'; 4000]);
    client.frame(kind::HEADERS, 5, 1, &block).unwrap();
    assert_eq!(client.events(), ["1 GET / end"]);
    assert_eq!(
        client.frame(kind::HEADERS, 5, 3, &[0xbe; 16_000]),
        error(ErrorCode::ENHANCE_YOUR_CALM, "field_section_flood")
    );
    // Also for streams that are gone, and in trailers.
    for flags in [flag::END_STREAM, 0] {
        let mut client = Client::with_defaults();
        client.frame(kind::HEADERS, flag::END_HEADERS, 1, &block).unwrap();
        let stream = client.expect_request();
        if flags == 0 {
            client.connection.reset(stream, ErrorCode::CANCEL);
        }
        let result = client.frame(kind::HEADERS, flag::END_HEADERS | flags, 1, &[0xbe; 16_000]);
        assert_eq!(result, error(ErrorCode::ENHANCE_YOUR_CALM, "field_section_flood"));
    }
}

#[test]
fn control_frames_that_are_not_read_are_bounded() {
    let limits = Http2Limits { control_bytes: 1000, ..Http2Limits::default() };
    let mut client = Client::new(&limits);
    let results: Vec<_> = (0..100).map(|_| client.frame(kind::PING, 0, 0, &[0; 8])).collect();
    let calm = error(ErrorCode::ENHANCE_YOUR_CALM, "unread_control_frames");
    assert_eq!(results.iter().position(|result| *result == calm), Some(1000 / 17));
    assert!(client.connection.take_control().len() < 1000 + 17 + 60);
}

#[test]
fn bytes_for_streams_that_are_gone_return_to_the_connection() {
    let mut client = Client::with_defaults();
    let stream = client.post(1);
    client.connection.reset(stream, ErrorCode::CANCEL);
    client.connection.finished(stream);
    client.control();
    let mut returned = 0;
    for _ in 0..200 {
        client.frame(kind::DATA, 0, 1, &[0; 16_384]).unwrap();
        returned += client.control().iter().map(|frame| number(&frame.payload)).sum::<u32>();
    }
    assert!(returned > 199 * 16_384 - 1024 * 1024 / 2, "{returned}");
}

#[test]
fn a_client_may_give_back_all_that_was_sent_in_updates_of_four_kib_for_each_window() {
    let mut client = Client::with_defaults();
    client.window_update(0, 1 << 30).unwrap();
    let update = |client: &mut Client, stream| client.window_update(stream, 4096);
    for id in (1..200).step_by(2) {
        let stream = client.get(id);
        client.window_update(id, 1 << 30).unwrap();
        client.respond(stream, false);
        for part in 0..64 {
            client.connection.data_header(stream, 16_384, part == 63);
        }
        if id % 4 == 1 {
            // The program reads later than its library.
            client.connection.finished(stream);
        }
        for _ in 0..256 {
            assert_eq!(update(&mut client, 0), Ok(()));
            assert_eq!(update(&mut client, id), Ok(()));
        }
        client.connection.take_control();
        client.events();
    }
    // What was not sent is counted.
    let limit = u32::from(FloodLimits::default().window_updates);
    let (cut_at, result) =
        (0..).map(|number| (number, update(&mut client, 199))).find(|(_, result)| result.is_err()).unwrap();
    assert_eq!(result, error(ErrorCode::ENHANCE_YOUR_CALM, "window_update_flood"));
    assert!(cut_at <= limit, "{cut_at}");
}
