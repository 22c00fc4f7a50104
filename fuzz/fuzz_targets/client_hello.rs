//! Arbitrary bytes as the parts of a ClientHello that `penstock-tls` parses itself.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| penstock_tls::fuzz_client_hello(input));
