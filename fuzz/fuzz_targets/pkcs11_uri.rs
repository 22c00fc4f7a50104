//! Arbitrary text as the URI of a private key in a hardware module.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| penstock_tls::fuzz_pkcs11_uri(input));
