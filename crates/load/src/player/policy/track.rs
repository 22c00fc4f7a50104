//! A track, video or audio, and which segment of it is next.

mod after;
mod parts;
mod start;

use std::sync::Arc;
use std::time::Duration;

use self::parts::PartProgress;
pub(super) use self::start::StartPoint;
use crate::player::segments::{InitSegment, MediaSegment, PartialSegment, SegmentList};
use crate::target::TargetUrl;

/// The shortest time between two requests for a playlist whose server does not hold requests.
const LOOK_MIN: Duration = Duration::from_millis(100);

/// The most init segments that are remembered.
const HAD_MAX: usize = 16;

/// The tracks of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TrackKind {
    Video,
    Audio,
}

/// A sequence of segments, and how far it was fetched.
#[derive(Clone, Debug)]
pub(super) struct Track {
    /// Its own manifest, if it has one.
    pub(super) manifest: Option<TargetUrl>,
    pub(super) segments: Option<SegmentList>,
    pub(super) reload_at: Duration,
    pub(super) next: Option<u64>,
    /// How much of the next segment was fetched in parts.
    within: PartProgress,
    /// Whether parts are fetched, and blocking requests for the playlist sent.
    pub(super) is_low_latency: bool,
    /// The start of the next segment, relative to the presentation.
    pub(super) position: Option<Duration>,
    /// When the segments were listed.
    listed_at: Duration,
    /// Set after a delta update was refused, until a playlist arrives.
    pub(super) wants_full_playlist: bool,
    /// Init segments that were fetched.
    had: Vec<Arc<InitSegment>>,
    /// How many resources before the next segment were fetched.
    inits: usize,
    /// How much was fetched, and how much was skipped because it had left a live manifest.
    fetched: Duration,
    skipped: Duration,
}

/// Something to fetch for a track.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum FetchItem {
    Init(Arc<InitSegment>),
    Segment(MediaSegment),
    /// A part that the playlist lists.
    Part(PartialSegment),
    /// A part that is still being made; its duration is not known.
    Hint(PartialSegment),
}

impl FetchItem {
    /// Its URI and byte range.
    pub(super) fn place(&self) -> (&str, Option<&str>) {
        match self {
            Self::Init(one) => (&one.uri, one.range.as_deref()),
            Self::Segment(one) => (&one.uri, one.range.as_deref()),
            Self::Part(one) | Self::Hint(one) => (&one.segment.uri, one.segment.range.as_deref()),
        }
    }

    fn segment(&self) -> Option<&MediaSegment> {
        match self {
            Self::Init(_) => None,
            Self::Segment(one) => Some(one),
            Self::Part(one) | Self::Hint(one) => Some(&one.segment),
        }
    }
}

impl Track {
    pub(super) fn new(manifest: Option<TargetUrl>, now: Duration) -> Self {
        Self {
            manifest,
            segments: None,
            reload_at: now,
            next: None,
            within: PartProgress::default(),
            is_low_latency: false,
            position: None,
            listed_at: now,
            wants_full_playlist: false,
            had: Vec::new(),
            inits: 0,
            fetched: Duration::ZERO,
            skipped: Duration::ZERO,
        }
    }

    /// A track that joins another one, at the point up to which that was fetched.
    pub(super) fn beside(other: &Self, manifest: TargetUrl, now: Duration) -> Self {
        Self { fetched: other.reach(), ..Self::new(Some(manifest), now) }
    }

    /// Continues in another manifest, from the next segment.
    pub(super) fn change(&mut self, manifest: Option<TargetUrl>) {
        if manifest.is_some() {
            // The same URI may mean another resource there.
            self.had.clear();
        }
        self.manifest = manifest;
        self.segments = None;
        self.is_low_latency = false;
        self.inits = 0;
    }

    /// How far it was fetched, skipped time included.
    pub(super) fn reach(&self) -> Duration {
        self.fetched + self.skipped
    }

    pub(super) fn skipped(&self) -> Duration {
        self.skipped
    }

    pub(super) fn next_segment(&self) -> Option<&MediaSegment> {
        let segments = self.segments.as_ref()?;
        let place = self.next.unwrap_or(segments.first).checked_sub(segments.first)?;
        segments.list.get(usize::try_from(place).ok()?)
    }

    /// Whether all of it was fetched.
    pub(super) fn is_over(&self) -> bool {
        self.next_media().is_none() && self.segments.as_ref().is_some_and(|segments| segments.ended)
    }

    /// The next resource to fetch.
    pub(super) fn next_item(&mut self) -> Option<FetchItem> {
        let media = self.next_media()?;
        let before = media.segment().map(|segment| segment.before.clone()).unwrap_or_default();
        while let Some(init) = before.get(self.inits) {
            if !(init.once && self.had.contains(init)) {
                return Some(FetchItem::Init(Arc::clone(init)));
            }
            self.inits += 1;
        }
        Some(media)
    }

    /// Takes a resource that was fetched.
    pub(super) fn take(&mut self, piece: FetchItem) {
        if !matches!(piece, FetchItem::Init(_)) {
            self.inits = 0;
        }
        match piece {
            FetchItem::Init(init) => {
                self.inits += 1;
                if init.once && self.had.len() < HAD_MAX {
                    self.had.push(init);
                }
            }
            FetchItem::Segment(segment) => {
                self.position = Some(segment.start + segment.duration);
                self.fetched += segment.duration;
                self.next = self.next.map(|next| next + 1);
                self.within = PartProgress::default();
            }
            FetchItem::Part(part) => self.take_part(&part),
            FetchItem::Hint(part) => self.take_hint(part.at),
        }
    }

    /// Takes a new list of segments. Returns how many had left the list before they were fetched.
    pub(super) fn take_segments(&mut self, now: Duration, segments: SegmentList, start: StartPoint) -> u64 {
        self.listed_at = now;
        self.wants_full_playlist = false;
        let is_news = self.segments.as_ref() != Some(&segments);
        // A manifest without news is fetched again sooner (RFC 8216 §6.3.4).
        self.reload_at = now + if is_news { segments.reload } else { segments.reload / 2 };
        self.is_low_latency = segments.low_latency.is_some();
        if let Some(offer) = &segments.low_latency {
            // The server holds the request until there is news. If it does not, requests keep a distance.
            self.reload_at = now + if is_news { Duration::ZERO } else { offer.target.max(LOOK_MIN) };
        }
        let mut skipped = 0;
        match self.next {
            None => {
                let (next, part) = start.place(&segments);
                (self.next, self.within) = (Some(next), PartProgress::at(part));
            }
            Some(next) if next < segments.first => {
                skipped = segments.first - next;
                (self.next, self.within) = (Some(segments.first), PartProgress::default());
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

    /// Whether the server takes `_HLS_skip` now: the playlist at hand is at most half of `CAN-SKIP-UNTIL` old
    /// (RFC 8216bis §6.2.5.1).
    pub(super) fn can_skip(&self, now: Duration) -> bool {
        let until = self.segments.as_ref().and_then(|segments| segments.can_skip_until);
        let is_fresh = until.is_some_and(|until| now.saturating_sub(self.listed_at) <= until / 2);
        is_fresh && !self.wants_full_playlist
    }
}
