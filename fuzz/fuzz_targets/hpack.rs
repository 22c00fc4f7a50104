//! Arbitrary bytes as field blocks, and as fields.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| penstock_http2::fuzz_hpack(input));
