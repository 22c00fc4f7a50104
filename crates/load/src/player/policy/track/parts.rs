//! Partial segments of a live stream: which part is next, and how parts and whole segments fit together.

use std::time::Duration;

use super::{FetchItem, Track};
use crate::player::segments::PartialSegment;

/// How much of a segment was fetched in parts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct PartProgress {
    /// The number of the next part.
    part: u64,
    /// The duration of the parts that were fetched.
    length: Duration,
    /// Whether the next part was fetched before the playlist names its duration.
    is_ahead: bool,
}

impl PartProgress {
    /// Starts with this part.
    pub(super) fn at(part: u64) -> Self {
        Self { part, ..Self::default() }
    }
}

impl Track {
    /// The next part; the segment if it has no parts; the hint if neither is listed.
    pub(in crate::player::policy) fn next_media(&self) -> Option<FetchItem> {
        let segments = self.segments.as_ref()?;
        let whole = || self.next_segment().cloned().map(FetchItem::Segment);
        let Some(offer) = segments.low_latency.as_ref() else { return whole() };
        if self.within.is_ahead {
            return None;
        }
        let at = (self.next?, self.within.part);
        if let Some(part) = self.listed(at) {
            return Some(FetchItem::Part(part.clone()));
        }
        if at.1 == 0
            && let Some(whole) = whole()
        {
            return Some(whole);
        }
        let hint = offer.hint.as_ref().filter(|_| at == segments.edge() && !segments.ended)?;
        Some(FetchItem::Hint(PartialSegment { at, is_independent: false, segment: hint.clone() }))
    }

    /// The part with this number, if it is listed.
    fn listed(&self, at: (u64, u64)) -> Option<&PartialSegment> {
        self.segments.as_ref()?.low_latency.as_ref()?.parts.iter().find(|part| part.at == at)
    }

    pub(super) fn take_part(&mut self, part: &PartialSegment) {
        self.fetched += part.segment.duration;
        // The playlist may have advanced meanwhile.
        if (self.next, self.within.part) == (Some(part.at.0), part.at.1) {
            self.within.part += 1;
            self.within.length += part.segment.duration;
        }
        self.settle();
    }

    /// A hinted part counts once the playlist lists it.
    pub(super) fn take_hint(&mut self, at: (u64, u64)) {
        if (self.next, self.within.part) == (Some(at.0), at.1) {
            self.within.is_ahead = true;
            self.settle();
        }
    }

    /// Matches fetched parts with the playlist. Returns whether a part of a segment was missed.
    pub(super) fn settle(&mut self) -> bool {
        let Some(next) = self.next else { return false };
        if self.within.is_ahead
            && let Some(part) = self.listed((next, self.within.part)).cloned()
        {
            self.within.is_ahead = false;
            self.take_part(&part);
            return false;
        }
        let Some(whole) = self.next_segment().map(|segment| segment.duration) else { return false };
        if self.within == PartProgress::default() || self.listed((next, self.within.part)).is_some() {
            return false;
        }
        // The segment is whole, and none of its remaining parts is listed.
        let left = whole.saturating_sub(self.within.length);
        let is_all = self.listed((next, self.within.part.wrapping_sub(1))).is_some() || left < whole / 8;
        self.next = Some(next + 1);
        self.within = PartProgress::default();
        if !is_all {
            self.skipped += left;
        }
        !is_all
    }

    /// The listed duration that was not fetched yet.
    pub(in crate::player::policy) fn to_come(&self) -> Duration {
        let Some(segments) = &self.segments else { return Duration::ZERO };
        let (next, end) = (self.next.unwrap_or(segments.first), segments.end());
        // Parts count for a segment that was started in parts and for the one being made; else whole segments count.
        let first_whole = next + u64::from(self.within.part > 0);
        let is_left = |part: &&PartialSegment| part.at.0 == end.max(next) || part.at.0 < first_whole;
        let parts = segments.low_latency.iter().flat_map(|offer| &offer.parts);
        let parts = parts.filter(|part| part.at >= (next, self.within.part)).filter(is_left);
        let place = usize::try_from(first_whole.saturating_sub(segments.first)).unwrap_or(usize::MAX);
        let whole = segments.list.iter().skip(place);
        parts.map(|part| part.segment.duration).chain(whole.map(|segment| segment.duration)).sum()
    }
}
