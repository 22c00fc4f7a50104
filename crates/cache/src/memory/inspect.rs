//! Looking at a memory tier from outside.

use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;

use super::record::{Header, RECORD_BYTES, SlotRecord, place};
use super::restore::{RECORDS_NAME, SLICES_NAME};
use super::slot::description_offset;
use super::{DESCRIPTION_ROOM_BYTES, stride};
use crate::inspect::{Contents, Depth, Gathered};

/// A block as `stat` counts them.
const BLOCK_BYTES: u64 = 512;

struct Files {
    records: File,
    slices: File,
    header: Header,
}

/// See [`crate::inspect::memory`].
pub(crate) fn inspect(directory: &Path, depth: Depth) -> io::Result<Contents> {
    let records = File::open(directory.join(RECORDS_NAME))?;
    let slices = File::open(directory.join(SLICES_NAME))?;
    let file_bytes = slices.metadata()?.blocks() * BLOCK_BYTES;
    let mut header = [0; 28];
    let read = records.read_exact_at(&mut header, 0);
    let header = read.ok().and_then(|()| Header::decode(&header));
    let header = header.filter(|header| slices.metadata().is_ok_and(|slices| slices.ino() == header.inode));
    let header = header.ok_or_else(|| io::Error::other("its records are damaged or of another version"))?;
    let files = Files { records, slices, header };
    let mut contents = Contents { file_bytes, ..Contents::default() };
    let mut gathered = Gathered::default();
    // A few pages of records at a time.
    let mut buffer = vec![0; 1024 * RECORD_BYTES];
    for first in (0..header.slots).step_by(1024) {
        let count = (header.slots - first).min(1024) as usize;
        let bytes = &mut buffer[..count * RECORD_BYTES];
        files.records.read_exact_at(bytes, place(first))?;
        for (number, bytes) in (first..).zip(bytes.chunks_exact(RECORD_BYTES)) {
            if let Some(record) = SlotRecord::decode(bytes) {
                files.take_in(number, &record, depth, &mut gathered, &mut contents)?;
            }
        }
    }
    gathered.into_contents(&mut contents);
    Ok(contents)
}

impl Files {
    fn take_in(
        &self,
        number: u32,
        record: &SlotRecord,
        depth: Depth,
        gathered: &mut Gathered,
        contents: &mut Contents,
    ) -> io::Result<()> {
        if depth == Depth::Verify && !self.is_right(number, record)? {
            // A server may have given the slot to another slice while we looked.
            if self.still_says(number, record)? {
                contents.damaged += 1;
            }
            return Ok(());
        }
        let Some(found) = gathered.object(record.key, record.object) else { return Ok(()) };
        found.slices += 1;
        found.bytes += u64::from(record.length);
        found.length = found.length.max(record.object_length);
        if depth == Depth::Describe && found.description.is_empty() {
            found.description = self.description(number, record)?.unwrap_or_default();
        }
        Ok(())
    }

    fn is_right(&self, number: u32, record: &SlotRecord) -> io::Result<bool> {
        let length = record.length.min(self.header.slice_bytes) as usize;
        let mut bytes = vec![0; length];
        self.slices.read_exact_at(&mut bytes, self.start(number))?;
        let described = self.description(number, record)?.is_some();
        Ok(described && crc32fast::hash(&bytes) == record.checksum)
    }

    fn still_says(&self, number: u32, record: &SlotRecord) -> io::Result<bool> {
        let mut bytes = [0; RECORD_BYTES];
        self.records.read_exact_at(&mut bytes, place(number))?;
        Ok(SlotRecord::decode(&bytes).as_ref() == Some(record))
    }

    fn description(&self, number: u32, record: &SlotRecord) -> io::Result<Option<Vec<u8>>> {
        let mut bytes = vec![0; (record.description as usize).min(DESCRIPTION_ROOM_BYTES)];
        let at = self.start(number) + description_offset(record.length.min(self.header.slice_bytes));
        self.slices.read_exact_at(&mut bytes, at)?;
        Ok((crc32fast::hash(&bytes) == record.description_checksum).then_some(bytes))
    }

    fn start(&self, number: u32) -> u64 {
        u64::from(number) * stride(self.header.slice_bytes)
    }
}
