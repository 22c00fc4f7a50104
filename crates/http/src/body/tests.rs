use super::{BodyDecoder, Decoded};
use crate::{BodyFraming, Status};
use proptest::prelude::*;

const LIMIT: u64 = 1 << 20;

fn reason_of(body: BodyFraming, limit_bytes: u64, bytes: &[u8]) -> (Status, &'static str) {
    let rejection = BodyDecoder::new(body, limit_bytes).skip(bytes).unwrap_err();
    assert!(rejection.close);
    (rejection.status, rejection.reason)
}

#[test]
fn bytes_behind_the_body_are_not_consumed() {
    for (body, content) in [
        (BodyFraming::None, ""),
        (BodyFraming::Length(0), ""),
        (BodyFraming::Length(5), "hello"),
        (BodyFraming::Chunked, "0\r\n\r\n"),
        (BodyFraming::Chunked, "5\r\nhello\r\n0\r\n\r\n"),
        (BodyFraming::Chunked, "A;name=value\r\n0123456789\r\n000\r\n\r\n"),
        (
            BodyFraming::Chunked,
            "a;q=\"x;y\"\r\n\r\n\r\n\r\n\r\n\r\n\r\n0\r\nTrailer: yes\r\nOther: \u{e9}\r\n\r\n",
        ),
        (BodyFraming::Chunked, "0000000000000001\r\n.\r\n0\r\n\r\n"),
    ] {
        let wire = format!("{content}GET / HTTP/1.1\r\n");
        let decoded = BodyDecoder::new(body, LIMIT).skip(wire.as_bytes());
        assert_eq!(decoded, Ok(Decoded { consumed: content.len(), done: true }), "{content:?}");
    }
}

#[test]
fn broken_chunk_framing_is_400() {
    for (content, reason) in [
        ("\r\n", "chunk_size"),
        ("x\r\n", "chunk_size"),
        (" 5\r\n", "chunk_size"),
        ("5 \r\n", "chunk_size"),
        ("+5\r\n", "chunk_size"),
        ("-1\r\n", "chunk_size"),
        ("0x5\r\n", "chunk_size"),
        (";a\r\n", "chunk_size"),
        ("5\nhello", "chunk_size"),
        ("00000000000000005\r\n", "chunk_size"),
        ("10000000000000000\r\n", "chunk_size"),
        ("5\rhello", "chunk_line_end"),
        ("5\r\nhelloworld", "chunk_line_end"),
        ("5\r\nhello\n", "chunk_line_end"),
        ("5\r\nhello\r0", "chunk_line_end"),
        ("5\r\nhello0\r\n", "chunk_line_end"),
        ("5;a\nb\r\n", "chunk_control_character"),
        ("5;a\0\r\n", "chunk_control_character"),
        ("0\r\nA: b\nC: d\r\n\r\n", "chunk_control_character"),
        ("0\r\nA: b\r\r\n", "chunk_line_end"),
        ("0\r\n\rX", "chunk_line_end"),
    ] {
        assert_eq!(
            reason_of(BodyFraming::Chunked, LIMIT, content.as_bytes()),
            (Status::BadRequest, reason),
            "{content:?}"
        );
    }
    let extension = format!("5;{}\r\n", "x".repeat(2000));
    let trailer = format!("0\r\n{}", "x".repeat(2000));
    for content in [extension, trailer] {
        assert_eq!(
            reason_of(BodyFraming::Chunked, LIMIT, content.as_bytes()),
            (Status::BadRequest, "chunk_line_too_long")
        );
    }
}

#[test]
fn a_body_over_the_limit_is_413_before_it_is_read() {
    let too_large = (Status::ContentTooLarge, "body_too_large");
    assert_eq!(reason_of(BodyFraming::Length(101), 100, b""), too_large);
    assert_eq!(reason_of(BodyFraming::Length(u64::MAX), 100, b""), too_large);
    assert_eq!(reason_of(BodyFraming::Chunked, 100, b"65\r\n"), too_large);
    assert_eq!(reason_of(BodyFraming::Chunked, 100, b"ffffffffffffffff\r\n"), too_large);
    assert!(BodyDecoder::new(BodyFraming::Length(100), 100).skip(&[0; 100]).unwrap().done);
}

#[test]
fn framing_counts_towards_the_limit() {
    let chunks = b"1\r\n.\r\n".repeat(100);
    assert_eq!(reason_of(BodyFraming::Chunked, 599, &chunks), (Status::ContentTooLarge, "body_too_large"));
    assert!(BodyDecoder::new(BodyFraming::Chunked, 600).skip(&chunks).is_ok());
    let trailers = [b"0\r\n".to_vec(), b"A: b\r\n".repeat(1000)].concat();
    assert_eq!(reason_of(BodyFraming::Chunked, 600, &trailers), (Status::ContentTooLarge, "body_too_large"));
}

