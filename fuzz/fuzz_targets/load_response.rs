//! An arbitrary response to the load generator: first byte how to cut, then the bytes.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| penstock_load::fuzz_response(input));
