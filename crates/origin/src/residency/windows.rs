//! Ranges of large files that were found in memory shortly before. To ask the kernel costs a tenth of sending 1 MiB.

use std::cell::RefCell;
use std::sync::Arc;

use penstock_sys::file::OpenFile;

/// Sets of ranges that one worker remembers: 32 KiB in all, and a GiB of large files.
const SETS: usize = 256;
/// Ranges of one set. With one place for each range, a sixth of 200 files shared theirs with another and were asked for each
/// time.
const WAYS: usize = 4;

/// Ranges, in sets that file and offset give.
#[derive(Default)]
pub(super) struct Windows(RefCell<Vec<[Window; WAYS]>>);

#[derive(Clone, Copy, Default)]
struct Window {
    /// The address of the file. If another file gets it, its range is believed for the rest of the time.
    file: usize,
    offset: u64,
    len: u64,
    /// In milliseconds of the clock of the residency.
    until: u64,
}

impl Window {
    fn is_of(&self, file: &Arc<OpenFile>, offset: u64) -> bool {
        self.file == address(file) && self.offset == offset
    }
}

impl Windows {
    /// Whether a range was found in memory and is believed to be there still.
    pub(super) fn has(&self, file: &Arc<OpenFile>, offset: u64, len: u64, now: u64) -> bool {
        let windows = self.0.borrow();
        let Some(set) = windows.get(set_of(file, offset)) else { return false };
        set.iter().any(|window| window.is_of(file, offset) && len <= window.len && now < window.until)
    }

    pub(super) fn believe(&self, file: &Arc<OpenFile>, offset: u64, len: u64, until: u64) {
        let mut windows = self.0.borrow_mut();
        if windows.is_empty() {
            windows.resize(SETS, Default::default());
        }
        let set = &mut windows[set_of(file, offset)];
        let known = set.iter().position(|window| window.is_of(file, offset));
        // A range that was never used ends at 0.
        let oldest = || set.iter().zip(0..).min_by_key(|(window, _)| window.until).map_or(0, |(_, way)| way);
        set[known.unwrap_or_else(oldest)] = Window { file: address(file), offset, len, until };
    }
}

fn address(file: &Arc<OpenFile>) -> usize {
    Arc::as_ptr(file).addr()
}

/// The set of a range.
fn set_of(file: &Arc<OpenFile>, offset: u64) -> usize {
    const GOLDEN_RATIO: u64 = 0x9e37_79b9_7f4a_7c15;
    let mixed = (address(file) as u64 ^ offset).wrapping_mul(GOLDEN_RATIO);
    usize::try_from(mixed >> 32).unwrap_or(0) % SETS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hundreds_of_ranges_are_remembered_beside_each_other() {
        let file = Arc::new(OpenFile::from_fd(tempfile::tempfile().unwrap().into()).unwrap());
        let windows = Windows::default();
        let offsets = (0..200).map(|number| number << 20);
        for offset in offsets.clone() {
            windows.believe(&file, offset, 1 << 20, 1000);
        }
        let known = offsets.filter(|&offset| windows.has(&file, offset, 1 << 20, 999)).count();
        assert!(known > 190, "{known} of 200");
    }

    #[test]
    fn a_range_takes_the_place_of_the_one_that_ends_first() {
        let file = Arc::new(OpenFile::from_fd(tempfile::tempfile().unwrap().into()).unwrap());
        let set = set_of(&file, 0);
        let mut offsets = (0..).filter(|&offset| set_of(&file, offset) == set);
        let windows = Windows::default();
        let first: Vec<u64> = offsets.by_ref().take(WAYS).collect();
        for (&offset, until) in first.iter().zip([3, 1, 2, 4]) {
            windows.believe(&file, offset, 1, until);
        }
        let another = offsets.next().unwrap();
        windows.believe(&file, another, 1, 5);
        let known: Vec<bool> = first.iter().map(|&offset| windows.has(&file, offset, 1, 0)).collect();
        assert_eq!(known, [true, false, true, true]);
        assert!(windows.has(&file, another, 1, 4));
    }
}
