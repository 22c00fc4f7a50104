//! A load generator that knows TLS: handshakes, requests, downloads and players, against any HTTPS server.
//!
//! The core is pure and tested without sockets or sleeping: [`plan`], [`workload`], [`schedule`], [`tally`],
//! [`response`], [`player`]. The I/O around it is thin: `net` opens connections, `drive` does one operation after the
//! other, [`mod@run`] has threads and time. [`report`] says what came out.
#![forbid(unsafe_code)]

mod drive;
pub mod failure;
mod fuzz;
mod net;
pub mod plan;
pub mod player;
pub mod quantity;
pub mod random;
pub mod report;
pub mod response;
pub mod run;
pub mod schedule;
pub mod tally;
pub mod target;
mod timer;
pub mod workload;

pub use failure::Failure;
#[doc(hidden)]
pub use fuzz::{fuzz_manifest, fuzz_response};
pub use plan::Plan;
#[doc(hidden)]
pub use player::dash::fuzz_index;
pub use run::{Moment, Outcome, Stop, run};
pub use target::Target;

/// A SHA-256 from its hexadecimal digits.
pub fn sha256_from_hex(text: &str) -> Option<[u8; 32]> {
    net::from_hex(text)?.try_into().ok()
}
