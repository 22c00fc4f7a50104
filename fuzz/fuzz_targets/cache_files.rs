//! Arbitrary bytes as what a cache finds after a restart: first byte which file, then the file.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| penstock_cache::fuzz_cache_files(input));
