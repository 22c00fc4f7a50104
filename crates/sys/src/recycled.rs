//! Boxed futures whose memory a thread uses again.
//!
//! The future of a response has some kilobytes and lives for microseconds. glibc keeps blocks of more than 1,032 bytes in no cache of
//! the thread, and `Box::pin` makes a future in front of the allocation and moves it behind that.

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::cell::RefCell;
use std::marker::PhantomData;
use std::pin::Pin;
use std::ptr::{self, NonNull};
use std::task::{Context, Poll};

/// Every future that fits uses a block of this layout.
const BLOCK: Layout = Layout::new::<Block>();
/// Blocks that a thread keeps for the next futures: 128 KiB.
const KEPT_MAX: usize = 32;

#[repr(align(16))]
struct Block(#[expect(dead_code, reason = "space")] [u8; 4096]);

struct Blocks(Vec<NonNull<u8>>);

thread_local! {
    static KEPT: RefCell<Blocks> = const { RefCell::new(Blocks(Vec::new())) };
}

/// A future in memory that its thread uses again. It stays where it is when this value is moved, as in a box.
#[derive(Debug)]
pub struct Recycled<F> {
    future: NonNull<F>,
    /// Owns the future, and is of one thread.
    owned: PhantomData<(F, *mut ())>,
}

impl<F> Recycled<F> {
    const FITS: bool = size_of::<F>() <= BLOCK.size() && align_of::<F>() <= BLOCK.align();

    /// Makes a value in its place. One that fits into no block is boxed.
    #[inline]
    pub fn new(make: impl FnOnce() -> F) -> Self {
        let future: NonNull<F> = if Self::FITS { block().cast() } else { boxed::<F>().cast() };
        // SAFETY: the memory has size and alignment of `F`, and belongs to this call. It is leaked if `make` panics.
        unsafe { future.write(make()) };
        Self { future, owned: PhantomData }
    }
}

/// The memory of a box.
fn boxed<F>() -> NonNull<std::mem::MaybeUninit<F>> {
    NonNull::from(Box::leak(Box::new_uninit()))
}

/// A block of this thread, or a new one.
#[inline]
fn block() -> NonNull<u8> {
    let kept = KEPT.try_with(|blocks| blocks.borrow_mut().0.pop()).ok().flatten();
    kept.unwrap_or_else(|| {
        // SAFETY: the layout has a size.
        NonNull::new(unsafe { alloc(BLOCK) }).unwrap_or_else(|| handle_alloc_error(BLOCK))
    })
}

/// Keeps a block for this thread, or gives it back.
#[inline]
fn keep(block: NonNull<u8>) {
    let is_kept = KEPT.try_with(|blocks| {
        let blocks = &mut blocks.borrow_mut().0;
        let has_space = blocks.len() < KEPT_MAX;
        if has_space {
            blocks.push(block);
        }
        has_space
    });
    if !is_kept.unwrap_or(false) {
        release(block);
    }
}

fn release(block: NonNull<u8>) {
    // SAFETY: every block was allocated by `block` with this layout, and its owner gives it up here.
    unsafe { dealloc(block.as_ptr(), BLOCK) };
}

impl Drop for Blocks {
    fn drop(&mut self) {
        self.0.drain(..).for_each(release);
    }
}

impl<F> Drop for Recycled<F> {
    #[inline]
    fn drop(&mut self) {
        if Self::FITS {
            // SAFETY: the value was made in this place by `new`, and is dropped here alone. It was never moved.
            unsafe { ptr::drop_in_place(self.future.as_ptr()) };
            keep(self.future.cast());
        } else {
            // SAFETY: `new` took the memory from a box of `F`, and made the value there.
            drop(unsafe { Box::from_raw(self.future.as_ptr()) });
        }
    }
}

/// Moving it moves no future.
impl<F> Unpin for Recycled<F> {}

impl<F: Future> Future for Recycled<F> {
    type Output = F::Output;

    #[inline]
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        // SAFETY: the future is alive, and borrowed through `self` alone.
        let future = unsafe { self.future.as_mut() };
        // SAFETY: it is not moved until it is dropped.
        unsafe { Pin::new_unchecked(future) }.poll(context)
    }
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};
    use std::rc::Rc;
    use std::task::Waker;

    use super::*;

    fn poll<F: Future>(future: &mut Recycled<F>) -> Poll<F::Output> {
        Pin::new(future).poll(&mut Context::from_waker(Waker::noop()))
    }

    /// A future of some size that owns `held`, and ends with its count.
    async fn sized<const SIZE: usize>(held: Rc<()>) -> usize {
        let space = [1_u8; SIZE];
        ready(()).await;
        Rc::strong_count(&held) + space.iter().map(|byte| usize::from(*byte)).sum::<usize>()
    }

    #[test]
    fn the_next_future_of_a_thread_has_the_memory_of_the_last_one() {
        let held = Rc::new(());
        let mut first = Recycled::new(|| sized::<3000>(Rc::clone(&held)));
        let place = first.future.cast::<u8>();
        assert_eq!(poll(&mut first), Poll::Ready(3002));
        drop(first);
        assert_eq!(Rc::strong_count(&held), 1);
        let mut moved = [Recycled::new(|| sized::<100>(Rc::clone(&held)))];
        assert_eq!(moved[0].future.cast::<u8>(), place);
        assert_eq!(poll(&mut moved[0]), Poll::Ready(102));
    }

    #[test]
    fn futures_under_way_have_memory_of_their_own_and_few_blocks_are_kept() {
        let held = Rc::new(());
        let mut futures: Vec<_> =
            (0..2 * KEPT_MAX).map(|_| Recycled::new(|| sized::<1000>(Rc::clone(&held)))).collect();
        assert_eq!(poll(&mut futures[7]), Poll::Ready(2 * KEPT_MAX + 1 + 1000));
        drop(futures);
        assert_eq!(Rc::strong_count(&held), 1);
        assert_eq!(KEPT.with(|blocks| blocks.borrow().0.len()), KEPT_MAX);
    }

    #[test]
    fn a_future_that_fits_into_no_block_is_boxed() {
        let held = Rc::new(());
        let mut large = Recycled::new(|| sized::<10_000>(Rc::clone(&held)));
        assert_eq!(poll(&mut large), Poll::Ready(10_002));
        drop(large);
        assert_eq!((Rc::strong_count(&held), KEPT.with(|blocks| blocks.borrow().0.len())), (1, 0));
    }

    #[test]
    fn a_future_that_never_ended_is_dropped_with_all_that_it_holds() {
        let held = Rc::new(());
        let mut waiting = Recycled::new(|| {
            let held = Rc::clone(&held);
            async move {
                pending::<()>().await;
                drop(held);
            }
        });
        assert!(poll(&mut waiting).is_pending());
        drop(waiting);
        assert_eq!(Rc::strong_count(&held), 1);
    }
}
