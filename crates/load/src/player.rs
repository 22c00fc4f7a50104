//! What a video player does, without a socket: it is told what arrived when, and says what to fetch next.

mod buffer;
pub mod dash;
pub mod hls;
mod policy;
mod totals;

use std::time::Duration;

pub use buffer::Buffer;
pub use policy::{Action, Fetch, Kind, Line, Player};
pub use totals::Totals;

use crate::target::Target;

/// What kind of players take part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Habits {
    /// How much is fetched ahead.
    pub buffer: Duration,
    /// How much has to be there before the picture starts, at first and after a stall.
    pub start: Duration,
    /// Which of several qualities is taken.
    pub quality: Quality,
    /// How long a viewer stays; to the end if not given.
    pub watch: Option<Duration>,
    /// Over how long the viewers come in.
    pub ramp: Duration,
    /// How often all leave and return at once.
    pub storm: Option<Duration>,
    /// Whether parts of segments are fetched where a live stream offers them.
    pub low_latency: bool,
}

impl Default for Habits {
    /// Those of common players.
    fn default() -> Self {
        Self {
            buffer: Duration::from_secs(30),
            start: Duration::from_secs(2),
            quality: Quality::Auto,
            watch: None,
            ramp: Duration::ZERO,
            storm: None,
            low_latency: true,
        }
    }
}

/// Which of several qualities is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quality {
    /// That of the smallest bitrate.
    Lowest,
    /// That of the largest.
    Highest,
    /// The largest that the measured throughput carries.
    Auto,
}

/// Nothing in a manifest lasts longer, or is later than this: so many years that all sums still fit.
const LONGEST: Duration = Duration::from_secs(1 << 40);
/// More segments are never listed.
const SEGMENTS_MAX: usize = 200_000;

/// A time as a manifest says it; `None` if no clock shows it.
fn time(seconds: f64) -> Option<Duration> {
    Duration::try_from_secs_f64(seconds).ok().filter(|time| *time <= LONGEST)
}

/// A list of segments, as the manifest last had it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Segments {
    /// The number of the first segment listed.
    pub first: u64,
    /// Those listed.
    pub list: Vec<Segment>,
    /// Whether no more will come.
    pub ended: bool,
    /// How long to wait before looking for more.
    pub reload: Duration,
    /// How far behind the end players shall begin, if that is said.
    pub hold_back: Option<Duration>,
    /// What there is for players that stay nearer to the end.
    pub low_latency: Option<LowLatency>,
}

/// Parts of segments, so that a live stream can be played before its last segment is whole.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LowLatency {
    /// How far behind the last part players shall stay.
    pub hold_back: Duration,
    /// No part is longer.
    pub target: Duration,
    /// Those of the last segments, and of the one that is still being made.
    pub parts: Vec<Part>,
    /// The part that comes next. It can be asked for already; how long it plays is not known yet.
    pub hint: Option<Segment>,
}

/// A part of a segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// The number of the segment, and that of the part in it, from 0.
    pub at: (u64, u64),
    /// Whether a picture can begin with it.
    pub is_independent: bool,
    /// Where it is and how long it plays.
    pub segment: Segment,
}

impl Segments {
    /// The number of the segment behind the last one that is whole.
    pub fn end(&self) -> u64 {
        self.first.saturating_add(self.list.len() as u64)
    }

    /// The first part that is not there yet.
    pub fn edge(&self) -> (u64, u64) {
        let parts = self.low_latency.iter().flat_map(|offer| &offer.parts);
        let end = self.end();
        (end, parts.filter(|part| part.at.0 == end).count() as u64)
    }
}

/// A piece of the film.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Where it is, as written in the manifest.
    pub uri: String,
    /// Which bytes of it: `first-last`.
    pub range: Option<String>,
    /// How long it plays.
    pub duration: Duration,
    /// When it plays, where the manifest says so: from the beginning of the presentation.
    pub start: Duration,
    /// What has to be fetched before it: initialisations, and the sound where that has segments of its own.
    pub before: Vec<Companion>,
}

/// Something to fetch before a segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Companion {
    /// Where it is, as written in the manifest.
    pub uri: String,
    /// Which bytes of it: `first-last`.
    pub range: Option<String>,
    /// Whether it is fetched once for all segments that name it.
    pub once: bool,
}

/// What was read of a manifest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Manifest {
    /// HLS: a choice of qualities, or the segments of one.
    Hls(hls::Playlist),
    /// DASH: everything.
    Dash(dash::Presentation),
}

impl Manifest {
    /// Reads the manifest at `place`; `None` if it is none.
    pub fn parse(text: &str, place: &Target) -> Option<Self> {
        if text.trim_start_matches(['\u{feff}', ' ', '\n', '\r', '\t']).starts_with('<') {
            dash::parse(text.trim_start_matches('\u{feff}'), place).map(Self::Dash)
        } else {
            hls::parse(text).map(Self::Hls)
        }
    }
}

/// One of several qualities.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Variant {
    /// Bits per second.
    pub bandwidth: u64,
    /// Where its own manifest is.
    pub uri: String,
    /// Where the manifest of its sound is, if that has one.
    pub sound: Option<String>,
}
