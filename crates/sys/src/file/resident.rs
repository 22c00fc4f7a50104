//! Asking whether bytes are in the page cache, and bringing them there.
//!
//! A worker that reads a mapped page which is not in memory sleeps until the disk has it, and every viewer of
//! that core with it. So it asks first. There are three ways to ask on Linux; costs are for 1 MiB in memory:
//!
//! - `cachestat` (Linux 6.5) counts the cached pages of a range in one call: about 0.5 µs on file systems with
//!   large folios, 7 µs where each page stands alone (tmpfs). It needs to own the file or be allowed to write
//!   it, and it counts pages whose read from the disk is still under way.
//! - `preadv2` with `RWF_NOWAIT` says the truth about one page for 0.8 µs, needs no rights, and starts reading
//!   the page if it is not there. Asking for every page would cost more than copying the bytes, so it is asked
//!   in steps, and a page dropped between two steps goes unseen.
//! - `mincore` is not used: to a caller that may not write the file it reports every page as present.
//!
//! With `cachestat`, `RWF_NOWAIT` is asked in wide steps as well, to notice reads under way (4 µs together).
//! Without, it is asked alone, in narrow steps (14 µs).

use std::io;
use std::io::IoSliceMut;
use std::num::NonZeroU64;
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::Advice;
use rustix::io::{Errno, ReadWriteFlags};

use super::{OpenFile, Truncated};

/// Both ways of asking may be tried on this file.
pub(super) const UNTRIED: u8 = 0;
/// `cachestat` refuses this file.
const NO_CACHESTAT: u8 = 1;
/// The file system does not know `RWF_NOWAIT`.
const NO_NOWAIT: u8 = 2;
/// The file system lives in memory; only set along with the other two.
const IN_MEMORY: u8 = 4;

/// `cachestat` has this number on every architecture with the unified table.
const SYS_CACHESTAT: libc::c_long = 451;

/// Step of `RWF_NOWAIT` where it is the only answer.
const NARROW_STEP_BYTES: u64 = 64 * 1024;
/// Step of `RWF_NOWAIT` where it only looks for reads under way, which are 128 KiB or more.
const WIDE_STEP_BYTES: u64 = 256 * 1024;

/// The kernel cuts one request to read ahead to the device's limit, which is 128 KiB unless it was raised.
const ADVICE_BYTES: u64 = 128 * 1024;
/// Buffer that [`OpenFile::load`] reads into: large enough to make calls rare, small enough for the L2 cache.
const SCRATCH_BYTES: usize = 64 * 1024;

impl OpenFile {
    /// Whether these bytes are in the page cache, without waiting for a disk.
    ///
    /// For 1 MiB in memory it takes about 5 µs where `cachestat` answers (Linux 6.5, and the file is ours or
    /// writable) and 14 µs where it does not; a small file takes 1 to 2 µs.
    ///
    /// The answer is a snapshot, and not exact: a page may be dropped right after, and without `cachestat` a
    /// single dropped page may go unseen. Files in memory (tmpfs) are resident unless swapped out, which only
    /// `cachestat` can tell; it also calls their holes absent. Where the kernel gives no way to ask, the answer
    /// is `false`.
    ///
    /// # Errors
    /// The error of the system, for example that the disk failed.
    pub fn is_resident(&self, offset: u64, len: u64) -> io::Result<bool> {
        let len = len.min(self.len().saturating_sub(offset));
        if len == 0 {
            return Ok(true);
        }
        match self.all_pages_cached(offset, len)? {
            Some(false) => Ok(false),
            Some(true) => Ok(self.answers_at_once(offset, len, WIDE_STEP_BYTES)?.unwrap_or(true)),
            None => match self.answers_at_once(offset, len, NARROW_STEP_BYTES)? {
                Some(answer) => Ok(answer),
                None => self.is_in_memory(),
            },
        }
    }

