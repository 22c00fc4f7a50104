//! An arbitrary JSON Web Token, and an arbitrary file of keys.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| penstock_content::fuzz_tokens(input));
