//! The state of a player.

use std::time::Duration;

use super::action::FetchSlot;
use super::pathway::Steering;
use super::quality::Qualities;
use super::track::{FetchItem, Track, TrackKind};
use crate::player::buffer::PlaybackBuffer;
use crate::player::config::PlayerConfig;
use crate::player::dash::{IndexSearch, Presentation};
use crate::player::totals::PlayerReport;
use crate::target::TargetUrl;

/// Consecutive failures after which a player gives up.
const FAILURES_MAX: u32 = 10;

/// One player. Times are relative to the start of the run.
#[derive(Clone, Debug)]
pub struct Player {
    pub(super) config: PlayerConfig,
    pub(super) began: Duration,
    pub(super) buffer: PlaybackBuffer,
    /// The manifest that is fetched first.
    pub(super) master: TargetUrl,
    pub(super) qualities: Qualities,
    /// Present if the playlist has content steering.
    pub(super) steering: Option<Steering>,
    /// The DASH description, which has all renditions.
    pub(super) presentation: Option<Presentation>,
    /// The index that is being searched, and the bytes that the search needs next.
    pub(super) search: Option<(IndexSearch, (u64, u64))>,
    /// The start of the run, since 1970.
    pub(super) wall: Duration,
    pub(super) video: Track,
    /// Present if audio has its own playlist.
    pub(super) audio: Option<Track>,
    /// How much media became playable so far.
    pub(super) filled: Duration,
    pub(super) in_flight: [Option<InFlight>; FetchSlot::ALL.len()],
    pub(super) retry_at: [Duration; FetchSlot::ALL.len()],
    pub(super) failures: Failures,
    pub(super) news: PlayerReport,
    /// Stalls, time stalled and time played that were reported already.
    reported: (u64, Duration, Duration),
    has_reported_startup: bool,
}

/// A fetch that is under way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum InFlight {
    /// The manifest at `place`.
    Manifest {
        which: TrackKind,
        place: TargetUrl,
    },
    Item {
        which: TrackKind,
        item: FetchItem,
        since: Duration,
    },
}

/// Consecutive failures. Media counts apart: a live stream with good manifests and broken segments is over too.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Failures {
    pub(super) manifests: u32,
    pub(super) media: u32,
}

impl Failures {
    pub(super) fn are_too_many(self) -> bool {
        self.manifests.max(self.media) >= FAILURES_MAX
    }
}

impl Player {
    /// A player that arrives now.
    pub fn new(config: PlayerConfig, manifest: TargetUrl, now: Duration) -> Self {
        Self {
            config,
            began: now,
            buffer: PlaybackBuffer::new(now, config.start),
            master: manifest,
            qualities: Qualities::new(config.quality),
            steering: None,
            presentation: None,
            search: None,
            wall: Duration::ZERO,
            video: Track::new(None, now),
            audio: None,
            filled: Duration::ZERO,
            in_flight: Default::default(),
            retry_at: [now; FetchSlot::ALL.len()],
            failures: Failures::default(),
            news: PlayerReport { players: 1, ..PlayerReport::default() },
            reported: Default::default(),
            has_reported_startup: false,
        }
    }

    /// Sets the start of the run, since 1970. Live streams of DASH depend on it.
    #[must_use]
    pub fn at(self, wall: Duration) -> Self {
        Self { wall, ..self }
    }

    /// Returns what happened since the last report.
    pub fn report(&mut self, now: Duration) -> PlayerReport {
        self.buffer.advance(now);
        let (stalls, stalled, played) = self.buffer.experience();
        let (stalls_before, stalled_before, played_before) = self.reported;
        self.reported = (stalls, stalled, played);
        let mut report = std::mem::take(&mut self.news);
        if !self.has_reported_startup {
            report.startup = self.buffer.startup();
            self.has_reported_startup = report.startup.is_some();
        }
        report.stalls = stalls - stalls_before;
        report.is_first_stall = stalls_before == 0 && stalls > 0;
        report.stalled = stalled - stalled_before;
        report.played = played - played_before;
        report.is_stalled = self.buffer.is_stalled();
        report
    }
}
