//! Arbitrary text as a configuration file.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| penstock_config::fuzz_config(input));
