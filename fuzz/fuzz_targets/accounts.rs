//! Arbitrary bytes as a file of names and passwords.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| penstock_config::fuzz_accounts(input));
