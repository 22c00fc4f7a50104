//! The place of one slice, and of the description of its object behind it.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering};

use penstock_sys::file::Extent;

use super::record::SlotRecord;
use super::{DESCRIPTION_ROOM_BYTES, MemoryTier, PAGE_BYTES};

/// The place of one slice. Its bytes stay as they are for as long as anybody holds it.
pub(crate) struct Slot {
    pub(super) tier: Arc<MemoryTier>,
    pub(super) number: u32,
    pub(super) generation: u32,
    pub(super) reserved: AtomicU64,
    written: AtomicU32,
    checksum: AtomicU32,
    /// Whether a record tells the next process of it.
    recorded: AtomicBool,
    /// Requests so far, as many as matter.
    requests: AtomicU8,
    /// Whether it is on a disk too, or about to be.
    pub(crate) on_disk: AtomicBool,
}

/// Requests that are counted. Whoever has had so many is looked up on the disks once more: what stays in memory all
/// the time is never read from there, and one day the segment that it was written to is the oldest.
const REQUESTS_MAX: u8 = 200;
/// Bytes read at a time.
const STEP_BYTES: usize = 256 * 1024;

/// What a slot is written down with.
pub(crate) struct Note<'n> {
    pub(crate) record: SlotRecord,
    pub(crate) description: &'n [u8],
}

impl Slot {
    pub(super) fn empty(tier: &Arc<MemoryTier>, number: u32, generation: u32, reserved: u64) -> Arc<Self> {
        Arc::new(Self {
            tier: Arc::clone(tier),
            number,
            generation,
            reserved: AtomicU64::new(reserved),
            written: AtomicU32::new(0),
            checksum: AtomicU32::new(0),
            recorded: AtomicBool::new(false),
            requests: AtomicU8::new(0),
            on_disk: AtomicBool::new(false),
        })
    }

    /// A slot as an earlier process left it.
    pub(super) fn restored(tier: &Arc<MemoryTier>, number: u32, record: &SlotRecord) -> Arc<Self> {
        let reserved =
            (description_offset(record.length) + u64::from(record.description)).next_multiple_of(PAGE_BYTES);
        Arc::new(Self {
            tier: Arc::clone(tier),
            number,
            generation: 0,
            reserved: AtomicU64::new(reserved),
            written: AtomicU32::new(record.length),
            checksum: AtomicU32::new(record.checksum),
            recorded: AtomicBool::new(true),
            // Somebody asked for it in the life before.
            requests: AtomicU8::new(1),
            on_disk: AtomicBool::new(false),
        })
    }

    /// Writes behind what is written already, as much as has room. Only the one fill of the slice calls this.
    pub(crate) fn append(&self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.written.load(Ordering::Relaxed);
        let room = (self.tier.limits.slice_bytes - written) as usize;
        let bytes = &bytes[..bytes.len().min(room)];
        self.tier.write(bytes, self.start() + u64::from(written))?;
        // Now that they are in the processor's cache; the disk tier and the next process want to know.
        let mut hasher = crc32fast::Hasher::new_with_initial(self.checksum.load(Ordering::Relaxed));
        hasher.update(bytes);
        self.checksum.store(hasher.finalize(), Ordering::Relaxed);
        let total = written + u32::try_from(bytes.len()).unwrap_or(u32::MAX);
        self.written.store(total, Ordering::Release);
        Ok(bytes.len())
    }

    /// Gives back what was reserved and not written.
    pub(crate) fn settle(&self) {
        let needed = u64::from(self.written()).next_multiple_of(PAGE_BYTES);
        self.tier.account(self.reserved.swap(needed, Ordering::Relaxed), needed);
    }

