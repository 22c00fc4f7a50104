//! Properties of every input.

use super::super::{Request, head_length};
use super::LIMITS;
use crate::{HeadLimits, Rejection, fuzz_request_head};
use proptest::prelude::*;
use proptest::sample::Index;

const TIGHT: HeadLimits = HeadLimits { head_bytes: 200, fields: 5, target_bytes: 30 };

const SOUND: &[&str] = &[
    "GET / HTTP/1.1\r\nHost: a\r\n\r\n",
    "\r\nHEAD /a/b.mp4?x=y HTTP/1.1\r\nHost: video.example:8443\r\nRange: bytes=0-99,-5\r\n\r\n",
    "OPTIONS * HTTP/1.1\r\nHost: [::1]\r\nOrigin: https://a.example\r\n\r\n",
    "GET http://b.example/%D1%84/ HTTP/1.0\r\nConnection: keep-alive\r\n\r\n",
    "POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\nhello",
    "PUT /a HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
    "GET /m.m3u8 HTTP/1.1\r\nHost: a\r\nIf-None-Match: W/\"1\", \"2\"\r\nAccept-Encoding: gzip;q=0.5, br\r\n\r\n",
];

/// Bytes that look like heads: pieces of them, whole and spoiled, in any order.
fn head_like() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        6 => Just(b"\r\n".to_vec()),
        3 => Just(b"GET / HTTP/1.1\r\n".to_vec()),
        3 => Just(b"Host: a\r\n".to_vec()),
        1 => Just(b"\n".to_vec()),
        1 => Just(b"\r".to_vec()),
        2 => "[a-zA-Z/:% ]{1,40}".prop_map(String::into_bytes),
        1 => Just(vec![b'x'; 70]),
        1 => prop::collection::vec(any::<u8>(), 1..4),
    ];
    prop::collection::vec(piece, 0..14).prop_map(|pieces| pieces.concat())
}

#[derive(Clone, Debug)]
enum Mutation {
    Replace(Index, u8),
    Insert(Index, u8),
    Remove(Index),
    Repeat(Index, Index),
}

impl Mutation {
    fn apply(&self, bytes: &mut Vec<u8>) {
        if bytes.is_empty() {
            return;
        }
        match self {
            Self::Replace(at, byte) => *at.get_mut(bytes) = *byte,
            Self::Insert(at, byte) => bytes.insert(at.index(bytes.len()), *byte),
            Self::Remove(at) => drop(bytes.remove(at.index(bytes.len()))),
            Self::Repeat(a, b) => {
                let (a, b) = (a.index(bytes.len()), b.index(bytes.len()));
                bytes.extend_from_within(a.min(b)..a.max(b));
            }
        }
    }
}

fn mutation() -> impl Strategy<Value = Mutation> {
    // Often a byte that means something.
    let byte = prop_oneof![prop::sample::select(&b"\0\t\n\r \"%,./:;=\\*\x7f\xff0G"[..]), any::<u8>()];
    let at = any::<Index>;
    prop_oneof![
        (at(), byte.clone()).prop_map(|(at, byte)| Mutation::Replace(at, byte)),
        (at(), byte).prop_map(|(at, byte)| Mutation::Insert(at, byte)),
        at().prop_map(Mutation::Remove),
        (at(), at()).prop_map(|(a, b)| Mutation::Repeat(a, b)),
    ]
}

/// Sound requests, some of them after a few changes.
fn mutated() -> impl Strategy<Value = Vec<u8>> {
    let sound = prop::sample::select(SOUND).prop_map(|head| head.as_bytes().to_vec());
    (sound, prop::collection::vec(mutation(), 0..4)).prop_map(|(mut bytes, mutations)| {
        mutations.iter().for_each(|mutation| mutation.apply(&mut bytes));
        bytes
    })
}

/// The answer when the bytes come in pieces of these sizes, one after the other.
fn head_length_in_pieces(
    bytes: &[u8],
    sizes: &[usize],
    limits: &HeadLimits,
) -> Result<Option<usize>, Rejection> {
    let mut received = 0;
    let mut sizes = sizes.iter().cycle();
    while received < bytes.len() {
        let scanned = received;
        received = (received + sizes.next().copied().unwrap_or(1)).min(bytes.len());
        match head_length(&bytes[..received], scanned, limits) {
            Ok(None) => {}
            decided => return decided,
        }
    }
    Ok(None)
}

