//! What a player fetches next.

mod lane;
mod presentation;
mod quality;

use std::time::Duration;

use self::lane::{Lane, Piece};
use self::quality::Qualities;
use super::dash::{Presentation, Search};
use super::hls::Playlist;
use super::{Buffer, Habits, Manifest, Segments, Totals};
use crate::target::Target;

/// What a player does next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Fetches this, then says what came of it.
    Fetch(Fetch),
    /// Does nothing until then.
    Wait(Duration),
    /// Leaves.
    Leave,
}

/// Something to fetch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fetch {
    /// Where it is.
    pub target: Target,
    /// Which bytes: `first-last`.
    pub range: Option<String>,
    /// What it is.
    pub kind: Kind,
}

/// What is fetched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A manifest, which is read.
    Manifest,
    /// Bytes in which the index of a file of media may be, which are read.
    Index,
    /// Media, of which only the length counts.
    Media,
}

/// Failures in a row after which a player gives up.
const FAILURES_MAX: u32 = 10;

/// A live stream whose segments appear by the clock is not looked at more often.
const CLOCK_LOOK: Duration = Duration::from_millis(100);

/// A pause after a failure.
const AFTER_FAILURE: Duration = Duration::from_secs(1);

/// A player whose buffer is full looks again when so much more fits.
const AFTER_FULL: Duration = Duration::from_millis(500);

/// One player. Times are those since the beginning of the run.
#[derive(Clone, Debug)]
pub struct Player {
    habits: Habits,
    began: Duration,
    buffer: Buffer,
    /// The manifest that was asked for at first.
    master: Target,
    qualities: Qualities,
    /// What a DASH description said, which has all qualities in it.
    presentation: Option<Presentation>,
    /// An index of it that is being looked for, and the bytes that are needed for that.
    search: Option<(Search, (u64, u64))>,
    /// The moment at which the run began, since 1970.
    wall: Duration,
    picture: Lane,
    fetching: Option<Fetching>,
    failures: u32,
    retry_at: Duration,
    totals: Totals,
}

/// What is under way.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Fetching {
    Manifest,
    Piece { piece: Piece, since: Duration },
}

impl Player {
    /// A player that has just come to watch this.
    pub fn new(habits: Habits, manifest: Target, now: Duration) -> Self {
        Self {
            habits,
            began: now,
            buffer: Buffer::new(now, habits.start),
            master: manifest,
            qualities: Qualities::new(habits.quality),
            presentation: None,
            search: None,
            wall: Duration::ZERO,
            picture: Lane::new(None, now),
            fetching: None,
            failures: 0,
            retry_at: now,
            totals: Totals { players: 1, ..Totals::default() },
        }
    }

    /// The same, when the run began at this moment since 1970, which live streams of DASH have to know.
    #[must_use]
    pub fn at(self, wall: Duration) -> Self {
        Self { wall, ..self }
    }

    /// What it does now.
    pub fn act(&mut self, now: Duration) -> Action {
        self.buffer.advance(now);
        let is_late = self.habits.watch.is_some_and(|watch| now >= self.began + watch);
        if is_late || self.buffer.has_ended() || self.failures >= FAILURES_MAX {
            return Action::Leave;
        }
        if now < self.retry_at {
            return Action::Wait(self.bounded(self.retry_at));
        }
        if self.picture.segments.is_none() && self.presentation.is_none() {
            return self.fetch_manifest();
        }
        if self.picture.next_segment().is_none() && now < self.picture.reload_at {
            // The clock may have brought more.
            self.list_presentation(now);
        }
        if let Some(action) = self.fetch_index() {
            return action;
        }
        if self.picture.segments.is_none() {
            return self.fetch_manifest();
        }
        match self.picture.next_segment() {
            Some(_) if self.buffer.ahead() < self.habits.buffer => self.fetch_piece(now),
            Some(_) => {
                let over = self.buffer.ahead() - self.habits.buffer;
                Action::Wait(self.bounded(now + over + AFTER_FULL))
            }
            None if self.picture.is_over() => {
                self.buffer.complete(now);
                Action::Wait(self.bounded(now + self.buffer.ahead()))
            }
            None if now >= self.picture.reload_at => self.fetch_manifest(),
            None => Action::Wait(self.bounded(self.next_look(now))),
        }
    }

