//! Arbitrary bytes as what another node of the cluster says.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| penstock_content::fuzz_peer_fields(input));
