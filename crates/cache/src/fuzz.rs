//! What a fuzzer calls: whatever a directory may hold after a restart. The bodies stand beside what they try; here is
//! what they share.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::disk::fuzz_segment;
use crate::memory::fuzz_records;
use crate::purge::fuzz_purges;

/// The body of the fuzz target `cache_files`: the first byte says whose files the others are.
///
/// # Panics
/// When something in them is not taken as it should be.
pub fn fuzz_cache_files(input: &[u8]) {
    let Some((&whose, bytes)) = input.split_first() else { return };
    match whose % 3 {
        0 => fuzz_records(bytes),
        1 => fuzz_segment(bytes),
        _ => fuzz_purges(bytes),
    }
}

/// A directory of its own, in memory where that can be; gone with it.
pub(crate) struct Scratch(PathBuf);

impl Scratch {
    pub(crate) fn new() -> Self {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let shared = Path::new("/dev/shm");
        let parent = if shared.is_dir() { shared.to_owned() } else { std::env::temp_dir() };
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = parent.join(format!("penstock-fuzz-{}-{number}", std::process::id()));
        std::fs::create_dir(&path).expect("a new directory can be made");
        Self(path)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // What cannot be removed is left to the next restart of the machine.
        drop(std::fs::remove_dir_all(&self.0));
    }
}

/// Puts the checksum of all before into the last four bytes: a fuzzer would not find it.
pub(crate) fn seal(bytes: &mut [u8]) {
    if let Some((rest, last)) = bytes.split_last_chunk_mut::<4>() {
        *last = crc32fast::hash(rest).to_le_bytes();
    }
}
