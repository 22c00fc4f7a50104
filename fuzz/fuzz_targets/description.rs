//! Arbitrary bytes as what an earlier process wrote about an object.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| penstock_content::fuzz_description(input));
