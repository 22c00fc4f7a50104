//! What a player says of itself with a request for media: Common Media Client Data (CTA-5004).

use std::fmt::Write;

use super::state::Player;
use super::track::{FetchItem, Track, TrackKind};
use crate::target::TargetUrl;

/// Milliseconds and kbit/s are rounded to so many (CTA-5004).
const GRAIN: u128 = 100;

impl Player {
    /// The value of `CMCD-Request` for an item at `target`: the length of the buffer, the measured throughput, the next object
    /// on the same server with its range, and whether playback waits.
    pub(super) fn said_with(&self, which: TrackKind, item: &FetchItem, target: &TargetUrl) -> String {
        let mut said = format!("bl={}", rounded(self.buffer.ahead().as_millis()));
        if let Some(throughput) = self.qualities.throughput() {
            _ = write!(said, ",mtp={}", rounded(u128::from(throughput / 1000)));
        }
        if let Some(next) = self.track(which).and_then(|track: &Track| track.after(item)) {
            let (uri, range) = next.place();
            let place = self.place(which).join(uri).ok().filter(|place| place.same_server(target));
            if let Some(place) = place {
                _ = write!(said, ",nor=\"{}\"", encoded(&place.path));
                range.iter().for_each(|range| _ = write!(said, ",nrr=\"{range}\""));
            }
        }
        if self.buffer.startup().is_none() || self.buffer.is_stalled() {
            said.push_str(",su");
        }
        said
    }
}

fn rounded(number: u128) -> u128 {
    (number + GRAIN / 2) / GRAIN * GRAIN
}

/// A text, percent-encoded.
pub(super) fn encoded(path: &str) -> String {
    let mut encoded = String::with_capacity(path.len() + 16);
    for byte in path.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            _ = write!(encoded, "%{byte:02X}");
        }
    }
    encoded
}
