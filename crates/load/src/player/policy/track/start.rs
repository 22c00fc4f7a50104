//! The point of a stream at which a player starts.

use std::time::Duration;

use crate::player::segments::{LowLatency, SegmentList};

/// Live players start this many segments before the end of the manifest (RFC 8216 §6.3.3).
const SEGMENTS_BEHIND: u64 = 3;

/// The point at which a track starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::player::policy) enum StartPoint {
    /// On demand the first segment; live, a distance from the end.
    Usual,
    /// After this much media.
    After(Duration),
    /// This much media before the end.
    Behind(Duration),
}

/// A segment or a part: its number and the part's, its duration, and whether playback can start with it.
type PlayableUnit = ((u64, u64), Duration, bool);

impl StartPoint {
    /// The number of the first segment to fetch, and of the part in it.
    pub(super) fn place(self, segments: &SegmentList) -> (u64, u64) {
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

/// Everything that is listed, in parts if a segment has them.
fn units(segments: &SegmentList, offer: &LowLatency) -> Vec<PlayableUnit> {
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

/// How many segments come nearest to this duration.
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
