//! Arbitrary bytes as a file of ticket keys, and as a session to keep.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| penstock_tls::fuzz_ticket_keys(input));
