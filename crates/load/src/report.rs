//! What came out of a run, for people and for programs.

mod hdr;
mod json;
mod plot;
mod table;

pub use hdr::Log;
pub use json::document;
pub use plot::svg;
pub use table::{heading, line, render};

use crate::plan::Mode;

/// The name of a mode, as typed.
fn mode_name(mode: &Mode) -> &'static str {
    match mode {
        Mode::Handshakes { .. } => "handshakes",
        Mode::Requests => "requests",
        Mode::Download { .. } => "download",
        Mode::Playback(_) => "playback",
    }
}

/// Events per second.
#[expect(clippy::cast_precision_loss, reason = "rates need no more than 53 bits")]
fn per_second(count: u64, elapsed: std::time::Duration) -> f64 {
    if elapsed.is_zero() { 0.0 } else { count as f64 / elapsed.as_secs_f64() }
}
