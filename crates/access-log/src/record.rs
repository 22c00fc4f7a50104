//! What a log is made of.

use std::io;

/// What one line is made of. The log thread makes the line.
pub trait Record: Send + 'static {
    /// Bytes of text of clients in this record: the number of records alone would be a loose bound of the queue's memory.
    fn text_bytes(&self) -> usize;

    /// Appends the record as one line, with its line end.
    ///
    /// # Errors
    /// The record has no form as a line; it is counted as lost.
    fn write_line(&self, lines: &mut Vec<u8>) -> io::Result<()>;
}
