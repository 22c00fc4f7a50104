//! Arbitrary paths of routes and of a request.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| penstock_content::fuzz_routes(input));
