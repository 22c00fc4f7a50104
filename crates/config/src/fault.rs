//! Faults of a configuration, each with its position and a remedy.

use std::fmt::{self, Write};
use std::path::PathBuf;

/// A position in a file, counted from 1; zeros when there is none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Position {
    /// The place of the file among those of the configuration; 0 is the one that was given with `-c`.
    pub(crate) file: usize,
    pub(crate) line: usize,
    pub(crate) column: usize,
}

impl Position {
    /// The position of something that the file lacks.
    pub(crate) const NONE: Self = Self { file: 0, line: 0, column: 0 };
}

/// One fault, with its position in the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The configuration file, as it was named.
    pub file: PathBuf,
    /// Counted from 1; 0 when the fault has no position in the file.
    pub line: usize,
    /// Counted from 1, in characters; 0 when the fault has no position in the file.
    pub column: usize,
    /// The fault.
    pub what: String,
    /// The remedy, such as `write 64KiB`; empty if there is none.
    pub instead: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.file.display())?;
        if self.line > 0 {
            write!(f, ":{}", self.line)?;
        }
        f.write_str(": ")?;
        write_in_one_line(f, &self.what)?;
        if !self.instead.is_empty() {
            f.write_str("; ")?;
            write_in_one_line(f, &self.instead)?;
        }
        Ok(())
    }
}

/// Escapes control characters: quoted values may hold line ends and terminal sequences.
fn write_in_one_line(f: &mut fmt::Formatter<'_>, text: &str) -> fmt::Result {
    text.chars().try_for_each(|character| {
        if character.is_control() {
            write!(f, "{}", character.escape_debug())
        } else {
            f.write_char(character)
        }
    })
}

impl std::error::Error for Fault {}
