//! The server side of HTTP/2 (RFC 9113, RFC 7541, RFC 9218), without sockets, tasks and clocks.
//!
//! [`ServerConnection`] takes the bytes that a client sent and gives [`StreamEvent`]s. For a response it gives HEADERS as
//! bytes, and only the nine bytes in front of each DATA frame: the payload never passes through this crate.
//! [`ServerConnection::next_stream`] chooses the stream whose frame is sent next (RFC 9218).
//!
//! ```
//! # use std::{sync::Arc, time::Instant};
//! # use penstock_http2::{Outgoing, PREFACE, ServerConnection, StreamEvent};
//! let mut connection = ServerConnection::new(&Arc::default());
//! let mut request = PREFACE.to_vec();
//! request.extend(b"\0\0\0\x04\0\0\0\0\0"); // SETTINGS
//! request.extend(b"\0\0\x06\x01\x05\0\0\0\x01\x82\x87\x84\x41\x01a"); // GET https://a/
//! connection.receive(&request, Instant::now())?;
//! let Some(StreamEvent::Request { stream, head, end: true }) = connection.next_event() else { panic!() };
//! assert_eq!((head.method(), head.path()), ("GET", Some("/")));
//!
//! let mut batch = connection.take_control();
//! connection.head(stream, 200, [(&b"server"[..], &b"penstock"[..])], false, &mut batch);
//! connection.set_outgoing(stream, Outgoing::Data);
//! while let Some(stream) = connection.next_stream() {
//!     let body = b"hello";
//!     batch.extend(connection.data_header(stream, body.len(), true));
//!     batch.extend(body);
//!     connection.finished(stream);
//! }
//! # Ok::<(), penstock_http2::ConnectionError>(())
//! ```
//!
//! Every resource that a client can take is bounded by [`Http2Limits`]; each bound has a reason, a `&'static str` for a
//! counter. Memory: a connection without streams holds at most [`ServerConnection::IDLE_BYTES_MAX`] bytes after
//! [`ServerConnection::release_memory`].

#![forbid(unsafe_code)]

mod connection;
mod error;
mod event;
mod fields;
mod flood;
mod frame;
#[cfg(any(test, feature = "fuzz"))]
mod fuzz;
mod hpack;
mod limits;
mod priority;
mod request_head;
mod streams;

pub use connection::{HeadParts, LastHead, PREFACE, ServerConnection, Shutdown};
pub use error::{ConnectionError, ErrorCode};
pub use event::{StreamEvent, StreamId};
pub use flood::{Flood, FloodGuard};
#[cfg(any(test, feature = "fuzz"))]
#[doc(hidden)]
pub use fuzz::{fuzz_h2_frames, fuzz_h2_sequence, fuzz_hpack};
pub use limits::{FloodLimits, Http2Limits};
pub use priority::{Priority, PriorityParameters};
pub use request_head::{HeadFault, LastFields, RequestHead};
pub use streams::Outgoing;
