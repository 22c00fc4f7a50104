//! Where in a stream a player begins.

use std::time::Duration;

use crate::player::{LowLatency, Segments};

/// Live players begin so many segments before the end of the manifest (RFC 8216 §6.3.3).
const SEGMENTS_BEHIND: u64 = 3;

/// Where a stream begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::player::policy) enum Begin {
    /// Films at their first segment, live streams behind their end.
    Usual,
    /// After so much of it.
    After(Duration),
    /// So much before its end.
    Behind(Duration),
}

/// A segment, or a part of one: its number and that of the part, how long it plays, and whether a picture can begin with
/// it.
type Unit = ((u64, u64), Duration, bool);

impl Begin {
    /// The number of the first segment that is fetched, and that of the part in it.
    pub(super) fn place(self, segments: &Segments) -> (u64, u64) {
        let end = segments.end();
        let durations = segments.list.iter().map(|segment| segment.duration);
        match (self, &segments.low_latency) {
            (Self::Usual, _) if segments.ended => (segments.first, 0),
            (Self::Usual, Some(offer)) => {
                let units = units(segments, offer);
                let mut length = Duration::ZERO;
                let first = units.iter().rev().find(|(_, duration, is_independent)| {
                    length += *duration;
                    length >= offer.hold_back && *is_independent
                });
                first.or_else(|| units.first()).map_or((end, 0), |unit| unit.0)
            }
            (Self::Usual, None) => {
                let behind = segments.hold_back.map_or(SEGMENTS_BEHIND, |hold_back| {
                    let mut length = Duration::ZERO;
                    let is_nearer = |duration: &Duration| {
                        let is_nearer = length < hold_back;
                        length += *duration;
                        is_nearer
                    };
                    durations.rev().take_while(is_nearer).count() as u64
                });
                (end.saturating_sub(behind).max(segments.first), 0)
            }
            (Self::After(wanted), _) => (segments.first + nearest(durations, wanted), 0),
            (Self::Behind(wanted), None) => (end - nearest(durations.rev(), wanted), 0),
            (Self::Behind(wanted), Some(offer)) => {
                let units = units(segments, offer);
                let count = nearest(units.iter().rev().map(|unit| unit.1), wanted);
                let count = usize::try_from(count).unwrap_or(usize::MAX);
                units.get(units.len().saturating_sub(count)).map_or_else(|| segments.edge(), |unit| unit.0)
            }
        }
    }
}

/// All that is listed, in parts where there are any.
fn units(segments: &Segments, offer: &LowLatency) -> Vec<Unit> {
    let mut units = Vec::new();
    let mut parts = offer.parts.iter().peekable();
    for (number, segment) in (segments.first..).zip(segments.list.iter().map(Some).chain([None])) {
        let before = units.len();
        while let Some(part) = parts.next_if(|part| part.at.0 <= number) {
            units.push((part.at, part.segment.duration, part.is_independent || part.at.1 == 0));
        }
        if let Some(segment) = segment
            && units.len() == before
        {
            units.push(((number, 0), segment.duration, true));
        }
    }
    units
}

/// How many segments together come nearest to this length.
fn nearest(durations: impl Iterator<Item = Duration>, wanted: Duration) -> u64 {
    let mut length = Duration::ZERO;
    let is_nearer = |duration: &Duration| {
        let longer = length + *duration;
        let is_nearer = longer.abs_diff(wanted) <= length.abs_diff(wanted);
        length = longer;
        is_nearer
    };
    durations.take_while(is_nearer).count() as u64
}
