//! Arbitrary bytes as what clients, an origin and purges do, one choice a byte.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    penstock_content::fuzz_exchange(input);
});
