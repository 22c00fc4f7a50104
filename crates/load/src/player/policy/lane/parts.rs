//! Parts of segments, where a live stream offers them: the next one, and what becomes of it.

use std::time::Duration;

use super::{Lane, Piece};
use crate::player::Part;

/// How much of a segment has been fetched in parts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Within {
    /// The number of the part that is next.
    part: u64,
    /// How long those play that have come.
    length: Duration,
    /// Whether the next one has come already, before the playlist says how long it plays.
    is_ahead: bool,
}

impl Within {
    /// Begins with a part.
    pub(super) fn at(part: u64) -> Self {
        Self { part, ..Self::default() }
    }
}

impl Lane {
    /// The part that is next, or the segment if there are no parts of it, or the hint if it is not there yet.
    pub(in crate::player::policy) fn next_media(&self) -> Option<Piece> {
        let segments = self.segments.as_ref()?;
        let whole = || self.next_segment().cloned().map(Piece::Segment);
        let Some(offer) = segments.low_latency.as_ref() else { return whole() };
        if self.within.is_ahead {
            return None;
        }
        let at = (self.next?, self.within.part);
        if let Some(part) = self.listed(at) {
            return Some(Piece::Part(part.clone()));
        }
        if at.1 == 0
            && let Some(whole) = whole()
        {
            return Some(whole);
        }
        let hint = offer.hint.as_ref().filter(|_| at == segments.edge() && !segments.ended)?;
        Some(Piece::Hint(Part { at, is_independent: false, segment: hint.clone() }))
    }

    /// The part of this number, if the playlist lists it.
    fn listed(&self, at: (u64, u64)) -> Option<&Part> {
        self.segments.as_ref()?.low_latency.as_ref()?.parts.iter().find(|part| part.at == at)
    }

    pub(super) fn take_part(&mut self, part: &Part) {
        self.fetched += part.segment.duration;
        // The playlist may have moved on meanwhile.
        if (self.next, self.within.part) == (Some(part.at.0), part.at.1) {
            self.within.part += 1;
            self.within.length += part.segment.duration;
        }
        self.settle();
    }

    /// A part that was asked for before the playlist listed it counts once both have come.
    pub(super) fn take_hint(&mut self, at: (u64, u64)) {
        if (self.next, self.within.part) == (Some(at.0), at.1) {
            self.within.is_ahead = true;
            self.settle();
        }
    }

    /// Brings what has come and what the playlist says together. True if something of a segment was missed.
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
        if self.within == Within::default() || self.listed((next, self.within.part)).is_some() {
            return false;
        }
        // The segment is whole, and no part of it is left to be fetched.
        let left = whole.saturating_sub(self.within.length);
        let is_all = self.listed((next, self.within.part.wrapping_sub(1))).is_some() || left < whole / 8;
        self.next = Some(next + 1);
        self.within = Within::default();
        if !is_all {
            self.skipped += left;
        }
        !is_all
    }

    /// How much is listed that has not been fetched.
    pub(in crate::player::policy) fn to_come(&self) -> Duration {
        let Some(segments) = &self.segments else { return Duration::ZERO };
        let (next, end) = (self.next.unwrap_or(segments.first), segments.end());
        // Of a segment that has been begun in parts, and of the one being made, parts; else whole segments.
        let first_whole = next + u64::from(self.within.part > 0);
        let is_left = |part: &&Part| part.at.0 == end.max(next) || part.at.0 < first_whole;
        let parts = segments.low_latency.iter().flat_map(|offer| &offer.parts);
        let parts = parts.filter(|part| part.at >= (next, self.within.part)).filter(is_left);
        let place = usize::try_from(first_whole.saturating_sub(segments.first)).unwrap_or(usize::MAX);
        let whole = segments.list.iter().skip(place);
        parts.map(|part| part.segment.duration).chain(whole.map(|segment| segment.duration)).sum()
    }
}
