//! What a log is made of.

use std::fmt::Debug;
use std::io;

/// What one line is made of. The log thread makes the line.
pub trait Record: Send + 'static {
    /// What lines look like.
    type Format: Clone + Debug + PartialEq + Send + 'static;

    /// Bytes of text of clients in this record: the number of records alone would be a loose bound of the queue's memory.
    fn text_bytes(&self) -> usize;

    /// Appends the record as one line of this format, with its line end.
    ///
    /// # Errors
    /// The record has no form as a line; it is counted as lost.
    fn write_line(&self, format: &Self::Format, lines: &mut Vec<u8>) -> io::Result<()>;
}
