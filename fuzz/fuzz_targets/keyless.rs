//! Arbitrary bytes as a message of the keyless protocol.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| penstock_keys::fuzz_keyless(input));
