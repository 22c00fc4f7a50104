//! Requests that are none: the exact answer to each, what becomes of the connection, and what is counted.
#![expect(clippy::unwrap_used, reason = "in a test it is the assertion")]

mod bodies;
mod cases;
#[path = "../harness/mod.rs"]
mod harness;
mod heads;
mod paths;
