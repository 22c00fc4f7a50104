//! The file that names the popular slices of a tier for the next process.
//!
//! Without it a restart would forget which slices were requested again and again, and evict them like any other: in a
//! simulation 65 of 100 requests were hits before, and 60 in the thousands behind. The file is a hint. It is written at the
//! end of a process and emptied by the next one, so that it is never older than the records; after a crash there is none.
//!
//! It has a checksum of the rest (4 bytes), then the numbers of slots in the order of their eviction, in 4 bytes each, all
//! little endian.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// The file.
pub(super) struct QueueFile(pub(super) File);

/// Bytes of a number, and of the checksum.
const NUMBER_BYTES: usize = 4;

impl QueueFile {
    /// Writes the slots. If that fails there is no hint, which is no error.
    pub(super) fn write(&self, slots: &[u32]) {
        let numbers: Vec<u8> = slots.iter().flat_map(|slot| slot.to_le_bytes()).collect();
        let bytes = [&crc32fast::hash(&numbers).to_le_bytes()[..], &numbers].concat();
        drop(self.0.set_len(0).and_then(|()| self.0.write_all_at(&bytes, 0)));
    }

    /// Reads the slots, at most `most`, and empties the file. `None` if it has none, or is damaged.
    pub(super) fn take(&self, most: u32) -> Option<Vec<u32>> {
        let read = self.read(most).ok();
        self.0.set_len(0).ok()?;
        let bytes = read?;
        let (checksum, numbers) = bytes.split_first_chunk::<NUMBER_BYTES>()?;
        let is_whole = numbers.len().is_multiple_of(NUMBER_BYTES)
            && crc32fast::hash(numbers) == u32::from_le_bytes(*checksum);
        let numbers = numbers.chunks_exact(NUMBER_BYTES).filter_map(|number| number.try_into().ok());
        is_whole.then(|| numbers.map(u32::from_le_bytes).collect())
    }

    fn read(&self, most: u32) -> io::Result<Vec<u8>> {
        let length = usize::try_from(self.0.metadata()?.len()).unwrap_or(usize::MAX);
        if length > NUMBER_BYTES * (1 + most as usize) {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let mut bytes = vec![0; length];
        self.0.read_exact_at(&mut bytes, 0)?;
        Ok(bytes)
    }
}
