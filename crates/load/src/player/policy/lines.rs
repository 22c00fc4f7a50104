//! What a player fetches at the same time. Most streams need one line; low latency has picture, sound and their playlists
//! on the way at once, since servers hold requests for what is not there yet.

use std::time::Duration;

use super::sides::Which;
use super::{Action, Fetch, Fetching, Kind, Player};

/// One of the things that are under way at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Line {
    /// All that does not need a line of its own.
    Main,
    /// Sound in parts.
    Sound,
    /// The playlist of a picture in parts.
    PictureList,
    /// That of sound in parts.
    SoundList,
}

impl Line {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Main, Self::Sound, Self::PictureList, Self::SoundList];

    /// Its place among them.
    pub fn place(self) -> usize {
        self as usize
    }
}

impl Player {
    /// Which line fetches picture or sound.
    pub(super) fn line_of(&self, which: Which) -> Line {
        match which {
            Which::Sound if self.sound.as_ref().is_some_and(|lane| lane.is_low_latency) => Line::Sound,
            Which::Picture | Which::Sound => Line::Main,
        }
    }

    /// Nothing can be done before something has come.
    pub(super) fn idle(&self) -> Action {
        match self.habits.watch {
            Some(watch) => Action::Wait(self.began + watch),
            None => Action::Idle,
        }
    }

    /// Asks for the playlist with the next part in it, which the server answers when that is there.
    pub(super) fn ask_for_more(&mut self, line: Line, which: Which, now: Duration) -> Action {
        let Some(lane) = self.lane(which).filter(|lane| lane.is_low_latency) else { return self.idle() };
        let Some(segments) = &lane.segments else { return self.fetch_manifest(line, which) };
        if segments.ended {
            return self.idle();
        }
        if now < lane.reload_at {
            return Action::Wait(self.bounded(lane.reload_at));
        }
        let (segment, part) = segments.edge();
        let place = self.place(which);
        let mut target = place.clone();
        let mark = if target.path.contains('?') { '&' } else { '?' };
        target.path.push_str(&format!("{mark}_HLS_msn={segment}&_HLS_part={part}"));
        self.fetching[line.place()] = Some(Fetching::Manifest { which, place });
        Action::Fetch(Fetch { target, range: None, kind: Kind::Manifest })
    }

    /// Nobody waits longer than the viewer stays.
    pub(super) fn bounded(&self, until: Duration) -> Duration {
        self.habits.watch.map_or(until, |watch| until.min(self.began + watch))
    }
}
