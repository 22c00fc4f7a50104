//! Arbitrary bytes as a status and fields of a response over HTTP/3.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| penstock_http3::fuzz_h3_fields(input));
