//! Arbitrary bytes as the fields Referer and Authorization.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| penstock_content::fuzz_access_fields(input));
