//! The outcome of one step of sending.

use penstock_sys::file::Extent;

/// Result of one step, which also names the action before the next.
#[derive(Debug)]
pub enum Step {
    /// This many bytes of the transmission were taken over; go on.
    Sent(usize),
    /// The socket is full: wait until it is writable.
    Blocked,
    /// The first bytes of this may have to be read from disk: see to it that a window of them is in memory, call
    /// [`Transmission::warmed`](crate::Transmission::warmed) with its length, go on.
    Cold(Extent),
    /// The other socket that the next bytes come from has none: wait until [`Transmission::source`](crate::Transmission::source) is readable.
    Starved,
    /// All of the transmission has been given to the kernel.
    Done,
}
