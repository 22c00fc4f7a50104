//! Arbitrary bytes as a record or an answer of the store of a fleet.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| penstock_fleet::fuzz_fleet_records(input));