    /// Nobody waits longer than the viewer stays.
    fn bounded(&self, until: Duration) -> Duration {
        self.habits.watch.map_or(until, |watch| until.min(self.began + watch))
    }

    fn fetch_manifest(&mut self) -> Action {
        self.fetching = Some(Fetching::Manifest);
        let target = self.picture.manifest.clone().unwrap_or_else(|| self.master.clone());
        Action::Fetch(Fetch { target, range: None, kind: Kind::Manifest })
    }

    fn fetch_piece(&mut self, now: Duration) -> Action {
        let wanted = self.qualities.wanted();
        if wanted != self.qualities.level {
            self.take_level(wanted);
            self.totals.switches += 1;
            if self.presentation.is_none() {
                return self.fetch_manifest();
            }
            self.list_presentation(now);
            return self.act(now);
        }
        let Some(piece) = self.picture.next_piece() else { return Action::Leave };
        let (uri, range) = match &piece {
            Piece::Companion(one) => (&one.uri, one.range.clone()),
            Piece::Segment(one) => (&one.uri, one.range.clone()),
        };
        let target = self.picture.manifest.as_ref().unwrap_or(&self.master).join(uri);
        self.fetching = Some(Fetching::Piece { piece, since: now });
        match target {
            Ok(target) => Action::Fetch(Fetch { target, range, kind: Kind::Media }),
            Err(_) => Action::Leave,
        }
    }

    /// Goes on with another quality, from the segment that is next.
    fn take_level(&mut self, level: usize) {
        self.qualities.level = level;
        self.search = None;
        let variant = self.qualities.variants.get(level).filter(|_| self.presentation.is_none());
        self.picture.change(variant.and_then(|variant| self.master.join(&variant.uri).ok()));
    }

    /// What was fetched is a manifest. False if it cannot be played.
    pub fn take_manifest(&mut self, now: Duration, manifest: Manifest) -> bool {
        self.fetching = None;
        let playlist = match manifest {
            Manifest::Hls(playlist) => playlist,
            Manifest::Dash(presentation) => {
                self.take_presentation(now, presentation);
                return true;
            }
        };
        match playlist {
            Playlist::Master(variants) if self.qualities.variants.is_empty() => {
                self.qualities.variants = variants;
                self.take_level(self.qualities.wanted());
                self.picture.manifest.is_some()
            }
            Playlist::Master(_) => false,
            Playlist::Media(segments) => {
                self.failures = 0;
                self.take_picture(now, segments);
                true
            }
        }
    }

    fn take_picture(&mut self, now: Duration, segments: Segments) {
        let is_live = !segments.ended;
        self.totals.skipped += self.picture.take_segments(now, segments);
        if is_live {
            self.buffer.advance(now);
            self.totals.live_distance.note(self.buffer.ahead() + self.picture.to_come());
        }
    }

    /// What was fetched is media of so many bytes.
    pub fn take_media(&mut self, now: Duration, bytes: u64) {
        self.failures = 0;
        let Some(Fetching::Piece { piece, since }) = self.fetching.take() else { return };
        if let Piece::Segment(segment) = &piece {
            self.buffer.fill(now, segment.duration);
            self.totals.segments += 1;
            self.qualities.measure(bytes, now.saturating_sub(since));
        }
        self.picture.take(piece);
    }

    /// What was fetched failed.
    pub fn fail(&mut self, now: Duration) {
        self.fetching = None;
        self.search = None;
        self.failures += 1;
        self.retry_at = now + AFTER_FAILURE;
        // A segment of a live stream may have left the manifest meanwhile.
        if self.picture.segments.as_ref().is_some_and(|segments| !segments.ended) {
            self.picture.segments = None;
            self.picture.reload_at = now;
        }
    }

    /// The end: what it went through.
    pub fn leave(mut self, now: Duration) -> Totals {
        self.buffer.advance(now);
        let (stalls, stalled, played) = self.buffer.experience();
        if let Some(startup) = self.buffer.startup() {
            self.totals.started = 1;
            self.totals.startup.note(startup);
        }
        self.totals.stalls = stalls;
        self.totals.players_stalled = u64::from(stalls > 0);
        self.totals.stalled = stalled;
        self.totals.played = played;
        self.totals
    }
}

#[cfg(test)]
#[path = "policy/tests.rs"]
mod tests;
