//! Arbitrary certificates and an answer of an OCSP responder.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| penstock_tls::fuzz_ocsp_response(input));
