//! Inspects a memory tier from outside.

use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;

use super::files::{KEY_NAME, RECORDS_NAME, SLICES_NAME};
use super::layout::SlotLayout;
use super::limits::{DESCRIPTION_BYTES_MAX, TierLimits};
use super::record::{Header, RECORD_BYTES, RecordKey, SECRET_BYTES, SlotRecord, place};
use super::record_file::{for_each_record, read_header};
use super::slot::description_offset;
use crate::contents::{Contents, Depth, Gathered};

/// A block as `stat` counts them.
const BLOCK_BYTES: u64 = 512;

struct Files {
    records: File,
    slices: File,
    layout: SlotLayout,
    slice_bytes: u32,
    key: RecordKey,
}

/// See [`crate::inspect::memory`].
pub(crate) fn inspect(directory: &Path, depth: Depth) -> io::Result<Contents> {
    let records = File::open(directory.join(RECORDS_NAME))?;
    let slices = File::open(directory.join(SLICES_NAME))?;
    let mut secret = [0; SECRET_BYTES];
    File::open(directory.join(KEY_NAME))?.read_exact_at(&mut secret, 0)?;
    let file_bytes = slices.metadata()?.blocks() * BLOCK_BYTES;
    let damaged = || io::Error::other("its records are damaged or of another version");
    let header = read_header(&records)?.ok_or_else(damaged)?;
    if slices.metadata()?.ino() != header.inode || header.slice_bytes == 0 {
        return Err(damaged());
    }
    let Header { bytes, slice_bytes, .. } = header;
    let layout = SlotLayout::new(TierLimits { bytes, slice_bytes, scrub_bytes_per_second: 0 });
    let key = RecordKey::new(secret);
    let files = Files { records, slices, layout, slice_bytes, key };
    let mut contents = Contents { file_bytes, ..Contents::default() };
    let mut gathered = Gathered::default();
    let slots = header.slots.min(files.layout.slots());
    for_each_record(&files.records, slots, key, |number, record| {
        files.add(number, &record, depth, &mut gathered, &mut contents)
    })?;
    gathered.into_contents(&mut contents);
    Ok(contents)
}

impl Files {
    fn add(
        &self,
        number: u32,
        record: &SlotRecord,
        depth: Depth,
        gathered: &mut Gathered,
        contents: &mut Contents,
    ) -> io::Result<()> {
        if depth == Depth::Verify && !self.is_right(number, record)? {
            // A server may have given the slot to another slice meanwhile.
            if self.still_says(number, record)? {
                contents.damaged += 1;
            }
            return Ok(());
        }
        let Some(found) = gathered.object(record.key, record.object) else { return Ok(()) };
        found.slices += 1;
        found.bytes += u64::from(record.length);
        found.length = found.length.max(record.object_length);
        if depth == Depth::Metadata && found.metadata.is_empty() {
            found.metadata = self.metadata(number, record)?.unwrap_or_default();
        }
        Ok(())
    }

    fn is_right(&self, number: u32, record: &SlotRecord) -> io::Result<bool> {
        let length = record.length.min(self.slice_bytes) as usize;
        let mut bytes = vec![0; length];
        if !self.read(&mut bytes, self.start(number))? {
            return Ok(false);
        }
        let described = self.metadata(number, record)?.is_some();
        Ok(described && crc32fast::hash(&bytes) == record.checksum)
    }

    fn still_says(&self, number: u32, record: &SlotRecord) -> io::Result<bool> {
        let mut bytes = [0; RECORD_BYTES];
        self.records.read_exact_at(&mut bytes, place(number))?;
        Ok(SlotRecord::decode(&bytes, number, self.key).as_ref() == Some(record))
    }

    fn metadata(&self, number: u32, record: &SlotRecord) -> io::Result<Option<Vec<u8>>> {
        let mut bytes = vec![0; (record.metadata as usize).min(DESCRIPTION_BYTES_MAX)];
        let at = self.start(number) + description_offset(record.length.min(self.slice_bytes));
        if !self.read(&mut bytes, at)? {
            return Ok(None);
        }
        Ok((crc32fast::hash(&bytes) == record.description_checksum).then_some(bytes))
    }

    /// Reads bytes of the slices. False if the file ends before them.
    fn read(&self, bytes: &mut [u8], at: u64) -> io::Result<bool> {
        match self.slices.read_exact_at(bytes, at) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn start(&self, number: u32) -> u64 {
        self.layout.start(number)
    }
}
