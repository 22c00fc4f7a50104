//! One segment: a file that is written once from begin to end, read anywhere, and deleted in the end.
//!
//! A segment is never overwritten. Its readers hold its open file, and an open file keeps its pages after it was deleted:
//! bytes that a socket has not sent yet do not change.

use std::fmt;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use penstock_sys::file::OpenFile;
use penstock_sys::lock::Unpoisoned;
use rustix::fs::{FallocateFlags, fallocate};
use rustix::io::Errno;

use super::format::{
    ENTRY_BYTES, RECORD_HEADER_BYTES, RecordHeader, SEGMENT_HEADER_BYTES, SegmentHeader, TRAILER_BYTES,
    TableEntry, Trailer, UNIT_BYTES,
};
use crate::not_copied::NotCopied;

/// Bytes read and checked at a time: large enough for a disk, small enough for the L2 cache.
const STEP_BYTES: usize = 256 * 1024;

/// A segment for reading.
pub(crate) struct Segment {
    pub(crate) number: u32,
    path: PathBuf,
    /// Bytes that its file takes.
    pub(crate) bytes: AtomicU64,
    open: Mutex<Option<Arc<OpenFile>>>,
    /// Whether its file was or will soon be deleted.
    gone: AtomicBool,
}

/// Why a record cannot be used.
#[derive(Debug)]
pub(crate) enum Unusable {
    /// It is torn, has changed, or is another one.
    Damaged,
    /// The error of the system.
    Io(io::Error),
}

impl From<io::Error> for Unusable {
    fn from(error: io::Error) -> Self {
        // A file that ends early is damaged; its disk is not.
        if error.kind() == io::ErrorKind::UnexpectedEof { Self::Damaged } else { Self::Io(error) }
    }
}

impl Segment {
    pub(crate) fn new(directory: &Path, number: u32, bytes: u64) -> Arc<Self> {
        Arc::new(Self {
            number,
            path: path(directory, number),
            bytes: AtomicU64::new(bytes),
            open: Mutex::new(None),
            gone: AtomicBool::new(false),
        })
    }

    /// Its file, if that is open and was neither deleted nor truncated.
    pub(crate) fn file_if_open(&self) -> Option<Arc<OpenFile>> {
        let file = if self.gone.load(Ordering::Acquire) { None } else { self.open().clone() };
        file.filter(|file| !file.is_truncated())
    }

    /// Its file; opens it, which may wait for the disk. The answer also says whether it was closed before.
    pub(crate) fn file(&self) -> io::Result<(Arc<OpenFile>, bool)> {
        if let Some(file) = self.file_if_open() {
            return Ok((file, false));
        }
        let file = Arc::new(OpenFile::from_fd(File::open(&self.path)?.into())?);
        *self.open() = Some(Arc::clone(&file));
        Ok((file, true))
    }

    /// Closes its file, at the latest with its last reader.
    pub(crate) fn close(&self) {
        let file = self.open().take();
        drop(file);
    }

    /// Deletes it. Readers may finish.
    pub(crate) fn delete(&self) -> io::Result<()> {
        self.gone.store(true, Ordering::Release);
        self.close();
        std::fs::remove_file(&self.path)
    }

    /// Bytes of the slices that it was made for.
    pub(crate) fn slice_bytes(&self) -> Result<u32, Unusable> {
        let mut header = [0; SEGMENT_HEADER_BYTES];
        File::open(&self.path)?.read_exact_at(&mut header, 0)?;
        let header = SegmentHeader::decode(&header).filter(|header| header.number == self.number);
        header.map(|header| header.slice_bytes).ok_or(Unusable::Damaged)
    }

    /// Its records: from its table if it has one, else by looking at each. The bool says whether it has one.
    pub(crate) fn entries(&self, slice_bytes: u32) -> Result<(Vec<TableEntry>, bool), Unusable> {
        let file = File::open(&self.path)?;
        let mut header = [0; SEGMENT_HEADER_BYTES];
        file.read_exact_at(&mut header, 0)?;
        if SegmentHeader::decode(&header) != Some(SegmentHeader { number: self.number, slice_bytes }) {
            return Err(Unusable::Damaged);
        }
        match self.table(&file)? {
            Some(entries) => Ok((entries, true)),
            None => Ok((self.walk(&file)?, false)),
        }
    }

    fn table(&self, file: &File) -> io::Result<Option<Vec<TableEntry>>> {
        let length = file.metadata()?.len();
        let Some(at) = length.checked_sub(TRAILER_BYTES as u64) else { return Ok(None) };
        let mut bytes = [0; TRAILER_BYTES];
        file.read_exact_at(&mut bytes, at)?;
        let trailer = Trailer::decode(&bytes).filter(|trailer| trailer.number == self.number);
        let Some(trailer) = trailer else { return Ok(None) };
        let table_bytes = trailer.entries as usize * ENTRY_BYTES;
        let Some(table_at) = at.checked_sub(table_bytes as u64) else { return Ok(None) };
        let mut table = vec![0; table_bytes];
        file.read_exact_at(&mut table, table_at)?;
        if crc32fast::hash(&table) != trailer.table_checksum {
            return Ok(None);
        }
        Ok(Some(table.chunks_exact(ENTRY_BYTES).filter_map(TableEntry::decode).collect()))
    }

