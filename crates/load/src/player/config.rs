//! The options of a player.

use std::time::Duration;

/// How players behave. Equal for all players of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlayerConfig {
    /// How much media is fetched ahead of playback.
    pub buffer: Duration,
    /// How much media is buffered before playback starts, initially and after a stall.
    pub start: Duration,
    /// The rendition that is chosen.
    pub quality: QualityChoice,
    /// How long a viewer stays; `None` is to the end.
    pub watch: Option<Duration>,
    /// The time over which viewers arrive.
    pub ramp: Duration,
    /// The period after which all viewers leave and return at once.
    pub storm: Option<Duration>,
    /// Whether partial segments are fetched if a live stream offers them.
    pub low_latency: bool,
    /// Whether players say what they will ask for next (CMCD, CTA-5004).
    pub cmcd: bool,
}

impl Default for PlayerConfig {
    /// The values of common players.
    fn default() -> Self {
        Self {
            buffer: Duration::from_secs(30),
            start: Duration::from_secs(2),
            quality: QualityChoice::Auto,
            watch: None,
            ramp: Duration::ZERO,
            storm: None,
            low_latency: true,
            cmcd: false,
        }
    }
}

/// Which rendition is chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QualityChoice {
    /// The lowest bitrate.
    Lowest,
    /// The highest bitrate.
    Highest,
    /// The highest bitrate that the measured throughput carries.
    Auto,
}
