//! Shared by the bodies of fuzz targets: a directory of their own and a checksum.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// A private directory, on tmpfs if there is one; removed on drop.
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
        // A directory that cannot be removed is left to the next restart of the machine.
        drop(std::fs::remove_dir_all(&self.0));
    }
}

/// Puts the checksum of all bytes before into the last four: a fuzzer would not find it.
pub(crate) fn seal(bytes: &mut [u8]) {
    if let Some((rest, last)) = bytes.split_last_chunk_mut::<4>() {
        *last = crc32fast::hash(rest).to_le_bytes();
    }
}
