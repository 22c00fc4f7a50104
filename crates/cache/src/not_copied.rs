//! Whose fault it was that bytes were not copied from one tier to the other.

/// Why bytes were not copied. An error of one tier never counts against the other, so each side has its own type.
#[derive(Debug)]
pub(crate) enum NotCopied<S, T> {
    /// The side that has the bytes.
    Source(S),
    /// The side that was to take them.
    Target(T),
}
