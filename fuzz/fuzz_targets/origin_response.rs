//! An arbitrary response of an origin: first byte how to cut, then the bytes.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| penstock_content::fuzz_origin_response(input));
