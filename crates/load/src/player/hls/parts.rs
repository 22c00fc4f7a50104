//! What a playlist offers to players of low latency (RFC 8216, second edition: parts, hints, requests that are held).

use std::time::Duration;

use super::{attribute, length_and_start, seconds, shown_range};
use crate::player::{Companion, LowLatency, Part, Segment};

/// More parts are not looked at.
const PARTS_MAX: usize = 10_000;

/// Where no distance is named, players stay so many parts behind.
const PARTS_BEHIND: u32 = 3;

#[derive(Default)]
pub(super) struct Parts {
    pub(super) can_block: bool,
    pub(super) hold_back: Option<Duration>,
    pub(super) target: Option<Duration>,
    list: Vec<Part>,
    hint: Option<Segment>,
    range_end: u64,
}

impl Parts {
    /// A part of the segment at this place in the list.
    pub(super) fn part(&mut self, value: &str, place: u64, before: Vec<Companion>) -> Option<()> {
        let range = match attribute(value, "BYTERANGE") {
            Some(range) => Some(length_and_start(range)?),
            None => None,
        };
        // Without a start it begins where the one before ended.
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
            let segment = Segment { uri, range, duration, start: Duration::ZERO, before };
            self.list.push(Part { at: (place, number), is_independent, segment });
        }
        Some(())
    }

    /// What comes next. Bytes without an end would be all that is left of a segment: such a part is waited for.
    pub(super) fn hint(&mut self, value: &str, before: Vec<Companion>) -> Option<()> {
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
        self.hint = Some(Segment { uri, range, duration, start, before });
        Some(())
    }

    /// All of it, when the number of the first segment is known; `None` if nothing is offered.
    pub(super) fn finish(mut self, first: u64) -> Option<LowLatency> {
        let target = self.target.filter(|_| self.can_block)?;
        for part in &mut self.list {
            part.at.0 = part.at.0.saturating_add(first);
        }
        let hold_back = self.hold_back.unwrap_or_else(|| target.saturating_mul(PARTS_BEHIND));
        Some(LowLatency { hold_back, target, parts: self.list, hint: self.hint })
    }
}
