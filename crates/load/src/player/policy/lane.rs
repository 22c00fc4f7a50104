//! One of the streams that are fetched side by side, the picture or the sound: which segment is next in it.

use std::time::Duration;

use crate::player::{Companion, Segment, Segments};
use crate::target::Target;

/// Live players begin so many segments before the end of the manifest (RFC 8216 §6.3.3).
const SEGMENTS_BEHIND: u64 = 3;

/// More initialisations than this are not remembered.
const HAD_MAX: usize = 16;

/// A stream of segments, and how far it has been fetched.
#[derive(Clone, Debug)]
pub(super) struct Lane {
    /// Its own manifest, if it has one.
    pub(super) manifest: Option<Target>,
    pub(super) segments: Option<Segments>,
    pub(super) reload_at: Duration,
    pub(super) next: Option<u64>,
    /// Where in a presentation the next segment begins.
    pub(super) position: Option<Duration>,
    /// What is fetched once and has been.
    had: Vec<Companion>,
    /// How much of what comes before the next segment has been fetched.
    companions: usize,
    /// How much has come, and how much was left out because it had gone from a live manifest.
    fetched: Duration,
    skipped: Duration,
}

/// Where a stream begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Begin {
    /// Films at their first segment, live streams behind their end.
    Usual,
    /// After so much of it.
    After(Duration),
    /// So much before its end.
    Behind(Duration),
}

/// Something to fetch of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Piece {
    Companion(Companion),
    Segment(Segment),
}

impl Lane {
    pub(super) fn new(manifest: Option<Target>, now: Duration) -> Self {
        Self {
            manifest,
            segments: None,
            reload_at: now,
            next: None,
            position: None,
            had: Vec::new(),
            companions: 0,
            fetched: Duration::ZERO,
            skipped: Duration::ZERO,
        }
    }

    /// A stream that joins another one which has been fetched so far.
    pub(super) fn beside(other: &Self, manifest: Target, now: Duration) -> Self {
        Self { fetched: other.reach(), ..Self::new(Some(manifest), now) }
    }

    /// Goes on in another manifest, from the segment that is next.
    pub(super) fn change(&mut self, manifest: Option<Target>) {
        if manifest.is_some() {
            // There the same names may mean something else.
            self.had.clear();
        }
        self.manifest = manifest;
        self.segments = None;
        self.companions = 0;
    }

    /// How far it has been fetched, with what was left out.
    pub(super) fn reach(&self) -> Duration {
        self.fetched + self.skipped
    }

    pub(super) fn skipped(&self) -> Duration {
        self.skipped
    }

    pub(super) fn next_segment(&self) -> Option<&Segment> {
        let segments = self.segments.as_ref()?;
        let place = self.next.unwrap_or(segments.first).checked_sub(segments.first)?;
        segments.list.get(usize::try_from(place).ok()?)
    }

    /// Whether all of it has come.
    pub(super) fn is_over(&self) -> bool {
        self.next_segment().is_none() && self.segments.as_ref().is_some_and(|segments| segments.ended)
    }

    /// How much is listed that has not been fetched.
    pub(super) fn to_come(&self) -> Duration {
        let Some(segments) = &self.segments else { return Duration::ZERO };
        let place = self.next.unwrap_or(segments.first).saturating_sub(segments.first);
        segments
            .list
            .iter()
            .skip(usize::try_from(place).unwrap_or(usize::MAX))
            .map(|segment| segment.duration)
            .sum()
    }

    /// What of the next segment is to be fetched now.
    pub(super) fn next_piece(&mut self) -> Option<Piece> {
        let segment = self.next_segment()?.clone();
        while let Some(companion) = segment.before.get(self.companions) {
            if !(companion.once && self.had.contains(companion)) {
                return Some(Piece::Companion(companion.clone()));
            }
            self.companions += 1;
        }
        Some(Piece::Segment(segment))
    }

    /// It has come.
    pub(super) fn take(&mut self, piece: Piece) {
        match piece {
            Piece::Companion(companion) => {
                self.companions += 1;
                if companion.once && self.had.len() < HAD_MAX {
                    self.had.push(companion);
                }
            }
            Piece::Segment(segment) => {
                self.companions = 0;
                self.position = Some(segment.start + segment.duration);
                self.fetched += segment.duration;
                self.next = self.next.map(|next| next + 1);
            }
        }
    }

    /// A manifest that has just come. Returns how many segments had gone from it before they were fetched.
    pub(super) fn take_segments(&mut self, now: Duration, segments: Segments, begin: Begin) -> u64 {
        let is_news = self.segments.as_ref() != Some(&segments);
        // A manifest that has not changed is looked at again sooner (RFC 8216 §6.3.4).
        self.reload_at = now + if is_news { segments.reload } else { segments.reload / 2 };
        let (next, skipped) = match self.next {
            None => (begin.number(&segments), 0),
            Some(next) => (next.max(segments.first), segments.first.saturating_sub(next)),
        };
        self.next = Some(next);
        self.segments = Some(segments);
        if skipped > 0 {
            let each = self.next_segment().map_or(Duration::ZERO, |segment| segment.duration);
            self.skipped += each.saturating_mul(u32::try_from(skipped).unwrap_or(u32::MAX));
        }
        skipped
    }
}

impl Begin {
    /// The number of the segment that is first.
    fn number(self, segments: &Segments) -> u64 {
        let end = segments.first + segments.list.len() as u64;
        let durations = segments.list.iter().map(|segment| segment.duration);
        match self {
            Self::Usual if segments.ended => segments.first,
            Self::Usual => end.saturating_sub(SEGMENTS_BEHIND).max(segments.first),
            Self::After(wanted) => segments.first + nearest(durations, wanted),
            Self::Behind(wanted) => end - nearest(durations.rev(), wanted),
        }
    }
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
