//! Arbitrary bytes as the pieces of a ClientHello that we read ourselves.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| penstock_tls::fuzz_client_hello(input));
