//! `penstock load` against our own server, and against servers that misbehave on purpose.
#![expect(clippy::unwrap_used, reason = "a test stops where it cannot go on")]

#[path = "../harness/mod.rs"]
mod harness;

mod command;
mod misbehaviour;
mod playback;
mod scripted;
mod server;
mod wrong_use;
