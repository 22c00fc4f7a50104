//! An arbitrary request with a token that is right for an arbitrary path.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| penstock_content::tokens::fuzz_signed_urls(input));
