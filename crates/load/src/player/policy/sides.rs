//! Picture and sound, side by side: how far each is, and how much of both can be played.

use std::time::Duration;

use super::Player;
use super::lane::Lane;
use crate::target::Target;

/// What is fetched side by side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Which {
    Picture,
    Sound,
}

impl Player {
    pub(super) fn lane(&self, which: Which) -> Option<&Lane> {
        match which {
            Which::Picture => Some(&self.picture),
            Which::Sound => self.sound.as_ref(),
        }
    }

    pub(super) fn lane_mut(&mut self, which: Which) -> Option<&mut Lane> {
        match which {
            Which::Picture => Some(&mut self.picture),
            Which::Sound => self.sound.as_mut(),
        }
    }

    pub(super) fn lanes(&self) -> impl Iterator<Item = &Lane> {
        [&self.picture].into_iter().chain(&self.sound)
    }

    /// Where its manifest is.
    pub(super) fn place(&self, which: Which) -> Target {
        self.lane(which).and_then(|lane| lane.manifest.as_ref()).unwrap_or(&self.master).clone()
    }

    /// How much was left out, of picture or sound: what the other has of that is not played either.
    fn skipped(&self) -> Duration {
        self.lanes().map(Lane::skipped).max().unwrap_or_default()
    }

    /// How much of it lies ahead of what is played, whether the other has that too or not.
    pub(super) fn ahead(&self, lane: &Lane) -> Duration {
        self.buffer.ahead() + lane.reach().saturating_sub(self.skipped()).saturating_sub(self.filled)
    }

    /// Played can be what there is of both; one that is over holds up nobody.
    pub(super) fn fill(&mut self, now: Duration) {
        let under_way = self.lanes().filter(|lane| !lane.is_over()).map(Lane::reach).min();
        let reach = under_way.or_else(|| self.lanes().map(Lane::reach).max()).unwrap_or_default();
        let filled = reach.saturating_sub(self.skipped());
        if filled > self.filled {
            self.buffer.fill(now, filled - self.filled);
            self.filled = filled;
        }
    }
}
