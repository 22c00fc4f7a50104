//! Whatever is written, the answer is a configuration or faults that can be shown.

use std::fs;
use std::path::Path;

use penstock_config::{Config, fuzz_config};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

const SEEDS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/seeds/config");

/// Parts of configurations, right and wrong.
const PIECES: [&str; 48] = [
    "\n",
    "\n",
    "\n",
    "\n  ",
    "\n    ",
    "\n- ",
    "\n  - ",
    ": ",
    ": ",
    ": ",
    ", ",
    "{",
    "}",
    "[",
    "]",
    "'",
    "\"",
    "#",
    "*",
    "&a ",
    "*a",
    "!!str ",
    "---",
    "|",
    ">-",
    "~",
    "\t",
    "\r",
    "\u{85}",
    "\u{feff}",
    "\u{1b}[2J",
    "listeners",
    "sites",
    "tls",
    "limits",
    "address",
    "127.0.0.1:80",
    "origin",
    "directory",
    "/",
    "hosts",
    "certificates",
    "chain",
    "key",
    "head_bytes",
    "64k",
    "12h",
    "1.2",
];

/// A right configuration with a bit of everything.
const RIGHT: &str = "workers: 1\nlisteners:\n  - address: 127.0.0.1:80\n    send_buffer: 4MiB\n    proxy_protocol: false\n\
    sites:\n  - hosts: [\"*\", a.example.com]\n    origin: {directory: /}\n    headers: {hsts: 180d}\n\
    tls: {versions: [\"1.3\"], groups: [P-256], tickets: {rotate: 1h, keep: 2}}\n\
    limits: {head_bytes: 32KiB, drain_deadline: 5s}\nlog: {access: /tmp/x.jsonl}\nadmin: {}\n";

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn pieces_in_any_order(pieces in vec(select(&PIECES[..]), 0..60)) {
        fuzz_config(pieces.concat().as_bytes());
    }

    #[test]
    fn a_right_text_with_a_piece_in_any_place(at in 0..400_usize, removed in 0..8_usize, piece in select(&PIECES[..])) {
        let start = at.min(RIGHT.len());
        let end = (start + removed).min(RIGHT.len());
        fuzz_config([&RIGHT[..start], piece, &RIGHT[end..]].concat().as_bytes());
    }
}

#[test]
fn the_right_text_is_right() {
    assert!(Config::from_text(RIGHT, Path::new("/nowhere/edge.yaml")).is_ok());
}

#[test]
fn the_seeds_of_the_fuzzer_hold() {
    let seeds: Vec<_> =
        fs::read_dir(SEEDS).unwrap().map(|seed| fs::read(seed.unwrap().path()).unwrap()).collect();
    assert!(!seeds.is_empty());
    seeds.iter().for_each(|seed| fuzz_config(seed));
}
