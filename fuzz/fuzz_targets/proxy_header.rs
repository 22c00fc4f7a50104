//! Arbitrary bytes as a PROXY protocol header.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| penstock_http::proxy::fuzz_proxy_header(input));
