//! Bodies of the fuzz targets: fields of a ClientHello, files of ticket keys, OCSP responses, URIs of keys in tokens.

use std::cell::Cell;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::{Duration, SystemTime};

use boring::x509::X509;
use penstock_sys::traffic::Secret;

use crate::alpn::{self, AlpnDecision, HttpVersions};
use crate::candidates::NameIndex;
use crate::certificate::Algorithm;
use crate::hello;
use crate::ja4::Ja4;
use crate::ocsp::{self, OcspIdentity};
use crate::pkcs11_uri::Pkcs11Uri;
use crate::session_cache::{CacheLookup, SessionCache, SessionCacheLimits};
use crate::session_store::SessionKey;
use crate::signatures::{SignatureRules, Verifiable};
use crate::suites::{SUITES, SuiteOrders};
use crate::tickets::key_file;
use crate::transport_parameters;

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
    let orders = SuiteOrders::new(&SUITES.iter().collect::<Vec<_>>());
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
    if let AlpnDecision::Agreed(agreed) = alpn::choose(names, HttpVersions::H1_AND_H2) {
        assert!(agreed == b"http/1.1" || agreed == b"h2");
    }
    let extension = |number| match number {
        35 => Some(ticket),
        43 => Some(versions),
        _ => None,
    };
    assert!(hello::offers_resumption(rest.get(), extension) || ticket.is_empty());
    assert!(hello::offers_resumption(rest.get(), |number| (number == 41).then_some(&[][..])));

    if let Some(fingerprint) = Ja4::of(rest.get(), false) {
        let text = fingerprint.as_str();
        assert!(text.len() == 36 && text.is_ascii(), "{text}");
    }

    if transport_parameters::check(rest.get(), ticket).is_ok() {
        let again = rest.get().repeat(2);
        assert!(transport_parameters::check(&again, ticket).is_err(), "each parameter comes twice");
    }

    let mut index = NameIndex::default();
    index.add(&["video.example".to_owned(), "*.live.example".to_owned()], Algorithm::P256, 1);
    index.add_default(Algorithm::Rsa, 0);
    let name = std::str::from_utf8(name).ok();
    let place = index.choose(name, verifiable).next().expect("there is a default");
    assert!(place == 0 || name.is_some_and(|name| name.to_ascii_lowercase().contains(".example")));
}

/// The body of the fuzz target `ticket_keys`: bytes as a file of ticket keys, and as sessions under a name. What is a
/// key stays one in the other form of the file; what is kept is found under its own name and no other.
pub fn fuzz_ticket_keys(input: &[u8]) {
    if let Ok(found) = key_file::parse(&Secret::new(input.to_vec())) {
        assert!(!found.keys.is_empty() && found.keys.iter().all(|key| matches!(key.bits(), 128 | 256)));
        assert!(!found.last_is_introduced || found.keys.len() > 1);
        if let Ok(text) = str::from_utf8(input)
            && !matches!(input.len(), 48 | 80)
        {
            let again = format!("\r\n{}\r\n", text.trim().replace('\n', "\r\n\n"));
            // By chance as long as a key that is no text.
            if !matches!(again.len(), 48 | 80) {
                let again = key_file::parse(&Secret::new(again.into_bytes())).expect("line ends are no keys");
                assert_eq!(again.keys.len(), found.keys.len());
                assert!(again.keys.iter().zip(&found.keys).all(|(one, two)| one.is_same(two)));
            }
        }
    }
    let Some((id, rest)) = input.split_first_chunk::<32>() else { return };
    let (name, session) = rest.split_at(rest.len() / 2);
    let limits = SessionCacheLimits { sessions: 4, bytes: 1 << 16, lifetime_seconds: 9, shards: 2 };
    let cache = SessionCache::new(limits);
    let name = str::from_utf8(name).ok();
    let key = SessionKey { id, server_name: name };
    cache.insert(key, session, 1);
    assert!(matches!(cache.find(key, 2), CacheLookup::Hit(found) if found.expose() == session));
    let other = name.map(|name| format!("{name}x"));
    assert_eq!(
        cache.find(SessionKey { id, server_name: other.as_deref().or(Some("x")) }, 2),
        CacheLookup::Miss
    );
    assert_eq!(cache.find(SessionKey { id: &input[..31], server_name: name }, 2), CacheLookup::Miss);
    assert_eq!(cache.find(key, 10), CacheLookup::Expired);
}

/// The body of the fuzz target `ocsp_response`: a certificate and its issuer, each behind a length of two bytes, and a
/// response. What is stapled is what came, and it is valid now.
pub fn fuzz_ocsp_response(input: &[u8]) {
    let mut rest = input;
    let mut piece = || {
        let (length, tail) = rest.split_first_chunk::<2>()?;
        let (piece, behind) = tail.split_at(tail.len().min(usize::from(u16::from_be_bytes(*length))));
        rest = behind;
        X509::from_der(piece).ok()
    };
    let Some(leaf) = piece() else { return };
    let issuer = piece();
    let Ok(identity) = OcspIdentity::of(&leaf, issuer.as_ref()) else { return };
    let question = identity.request();
    assert!(question.is_none_or(|question| !question.is_empty()));
    let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_900_000_000);
    if let Ok(staple) = ocsp::check(rest, &identity, now) {
        assert!(identity.has_issuer() && staple.response == rest);
        assert!(staple.next_update > now && staple.this_update <= now + Duration::from_secs(300));
    }
}

/// The body of the fuzz target `pkcs11_uri`: a text as the URI of a private key. What is read chooses a token and a key, and
/// means the same with every byte percent-encoded. A fault has a text and advice.
pub fn fuzz_pkcs11_uri(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    match Pkcs11Uri::parse(text) {
        Ok(uri) => assert_eq!(Pkcs11Uri::parse(&encoded(&uri)).as_ref(), Ok(&uri)),
        Err(fault) => assert!(!fault.to_string().is_empty() && !fault.instead().is_empty()),
    }
}

fn encoded(uri: &Pkcs11Uri) -> String {
    let (token, key) = (&uri.token, &uri.key);
    let text = |value: &Option<String>| value.clone().map(String::into_bytes);
    let path = [
        ("token", text(&token.label)),
        ("manufacturer", text(&token.manufacturer)),
        ("serial", text(&token.serial)),
        ("model", text(&token.model)),
        ("slot-id", token.slot.map(|slot| slot.to_string().into_bytes())),
        ("object", text(&key.label)),
        ("id", key.id.clone()),
    ];
    let file = |path: &Path| [b"file:".as_slice(), path.as_os_str().as_bytes()].concat();
    // In front of an absolute path stands an empty host, so that a path with two slashes does not become a host.
    let absolute = |path: &Path| [b"file://".as_slice(), path.as_os_str().as_bytes()].concat();
    let pin = uri.pin.as_deref().map(|pin| if pin.is_absolute() { absolute(pin) } else { file(pin) });
    let query = [("module-path", Some(uri.module.as_os_str().as_bytes().to_vec())), ("pin-source", pin)];
    format!("pkcs11:{}?{}", attributes(&path, ";"), attributes(&query, "&"))
}

fn attributes(all: &[(&str, Option<Vec<u8>>)], separator: &str) -> String {
    let one = |(name, value): &(&str, Option<Vec<u8>>)| {
        let bytes = value.as_ref()?.iter().map(|byte| format!("%{byte:02x}"));
        Some(format!("{name}={}", bytes.collect::<String>()))
    };
    all.iter().filter_map(one).collect::<Vec<_>>().join(separator)
}
