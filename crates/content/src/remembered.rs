//! Heads and compressed bodies that a worker has built for earlier responses.

mod compress;
mod file_heads;
mod object_heads;

pub(crate) mod source;
pub use compress::CompressedManifests;
pub use file_heads::FileHeads;
pub(crate) use file_heads::{FileHead, Form, mark_encoding};
pub(crate) use compress::Found;
pub(crate) use object_heads::ObjectHead;
pub use object_heads::ObjectHeads;