    /// Brings these bytes into the page cache and returns when they are there. Blocks: for I/O threads only.
    ///
    /// It asks for the whole range first, so that the disk sees all of it at once, and then waits by reading
    /// everything into a scratch buffer. Populating the mapping (`MADV_POPULATE_READ`) would save the copy, but
    /// needs Linux 5.14, reads in smaller pieces, and fills page tables that `sendfile` never uses.
    ///
    /// # Errors
    /// `UnexpectedEof` if the file is shorter than `offset + len`, or what the disk said.
    pub fn load(&self, offset: u64, len: u64) -> io::Result<()> {
        self.read_ahead(offset, len);
        let end = offset.saturating_add(len);
        let mut scratch = vec![0; SCRATCH_BYTES];
        let mut at = offset;
        while at < end {
            let wanted = usize::try_from(end - at).unwrap_or(SCRATCH_BYTES).min(SCRATCH_BYTES);
            match rustix::io::pread(&self.fd, &mut scratch[..wanted], at) {
                Ok(0) => return Err(Truncated.into()),
                Ok(n) => at += n as u64,
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Asks the kernel to read these bytes soon and does not wait for them; may still wait for a place in the
    /// disk's queue or for the file's map of blocks: for I/O threads only.
    pub fn read_ahead(&self, offset: u64, len: u64) {
        let end = offset.saturating_add(len).min(self.len());
        let mut at = offset;
        while at < end {
            let n = ADVICE_BYTES.min(end - at);
            if rustix::fs::fadvise(&self.fd, at, NonZeroU64::new(n), Advice::WillNeed).is_err() {
                // Only a hint, which some file systems do not take.
                return;
            }
            at += n;
        }
    }

    /// The result of `cachestat`, or `None` if this system has none.
    fn all_pages_cached(&self, offset: u64, len: u64) -> io::Result<Option<bool>> {
        static MISSING: AtomicBool = AtomicBool::new(false);
        if self.knows(NO_CACHESTAT) || MISSING.load(Ordering::Relaxed) {
            return Ok(None);
        }
        match cachestat(self.fd.as_raw_fd(), offset, len) {
            Ok(cached) => {
                let page = crate::map::page_bytes() as u64;
                let pages = (offset + len).div_ceil(page) - offset / page;
                Ok(Some(cached >= pages))
            }
            Err(Errno::NOSYS) => {
                MISSING.store(true, Ordering::Relaxed);
                Ok(None)
            }
            // Not ours to write; or a container's filter; or huge pages.
            Err(Errno::PERM | Errno::ACCESS | Errno::OPNOTSUPP) => {
                self.learn(NO_CACHESTAT);
                Ok(None)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Whether reads of one byte at each step and of the last byte need no waiting, or `None` if the file
    /// system cannot say.
    fn answers_at_once(&self, offset: u64, len: u64, step: u64) -> io::Result<Option<bool>> {
        if self.knows(NO_NOWAIT) {
            return Ok(None);
        }
        let last = offset + len - 1;
        // The last byte first: reads go upwards, so it is the likeliest to be missing.
        let mut at = last;
        let mut next = offset;
        loop {
            match read_byte_now(self, at) {
                Ok(0) | Err(Errno::AGAIN) => return Ok(Some(false)),
                Ok(_) => {}
                Err(Errno::INTR) => continue,
                Err(Errno::OPNOTSUPP) => {
                    self.learn(NO_NOWAIT);
                    return Ok(None);
                }
                Err(error) => return Err(error.into()),
            }
            if next >= last {
                return Ok(Some(true));
            }
            at = next;
            next += step;
        }
    }

    fn is_in_memory(&self) -> io::Result<bool> {
        const TMPFS: u64 = 0x0102_1994;
        const RAMFS: u64 = 0x8584_58f6;
        if self.knows(IN_MEMORY) {
            return Ok(true);
        }
        let kind = rustix::fs::fstatfs(&self.fd)?.f_type;
        let in_memory = matches!(u64::try_from(kind), Ok(TMPFS | RAMFS));
        if in_memory {
            self.learn(IN_MEMORY);
        }
        Ok(in_memory)
    }

    fn knows(&self, fact: u8) -> bool {
        self.residency.load(Ordering::Relaxed) & fact != 0
    }

    fn learn(&self, fact: u8) {
        self.residency.fetch_or(fact, Ordering::Relaxed);
    }
}

/// Reads the byte at `at` if that needs no waiting.
fn read_byte_now(file: &OpenFile, at: u64) -> Result<usize, Errno> {
    let mut byte = [0];
    rustix::io::preadv2(&file.fd, &mut [IoSliceMut::new(&mut byte)], at, ReadWriteFlags::NOWAIT)
}

/// Number of cached pages that overlap `len` bytes from `offset`; a `len` of 0 would mean "to the end".
pub(crate) fn cachestat(fd: libc::c_int, offset: u64, len: u64) -> Result<u64, Errno> {
    #[repr(C)]
    struct Range {
        offset: u64,
        len: u64,
    }
    #[repr(C)]
    #[derive(Default)]
    struct Counts {
        cached: u64,
        dirty: u64,
        writeback: u64,
        evicted: u64,
        recently_evicted: u64,
    }
    let range = Range { offset, len };
    let mut counts = Counts::default();
    let no_flags: libc::c_uint = 0;
    // SAFETY: both structs have the layout of `struct cachestat_range` and `struct cachestat` and live through
    // the call, which reads the first and writes the second.
    let result = unsafe { libc::syscall(SYS_CACHESTAT, fd, &raw const range, &raw mut counts, no_flags) };
    if result == 0 {
        Ok(counts.cached)
    } else {
        Err(Errno::from_io_error(&io::Error::last_os_error()).unwrap_or(Errno::INVAL))
    }
}

#[cfg(test)]
mod tests;
