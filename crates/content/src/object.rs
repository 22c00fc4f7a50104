//! What is stored of an object beside its bytes: validators, lifetime, fields, readers.

pub mod contents;
mod metadata;
mod playlist;
mod readers;

pub use metadata::StoredObject;
#[cfg(feature = "fuzz")]
#[doc(hidden)]
pub use metadata::fuzz::{fuzz_description, fuzz_origin_response};
pub(crate) use metadata::{ObjectMetadata, Validation};
pub(crate) use playlist::{is_newer_playlist, media, newest, reach};
pub(crate) use readers::{FillStep, ReaderThrottle, Windows};
