//! The bodies of all fuzz targets, over their seeds and a few thousand mutations of them, without a fuzzer.
//!
//! This finds little that a fuzzer would not; it sees to it that the targets still hold on every change, with the
//! compiler that builds the program.
#![expect(clippy::unwrap_used, reason = "in a test it is the assertion")]

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use penstock_testkit::Random;

/// Mutations tried of each target.
const TRIES: usize = 3000;

/// Longer inputs are cut: what they would find, shorter ones do.
const INPUT_BYTES_MAX: usize = 4096;

/// Difficult input for parsers of all formats.
const WORDS: [&[u8]; 32] = [
    b"\r\n",
    b"\n",
    b"\r",
    b"\r\n\r\n",
    b"\0",
    b" ",
    b"\t",
    b":",
    b"%2e",
    b"%00",
    b"..",
    b"//",
    b"\\",
    b"\xff",
    b"-1",
    b"18446744073709551615",
    b"Content-Length: ",
    b"Transfer-Encoding: chunked\r\n",
    b"Host: a\r\n",
    b"Range: bytes=",
    b"HTTP/1.1",
    b"PROXY TCP4 ",
    b"\r\n\r\n\0\r\nQUIT\n",
    b"\x21\x11",
    b"- ",
    b"{",
    b"[",
    b"\"",
    b"*",
    b"&a ",
    b"limits:\n",
    b"64KiB",
];

#[test]
fn every_fuzz_target_holds_for_its_seeds_and_their_mutations() {
    let mut random = Random::from_environment();
    for target in targets() {
        let body = body_of(&target);
        let seeds = seeds_of(&target);
        seeds.iter().for_each(|seed| try_one(&target, body, seed));
        for _ in 0..TRIES {
            try_one(&target, body, &mutated(&seeds, &mut random));
        }
    }
}

/// The targets, as fuzz/ has them.
fn targets() -> Vec<String> {
    let manifest = fs::read_to_string(folder().join("Cargo.toml")).unwrap();
    let bins = manifest.split("[[bin]]").skip(1);
    let names = bins.map(|bin| bin.split('"').nth(1).unwrap().to_owned());
    // The crate of its body runs it: it needs the scripted origin and the clock of the tests there.
    let names: Vec<_> = names.filter(|name| name != "exchange").collect();
    assert!(names.len() >= 2, "{names:?}");
    names
}

fn folder() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn body_of(target: &str) -> fn(&[u8]) {
    match target {
        "access_fields" => penstock_content::fuzz_access_fields,
        "accounts" => penstock_config::fuzz_accounts,
        "cache_files" => penstock_cache::fuzz_cache_files,
        "client_hello" => penstock_tls::fuzz_client_hello,
        "config" => penstock_config::fuzz_config,
        "countries" => penstock_config::fuzz_countries,
        "description" => penstock_content::fuzz_description,
        "dns_answer" => penstock_origin::dns::fuzz_dns_answer,
        "fields" => penstock_http::fuzz_fields,
        "fleet_records" => penstock_fleet::fuzz_fleet_records,
        "h2_frames" => penstock_http2::fuzz_h2_frames,
        "h2_sequence" => penstock_http2::fuzz_h2_sequence,
        "h3_fields" => penstock_http3::fuzz_h3_fields,
        "hpack" => penstock_http2::fuzz_hpack,
        "load_index" => penstock_load::fuzz_index,
        "load_manifest" => penstock_load::fuzz_manifest,
        "load_response" => penstock_load::fuzz_response,
        "manifest" => penstock_http::fuzz_manifest,
        "mp4" => penstock_http::mp4::fuzz_mp4,
        "networks" => penstock_config::fuzz_networks,
        "nginx" => penstock_nginx::fuzz_nginx,
        "ocsp_response" => penstock_tls::fuzz_ocsp_response,
        "origin_response" => penstock_content::fuzz_origin_response,
        "peer_fields" => penstock_content::fuzz_peer_fields,
        "pkcs11_uri" => penstock_tls::fuzz_pkcs11_uri,
        "proxy_header" => penstock_http::proxy::fuzz_proxy_header,
        "quic_connection" => penstock_http3::fuzz_quic_connection,
        "quic_datagram" => penstock_http3::fuzz_quic_datagram,
        "quic_steering" => penstock_edge::fuzz_quic_steering,
        "request_head" => penstock_http::fuzz_request_head,
        "routes" => penstock_content::fuzz_routes,
        "signed_url" => penstock_content::tokens::fuzz_signed_urls,
        "keyless" => penstock_keys::fuzz_keyless,
        "ticket_keys" => penstock_tls::fuzz_ticket_keys,
        "token_formats" => penstock_content::tokens::fuzz_token_formats,
        "tokens" => penstock_content::fuzz_tokens,
        "url" => penstock_http::fuzz_url,
        other => panic!("fuzz/ has a target `{other}`, whose body this test does not know"),
    }
}

fn seeds_of(target: &str) -> Vec<Vec<u8>> {
    let entries = fs::read_dir(folder().join("seeds").join(target)).unwrap();
    let mut paths: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    // In the same order everywhere, so that the same seed of the random numbers tries the same.
    paths.sort();
    assert!(!paths.is_empty(), "{target} has no seeds");
    paths.iter().map(|path| fs::read(path).unwrap()).collect()
}

fn try_one(target: &str, body: fn(&[u8]), input: &[u8]) {
    let held = catch_unwind(AssertUnwindSafe(|| body(input)));
    assert!(held.is_ok(), "{target} does not hold for b\"{}\"", input.escape_ascii());
}

/// One seed, changed in a few places.
fn mutated(seeds: &[Vec<u8>], random: &mut Random) -> Vec<u8> {
    let pick = |random: &mut Random| &seeds[below(random, seeds.len())];
    let mut input = pick(random).clone();
    for _ in 0..=random.below(6) {
        let at = below(random, input.len() + 1);
        let end = (at + below(random, 16)).min(input.len());
        match random.below(7) {
            0 => drop(input.splice(at..at, random.pick(&WORDS).iter().copied())),
            1 => drop(input.splice(at..end, random.pick(&WORDS).iter().copied())),
            2 => drop(input.drain(at..end)),
            3 => input.truncate(at),
            4 => {
                let again = input[at..end].to_vec();
                drop(input.splice(at..at, again.repeat(1 + below(random, 20))));
            }
            5 => {
                let other = pick(random);
                let from = below(random, other.len() + 1);
                input.truncate(at);
                input.extend_from_slice(&other[from..]);
            }
            _ => {
                if let Some(byte) = input.get_mut(at) {
                    *byte = random.number().to_le_bytes()[0];
                }
            }
        }
        input.truncate(INPUT_BYTES_MAX);
    }
    input
}

fn below(random: &mut Random, end: usize) -> usize {
    usize::try_from(random.below(end as u64)).unwrap()
}
