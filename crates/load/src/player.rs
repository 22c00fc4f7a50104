//! What a video player does, without a socket: it is told what arrived when, and says what to fetch next.

mod buffer;
pub mod dash;
pub mod hls;
mod policy;
mod totals;

use std::time::Duration;

pub use buffer::Buffer;
pub use policy::{Action, Fetch, Kind, Player};
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
