//! Video and audio: how far each was fetched, and how much of both can be played.

use std::time::Duration;

use super::state::Player;
use super::track::{Track, TrackKind};
use crate::target::TargetUrl;

impl Player {
    pub(super) fn track(&self, which: TrackKind) -> Option<&Track> {
        match which {
            TrackKind::Video => Some(&self.video),
            TrackKind::Audio => self.audio.as_ref(),
        }
    }

    pub(super) fn track_mut(&mut self, which: TrackKind) -> Option<&mut Track> {
        match which {
            TrackKind::Video => Some(&mut self.video),
            TrackKind::Audio => self.audio.as_mut(),
        }
    }

    pub(super) fn tracks(&self) -> impl Iterator<Item = &Track> {
        [&self.video].into_iter().chain(&self.audio)
    }

    /// The URL of its manifest.
    pub(super) fn place(&self, which: TrackKind) -> TargetUrl {
        self.track(which).and_then(|track| track.manifest.as_ref()).unwrap_or(&self.master).clone()
    }

    /// How much was skipped, of video or audio; the other track does not play that time either.
    fn skipped(&self) -> Duration {
        self.tracks().map(Track::skipped).max().unwrap_or_default()
    }

    /// How much of a track lies ahead of playback, whether the other track has that too or not.
    pub(super) fn ahead(&self, track: &Track) -> Duration {
        self.buffer.ahead() + track.reach().saturating_sub(self.skipped()).saturating_sub(self.filled)
    }

    /// Adds what both tracks have to the buffer. A track that is over does not hold up the other.
    pub(super) fn fill(&mut self, now: Duration) {
        let under_way = self.tracks().filter(|track| !track.is_over()).map(Track::reach).min();
        let reach = under_way.or_else(|| self.tracks().map(Track::reach).max()).unwrap_or_default();
        let filled = reach.saturating_sub(self.skipped());
        if filled > self.filled {
            self.buffer.fill(now, filled - self.filled);
            self.filled = filled;
        }
    }
}
