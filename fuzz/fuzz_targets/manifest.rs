//! Arbitrary bytes as a manifest, as the cache reads it.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| penstock_http::fuzz_manifest(input));
