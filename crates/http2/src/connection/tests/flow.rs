//! Flow control in both directions (RFC 9113 §5.2, §6.9).

use super::*;

#[test]
fn a_stream_sends_what_both_windows_allow() {
    let mut client = Client::with_defaults();
    let stream = client.get(1);
    client.respond(stream, false);
    assert_eq!(client.connection.sendable(stream), 65_535);
    client.window_update(1, 10_000).unwrap();
    assert_eq!(client.connection.stream_window(stream), 75_535);
    assert_eq!(
        (client.connection.sendable(stream), client.connection.connection_sendable()),
        (65_535, 65_535)
    );
    client.connection.data_header(stream, 16_384, false);
    assert_eq!(client.connection.sendable(stream), 65_535 - 16_384);
    client.window_update(0, 100_000).unwrap();
    assert_eq!(client.connection.sendable(stream), 75_535 - 16_384);
    client.connection.data_header(stream, 0, true);
    assert_eq!(client.connection.sendable(stream), 0);
}

#[test]
fn a_smaller_initial_window_makes_windows_negative() {
    let mut client = Client::with_defaults();
    let stream = client.get(1);
    client.respond(stream, false);
    client.connection.data_header(stream, 1000, false);
    client.setting(setting::INITIAL_WINDOW_SIZE, 400).unwrap();
    assert_eq!((client.connection.sendable(stream), client.connection.stream_window(stream)), (0, 0));
    client.window_update(1, 600).unwrap();
    assert_eq!(client.connection.sendable(stream), 0);
    client.window_update(1, 1).unwrap();
    assert_eq!(client.connection.sendable(stream), 1);
    let second = client.get(3);
    assert_eq!(client.connection.sendable(second), 400);
    client.setting(setting::INITIAL_WINDOW_SIZE, 65_535).unwrap();
    assert_eq!(client.connection.stream_window(stream), 65_136);
    client.window_update(1, MAX_31_BITS - 65_136).unwrap();
    let result = client.setting(setting::INITIAL_WINDOW_SIZE, 65_536);
    assert_eq!(result, error(ErrorCode::FLOW_CONTROL_ERROR, "window_overflow"));
}

#[test]
fn a_header_that_was_not_sent_gives_its_bytes_back() {
    let mut client = Client::with_defaults();
    let (stream, other) = (client.get(1), client.get(3));
    client.connection.data_header(stream, 16_000, true);
    client.connection.unsend(stream, 16_000);
    client.connection.reset(stream, ErrorCode::INTERNAL_ERROR);
    client.connection.finished(stream);
    assert_eq!(client.control(), [reset(1, ErrorCode::INTERNAL_ERROR)]);
    assert_eq!(client.connection.sendable(other), 65_535);
}

#[test]
fn an_empty_window_is_counted_as_a_stall_and_passed_over() {
    let mut client = Client::with_defaults();
    client.setting(setting::INITIAL_WINDOW_SIZE, 10).unwrap();
    let (first, second) = (client.get(1), client.get(3));
    for stream in [first, second] {
        client.connection.set_outgoing(stream, Outgoing::Data);
    }
    assert_eq!(client.connection.next_stream(), Some(first));
    client.connection.data_header(first, 10, false);
    assert_eq!(client.connection.take_stalls(), 1);
    assert_eq!(client.connection.next_stream(), Some(second));
    client.connection.data_header(second, 10, true);
    assert_eq!(client.connection.take_stalls(), 0, "the response was whole");
    assert_eq!(client.connection.next_stream(), None);
    client.connection.set_outgoing(first, Outgoing::Frames);
    assert_eq!(client.connection.next_stream(), Some(first), "an empty DATA frame needs no window");
}

#[test]
fn windows_for_bodies_return_in_halves_as_the_application_takes_bytes() {
    let limits = Http2Limits { stream_window: 100_000, connection_window: 150_000, ..Http2Limits::default() };
    let mut client = Client::new(&limits);
    let stream = client.post(1);
    for _ in 0..6 {
        client.frame(kind::DATA, 0, 1, &[7; 16_000]).unwrap();
    }
    assert_eq!((client.events(), client.control()), (vec!["1 data 96000".to_owned()], vec![]));
    client.connection.release(stream, 49_999);
    assert_eq!(client.control(), []);
    client.connection.release(stream, 1);
    assert_eq!(client.control(), [update(1, 50_000)]);
    client.connection.release(stream, 100_000_000);
    assert_eq!(client.control(), [update(0, 96_000)], "no more is released than was passed on");
}

