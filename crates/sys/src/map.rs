//! Shared mappings of files, and reading them without dying when the file shrinks.
//!
//! Reading a mapped page behind the end of its file raises `SIGBUS`. [`install_sigbus_handler`] turns that
//! into an error for reads made inside [`guarded`]: the handler puts zeros under the rest of the mapping and
//! marks it, the read goes on, and its result is thrown away afterwards. A `SIGBUS` from anywhere else ends
//! the process as it always did.
//!
//! Only whole pages raise the signal: between a file's new end and the end of that page zeros are read in
//! silence, as changed bytes are. Such a file is noticed when its identity is next compared.

use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::fmt;
use std::io;
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::os::fd::BorrowedFd;
use std::ptr::{self, NonNull};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering, compiler_fence};

use rustix::mm::{MapFlags, ProtFlags};

/// The file became shorter than it was when it was opened, or its disk failed under a mapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Truncated;

impl fmt::Display for Truncated {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the file became shorter while it was read")
    }
}

impl std::error::Error for Truncated {}

impl From<Truncated> for io::Error {
    fn from(truncated: Truncated) -> Self {
        Self::new(io::ErrorKind::UnexpectedEof, truncated)
    }
}

/// Installs the process-wide `SIGBUS` handler; calls after the first do nothing.
///
/// The program calls it at start. Mapping a file calls it too, so that no guard is ever without its handler.
///
/// # Errors
/// The error of `sigaction`.
pub fn install_sigbus_handler() -> io::Result<()> {
    static INSTALLED: OnceLock<Result<(), i32>> = OnceLock::new();
    INSTALLED
        .get_or_init(|| {
            page_mask();
            set_action(
                on_sigbus as *const () as usize,
                libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_RESTART,
            )
            .map_err(|error| error.raw_os_error().unwrap_or(libc::EINVAL))
        })
        .map_err(io::Error::from_raw_os_error)
}

/// Runs `read`, which reads `window` through its pointer, and says whether what it read was the file.
///
/// # Errors
/// [`Truncated`] if the mapping lost its file, now or earlier: what `read` saw may be zeros.
pub(crate) fn guarded<R>(window: Window<'_>, read: impl FnOnce() -> R) -> Result<R, Truncated> {
    let mapping = window.mapping();
    let guard = Guard::enter(mapping);
    let result = read();
    drop(guard);
    if mapping.is_truncated() { Err(Truncated) } else { Ok(result) }
}

/// A whole file mapped for reading; unmapped on drop.
pub(crate) struct Mapping {
    start: NonNull<u8>,
    len: usize,
    truncated: AtomicBool,
}

// SAFETY: the mapping is owned memory that any thread may read or unmap, and it is never written.
unsafe impl Send for Mapping {}

// SAFETY: the pointer is only read through, and the flag is atomic.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps the first `len` bytes; an empty file gets an empty mapping, which the system would refuse.
    pub(crate) fn of_file(fd: BorrowedFd<'_>, len: usize) -> io::Result<Self> {
        install_sigbus_handler()?;
        let truncated = AtomicBool::new(false);
        if len == 0 {
            return Ok(Self { start: NonNull::dangling(), len, truncated });
        }
        // SAFETY: the kernel chooses an unused address, so no other object is affected.
        let start =
            unsafe { rustix::mm::mmap(ptr::null_mut(), len, ProtFlags::READ, MapFlags::SHARED, fd, 0) }?;
        let start = NonNull::new(start.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self { start, len, truncated })
    }

    pub(crate) fn as_ptr(&self) -> *const u8 {
        self.start.as_ptr()
    }

    pub(crate) fn is_truncated(&self) -> bool {
        self.truncated.load(Ordering::SeqCst)
    }

    /// Copies `dst.len()` bytes from `offset`, which the caller has checked, inside a guard.
    pub(crate) fn copy(&self, offset: usize, dst: &mut [u8]) {
        assert!(offset.checked_add(dst.len()).is_some_and(|end| end <= self.len), "copy outside the mapping");
        let from = self.as_ptr().wrapping_add(offset);
        // SAFETY: the range was just checked to be inside the mapping, which `self` keeps alive; `dst` is
        // ordinary memory and cannot overlap it. Another process may change the bytes meanwhile, in which
        // case any mix of old and new bytes is as good as another.
        unsafe { ptr::copy_nonoverlapping(from, dst.as_mut_ptr(), dst.len()) };
    }

    /// Appends `len` bytes from `offset`, which the caller has checked, inside a guard. `out` has space for them.
    fn append(&self, offset: usize, len: usize, out: &mut Vec<u8>) {
        assert!(offset.checked_add(len).is_some_and(|end| end <= self.len), "copy outside the mapping");
        let space = out.spare_capacity_mut();
        assert!(len <= space.len(), "no space");
        let from = self.as_ptr().wrapping_add(offset);
        // SAFETY: as in `copy`; `space` has `len` bytes at least.
        unsafe { ptr::copy_nonoverlapping(from, space.as_mut_ptr().cast(), len) };
        // SAFETY: these bytes were just written.
        unsafe { out.set_len(out.len() + len) };
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        if self.len == 0 {
            return;
        }
        // SAFETY: this is the range that `mmap` gave us, and no `Window` outlives the mapping.
        let unmapped = unsafe { rustix::mm::munmap(self.start.as_ptr().cast(), self.len) };
        debug_assert!(unmapped.is_ok(), "unmapping our own range cannot fail");
    }
}

