//! A token of one of the formats, right for an arbitrary directory, in an arbitrary request.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| penstock_content::tokens::fuzz_token_formats(input));
