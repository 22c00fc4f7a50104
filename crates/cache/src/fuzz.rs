//! The entry point of the fuzz target `cache_files`. The bodies stand beside the formats that they try.

use crate::disk::fuzz_segment;
use crate::memory::fuzz_records;
use crate::purge::fuzz_purges;

/// The body of the fuzz target `cache_files`: the first byte chooses the kind of file, the rest is its content.
///
/// # Panics
/// When a file is not read as it should be.
pub fn fuzz_cache_files(input: &[u8]) {
    let Some((&kind, bytes)) = input.split_first() else { return };
    match kind % 3 {
        0 => fuzz_records(bytes),
        1 => fuzz_segment(bytes),
        _ => fuzz_purges(bytes),
    }
}
