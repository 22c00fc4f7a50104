//! The wire format of HTTP/1.1: bytes in, types out.
//!
//! This crate knows nothing of sockets, TLS, files or tasks. The edge feeds it the bytes it has
//! received and writes out the bytes it gets back; every question about time, randomness and
//! limits is answered by an argument.
//!
//! The way of a request through it: [`head_length`] finds where the head ends, [`Request::parse`]
//! turns the head into a [`Request`] that cannot be wrong, [`conditional::evaluate`] and
//! [`range::select`] decide what part of a file answers it, and [`HeadWriter`] writes the head of
//! the answer. What is refused comes back as a [`Rejection`], which says with which status.
//!
//! It is stricter than RFC 9112 asks wherever leniency would let two programs read the same bytes
//! differently: no bare LF, no folded lines, no repeated framing fields.

#![forbid(unsafe_code)]

pub mod body;
pub mod caching;
pub mod conditional;
pub mod encoding;
pub mod limits;
pub mod manifest;
pub mod multipart;
pub mod origin_url;
pub mod proxy;
pub mod query;
pub mod range;
pub mod request;
pub mod response;
pub mod status;
pub mod types;

mod digits;
mod fuzz;
mod rejection;

pub use encoding::Encoding;
#[doc(hidden)]
pub use fuzz::{fuzz_fields, fuzz_manifest, fuzz_url};
pub use limits::HeadLimits;
pub use origin_url::{OriginUrl, OriginUrlFault};
pub use rejection::Rejection;
pub use request::{Method, Path, PathFault, Request, RequestBody, Version, head_length};
pub use response::HeadWriter;
pub use status::Status;
