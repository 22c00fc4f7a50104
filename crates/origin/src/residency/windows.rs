//! Ranges of large files that were found in memory shortly before. To ask the kernel costs a tenth of sending 1 MiB.

use std::cell::RefCell;
use std::sync::Arc;

use penstock_sys::file::OpenFile;

/// Ranges that one worker remembers: 32 KiB, and a GiB of large files.
const WINDOWS: usize = 1024;

/// Ranges, at places that file and offset give.
#[derive(Default)]
pub(super) struct Windows(RefCell<Vec<Window>>);

#[derive(Clone, Copy, Default)]
struct Window {
    /// The address of the file. If another file gets it, its range is believed for the rest of the time.
    file: usize,
    offset: u64,
    len: u64,
    /// In milliseconds of the clock of the residency.
    until: u64,
}

impl Windows {
    /// Whether a range was found in memory and is believed to be there still.
    pub(super) fn has(&self, file: &Arc<OpenFile>, offset: u64, len: u64, now: u64) -> bool {
        let windows = self.0.borrow();
        let Some(window) = windows.get(place(file, offset)) else { return false };
        window.file == address(file) && window.offset == offset && len <= window.len && now < window.until
    }

    pub(super) fn believe(&self, file: &Arc<OpenFile>, offset: u64, len: u64, until: u64) {
        let mut windows = self.0.borrow_mut();
        if windows.is_empty() {
            windows.resize(WINDOWS, Window::default());
        }
        windows[place(file, offset)] = Window { file: address(file), offset, len, until };
    }
}

fn address(file: &Arc<OpenFile>) -> usize {
    Arc::as_ptr(file).addr()
}

fn place(file: &Arc<OpenFile>, offset: u64) -> usize {
    const GOLDEN_RATIO: u64 = 0x9e37_79b9_7f4a_7c15;
    let mixed = (address(file) as u64 ^ offset).wrapping_mul(GOLDEN_RATIO);
    usize::try_from(mixed >> 32).unwrap_or(0) % WINDOWS
}
