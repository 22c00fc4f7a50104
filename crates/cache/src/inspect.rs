//! Inspects the directory of a tier from outside, also while a server uses it. Changes nothing.

use std::io;
use std::path::Path;

pub use crate::contents::{Contents, Depth, StoredObject};

/// The contents of a memory tier's directory.
///
/// # Errors
/// The error of the system.
pub fn memory(directory: &Path, depth: Depth) -> io::Result<Contents> {
    crate::memory::inspect(directory, depth)
}

/// The contents of a disk tier's directory.
///
/// # Errors
/// The error of the system.
pub fn disk(directory: &Path, depth: Depth) -> io::Result<Contents> {
    crate::disk::inspect(directory, depth)
}
