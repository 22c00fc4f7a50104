//! The wire format of HTTP/1.1: bytes in, types out.
//!
//! [`head_length`] finds the end of a head, [`Request::parse`] turns it into a [`Request`] that cannot be wrong,
//! [`conditional::evaluate`] and [`range::select`] decide which part of a representation answers it, and
//! [`ResponseHead`] is the head of the response. A [`Rejection`] names the status of a refused request.
//!
//! ```
//! # use penstock_http::{HeadLimits, Request, head_length};
//! let limits = HeadLimits { head_bytes: 8192, fields: 64, target_bytes: 4096 };
//! let bytes = b"GET /%66ilm.mp4?t=1 HTTP/1.1\r\nHost: vod.example.com\r\n\r\n";
//! let length = head_length(bytes, 0, &limits)?.expect("the head is whole");
//! let request = Request::parse(&bytes[..length], &limits)?;
//! assert_eq!((request.host(), request.raw_path()), ("vod.example.com", "/film.mp4"));
//! # Ok::<(), penstock_http::Rejection>(())
//! ```
//!
//! Time, randomness and limits are arguments. Where two programs could read the same bytes differently, the parser is
//! stricter than RFC 9112: no bare LF, no folded lines, no repeated framing fields.

#![forbid(unsafe_code)]

pub mod body;
pub mod caching;
pub mod cmcd;
pub mod conditional;
pub mod date;
pub mod encoding;
pub mod limits;
pub mod m3u8;
pub mod manifest;
pub mod mp4;
pub mod multipart;
pub mod origin_url;
pub mod proxy;
pub mod query;
pub mod range;
pub mod request;
pub mod response;
pub mod status;
pub mod types;
pub mod uri;

mod digits;
#[cfg(any(test, feature = "fuzz"))]
mod fuzz;
mod list;
mod rejection;
mod xml_duration;

pub use encoding::Encoding;
#[cfg(any(test, feature = "fuzz"))]
#[doc(hidden)]
pub use fuzz::{fuzz_fields, fuzz_manifest, fuzz_request_head, fuzz_url};
pub use limits::HeadLimits;
pub use origin_url::{OriginUrl, OriginUrlFault};
pub use rejection::Rejection;
pub use request::{BodyFraming, HttpVersion, Method, Path, PathFault, Request, ValidatedHead, head_length};
pub use response::{FieldIter, Fields, ResponseHead};
pub use status::Status;
pub use xml_duration::{nine_fraction_digits, xml_duration};
