//! The file of slices, as one epoch of the tier has it.
//!
//! A file that was truncated is never made longer again: what it lost would read as zeros, and readers of the epoch still
//! send from it. It is replaced by another file instead, and reads behind its end go on failing.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use penstock_sys::file::OpenFile;
use rustix::fs::{FallocateFlags, fallocate};

use super::files::{allocated_bytes, memory_file};
use super::record_file::data;

/// A file of slices.
pub(super) struct SliceFile {
    reading: Arc<OpenFile>,
    writing: File,
}

/// Why bytes were not written to the memory tier.
#[derive(Debug)]
pub(crate) enum WriteError {
    /// The file system or the tier has no space.
    Full,
    /// The file was truncated or replaced, so that earlier bytes are lost too.
    Lost,
    /// The error of the system.
    System(io::Error),
}

impl From<io::Error> for WriteError {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Self::Full,
            _ => Self::System(error),
        }
    }
}

impl SliceFile {
    /// A file that was opened twice; it has its final length.
    pub(super) fn new(reading: OpenFile, writing: File) -> Self {
        Self { reading: Arc::new(reading), writing }
    }

    /// The file that extents refer to.
    pub(super) fn reading(&self) -> &Arc<OpenFile> {
        &self.reading
    }

    /// Whether it has all its bytes, as far as its length and reads so far tell.
    pub(super) fn is_whole(&self) -> bool {
        !self.reading.is_truncated() && self.has_its_length()
    }

    fn has_its_length(&self) -> bool {
        self.writing.metadata().is_ok_and(|now| now.len() == self.reading.len())
    }

    /// Writes bytes within its length.
    ///
    /// # Errors
    /// See [`WriteError`].
    pub(super) fn write(&self, bytes: &[u8], at: u64) -> Result<(), WriteError> {
        // Writing behind the end of a truncated file makes it longer, with zeros in front.
        if !self.is_whole() {
            return Err(WriteError::Lost);
        }
        self.writing.write_all_at(bytes, at)?;
        if !self.has_its_length() {
            // It was truncated between the two. Its length is that of the write now.
            drop(self.writing.set_len(0));
            return Err(WriteError::Lost);
        }
        Ok(())
    }

    pub(super) fn read(&self, bytes: &mut [u8], at: u64) -> io::Result<()> {
        self.writing.read_exact_at(bytes, at)
    }

    /// Gives the pages of a range back to the system.
    pub(super) fn punch(&self, range: &Range<u64>) -> io::Result<()> {
        punch(&self.writing, range)
    }

    /// The descriptor, for the space of its file system.
    pub(super) fn file(&self) -> &File {
        &self.writing
    }

    /// Empties the file when it is dropped: nothing in it is used any more, and its pages are memory.
    pub(super) fn emptied_on_drop(&self) -> Option<EmptiedFile> {
        // Without a page there is nothing to do.
        let has_pages = allocated_bytes(&self.writing).is_ok_and(|bytes| bytes > 0);
        if has_pages { self.writing.try_clone().ok().map(EmptiedFile) } else { None }
    }
}

/// A file that loses its bytes with this. Takes as long as giving back its pages.
pub(super) struct EmptiedFile(File);

impl Drop for EmptiedFile {
    fn drop(&mut self) {
        // If it stays, its pages go with the process.
        drop(self.0.set_len(0));
    }
}

/// A file of slices that has no name in any directory.
pub(super) fn memory_slices(bytes: u64) -> io::Result<SliceFile> {
    let writing = memory_file(bytes)?;
    let reading = OpenFile::from_fd(writing.try_clone()?.into())?;
    Ok(SliceFile::new(reading, writing))
}

/// Gives the pages of a range back to the system.
pub(super) fn punch(file: &File, range: &Range<u64>) -> io::Result<()> {
    let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    Ok(fallocate(file, flags, range.start, range.end - range.start)?)
}

/// Gives back the pages of a range, if there are any. Looking is cheaper than punching.
pub(super) fn punch_data(file: &File, range: &Range<u64>) -> io::Result<()> {
    if data(file, range.start, range.end)?.is_none() { Ok(()) } else { punch(file, range) }
}
