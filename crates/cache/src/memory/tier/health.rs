//! Whether the bytes of the tier are as they were written: its file is replaced when it was truncated, and slices are
//! compared with their checksums.

use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use penstock_sys::file::OpenFile;
use penstock_sys::lock::Unpoisoned;
use rustix::fs::{FlockOperation, flock};

use super::{MemoryTier, Owner};
use crate::memory::files::SLICES_NAME;
use crate::memory::holder::ExpectedBytes;
use crate::memory::limits::TierLimits;
use crate::memory::record::Header;
use crate::memory::slice_file::{SliceFile, memory_slices};
use crate::memory::slots::KeptSlice;

/// Bytes read at a time to compare a checksum.
const STEP_BYTES: usize = 256 * 1024;

impl MemoryTier {
    /// The current epoch: slices of another one are compared with their checksum before use.
    pub(in crate::memory) fn epoch(&self) -> u8 {
        self.epoch.load(Ordering::Acquire)
    }

    /// The file that extents of slices of this epoch refer to; `None` if it was truncated. It is replaced then.
    pub(in crate::memory) fn file(&self, epoch: u8) -> Option<Arc<OpenFile>> {
        let file = self.file_of(epoch)?.reading();
        if file.is_truncated() {
            self.recover();
            return None;
        }
        Some(Arc::clone(file))
    }

    /// The file of slices in this epoch.
    pub(super) fn file_of(&self, epoch: u8) -> Option<&SliceFile> {
        self.files.get(usize::from(epoch))?.get()
    }

    /// The file of the current epoch; `None` if it could not be replaced.
    pub(super) fn current_file(&self) -> Option<&SliceFile> {
        self.file_of(self.epoch())
    }

    /// Replaces the file of slices if it was truncated or failed. Readers of the old file fail where it has no bytes, and
    /// all slices are compared with their checksum before they are used again. After 254 times the tier stays out of
    /// service until the next start.
    pub(in crate::memory) fn recover(&self) {
        let _one_at_a_time = self.recovery.lock().unpoisoned();
        let (epoch, current) = (self.epoch(), self.current_file());
        let was_in_service = self.is_in_service();
        if was_in_service && current.is_some_and(SliceFile::is_whole) {
            return;
        }
        // A failed attempt left an epoch without a file. In epoch 0 no slice is trusted.
        let next = if current.is_none() { epoch } else { epoch.checked_add(1).unwrap_or(0) };
        // A tier that a successor has is not replaced by this process.
        let is_usable = next > 0
            && *self.owner() == Owner::This
            && self.another_file().is_ok_and(|file| self.files[usize::from(next)].set(file).is_ok());
        self.in_service.store(is_usable, Ordering::Relaxed);
        self.epoch.store(next, Ordering::SeqCst);
        // Last: who sees the count sees no slice of the old file.
        self.counts.reopened.fetch_add(u64::from(was_in_service), Ordering::SeqCst);
        let old = if is_usable { current.and_then(SliceFile::emptied_on_drop) } else { None };
        if let Some(old) = old {
            // On another thread: giving back gigabytes takes a while.
            self.drop_later(Box::new(old));
        }
    }

    /// A new file of slices, which the next process finds.
    fn another_file(&self) -> io::Result<SliceFile> {
        let bytes = self.layout.file_bytes();
        let Some(directory) = &self.directory else { return memory_slices(bytes) };
        directory.replace_file(SLICES_NAME, |[writing, reading]| {
            // Before it has its name, so that no other process can be first.
            flock(&writing, FlockOperation::NonBlockingLockExclusive)?;
            writing.set_len(bytes)?;
            let inode = writing.metadata()?.ino();
            let TierLimits { bytes, slice_bytes, .. } = self.limits;
            let header = Header { bytes, slice_bytes, slots: self.layout.slots(), inode };
            self.records.write_all_at(&header.encode(), 0)?;
            Ok(SliceFile::new(OpenFile::from_fd(reading.into())?, writing))
        })
    }

    /// Whether the file of slices can be used.
    pub(in crate::memory) fn is_in_service(&self) -> bool {
        self.in_service.load(Ordering::Relaxed)
    }

    /// Whether the bytes of a slot are as expected in this epoch. Blocks for as long as reading memory takes.
    pub(in crate::memory) fn is_as_expected(&self, epoch: u8, number: u32, expected: ExpectedBytes) -> bool {
        let Some(file) = self.file_of(epoch) else { return false };
        let mut buffer = vec![0; STEP_BYTES.min(expected.length as usize)];
        let mut hasher = crc32fast::Hasher::new();
        let (mut left, mut at) = (expected.length as usize, self.start(number));
        while left > 0 {
            let piece = buffer.len().min(left);
            if file.read(&mut buffer[..piece], at).is_err() {
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
    pub(in crate::memory) fn scrub(&self, kept: &KeptSlice) -> u64 {
        let Some(holder) = kept.holder.upgrade() else { return 0 };
        let Some(expected) = holder.expected(kept.slice) else { return 0 };
        let is_right = self.is_as_expected(self.epoch(), kept.slot, expected);
        // It may have been released while it was read.
        if !is_right && self.slots().is_kept(kept.slot, kept.generation) {
            self.count_damaged();
            holder.release_slice(kept.slice);
        }
        self.counts.scrubbed_bytes.fetch_add(expected.length.into(), Ordering::Relaxed);
        expected.length.into()
    }
}
