//! Whether the bytes of the tier are as they were written: its file is opened again when it was truncated, and slices are
//! compared with their checksums.

use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

use penstock_sys::file::OpenFile;

use super::MemoryTier;
use crate::memory::holder::ExpectedBytes;
use crate::memory::slots::Entry;

/// Bytes read at a time to compare a checksum.
const STEP_BYTES: usize = 256 * 1024;

impl MemoryTier {
    /// The current epoch: slices of another one are compared with their checksum before use.
    pub(in crate::memory) fn epoch(&self) -> u8 {
        self.epoch.load(Ordering::Acquire)
    }

    /// The file that extents refer to; `None` if it was truncated. It is opened again then.
    pub(in crate::memory) fn file(&self) -> Option<Arc<OpenFile>> {
        let file = self.current_file()?;
        if file.is_truncated() {
            self.recover();
            return None;
        }
        Some(Arc::clone(file))
    }

    fn current_file(&self) -> Option<&Arc<OpenFile>> {
        self.files.get(usize::from(self.epoch()))?.get()
    }

    /// Opens the file of slices again if it was truncated or failed. All slices are compared with their checksum before
    /// they are used again. After 254 times the tier stays out of service until the next start.
    pub(in crate::memory) fn recover(&self) {
        let _one_at_a_time = self.recovery.lock().unwrap_or_else(PoisonError::into_inner);
        let expected = self.layout.file_bytes();
        let is_whole = self.writing.metadata().is_ok_and(|now| now.len() == expected);
        let was_in_service = self.is_in_service();
        let is_truncated = self.current_file().is_none_or(|file| file.is_truncated());
        if is_whole && was_in_service && !is_truncated {
            return;
        }
        self.counts.reopened.fetch_add(u64::from(was_in_service), Ordering::Relaxed);
        let reopened = self
            .writing
            .set_len(expected)
            .and_then(|()| self.writing.try_clone())
            .and_then(|file| OpenFile::from_fd(file.into()));
        let epoch = self.epoch();
        // A failed attempt left an epoch without a file. In epoch 0 no slice is trusted.
        let next = if self.current_file().is_none() { epoch } else { epoch.checked_add(1).unwrap_or(0) };
        let is_usable =
            next > 0 && reopened.is_ok_and(|file| self.files[usize::from(next)].set(Arc::new(file)).is_ok());
        self.in_service.store(is_usable, Ordering::Relaxed);
        self.epoch.store(next, Ordering::SeqCst);
    }

    /// Whether the file of slices can be used.
    pub(in crate::memory) fn is_in_service(&self) -> bool {
        self.in_service.load(Ordering::Relaxed)
    }

    /// Whether the bytes of a slot are as expected. Blocks for as long as reading memory takes.
    pub(in crate::memory) fn is_as_expected(&self, number: u32, expected: ExpectedBytes) -> bool {
        let mut buffer = vec![0; STEP_BYTES.min(expected.length as usize)];
        let mut hasher = crc32fast::Hasher::new();
        let (mut left, mut at) = (expected.length as usize, self.start(number));
        while left > 0 {
            let piece = buffer.len().min(left);
            if self.read(&mut buffer[..piece], at).is_err() {
                return false;
            }
            hasher.update(&buffer[..piece]);
            left -= piece;
            at += piece as u64;
        }
        hasher.finalize() == expected.checksum
    }

    /// Counts a slice whose bytes have changed.
    pub(in crate::memory) fn count_damaged(&self) {
        self.counts.damaged.fetch_add(1, Ordering::Relaxed);
    }

    /// Compares a slice with its checksum; gives it up if it has changed. Returns its length.
    pub(in crate::memory) fn scrub(&self, kept: &Entry) -> u64 {
        let Some(holder) = kept.holder.upgrade() else { return 0 };
        let Some(expected) = holder.expected(kept.slice) else { return 0 };
        let is_right = self.is_as_expected(kept.slot, expected);
        // It may have been released while it was read.
        if !is_right && self.slots().is_kept(kept.slot, kept.generation) {
            self.count_damaged();
            holder.release_slice(kept.slice);
        }
        self.counts.scrubbed_bytes.fetch_add(expected.length.into(), Ordering::Relaxed);
        expected.length.into()
    }
}