    /// The records one after the other, up to the first that is none.
    fn walk(&self, file: &File) -> io::Result<Vec<TableEntry>> {
        let mut entries = Vec::new();
        let mut at = SEGMENT_HEADER_BYTES as u64;
        let length = file.metadata()?.len();
        loop {
            let mut bytes = [0; RECORD_HEADER_BYTES];
            if at + RECORD_HEADER_BYTES as u64 > length {
                return Ok(entries);
            }
            file.read_exact_at(&mut bytes, at)?;
            let Some(header) = RecordHeader::decode(&bytes, self.number) else { return Ok(entries) };
            let end = at + header.record_bytes();
            let Ok(place) = u32::try_from(at / UNIT_BYTES) else { return Ok(entries) };
            if end > length {
                return Ok(entries);
            }
            entries.push(TableEntry::of(&header, place));
            at = end;
        }
    }

    /// Writes the table of a segment whose writer has ended, and gives the rest of its space back.
    pub(crate) fn finish_for_another(&self, entries: &[TableEntry]) -> Result<(), Unusable> {
        let file = OpenOptions::new().read(true).write(true).open(&self.path)?;
        let end = match entries.last() {
            Some(last) => {
                let at = u64::from(last.place) * UNIT_BYTES;
                at + read_header(&file, at, self.number)?.record_bytes()
            }
            None => SEGMENT_HEADER_BYTES as u64,
        };
        let length = write_table(&file, self.number, entries, end)?;
        self.bytes.store(length, Ordering::Relaxed);
        Ok(())
    }

    /// The header of the record at `offset` (in units), and the metadata that comes with it.
    pub(crate) fn describe(&self, file: &OpenFile, offset: u32) -> Result<(RecordHeader, Vec<u8>), Unusable> {
        let at = u64::from(offset) * UNIT_BYTES;
        let mut bytes = [0; RECORD_HEADER_BYTES];
        read(file, &mut bytes, at)?;
        let header = RecordHeader::decode(&bytes, self.number).ok_or(Unusable::Damaged)?;
        if at + header.record_bytes() > file.len() {
            return Err(Unusable::Damaged);
        }
        let mut metadata = vec![0; header.metadata as usize];
        read(file, &mut metadata, at + RECORD_HEADER_BYTES as u64)?;
        if crc32fast::hash(&metadata) != header.description_checksum {
            return Err(Unusable::Damaged);
        }
        Ok((header, metadata))
    }

    /// Reads the bytes of a record piece by piece, passes them to `take`, and compares their checksum. They are in the
    /// page cache afterwards.
    ///
    /// # Errors
    /// The error of the segment, or that of `take`.
    pub(crate) fn verify<T>(
        &self,
        file: &OpenFile,
        header: &RecordHeader,
        offset: u32,
        mut take: impl FnMut(&[u8]) -> Result<(), T>,
    ) -> Result<(), NotCopied<Unusable, T>> {
        let start = u64::from(offset) * UNIT_BYTES + header.bytes_offset();
        file.read_ahead(start, u64::from(header.length));
        let mut buffer = vec![0; STEP_BYTES.min(header.length as usize)];
        let mut hasher = crc32fast::Hasher::new();
        let mut done = 0;
        while done < header.length as usize {
            let piece = buffer.len().min(header.length as usize - done);
            let read = read(file, &mut buffer[..piece], start + done as u64);
            read.map_err(|error| NotCopied::Source(error.into()))?;
            hasher.update(&buffer[..piece]);
            take(&buffer[..piece]).map_err(NotCopied::Target)?;
            done += piece;
        }
        if hasher.finalize() == header.checksum { Ok(()) } else { Err(NotCopied::Source(Unusable::Damaged)) }
    }

    fn open(&self) -> MutexGuard<'_, Option<Arc<OpenFile>>> {
        self.open.lock().unpoisoned()
    }
}

impl fmt::Debug for Segment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Segment").field("number", &self.number).finish_non_exhaustive()
    }
}

