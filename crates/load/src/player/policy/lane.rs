//! One of the streams that are fetched side by side, the picture or the sound: which segment is next in it.

mod begin;
mod parts;

use std::time::Duration;

pub(super) use self::begin::Begin;
use self::parts::Within;
use crate::player::{Companion, Part, Segment, Segments};
use crate::target::Target;

/// A playlist whose server does not hold the request is not asked for more often.
const LOOK_MIN: Duration = Duration::from_millis(100);

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
    /// How much of that segment has been fetched in parts.
    within: Within,
    /// Whether parts are fetched, and its playlist is asked for all the time.
    pub(super) is_low_latency: bool,
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

/// Something to fetch of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Piece {
    Companion(Companion),
    Segment(Segment),
    /// A part that the playlist lists.
    Part(Part),
    /// A part that is still being made, and how long it plays is not known.
    Hint(Part),
}

impl Piece {
    /// Where it is, and which bytes of it.
    pub(super) fn place(&self) -> (&str, Option<&str>) {
        match self {
            Self::Companion(one) => (&one.uri, one.range.as_deref()),
            Self::Segment(one) => (&one.uri, one.range.as_deref()),
            Self::Part(one) | Self::Hint(one) => (&one.segment.uri, one.segment.range.as_deref()),
        }
    }

    fn segment(&self) -> Option<&Segment> {
        match self {
            Self::Companion(_) => None,
            Self::Segment(one) => Some(one),
            Self::Part(one) | Self::Hint(one) => Some(&one.segment),
        }
    }
}

impl Lane {
    pub(super) fn new(manifest: Option<Target>, now: Duration) -> Self {
        Self {
            manifest,
            segments: None,
            reload_at: now,
            next: None,
            within: Within::default(),
            is_low_latency: false,
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
        self.is_low_latency = false;
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
        self.next_media().is_none() && self.segments.as_ref().is_some_and(|segments| segments.ended)
    }

    /// What of the next segment, or part of one, is to be fetched now.
    pub(super) fn next_piece(&mut self) -> Option<Piece> {
        let media = self.next_media()?;
        let before = media.segment().map(|segment| segment.before.clone()).unwrap_or_default();
        while let Some(companion) = before.get(self.companions) {
            if !(companion.once && self.had.contains(companion)) {
                return Some(Piece::Companion(companion.clone()));
            }
            self.companions += 1;
        }
        Some(media)
    }

    /// It has come.
    pub(super) fn take(&mut self, piece: Piece) {
        if !matches!(piece, Piece::Companion(_)) {
            self.companions = 0;
        }
        match piece {
            Piece::Companion(companion) => {
                self.companions += 1;
                if companion.once && self.had.len() < HAD_MAX {
                    self.had.push(companion);
                }
            }
            Piece::Segment(segment) => {
                self.position = Some(segment.start + segment.duration);
                self.fetched += segment.duration;
                self.next = self.next.map(|next| next + 1);
                self.within = Within::default();
            }
            Piece::Part(part) => self.take_part(&part),
            Piece::Hint(part) => self.take_hint(part.at),
        }
    }

    /// A manifest that has just come. Returns how many segments had gone from it before they were fetched.
    pub(super) fn take_segments(&mut self, now: Duration, segments: Segments, begin: Begin) -> u64 {
        let is_news = self.segments.as_ref() != Some(&segments);
        // A manifest that has not changed is looked at again sooner (RFC 8216 §6.3.4).
        self.reload_at = now + if is_news { segments.reload } else { segments.reload / 2 };
        self.is_low_latency = segments.low_latency.is_some();
        if let Some(offer) = &segments.low_latency {
            // The server holds the request until there is more; if it does not, it is not asked without end.
            self.reload_at = now + if is_news { Duration::ZERO } else { offer.target.max(LOOK_MIN) };
        }
        let mut skipped = 0;
        match self.next {
            None => {
                let (next, part) = begin.place(&segments);
                (self.next, self.within) = (Some(next), Within::at(part));
            }
            Some(next) if next < segments.first => {
                skipped = segments.first - next;
                (self.next, self.within) = (Some(segments.first), Within::default());
            }
            Some(_) => {}
        }
        self.segments = Some(segments);
        if skipped > 0 {
            let each = self.next_segment().map_or(Duration::ZERO, |segment| segment.duration);
            self.skipped += each.saturating_mul(u32::try_from(skipped).unwrap_or(u32::MAX));
        }
        skipped + u64::from(self.settle())
    }
}
