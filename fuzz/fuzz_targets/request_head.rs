//! Arbitrary bytes as a request: first byte where to cut, then the bytes.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| penstock_http::fuzz_request_head(input));
