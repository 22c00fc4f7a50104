//! A load generator for HTTPS servers: handshakes, requests, downloads, and players of HLS and DASH.
//!
//! A [`Plan`] says what to do; [`run()`] does it with threads that share nothing but counters, and returns a
//! [`RunResult`], which [`report`] turns into a table, JSON or a plot:
//!
//! ```no_run
//! # fn plan() -> penstock_load::Plan { unimplemented!() }
//! let plan: penstock_load::Plan = plan();
//! let result = penstock_load::run(plan.clone(), &penstock_load::StopSignal::default(), |_, _, _| ())?;
//! println!("{}", penstock_load::report::render(&plan, &result));
//! # Ok::<(), String>(())
//! ```
//!
//! [`player`], [`workload`], [`schedule`] and [`response`] do no I/O and take time as an argument.
#![forbid(unsafe_code)]

mod drive;
pub mod failure;
#[cfg(any(test, feature = "fuzz"))]
mod fuzz;
pub mod latencies;
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
mod worker;
pub mod workload;

pub use failure::LoadFailure;
#[cfg(any(test, feature = "fuzz"))]
#[doc(hidden)]
pub use fuzz::{fuzz_manifest, fuzz_response};
pub use plan::Plan;
#[cfg(any(test, feature = "fuzz"))]
#[doc(hidden)]
pub use player::dash::fuzz_index;
pub use run::{Interval, RunResult, StopSignal, run};
pub use target::TargetUrl;

/// Reads a SHA-256 in hexadecimal digits.
pub fn sha256_from_hex(text: &str) -> Option<[u8; 32]> {
    net::from_hex(text)?.try_into().ok()
}
