//! An arbitrary file in which an index of media is looked for.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| penstock_load::fuzz_index(input));
