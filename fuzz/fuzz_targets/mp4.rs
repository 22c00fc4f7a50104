//! Arbitrary bytes as a film.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| penstock_http::mp4::fuzz_mp4(input));
