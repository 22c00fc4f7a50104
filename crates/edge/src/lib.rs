//! Sites, listeners, workers, one connection, one request.
//!
//! The way of a hit through this crate: [`worker`] accepts, `establish` brings the socket through its handshake,
//! `connection` reads request heads, `exchange` handles one of them, `respond` decides the answer, and `transmit`
//! drives it out. [`Server`] starts and ends all of that.
//!
//! This crate has never seen a command line, a signal or YAML.
#![forbid(unsafe_code)]

mod chacha20;
mod keeper;
mod networks;
mod pressure;
mod remembered;
mod server;
mod settings;
mod site;
mod ticket_keeper;

mod task;
mod thread;
mod worker;

mod establish;
mod inbound;

mod connection;
mod early;
mod exchange;
mod passing;

mod compress;
mod recent_clients;
mod respond;
mod sealing;

mod transmit;

mod cached;
mod certificates;
mod clock;

pub mod access_log;
pub mod metrics;
pub mod signed_urls;

pub use cached::{PurgeFailure, PurgeOrder, PurgeWhat, Purged, WrittenObject, contents};
#[doc(hidden)]
pub use cached::{fuzz_description, fuzz_origin_response};
pub use chacha20::{ChaCha20Control, ChaCha20Status, UnknownMode};
pub use sealing::measure_limits;
pub use server::{Server, StartError};
