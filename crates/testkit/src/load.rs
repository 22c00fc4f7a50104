//! Load that runs beside a test.

use std::sync::atomic::{AtomicBool, Ordering};

/// Sets the flag by which threads of a test know that they have to end, when this is dropped: also by a test that fails, which
/// would otherwise wait for them without end.
#[derive(Debug)]
pub struct EndOfLoad<'f>(pub &'f AtomicBool);

impl Drop for EndOfLoad<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}
