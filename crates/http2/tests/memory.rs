//! Memory of a connection, and allocations of frames that have none of their own.
#![expect(clippy::unwrap_used, reason = "a test stops where it cannot go on")]

use std::time::Instant;

use penstock_http2::{PREFACE, ServerConnection, StreamEvent};
use penstock_sys::heap::{Counting, allocations, live_bytes};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const SETTINGS: &[u8] = b"\0\0\0\x04\0\0\0\0\0\0\0\0\x04\x01\0\0\0\0";

/// HEADERS of a request that has these further fields, which enter the table for decoding.
fn request(stream: u32, fields: &[(&[u8], &[u8])]) -> Vec<u8> {
    let mut block = b"\x82\x87\x84\x41\x01a".to_vec();
    for (name, value) in fields {
        block.push(0x40);
        for text in [name, value] {
            let length = text.len();
            if length < 127 {
                block.push(u8::try_from(length).unwrap());
            } else {
                let rest = length - 127;
                block.extend([
                    0x7f,
                    u8::try_from(rest & 0x7f).unwrap() | 0x80,
                    u8::try_from(rest >> 7).unwrap(),
                ]);
            }
            block.extend_from_slice(text);
        }
    }
    let length = u32::try_from(block.len()).unwrap().to_be_bytes();
    let mut frame = length[1..].to_vec();
    frame.extend([1, 5]);
    frame.extend(stream.to_be_bytes());
    frame.extend(block);
    frame
}

/// Serves each of `requests`, becomes idle, and returns the bytes that the connection holds, with itself.
fn idle_bytes(requests: &[Vec<u8>]) -> usize {
    let before = live_bytes();
    let mut connection = Box::new(ServerConnection::new(&std::sync::Arc::default()));
    let now = Instant::now();
    connection.receive(PREFACE, now).unwrap();
    connection.receive(SETTINGS, now).unwrap();
    for (number, bytes) in requests.iter().enumerate() {
        connection.receive(bytes, now).unwrap();
        let mut out = Vec::new();
        while let Some(event) = connection.next_event() {
            let StreamEvent::Request { stream, .. } = event else { panic!("{event:?}") };
            // Each response is different, and repeats some fields, so that the table for encoding is full.
            let value = format!("value {}", number / 2).repeat(5);
            let fields: [(&[u8], &[u8]); 2] = [(b"server", b"penstock"), (b"x-value", value.as_bytes())];
            connection.head_of(stream, (200, &[b"", b"", value.as_bytes()]), fields, true, &mut out);
            connection.finished(stream);
        }
        connection.take_control();
    }
    connection.release_memory();
    usize::try_from(live_bytes() - before).unwrap()
}

#[test]
fn an_idle_connection_holds_little_whatever_its_client_sent() {
    let new = idle_bytes(&[]);
    assert!(new <= 1024, "{new}");

    let agent = vec![b'u'; 130];
    let browser: [(&[u8], &[u8]); 6] = [
        (b"user-agent", &agent),
        (b"accept", b"*/*"),
        (b"accept-encoding", b"gzip, deflate, br, zstd"),
        (b"accept-language", b"en-GB,en;q=0.9"),
        (b"referer", b"https://vod.example.com/player/index.html"),
        (b"origin", b"https://vod.example.com"),
    ];
    let usual = idle_bytes(&[request(1, &browser), request(3, &[])]);
    assert!(usual <= 2048, "{usual}");

    // Entries of 33 bytes, of the whole table, and of many sizes after each other.
    let smallest: Vec<(&[u8], &[u8])> = vec![(b"a", b""); 120];
    let value = vec![b'x'; 4062];
    let largest: Vec<(&[u8], &[u8])> = vec![(b"a", &value)];
    let sizes: Vec<(&[u8], &[u8])> = (1..60).map(|size| (&b"a"[..], &value[..size * 8])).collect();
    let all: Vec<_> = (0..200u32)
        .map(|number| request(2 * number + 1, [&smallest, &largest, &sizes][number as usize % 3]))
        .collect();
    for count in [1, 2, 3, 100, 200] {
        let worst = idle_bytes(&all[..count]);
        assert!(worst <= ServerConnection::IDLE_BYTES_MAX, "{worst} after {count}");
    }
}

#[test]
fn control_frames_and_unfinished_frames_are_read_without_an_allocation() {
    let mut connection = ServerConnection::new(&std::sync::Arc::default());
    let now = Instant::now();
    connection.receive(PREFACE, now).unwrap();
    connection.receive(SETTINGS, now).unwrap();
    connection.receive(&request(1, &[]), now).unwrap();
    connection.next_event().unwrap();
    let frames: [&[u8]; 5] = [
        b"\0\0\x08\x06\0\0\0\0\0\0\0\0\0\0\0\0\0",
        b"\0\0\x04\x08\0\0\0\0\x01\0\0\0\x01",
        b"\0\0\x04\x08\0\0\0\0\0\0\0\0\x01",
        b"\0\0\x07\x10\0\0\0\0\0\0\0\0\x01u=1",
        b"\0\0\0\x04\0\0\0\0\0",
    ];
    let mut out = Vec::with_capacity(4096);
    let mut last = 0;
    for round in 0..10 {
        let before = allocations();
        for frame in frames {
            let (first, rest) = frame.split_at(5);
            connection.receive(first, now).unwrap();
            connection.receive(rest, now).unwrap();
        }
        out.clear();
        connection.write_control(&mut out);
        last = allocations() - before;
        assert!(round > 0 || !out.is_empty());
    }
    assert_eq!(last, 0);
}

#[test]
fn a_request_that_differs_in_its_path_takes_one_allocation() {
    let mut connection = ServerConnection::new(&std::sync::Arc::default());
    let now = Instant::now();
    connection.receive(PREFACE, now).unwrap();
    connection.receive(SETTINGS, now).unwrap();
    let mut taken = Vec::new();
    for (number, path) in (0..).zip([b"/a", b"/a", b"/a", b"/b", b"/b"]) {
        // The path is a literal that is not put into the table.
        let mut bytes = b"\0\0\x0d\x01\x05\0\0\0\0\x82\x87\x04\x02/a\x01\x05a.xyz".to_vec();
        bytes[8] = 2 * number + 1;
        bytes[13..15].copy_from_slice(path);
        let before = allocations();
        connection.receive(&bytes, now).unwrap();
        let Some(StreamEvent::Request { stream, head, .. }) = connection.next_event() else { panic!() };
        taken.push(allocations() - before);
        assert_eq!(head.path().map(str::as_bytes), Some(&path[..]));
        assert_eq!(head.authority(), "a.xyz");
        connection.finished(stream);
    }
    assert!(taken[0] > 2, "{taken:?}");
    assert_eq!(taken[1..], [0, 0, 1, 1], "{taken:?}");
}