/// Some bytes of a mapped file.
///
/// There is no way to a `&[u8]`: another process may change or shorten the file at any time, and a slice
/// promises that neither happens.
#[derive(Clone, Copy)]
pub struct Window<'a> {
    mapping: &'a Mapping,
    offset: usize,
    len: usize,
}

impl<'a> Window<'a> {
    /// Bytes that the caller has checked to lie inside the mapping.
    pub(crate) fn new(mapping: &'a Mapping, offset: usize, len: usize) -> Self {
        Self { mapping, offset, len }
    }

    /// Number of bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are no bytes.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Copies the first `dst.len()` bytes, or all if there are fewer, and returns how many.
    ///
    /// # Errors
    /// [`Truncated`] if the file became shorter; `dst` then holds rubbish.
    pub fn copy_to(&self, dst: &mut [u8]) -> Result<usize, Truncated> {
        let len = self.len.min(dst.len());
        guarded(*self, || self.mapping.copy(self.offset, &mut dst[..len]))?;
        Ok(len)
    }

    /// Appends all bytes to `out`, without filling its memory with zeros before.
    ///
    /// # Errors
    /// [`Truncated`] if the file became shorter; `out` then has rubbish at its end.
    pub fn append_to(&self, out: &mut Vec<u8>) -> Result<(), Truncated> {
        out.reserve(self.len);
        guarded(*self, || self.mapping.append(self.offset, self.len, out))
    }

    /// First byte; valid for `len()` reads inside [`guarded`] and nowhere else.
    pub(crate) fn as_ptr(&self) -> *const u8 {
        self.mapping.as_ptr().wrapping_add(self.offset)
    }

    pub(crate) fn mapping(&self) -> &'a Mapping {
        self.mapping
    }
}

impl fmt::Debug for Window<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Window").field("offset", &self.offset).field("len", &self.len).finish_non_exhaustive()
    }
}

/// Size of a page, in bytes.
///
/// From the C library, because rustix reads the auxiliary vector itself and cannot do so under valgrind, with which
/// the cost of a request is counted.
pub(crate) fn page_bytes() -> usize {
    // SAFETY: the call reads a constant of the system.
    let bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    usize::try_from(bytes).unwrap_or(4096)
}

/// Data for the handler about the read that a thread is executing.
///
/// Atomics, because a handler on the same thread reads them between any two instructions.
struct Guarded {
    start: AtomicUsize,
    end: AtomicUsize,
    truncated: AtomicPtr<AtomicBool>,
}

thread_local! {
    // Const and without a destructor: the handler's access is then a plain load, with nothing to initialise.
    static GUARDED: Guarded = const {
        Guarded {
            start: AtomicUsize::new(0),
            end: AtomicUsize::new(0),
            truncated: AtomicPtr::new(ptr::null_mut()),
        }
    };
}

