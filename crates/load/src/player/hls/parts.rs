//! Partial segments and hints of a playlist (RFC 8216bis §4.4.4.9, §4.4.5.3).

use std::sync::Arc;
use std::time::Duration;

use super::values::{attribute, length_and_start, seconds, shown_range};
use crate::player::segments::{InitSegment, LowLatency, MediaSegment, PartialSegment};

/// The most parts that are listed.
const PARTS_MAX: usize = 10_000;

/// The distance from the edge in parts, if the playlist names none.
const PARTS_BEHIND: u32 = 3;

#[derive(Default)]
pub(super) struct PartSettings {
    pub(super) can_block: bool,
    pub(super) hold_back: Option<Duration>,
    pub(super) target: Option<Duration>,
    list: Vec<PartialSegment>,
    hint: Option<MediaSegment>,
    range_end: u64,
}

impl PartSettings {
    /// Reads a part of segment `place`, counted from the first segment of the playlist.
    pub(super) fn part(&mut self, value: &str, place: u64, before: Vec<Arc<InitSegment>>) -> Option<()> {
        let range = match attribute(value, "BYTERANGE") {
            Some(range) => Some(length_and_start(range)?),
            None => None,
        };
        // Without an offset a range begins where the one before ended.
        let range = range.map(|(length, start)| {
            let start = start.unwrap_or(self.range_end);
            self.range_end = start.saturating_add(length);
            shown_range(start, length)
        });
        let duration = seconds(value, "DURATION")?;
        let uri = attribute(value, "URI").filter(|uri| !uri.is_empty())?.to_owned();
        let number = self.list.iter().rev().take_while(|part| part.at.0 == place).count() as u64;
        if self.list.len() < PARTS_MAX {
            let is_independent = attribute(value, "INDEPENDENT") == Some("YES");
            let segment = MediaSegment { uri, range, duration, start: Duration::ZERO, before };
            self.list.push(PartialSegment { at: (place, number), is_independent, segment });
        }
        Some(())
    }

    /// Reads the hint for the next part. A hint of bytes without an end is ignored: it means the rest of a segment.
    pub(super) fn hint(&mut self, value: &str, before: Vec<Arc<InitSegment>>) -> Option<()> {
        if attribute(value, "TYPE") != Some("PART") {
            return Some(());
        }
        let number = |name: &str| attribute(value, name).and_then(|text| text.parse::<u64>().ok());
        let range = match (number("BYTERANGE-START"), number("BYTERANGE-LENGTH")) {
            (None, None) => None,
            (Some(_), None) => return Some(()),
            (start, Some(length)) => Some(shown_range(start.unwrap_or(0), length)),
        };
        let uri = attribute(value, "URI")?.to_owned();
        let (duration, start) = (Duration::ZERO, Duration::ZERO);
        self.hint = Some(MediaSegment { uri, range, duration, start, before });
        Some(())
    }

    /// Completes the offer with the number of the first segment; `None` if the server offers no low latency.
    pub(super) fn finish(mut self, first: u64) -> Option<LowLatency> {
        let target = self.target.filter(|_| self.can_block)?;
        for part in &mut self.list {
            part.at.0 = part.at.0.saturating_add(first);
        }
        let hold_back = self.hold_back.unwrap_or_else(|| target.saturating_mul(PARTS_BEHIND));
        Some(LowLatency { hold_back, target, parts: self.list, hint: self.hint })
    }
}
