//! Arbitrary bytes as a datagram to a group of sockets.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| penstock_edge::fuzz_quic_steering(input));
