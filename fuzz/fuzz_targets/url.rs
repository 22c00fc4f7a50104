//! An arbitrary query, names of parameters, a URL and a reference, one in each line.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| penstock_http::fuzz_url(input));