/// Restores on drop, also during a panic, what the thread guarded before.
struct Guard<'a> {
    before: (usize, usize, *mut AtomicBool),
    mapping: PhantomData<&'a Mapping>,
    // Belongs to one thread.
    not_send: PhantomData<Cell<*const ()>>,
}

impl<'a> Guard<'a> {
    fn enter(mapping: &'a Mapping) -> Self {
        let start = mapping.as_ptr() as usize;
        let flag = ptr::from_ref(&mapping.truncated).cast_mut();
        let before = swap_guarded((start, start.wrapping_add(mapping.len), flag));
        Self { before, mapping: PhantomData, not_send: PhantomData }
    }
}

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        swap_guarded(self.before);
    }
}

/// Sets what this thread guards and returns what it guarded before.
fn swap_guarded((start, end, truncated): (usize, usize, *mut AtomicBool)) -> (usize, usize, *mut AtomicBool) {
    // Keeps the compiler from moving reads of the mapping out of the guard.
    compiler_fence(Ordering::SeqCst);
    let before = GUARDED.with(|guarded| {
        let before = (
            guarded.start.load(Ordering::Relaxed),
            guarded.end.load(Ordering::Relaxed),
            guarded.truncated.load(Ordering::Relaxed),
        );
        guarded.start.store(start, Ordering::Relaxed);
        guarded.end.store(end, Ordering::Relaxed);
        guarded.truncated.store(truncated, Ordering::Relaxed);
        before
    });
    compiler_fence(Ordering::SeqCst);
    before
}

extern "C" fn on_sigbus(signal: c_int, info: *mut libc::siginfo_t, _context: *mut c_void) {
    // SAFETY: with SA_SIGINFO the kernel passes a valid siginfo.
    let info = unsafe { &*info };
    // A positive code means that the kernel, not a process, sent it.
    let code = info.si_code;
    if code > 0 {
        // SAFETY: a SIGBUS from the kernel carries the faulting address.
        let address = unsafe { info.si_addr() } as usize;
        if put_zeros_under(address) {
            return;
        }
    }
    // Unexpected. Returning repeats the faulting instruction, now with the default action; a signal
    // that a process sent has no such instruction and is raised again.
    if set_action(libc::SIG_DFL, 0).is_err() {
        std::process::abort();
    }
    if code <= 0 {
        // SAFETY: `raise` is async-signal-safe; the signal is delivered when this handler returns.
        unsafe { libc::raise(signal) };
    }
}

/// If this thread guards `address`: marks the mapping and maps zeros from that page to its end.
fn put_zeros_under(address: usize) -> bool {
    GUARDED.with(|guarded| {
        let (start, end) = (guarded.start.load(Ordering::Relaxed), guarded.end.load(Ordering::Relaxed));
        let truncated = guarded.truncated.load(Ordering::Relaxed);
        if truncated.is_null() || !(start..end).contains(&address) {
            return false;
        }
        // SAFETY: the guard borrows the mapping that owns the flag.
        let truncated = unsafe { &*truncated };
        // The mark comes first: another thread that meets the zeros must find it when it looks afterwards.
        truncated.store(true, Ordering::SeqCst);
        let page = address & page_mask();
        let flags = MapFlags::PRIVATE | MapFlags::FIXED | MapFlags::NORESERVE;
        // SAFETY: the range lies inside the guarded mapping, which is ours, is read only through raw pointers
        // and stays alive during the guard; readers get zeros where they would have got a signal.
        let mapped =
            unsafe { rustix::mm::mmap_anonymous(page as *mut c_void, end - page, ProtFlags::READ, flags) };
        mapped.is_ok()
    })
}

fn page_mask() -> usize {
    !(page_bytes() - 1)
}

fn set_action(handler: usize, flags: c_int) -> io::Result<()> {
    // SAFETY: all zeros is a valid sigaction: no handler, empty mask, no flags.
    let mut action: libc::sigaction = unsafe { MaybeUninit::zeroed().assume_init() };
    action.sa_sigaction = handler;
    action.sa_flags = flags;
    // SAFETY: `action` is a valid sigaction and the old one is not asked for.
    let result = unsafe { libc::sigaction(libc::SIGBUS, &raw const action, ptr::null_mut()) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests;
