//! Arbitrary bytes as what a client of HTTP/3 and the application do, one choice a byte.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| penstock_http3::fuzz_quic_connection(input));
