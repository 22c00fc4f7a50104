//! Arbitrary text as a manifest, as the load generator plays it.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| penstock_load::fuzz_manifest(input));
