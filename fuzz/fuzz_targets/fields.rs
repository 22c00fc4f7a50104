//! Arbitrary values of fields, one in each line: Range, Cache-Control and its like, dates, what is accepted.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| penstock_http::fuzz_fields(input));
