//! Arbitrary bytes as what an HTTP/2 client sends behind the preface.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| penstock_http2::fuzz_h2_frames(input));
