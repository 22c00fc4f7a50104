//! Heads, compressed bodies and bitrates that a worker has found for earlier responses.

mod bitrates;
mod compress;
mod file_heads;
mod object_heads;
pub(crate) mod source;

pub use bitrates::Bitrates;
pub use compress::CompressedManifests;
pub(crate) use compress::Found;
pub use file_heads::FileHeads;
pub(crate) use file_heads::{FileHead, Form, mark_encoding};
pub(crate) use object_heads::ObjectHead;
pub use object_heads::ObjectHeads;
