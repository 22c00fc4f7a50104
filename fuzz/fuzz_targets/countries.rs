//! Arbitrary bytes as a database of countries.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| penstock_config::fuzz_countries(input));
