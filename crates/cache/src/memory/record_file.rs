//! Reads the file of records.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use rustix::fs::SeekFrom;
use rustix::io::Errno;

use super::record::{ENCODED_HEADER_BYTES, HEADER_BYTES, Header, RECORD_BYTES, RecordKey, SlotRecord, place};

/// Records read at a time.
const STEP_RECORDS: u64 = 4096;

/// The header of a file; `None` if it is damaged or of another format.
pub(super) fn read_header(file: &File) -> io::Result<Option<Header>> {
    let mut bytes = [0; ENCODED_HEADER_BYTES];
    match file.read_exact_at(&mut bytes, 0) {
        Ok(()) => Ok(Header::decode(&bytes)),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(None),
        Err(error) => Err(error),
    }
}

/// The length of a file with so many records.
pub(super) fn file_bytes(slots: u32) -> u64 {
    HEADER_BYTES + u64::from(slots) * RECORD_BYTES as u64
}

/// Calls `take` with each record and its slot. Holes, which most of a file may be, are not read.
pub(super) fn for_each_record<E: From<io::Error>>(
    file: &File,
    slots: u32,
    key: RecordKey,
    mut take: impl FnMut(u32, SlotRecord) -> Result<(), E>,
) -> Result<(), E> {
    let mut buffer = Vec::new();
    let mut next = 0;
    while let Some((from, to)) = data(file, place(next), file_bytes(slots))? {
        // Records do not lie across the borders of data, which are those of pages.
        let first = (from - HEADER_BYTES) / RECORD_BYTES as u64;
        let last = (to - HEADER_BYTES).div_ceil(RECORD_BYTES as u64).min(u64::from(slots));
        let count = (last - first).min(STEP_RECORDS);
        buffer.resize(usize::try_from(count).unwrap_or(0) * RECORD_BYTES, 0);
        let first = u32::try_from(first).unwrap_or(u32::MAX);
        file.read_exact_at(&mut buffer, place(first))?;
        for (slot, bytes) in (first..).zip(buffer.chunks_exact(RECORD_BYTES)) {
            if let Some(record) = SlotRecord::decode(bytes, slot, key) {
                take(slot, record)?;
            }
        }
        next = first + u32::try_from(count).unwrap_or(0);
    }
    Ok(())
}

/// The next range with data of a file, between two offsets.
pub(super) fn data(file: &File, from: u64, end: u64) -> io::Result<Option<(u64, u64)>> {
    if from >= end {
        return Ok(None);
    }
    let begins = match rustix::fs::seek(file, SeekFrom::Data(from)) {
        Ok(begins) if begins < end => begins,
        Ok(_) | Err(Errno::NXIO) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let ends = rustix::fs::seek(file, SeekFrom::Hole(begins))?;
    Ok(Some((begins, ends.min(end))))
}
