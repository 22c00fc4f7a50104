//! The segments of a stream, from an HLS playlist or a DASH description.

use std::sync::Arc;
use std::time::Duration;

/// The largest time that is accepted from a manifest. Sums of such times do not overflow.
pub(super) const TIME_MAX: Duration = Duration::from_secs(1 << 40);

/// The most segments that are listed.
pub(super) const SEGMENTS_MAX: usize = 200_000;

/// A bound on memory, in bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct ByteBudget(usize);

impl ByteBudget {
    pub(super) fn new(bytes: usize) -> Self {
        Self(bytes)
    }

    /// Takes this many bytes. Returns false, now and from then on, if fewer are left.
    pub(super) fn take(&mut self, bytes: usize) -> bool {
        let left = self.0.checked_sub(bytes);
        self.0 = left.unwrap_or(0);
        left.is_some()
    }
}

/// Converts seconds of a manifest; `None` if they are negative, not a number, or more than `TIME_MAX`.
pub(super) fn time(seconds: f64) -> Option<Duration> {
    Duration::try_from_secs_f64(seconds).ok().filter(|time| *time <= TIME_MAX)
}

/// The segments that a manifest lists.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SegmentList {
    /// The number of the first segment in the list.
    pub first: u64,
    /// The segments, in the order of playback.
    pub list: Vec<MediaSegment>,
    /// Whether the list is final.
    pub ended: bool,
    /// How long to wait before the manifest is fetched again.
    pub reload: Duration,
    /// The distance from the end at which players start, if the manifest names one.
    pub hold_back: Option<Duration>,
    /// The age up to which a playlist can be completed by a delta update (`CAN-SKIP-UNTIL`), if the server offers that.
    pub can_skip_until: Option<Duration>,
    /// In a delta update, the number of segments that are left out before the first in the list.
    pub skipped: u64,
    /// In a delta update, how many byte ranges in front continue the range of a skipped segment.
    pub open_ranges: usize,
    /// Partial segments, if the server offers them.
    pub low_latency: Option<LowLatency>,
}

/// The low-latency features of a live stream (RFC 8216bis).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LowLatency {
    /// The distance from the last part at which players stay.
    pub hold_back: Duration,
    /// The longest duration of a part.
    pub target: Duration,
    /// The parts of the last segments and of the segment that is being made.
    pub parts: Vec<PartialSegment>,
    /// The next part. It can be requested already; its duration is not known yet.
    pub hint: Option<MediaSegment>,
}

/// A part of a segment (RFC 8216bis §4.4.4.9).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartialSegment {
    /// The number of the segment, and the number of the part within it, from 0.
    pub at: (u64, u64),
    /// Whether playback can start with it.
    pub is_independent: bool,
    /// Location and duration.
    pub segment: MediaSegment,
}

impl SegmentList {
    /// The number after the last whole segment.
    pub fn end(&self) -> u64 {
        self.first.saturating_add(self.list.len() as u64)
    }

    /// The first part that is not listed yet.
    pub fn edge(&self) -> (u64, u64) {
        let parts = self.low_latency.iter().flat_map(|offer| &offer.parts);
        let end = self.end();
        (end, parts.filter(|part| part.at.0 == end).count() as u64)
    }
}

/// A segment of media.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MediaSegment {
    /// The URI, as written in the manifest.
    pub uri: String,
    /// The byte range, `first-last`.
    pub range: Option<String>,
    /// The duration.
    pub duration: Duration,
    /// The start, relative to the presentation, if the manifest names it.
    pub start: Duration,
    /// Fetched first: init segments and, for DASH, audio segments.
    pub before: Vec<Arc<InitSegment>>,
}

impl MediaSegment {
    /// How many bytes of memory it takes, without shared init segments.
    pub(super) fn bytes(&self) -> usize {
        let before = self.before.len() * size_of::<Arc<InitSegment>>();
        size_of::<Self>() + self.uri.len() + self.range.as_ref().map_or(0, String::len) + before
    }
}

/// A resource that is fetched before a segment. Segments share it: a playlist may name one for 100,000 of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InitSegment {
    /// The URI, as written in the manifest.
    pub uri: String,
    /// The byte range, `first-last`.
    pub range: Option<String>,
    /// Whether one fetch serves all segments that name it. Audio segments of DASH are fetched each time.
    pub once: bool,
}

/// One of several renditions of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Variant {
    /// Bits per second.
    pub bandwidth: u64,
    /// The URI of its playlist.
    pub uri: String,
    /// The URI of its audio playlist, if audio has one. Renditions of one group share it.
    pub audio: Option<Arc<str>>,
    /// The pathway that it belongs to, or the service location of DASH, in a manifest with content steering.
    pub pathway: Option<String>,
}

/// Where a manifest has players ask for a pathway: a multivariant playlist (RFC 8216bis §4.4.6.6), or a description of DASH.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContentSteering {
    /// The URI of the steering manifest, as written.
    pub server: String,
    /// The pathway to start with, if the manifest names one.
    pub pathway: Option<String>,
}