#[test]
fn a_body_beyond_a_window_is_a_flow_control_error() {
    let limits = Http2Limits { stream_window: 20_000, connection_window: 70_000, ..Http2Limits::default() };
    let mut client = Client::new(&limits);
    client.post(1);
    client.frame(kind::DATA, 0, 1, &[0; 16_000]).unwrap();
    client.frame(kind::DATA, 0, 1, &[0; 4_001]).unwrap();
    assert_eq!(client.events(), ["1 data 16000", "1 reset flow_control_error stream_window"]);
    assert_eq!(client.control(), [reset(1, ErrorCode::FLOW_CONTROL_ERROR)]);

    let limits = Http2Limits { stream_window: 1 << 20, connection_window: 70_000, ..Http2Limits::default() };
    let mut client = Client::new(&limits);
    client.post(1);
    for _ in 0..5 {
        client.frame(kind::DATA, 0, 1, &[0; 14_000]).unwrap();
    }
    let result = client.frame(kind::DATA, 0, 1, &[0]);
    assert_eq!(result, error(ErrorCode::FLOW_CONTROL_ERROR, "connection_window"));
}

#[test]
fn padding_returns_to_the_windows_by_itself() {
    let limits = Http2Limits { stream_window: 65_535, connection_window: 65_535, ..Http2Limits::default() };
    let mut client = Client::new(&limits);
    client.post(1);
    let mut payload = vec![0; 256];
    payload[0] = 254;
    let mut returned = [0, 0];
    for _ in 0..1000 {
        client.frame(kind::DATA, flag::PADDED, 1, &payload).unwrap();
        if let Some(StreamEvent::Data { stream, bytes, .. }) = client.connection.next_event() {
            client.connection.release(stream, bytes.len());
        }
        for frame in client.control() {
            returned[frame.stream as usize] += number(&frame.payload);
        }
    }
    assert!(returned.iter().all(|bytes| *bytes >= 256_000 - 32_768), "{returned:?}");
}

#[test]
fn what_was_not_released_returns_to_the_connection_when_a_stream_is_finished() {
    let limits = Http2Limits { stream_window: 65_535, connection_window: 65_535, ..Http2Limits::default() };
    let mut client = Client::new(&limits);
    let mut returned = 0;
    for id in (1..100).step_by(2) {
        let stream = client.post(id);
        client.frame(kind::DATA, flag::END_STREAM, id, &[0; 10_000]).unwrap();
        client.events();
        client.respond(stream, true);
        client.connection.finished(stream);
        returned += client.control().iter().map(|frame| number(&frame.payload)).sum::<u32>();
    }
    assert!(returned >= 500_000 - 32_768, "{returned}");
}

#[test]
fn data_for_streams_that_were_answered_before_returns_to_the_connection() {
    let limits = Http2Limits { stream_window: 65_535, connection_window: 65_535, ..Http2Limits::default() };
    let mut client = Client::new(&limits);
    let mut returned = 0;
    for id in (1..200).step_by(2) {
        let stream = client.post(id);
        client.respond(stream, true);
        client.connection.finished(stream);
        // The client has not read the response yet.
        for _ in 0..2 {
            client.frame(kind::DATA, 0, id, &[0; 10_000]).unwrap();
        }
        let updates = client.control().into_iter().filter(|frame| frame.kind == kind::WINDOW_UPDATE);
        returned += updates.map(|frame| number(&frame.payload)).sum::<u32>();
    }
    assert!(returned >= 2_000_000 - 32_768, "{returned}");
}

#[test]
fn a_smaller_window_counts_only_after_the_client_has_acknowledged_it() {
    let limits = Http2Limits { stream_window: 100, ..Http2Limits::default() };
    let mut client = Client::without_preface(&limits);
    client.connection.receive(PREFACE, client.now).unwrap();
    client.frame(kind::SETTINGS, 0, 0, &[]).unwrap();
    client.control();
    client.post(1);
    client.frame(kind::DATA, 0, 1, &[0; 10_000]).unwrap();
    client.frame(kind::SETTINGS, flag::ACK, 0, &[]).unwrap();
    assert_eq!((client.events(), client.control()), (vec!["1 data 10000".to_owned()], vec![]));
    client.post(3);
    client.frame(kind::DATA, 0, 3, &[0; 101]).unwrap();
    assert_eq!(client.events(), ["3 reset flow_control_error stream_window"]);
}
