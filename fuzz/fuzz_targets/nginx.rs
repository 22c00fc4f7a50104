//! Arbitrary text as a configuration of nginx.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| penstock_nginx::fuzz_nginx(input));
