//! What a video player does, without a socket: it is told what arrived when, and says what to fetch next.

mod buffer;
pub mod hls;
mod policy;
mod totals;

use std::time::Duration;

pub use buffer::Buffer;
pub use policy::{Action, Fetch, Player};
pub use totals::Totals;

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
    /// What has to be fetched before it, if that has not been: the initialisation.
    pub map: Option<(String, Option<String>)>,
}

/// One of several qualities.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Variant {
    /// Bits per second.
    pub bandwidth: u64,
    /// Where its own manifest is.
    pub uri: String,
}