/// Properties of every accepted head, checked without the parser's own functions.
fn assert_sound(head: &[u8], request: &Request<'_>) {
    let text = String::from_utf8_lossy(head);
    let text = text.trim_start_matches("\r\n");
    let lines: Vec<&str> = text.strip_suffix("\r\n\r\n").unwrap().split("\r\n").collect();
    assert!(lines.iter().all(|line| !line.contains(|c: char| c.is_ascii_control() && c != '\t')));
    assert_eq!(lines[0].split(' ').count(), 3);
    assert_eq!(lines[0].split(' ').nth(1), Some(request.raw_target()));
    let is_host = |line: &str| line.split(':').next().is_some_and(|name| name.eq_ignore_ascii_case("host"));
    let others = lines[1..].iter().filter(|line| !is_host(line));
    assert_eq!(request.fields().count(), others.clone().count());
    assert!(lines[1..].iter().filter(|line| is_host(line)).count() <= 1);
    for (line, (name, value)) in others.zip(request.fields()) {
        assert!(!name.is_empty() && !name.contains(char::is_whitespace));
        let (given_name, given_value) = line.split_once(':').unwrap();
        assert_eq!((given_name, given_value.trim()), (name, String::from_utf8_lossy(value).trim()));
    }
    assert!(request.values("content-length").chain(request.values("transfer-encoding")).count() <= 1);
    if let Ok(path) = request.file_path() {
        path.assert_safe();
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn the_end_of_a_head_does_not_depend_on_how_it_arrives(
        bytes in prop_oneof![head_like(), mutated()],
        sizes in prop::collection::vec(1_usize..60, 1..5),
    ) {
        for limits in [LIMITS, TIGHT] {
            let whole = head_length(&bytes, 0, &limits);
            prop_assert_eq!(head_length_in_pieces(&bytes, &sizes, &limits), whole);
            prop_assert_eq!(head_length_in_pieces(&bytes, &[1], &limits), whole);
        }
    }

    #[test]
    fn a_head_ends_at_its_first_empty_line(bytes in head_like()) {
        if let Ok(Some(length)) = head_length(&bytes, 0, &LIMITS) {
            let start = bytes.iter().position(|byte| !b"\r\n".contains(byte)).unwrap();
            let end = bytes[start..].windows(4).position(|four| four == b"\r\n\r\n").unwrap();
            prop_assert_eq!(length, start + end + 4);
        }
    }

    #[test]
    fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        fuzz_request_head(&bytes);
        let parsed = Request::parse(&bytes, &LIMITS);
        prop_assert!(parsed.is_ok() || parsed.is_err_and(|rejection| rejection.status.code() >= 400));
    }

    #[test]
    fn whatever_is_accepted_is_sound(bytes in mutated()) {
        fuzz_request_head(&bytes);
        if let Ok(Some(length)) = head_length(&bytes, 0, &LIMITS)
            && let Ok(request) = Request::parse(&bytes[..length], &LIMITS)
        {
            assert_sound(&bytes[..length], &request);
        }
    }

    #[test]
    fn any_path_that_is_accepted_is_safe(path in "/([a-z.%/\\\\]|%2[eEfF]|%5c|%00|\\.\\.){0,20}") {
        let head = format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n");
        let request = Request::parse(head.as_bytes(), &LIMITS).unwrap();
        if let Ok(path) = request.file_path() {
            path.assert_safe();
        }
    }
}

#[test]
fn an_overlong_head_sent_byte_by_byte_is_refused_like_one_sent_at_once() {
    let line = [b"GET /", &[b'x'; 300][..]].concat();
    let fields = [b"GET / HTTP/1.1\r\nX: ", &[b'x'; 300][..]].concat();
    for bytes in [line, fields] {
        let whole = head_length(&bytes, 0, &TIGHT);
        assert!(whole.is_err());
        for size in 1..=bytes.len() {
            assert_eq!(head_length_in_pieces(&bytes, &[size], &TIGHT), whole, "pieces of {size}");
        }
    }
}

#[test]
fn the_sound_heads_of_these_tests_are_accepted() {
    for head in SOUND {
        let length = head_length(head.as_bytes(), 0, &LIMITS).unwrap().unwrap();
        let request = Request::parse(&head.as_bytes()[..length], &LIMITS).unwrap();
        assert_sound(&head.as_bytes()[..length], &request);
    }
}