/// Chunked bodies, whole and spoiled, with something behind them.
fn chunked_wire() -> impl Strategy<Value = Vec<u8>> {
    let chunk = prop::collection::vec(any::<u8>(), 1..40)
        .prop_map(|data| [format!("{:x}\r\n", data.len()).into_bytes(), data, b"\r\n".to_vec()].concat());
    let piece = prop_oneof![
        8 => chunk,
        1 => Just(b"0\r\n\r\n".to_vec()),
        1 => Just(b"0\r\nA: b\r\n\r\n".to_vec()),
        1 => prop::collection::vec(any::<u8>(), 0..4),
    ];
    prop::collection::vec(piece, 0..8).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn splitting_the_bytes_changes_nothing(
        wire in chunked_wire(),
        length in 1_u64..64,
        chunked: bool,
        step in 1_usize..9,
    ) {
        let body = if chunked { BodyFraming::Chunked } else { BodyFraming::Length(length) };
        let whole = BodyDecoder::new(body, 200).skip(&wire);

        let mut decoder = BodyDecoder::new(body, 200);
        let mut in_pieces = decoder.skip(b"");
        for piece in wire.chunks(step) {
            let Ok(so_far) = in_pieces else { break };
            in_pieces = decoder
                .skip(piece)
                .map(|now| Decoded { consumed: so_far.consumed + now.consumed, done: now.done });
        }
        prop_assert_eq!(whole, in_pieces);
    }

    #[test]
    fn well_formed_chunks_end_where_they_end(data in prop::collection::vec(1_usize..300, 0..9)) {
        let mut wire = Vec::new();
        for size in data {
            wire.extend_from_slice(format!("{size:X}\r\n").as_bytes());
            wire.resize(wire.len() + size, b'\r');
            wire.extend_from_slice(b"\r\n");
        }
        wire.extend_from_slice(b"0\r\n\r\n");
        let end = wire.len();
        wire.extend_from_slice(b"0\r\n\r\n");
        let decoded = BodyDecoder::new(BodyFraming::Chunked, LIMIT).skip(&wire);
        prop_assert_eq!(decoded, Ok(Decoded { consumed: end, done: true }));
    }
}

#[test]
fn content_is_handed_on_without_its_framing_however_it_is_cut() {
    let wire = b"5;x=y\r\nhello\r\n1\r\n \r\n5\r\nworld\r\n0\r\nTrailer: 1\r\n\r\nGET";
    for cut in 0..wire.len() {
        let mut reader = BodyDecoder::new(BodyFraming::Chunked, 1000);
        let (mut content, mut consumed, mut done) = (Vec::new(), 0, false);
        for part in [&wire[..cut], &wire[cut..]] {
            let read = reader.read(part, |piece| content.extend_from_slice(piece)).unwrap();
            consumed += read.consumed;
            done = read.done;
        }
        assert_eq!(
            (content.as_slice(), consumed, done),
            (&b"hello world"[..], wire.len() - 3, true),
            "{cut}"
        );
    }
    let mut content = Vec::new();
    let mut reader = BodyDecoder::new(BodyFraming::Length(3), 3);
    assert!(reader.read(b"abcGET", |piece| content.extend_from_slice(piece)).unwrap().done);
    assert_eq!(content, b"abc");
}

#[test]
fn a_trailer_that_does_not_end_is_refused_however_it_is_cut() {
    let line = b"Filler: 0123456789012345678901234567890123456789\r\n";
    for step in [1, 7, line.len()] {
        let mut decoder = BodyDecoder::new(BodyFraming::Chunked, u64::MAX);
        decoder.skip(b"0\r\n").unwrap();
        let mut sent = 0;
        let rejection = loop {
            let failed = line.chunks(step).find_map(|piece| {
                sent += piece.len();
                decoder.skip(piece).err()
            });
            if let Some(rejection) = failed {
                break rejection;
            }
            assert!(sent < 100_000, "an endless trailer is taken");
        };
        assert_eq!((rejection.status, rejection.reason), (Status::BadRequest, "trailer_too_large"));
    }
}

#[test]
fn an_ordinary_trailer_ends_its_body() {
    let wire = [b"0\r\n".to_vec(), b"Checksum: 0123456789\r\n".repeat(100), b"\r\n".to_vec()].concat();
    assert!(BodyDecoder::new(BodyFraming::Chunked, u64::MAX).skip(&wire).unwrap().done);
}