fn read(file: &OpenFile, bytes: &mut [u8], at: u64) -> io::Result<()> {
    let mut done = 0;
    while done < bytes.len() {
        match rustix::io::pread(file.as_fd(), &mut bytes[done..], at + done as u64) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(count) => done += count,
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

fn read_header(file: &File, at: u64, number: u32) -> Result<RecordHeader, Unusable> {
    let mut bytes = [0; RECORD_HEADER_BYTES];
    file.read_exact_at(&mut bytes, at)?;
    RecordHeader::decode(&bytes, number).ok_or(Unusable::Damaged)
}

/// The path of a segment's file.
pub(crate) fn path(directory: &Path, number: u32) -> PathBuf {
    directory.join(format!("segment-{number:09}"))
}

/// The number in the name of a segment's file.
pub(crate) fn number_in(name: &str) -> Option<u32> {
    name.strip_prefix("segment-")?.parse().ok()
}

/// Writes the table behind the last record and cuts the file off there. Returns its length then.
fn write_table(file: &File, number: u32, entries: &[TableEntry], end: u64) -> io::Result<u64> {
    let mut table = Vec::with_capacity(entries.len() * ENTRY_BYTES + TRAILER_BYTES);
    for entry in entries {
        entry.encode(&mut table);
    }
    let trailer = Trailer {
        number,
        entries: u32::try_from(entries.len()).unwrap_or(u32::MAX),
        table_checksum: crc32fast::hash(&table),
    };
    table.extend_from_slice(&trailer.encode());
    // First the length: a table counts only at the end of the file.
    file.set_len(end + table.len() as u64)?;
    file.write_all_at(&table, end)?;
    file.sync_data()?;
    Ok(end + table.len() as u64)
}

/// The segment that is being written.
pub(crate) struct Writing {
    pub(crate) segment: Arc<Segment>,
    file: File,
    space: u64,
    end: u64,
    entries: Vec<TableEntry>,
}

impl Writing {
    /// Makes the file and allocates all its space, so that a full disk is detected here.
    pub(crate) fn begin(directory: &Path, number: u32, slice_bytes: u32, space: u64) -> io::Result<Self> {
        let path = path(directory, number);
        let mut options = OpenOptions::new();
        let file = options.read(true).write(true).create_new(true).mode(0o600).open(&path)?;
        let begun = Self::prepare(file, directory, number, slice_bytes, space);
        if begun.is_err() {
            // It is empty. If it cannot be deleted, the next start finds an empty segment.
            drop(std::fs::remove_file(&path));
        }
        begun
    }

    fn prepare(file: File, directory: &Path, number: u32, slice_bytes: u32, space: u64) -> io::Result<Self> {
        match fallocate(&file, FallocateFlags::empty(), 0, space) {
            // A file system without it: then the file grows as it is written.
            Err(Errno::OPNOTSUPP) => file.set_len(space)?,
            other => other?,
        }
        file.write_all_at(&SegmentHeader { number, slice_bytes }.encode(), 0)?;
        let segment = Segment::new(directory, number, space);
        Ok(Self { segment, file, space, end: SEGMENT_HEADER_BYTES as u64, entries: Vec::new() })
    }

    /// Whether another record of so many bytes fits, with the table.
    pub(crate) fn fits(&self, record_bytes: u64) -> bool {
        let table = (self.entries.len() + 1) * ENTRY_BYTES + TRAILER_BYTES;
        self.end + record_bytes + table as u64 <= self.space
    }

    /// Writes a record and returns its place in units. `fill` gives the bytes piece by piece to its argument, and says
    /// whether they are what they should be; otherwise nothing is visible of them.
    ///
    /// # Errors
    /// The error of `fill`, or that of the disk.
    pub(crate) fn append<S>(
        &mut self,
        header: &RecordHeader,
        metadata: &[u8],
        fill: impl FnOnce(&mut dyn FnMut(&[u8]) -> io::Result<()>) -> Result<(), NotCopied<S, io::Error>>,
    ) -> Result<u32, NotCopied<S, io::Error>> {
        let at = self.end;
        let mut next = at + header.bytes_offset();
        fill(&mut |bytes| {
            self.file.write_all_at(bytes, next)?;
            next += bytes.len() as u64;
            Ok(())
        })?;
        let place = self.write_head(header, metadata, at).map_err(NotCopied::Target)?;
        self.entries.push(TableEntry::of(header, place));
        self.end = at + header.record_bytes();
        Ok(place)
    }

    fn write_head(&self, header: &RecordHeader, metadata: &[u8], at: u64) -> io::Result<u32> {
        self.file.write_all_at(metadata, at + RECORD_HEADER_BYTES as u64)?;
        // The header last: it makes the record visible.
        self.file.write_all_at(&header.encode(self.segment.number), at)?;
        u32::try_from(at / UNIT_BYTES).map_err(|_| io::ErrorKind::FileTooLarge.into())
    }

    /// Writes the table; the segment is full.
    pub(crate) fn finish(self) -> io::Result<()> {
        let length = write_table(&self.file, self.segment.number, &self.entries, self.end)?;
        self.segment.bytes.store(length, Ordering::Relaxed);
        Ok(())
    }
}
