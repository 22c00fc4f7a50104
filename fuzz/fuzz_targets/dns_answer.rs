//! Arbitrary bytes as the answer of a DNS server.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| penstock_origin::dns::fuzz_dns_answer(input));
