//! Requests and responses without sockets and bodies, 20 streams at once, to count instructions: see
//! `docs/decisions/0015-http2-framing.md`. The first argument is the number of requests.
#![expect(clippy::expect_used, clippy::print_stdout, reason = "a program that measures")]

use std::time::Instant;

use penstock_http2::{Outgoing, PREFACE, ServerConnection, StreamEvent};

const STREAMS: u32 = 20;
const BODY_BYTES: usize = 1024;

/// HEADERS of a GET, whose fields but `:path` are in the table for decoding after the first.
fn request(stream: u32, is_first: bool) -> Vec<u8> {
    let block: &[u8] = if is_first {
        b"\x82\x87\x41\x09localhost\x04\x0b/1k/000.txt\x40\x0auser-agent\x0bh2load/1.52"
    } else {
        b"\x82\x87\xbf\x04\x0b/1k/000.txt\xbe"
    };
    let length = u32::try_from(block.len()).expect("a small block").to_be_bytes();
    let mut frame = length[1..].to_vec();
    frame.extend([1, 5]);
    frame.extend(stream.to_be_bytes());
    frame.extend(block);
    frame
}

fn main() {
    let requests: u32 = std::env::args().nth(1).and_then(|number| number.parse().ok()).unwrap_or(100_000);
    let now = Instant::now();
    let mut connection = ServerConnection::new(&std::sync::Arc::default());
    connection.receive(PREFACE, now).expect("the preface is right");
    connection.receive(b"\0\0\0\x04\0\0\0\0\0\0\0\0\x04\x01\0\0\0\0", now).expect("settings");
    // As h2load does, windows that never matter.
    connection.receive(b"\0\0\x04\x08\0\0\0\0\0\x3f\xff\x00\x00", now).expect("a window");
    connection.receive(&request(1, true), now).expect("a request");
    if let Some(StreamEvent::Request { stream, .. }) = connection.next_event() {
        connection.finished(stream);
    }
    // The same frames each time, with other stream numbers.
    let mut frames: Vec<u8> = (0..STREAMS).flat_map(|_| request(0, false)).collect();
    let frame_bytes = frames.len() / STREAMS as usize;
    let (mut batch, mut bytes, mut id) = (Vec::with_capacity(1 << 16), 0, 3_u32);
    let date = b"Sun, 22 Nov 2026 16:00:00 GMT";
    for _ in 0..requests / STREAMS {
        for frame in frames.chunks_mut(frame_bytes) {
            frame[5..9].copy_from_slice(&id.to_be_bytes());
            id += 2;
        }
        connection.receive(&frames, now).expect("requests");
        batch.clear();
        while let Some(event) = connection.next_event() {
            let StreamEvent::Request { stream, .. } = event else { continue };
            let fields: [(&[u8], &[u8]); 7] = [
                (b"date", date),
                (b"server", b"penstock"),
                (b"content-type", b"text/plain; charset=utf-8"),
                (b"content-length", b"1024"),
                (b"accept-ranges", b"bytes"),
                (b"etag", b"\"18a2-400\""),
                (b"last-modified", b"Sat, 21 Nov 2026 10:00:00 GMT"),
            ];
            connection.head(stream, 200, fields, false, &mut batch);
            connection.set_outgoing(stream, Outgoing::Data);
        }
        while let Some(stream) = connection.next_stream() {
            batch.extend(connection.data_header(stream, BODY_BYTES, true));
            connection.finished(stream);
        }
        connection.write_control(&mut batch);
        bytes += batch.len();
        // WINDOW_UPDATE for 20 KiB.
        connection.receive(b"\0\0\x04\x08\0\0\0\0\0\0\0\x50\0", now).expect("a window");
    }
    let nanoseconds = now.elapsed().as_nanos() / u128::from(requests.max(1));
    println!("{requests} requests, {bytes} bytes, {nanoseconds} ns each");
}