    /// Writes down what is here, for the next process. A description that is too long is not written, and the slice
    /// then ends with this process.
    pub(crate) fn note(&self, note: &Note<'_>) {
        let (length, description) = (self.written(), note.description);
        if description.len() > DESCRIPTION_ROOM_BYTES {
            return;
        }
        let at = description_offset(length);
        let needed = (at + description.len() as u64).next_multiple_of(PAGE_BYTES);
        self.tier.account(self.reserved.swap(needed, Ordering::Relaxed), needed);
        let record = SlotRecord {
            length,
            checksum: self.checksum(),
            description: u32::try_from(description.len()).unwrap_or(u32::MAX),
            description_checksum: crc32fast::hash(description),
            ..note.record
        };
        // First what it speaks of, then the record. One that could not be written is none.
        if self.tier.write(description, self.start() + at).is_ok() {
            self.recorded.store(true, Ordering::Relaxed);
            self.tier.write_record(self.number, &record.encode());
        }
    }

    /// The next process is not to know of it.
    pub(crate) fn strike_out(&self) {
        if self.recorded.swap(false, Ordering::Relaxed) {
            self.tier.clear_record(self.number);
        }
    }

    /// The description that an earlier process wrote; `None` if it is damaged.
    pub(crate) fn description(&self, record: &SlotRecord) -> Option<Vec<u8>> {
        let length = (record.description as usize).min(DESCRIPTION_ROOM_BYTES);
        let mut bytes = vec![0; length];
        self.tier.read(&mut bytes, self.start() + description_offset(record.length)).ok()?;
        (crc32fast::hash(&bytes) == record.description_checksum).then_some(bytes)
    }

    pub(crate) fn written(&self) -> u32 {
        self.written.load(Ordering::Acquire)
    }

    /// Checksum of the bytes that are written.
    pub(crate) fn checksum(&self) -> u32 {
        self.checksum.load(Ordering::Relaxed)
    }

    /// Bytes of the slice in the tier's file; `None` if they are not written.
    pub(crate) fn extent(&self, range: std::ops::Range<u32>) -> Option<Extent> {
        if range.start > range.end || range.end > self.written() {
            return None;
        }
        let offset = self.start() + u64::from(range.start);
        Extent::new(Arc::clone(&self.tier.reading), offset, u64::from(range.end - range.start))
    }

    /// Counts a request, and says which it was. The first is what the slice was fetched for and no sign of more.
    pub(crate) fn count_request(&self) -> u8 {
        let before = self.requests.load(Ordering::Relaxed);
        if before > 0 {
            self.tier.uses[self.number as usize].add();
        }
        let mut now = before.saturating_add(1);
        if now > REQUESTS_MAX {
            self.on_disk.store(false, Ordering::Relaxed);
            now = 2;
        }
        // Two at the same moment may count as one.
        self.requests.store(now, Ordering::Relaxed);
        now
    }

    /// Requests so far.
    pub(crate) fn requests(&self) -> u8 {
        self.requests.load(Ordering::Relaxed)
    }

    /// Gives all bytes to `put`, piece by piece, and returns their checksum.
    pub(crate) fn copy_to(&self, put: &mut dyn FnMut(&[u8]) -> io::Result<()>) -> io::Result<u32> {
        let length = self.written() as usize;
        let mut buffer = vec![0; STEP_BYTES.min(length)];
        let mut hasher = crc32fast::Hasher::new();
        let mut done = 0;
        while done < length {
            let piece = buffer.len().min(length - done);
            self.tier.read(&mut buffer[..piece], self.start() + done as u64)?;
            hasher.update(&buffer[..piece]);
            put(&buffer[..piece])?;
            done += piece;
        }
        Ok(hasher.finalize())
    }

    pub(super) fn start(&self) -> u64 {
        u64::from(self.number) * self.tier.stride()
    }
}

/// Where the description begins: behind the bytes, and often in their last page.
pub(super) fn description_offset(length: u32) -> u64 {
    u64::from(length).next_multiple_of(8)
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.tier.clone().release(self);
    }
}

impl fmt::Debug for Slot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Slot").field("number", &self.number).finish_non_exhaustive()
    }
}
