//! Arbitrary bytes as a file of networks.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| penstock_config::fuzz_networks(input));
