//! Memory as the program asks for it, counted: for tests that say how much something may take.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::atomic::{AtomicIsize, Ordering::Relaxed};

static LIVE_OF_ALL: AtomicIsize = AtomicIsize::new(0);

thread_local! {
    static LIVE: Cell<isize> = const { Cell::new(0) };
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

/// The system's allocator, counting for each thread. To be made a test's `#[global_allocator]`.
#[derive(Debug)]
pub struct Counting;

/// Bytes that this thread has asked for and not given back, with what glibc adds to each block. What one thread asks
/// for and another gives back is counted by both.
pub fn live_bytes() -> isize {
    LIVE.get()
}

/// As [`live_bytes`], of all threads.
pub fn live_bytes_of_all_threads() -> isize {
    LIVE_OF_ALL.load(Relaxed)
}

/// Allocations and reallocations of this thread so far.
pub fn allocations() -> u64 {
    ALLOCATIONS.get()
}

/// A block of glibc has eight bytes of its own, is a multiple of sixteen, and at least two of those.
fn block(size: usize) -> isize {
    isize::try_from((size + 8).next_multiple_of(16).max(32)).unwrap_or(isize::MAX)
}

fn count(bytes: isize) {
    LIVE.set(LIVE.get().wrapping_add(bytes));
    LIVE_OF_ALL.fetch_add(bytes, Relaxed);
}

fn count_allocation(bytes: isize) {
    count(bytes);
    ALLOCATIONS.set(ALLOCATIONS.get().wrapping_add(1));
}

// SAFETY: all calls go on to the system's allocator as they came, and counting asks for no memory: the cell is made at
// compile time and nothing is dropped at a thread's end.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count_allocation(block(layout.size()));
        // SAFETY: the caller promises what the system's allocator asks for.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        count(-block(layout.size()));
        // SAFETY: the caller promises that the block is from here, and here it was the system's allocator who gave it.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count_allocation(block(size) - block(layout.size()));
        // SAFETY: as for `dealloc`, and the caller promises a size that is not zero.
        unsafe { System.realloc(pointer, layout, size) }
    }
}
