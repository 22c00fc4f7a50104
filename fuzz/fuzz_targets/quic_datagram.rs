//! Arbitrary bytes as a datagram of a client without a connection.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| penstock_http3::fuzz_quic_datagram(input));
