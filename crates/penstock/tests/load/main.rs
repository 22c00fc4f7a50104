//! `penstock load` against Penstock, and against servers that misbehave.
#![expect(clippy::unwrap_used, reason = "a test stops where it cannot go on")]

mod command;
mod http2;
mod http3;
mod misbehaviour;
mod nghttpd;
mod playback;
mod scripted;
mod server;
mod wrong_use;
