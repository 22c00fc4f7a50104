//! Arbitrary bytes as steps of an HTTP/2 client and of the application.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| penstock_http2::fuzz_h2_sequence(input));
