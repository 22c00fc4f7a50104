//! What a fuzzer calls: our own reading of a ClientHello, which the library hands us piece by piece.

use std::cell::Cell;

use crate::alpn::{self, Choice};
use crate::candidates::NameIndex;
use crate::certificate::Algorithm;
use crate::hello;
use crate::ja4::Ja4;
use crate::signatures::{SignatureRules, Verifiable};
use crate::suites::{Orders, SUITES};

/// Body of the fuzz target: no input panics, and what is answered was in the input.
///
/// The input is pieces, each behind a length of one byte: suites, signature algorithms, ALPN names, versions, ticket,
/// server name, and the whole message.
pub fn fuzz_client_hello(input: &[u8]) {
    let rest = Cell::new(input);
    let piece = || {
        let (length, tail) = rest.get().split_first().unwrap_or((&0, &[]));
        let (piece, behind) = tail.split_at(tail.len().min(usize::from(*length)));
        rest.set(behind);
        piece
    };
    let (suites, schemes, names, versions, ticket, name) =
        (piece(), piece(), piece(), piece(), piece(), piece());
    let orders = Orders::new(&SUITES.iter().collect::<Vec<_>>());
    if orders.for_client(suites, false).is_some() {
        let chacha20 = [[0x13, 0x03], [0xcc, 0xa8], [0xcc, 0xa9]];
        assert!(suites.chunks_exact(2).any(|suite| chacha20.iter().any(|one| one == suite)));
    }
    let verifiable = Verifiable::of(
        orders.signed_by(suites),
        |number| match number {
            10 => Some(ticket),
            13 => Some(schemes),
            43 => Some(versions),
            _ => None,
        },
        SignatureRules { tls13: true, sha1: true },
    );
    for algorithm in Algorithm::ALL {
        assert!(!verifiable.has(algorithm) || schemes.len() >= 4, "{algorithm:?} without a scheme");
    }
    if let Choice::Agreed(agreed) = alpn::choose(names) {
        assert_eq!(agreed, b"http/1.1");
    }
    let extension = |number| match number {
        35 => Some(ticket),
        43 => Some(versions),
        _ => None,
    };
    assert!(hello::offers_resumption(rest.get(), extension) || ticket.is_empty());
    assert!(hello::offers_resumption(rest.get(), |number| (number == 41).then_some(&[][..])));

    if let Some(fingerprint) = Ja4::of(rest.get()) {
        let text = fingerprint.as_str();
        assert!(text.len() == 36 && text.is_ascii(), "{text}");
    }

    let mut index = NameIndex::default();
    index.add(&["video.example".to_owned(), "*.live.example".to_owned()], Algorithm::P256, 1);
    index.add_default(Algorithm::Rsa, 0);
    let name = std::str::from_utf8(name).ok();
    let place = index.choose(name, verifiable).next().expect("there is a default");
    assert!(place == 0 || name.is_some_and(|name| name.to_ascii_lowercase().contains(".example")));
}
