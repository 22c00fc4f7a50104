//! What a player fetches next.

mod lane;
mod lines;
mod presentation;
mod quality;
mod sides;

use std::time::Duration;

use self::lane::{Begin, Lane, Piece};
pub use self::lines::Line;
use self::quality::Qualities;
use self::sides::Which;
use super::dash::{Presentation, Search};
use super::hls::Playlist;
use super::{Buffer, Habits, Manifest, Segments, Totals};
use crate::target::Target;

/// What a player does next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Fetches this, then says what came of it.
    Fetch(Fetch),
    /// Does nothing until then, or until something has come that another line fetched.
    Wait(Duration),
    /// Does nothing until something has come that another line fetched.
    Idle,
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
    /// If it has a playlist of its own.
    sound: Option<Lane>,
    /// How much could be played so far.
    filled: Duration,
    /// By line.
    fetching: [Option<Fetching>; Line::ALL.len()],
    retry_at: [Duration; Line::ALL.len()],
    /// In a row: of manifests and indexes, and of media.
    failures: Failures,
    totals: Totals,
}

/// What is under way.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Fetching {
    /// The manifest at this place, for picture or sound.
    Manifest {
        which: Which,
        place: Target,
    },
    Piece {
        which: Which,
        piece: Piece,
        since: Duration,
    },
}

/// How often something failed in a row. A live stream whose manifests are good and whose segments are not is over too.
#[derive(Clone, Copy, Debug, Default)]
struct Failures {
    manifests: u32,
    media: u32,
}

impl Failures {
    fn are_too_many(self) -> bool {
        self.manifests.max(self.media) >= FAILURES_MAX
    }
}

/// What is to be done next for picture or sound.
enum Want {
    Piece,
    Manifest,
    Later(Duration),
    /// Nothing before another line has fetched something.
    News,
    /// All of it has come.
    Nothing,
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
            sound: None,
            filled: Duration::ZERO,
            fetching: Default::default(),
            retry_at: [now; Line::ALL.len()],
            failures: Failures::default(),
            totals: Totals { players: 1, ..Totals::default() },
        }
    }

    /// The same, when the run began at this moment since 1970, which live streams of DASH have to know.
    #[must_use]
    pub fn at(self, wall: Duration) -> Self {
        Self { wall, ..self }
    }

    /// What this line does now. It is asked again when what it fetches has come, when its wait is over, and when
    /// another line has fetched something.
    pub fn act(&mut self, line: Line, now: Duration) -> Action {
        self.buffer.advance(now);
        let is_late = self.habits.watch.is_some_and(|watch| now >= self.began + watch);
        if is_late || self.buffer.has_ended() || self.failures.are_too_many() {
            return Action::Leave;
        }
        let retry_at = self.retry_at[line.place()];
        if now < retry_at {
            return Action::Wait(self.bounded(retry_at));
        }
        match line {
            Line::Main => self.act_main(now),
            Line::Sound => self.follow(line, now),
            Line::PictureList => self.ask_for_more(line, Which::Picture, now),
            Line::SoundList => self.ask_for_more(line, Which::Sound, now),
        }
    }

    fn act_main(&mut self, now: Duration) -> Action {
        let is_unknown = self.picture.segments.is_none() && !self.picture.is_low_latency;
        if is_unknown && self.presentation.is_none() {
            return self.fetch_manifest(Line::Main, Which::Picture);
        }
        if self.presentation.is_some()
            && self.picture.next_segment().is_none()
            && now < self.picture.reload_at
        {
            // The clock may have brought more.
            self.list_presentation(now);
        }
        if let Some(action) = self.fetch_index() {
            return action;
        }
        self.follow(Line::Main, now)
    }

    /// Fetches what is needed first of what this line fetches: picture or sound, whichever is behind.
    fn follow(&mut self, line: Line, now: Duration) -> Action {
        let mut order = [Which::Sound, Which::Picture];
        order.sort_by_key(|which| self.lane(*which).map(Lane::reach));
        let mut until: Option<Duration> = None;
        for which in order.into_iter().filter(|which| self.line_of(*which) == line) {
            match self.want(which, now) {
                Want::Piece => return self.fetch_piece(line, which, now),
                Want::Manifest => return self.fetch_manifest(line, which),
                Want::Later(then) => until = Some(until.map_or(then, |until| until.min(then))),
                Want::News | Want::Nothing => {}
            }
        }
        // Only the main line knows of periods whose segments have not been listed.
        let is_complete = line == Line::Main && self.lanes().all(Lane::is_over);
        if is_complete {
            self.buffer.complete(now);
        }
        match until {
            Some(until) => Action::Wait(self.bounded(until)),
            None if is_complete => Action::Wait(self.bounded(now + self.buffer.ahead())),
            None => self.idle(),
        }
    }

    fn want(&self, which: Which, now: Duration) -> Want {
        let Some(lane) = self.lane(which) else { return Want::Nothing };
        let ahead = self.ahead(lane);
        match lane.next_media() {
            // Another line looks after the playlist.
            None if lane.is_low_latency && !lane.is_over() => Want::News,
            _ if lane.segments.is_none() => Want::Manifest,
            Some(_) if ahead < self.habits.buffer => Want::Piece,
            Some(_) => Want::Later(now + (ahead - self.habits.buffer) + AFTER_FULL),
            None if lane.is_over() => Want::Nothing,
            None if now >= lane.reload_at => Want::Manifest,
            None if which == Which::Picture => Want::Later(self.next_look(now)),
            None => Want::Later(lane.reload_at),
        }
    }

    fn fetch_manifest(&mut self, line: Line, which: Which) -> Action {
        let place = self.place(which);
        self.fetching[line.place()] = Some(Fetching::Manifest { which, place: place.clone() });
        Action::Fetch(Fetch { target: place, range: None, kind: Kind::Manifest })
    }

    fn fetch_piece(&mut self, line: Line, which: Which, now: Duration) -> Action {
        let wanted = self.qualities.wanted();
        if which == Which::Picture && wanted != self.qualities.level {
            self.take_level(now, wanted);
            self.totals.switches += 1;
            if self.presentation.is_none() {
                return self.fetch_manifest(Line::Main, Which::Picture);
            }
            self.list_presentation(now);
            return self.act(line, now);
        }
        let Some(lane) = self.lane_mut(which) else { return Action::Leave };
        let Some(piece) = lane.next_piece() else { return Action::Leave };
        let (uri, range) = piece.place();
        let range = range.map(str::to_owned);
        let target = self.place(which).join(uri);
        self.fetching[line.place()] = Some(Fetching::Piece { which, piece, since: now });
        match target {
            Ok(target) => Action::Fetch(Fetch { target, range, kind: Kind::Media }),
            Err(_) => Action::Leave,
        }
    }

    /// Goes on with another quality, from the segment that is next.
    fn take_level(&mut self, now: Duration, level: usize) {
        self.qualities.level = level;
        self.search = None;
        let variant = self.qualities.variants.get(level).filter(|_| self.presentation.is_none());
        let place = |uri: &String| self.master.join(uri).ok();
        let picture = variant.and_then(|variant| place(&variant.uri));
        let sound = variant.and_then(|variant| place(variant.sound.as_ref()?));
        self.picture.change(picture);
        self.sound = match (self.sound.take(), sound) {
            (_, None) => None,
            (None, Some(sound)) => Some(Lane::beside(&self.picture, sound, now)),
            (Some(mut lane), sound) => {
                if lane.manifest != sound {
                    lane.change(sound);
                }
                Some(lane)
            }
        };
    }

    /// What was fetched is a manifest. False if it cannot be played.
    pub fn take_manifest(&mut self, line: Line, now: Duration, manifest: Manifest) -> bool {
        let Some(Fetching::Manifest { which, place }) = self.fetching[line.place()].take() else {
            return false;
        };
        if place != self.place(which) {
            // The quality has been changed meanwhile.
            return true;
        }
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
                self.take_level(now, self.qualities.wanted());
                self.picture.manifest.is_some()
            }
            Playlist::Master(_) => false,
            Playlist::Media(segments) => {
                self.failures.manifests = 0;
                self.take_segments(now, which, *segments);
                true
            }
        }
    }

    fn take_segments(&mut self, now: Duration, which: Which, mut segments: Segments) {
        if !self.habits.low_latency {
            segments.low_latency = None;
        }
        if let Some(offer) = &segments.low_latency {
            // More would take the player away from the edge.
            self.buffer.start_within(offer.hold_back);
        }
        let is_live = !segments.ended;
        // Sound begins where the picture does, as far as lengths tell.
        let begin = match which {
            Which::Picture => Begin::Usual,
            Which::Sound if is_live => Begin::Behind(self.picture.to_come()),
            Which::Sound => Begin::After(self.picture.reach()),
        };
        let skipped = self.lane_mut(which).map_or(0, |lane| lane.take_segments(now, segments, begin));
        self.totals.skipped += skipped;
        self.buffer.advance(now);
        self.fill(now);
        if is_live && which == Which::Picture {
            let distance = self.ahead(&self.picture) + self.picture.to_come();
            self.totals.live_distance.note(distance);
        }
    }

    /// What was fetched is media of so many bytes.
    pub fn take_media(&mut self, line: Line, now: Duration, bytes: u64) {
        self.failures = Failures::default();
        let taken = self.fetching[line.place()].take();
        let Some(Fetching::Piece { which, piece, since }) = taken else { return };
        if which == Which::Picture {
            self.totals.segments += u64::from(matches!(piece, Piece::Segment(_)));
            self.totals.parts += u64::from(matches!(piece, Piece::Part(_) | Piece::Hint(_)));
            // What is still being made comes as fast as it is made.
            if matches!(piece, Piece::Segment(_) | Piece::Part(_)) {
                self.qualities.measure(bytes, now.saturating_sub(since));
            }
        }
        if let Some(lane) = self.lane_mut(which) {
            lane.take(piece);
        }
        self.fill(now);
    }

    /// What was fetched failed.
    pub fn fail(&mut self, line: Line, now: Duration) {
        let (which, failures) = match self.fetching[line.place()].take() {
            Some(Fetching::Manifest { which, .. }) => (which, &mut self.failures.manifests),
            Some(Fetching::Piece { which, .. }) => (which, &mut self.failures.media),
            None => (Which::Picture, &mut self.failures.manifests),
        };
        *failures += 1;
        self.search = None;
        self.retry_at[line.place()] = now + AFTER_FAILURE;
        // A segment of a live stream may have left the manifest meanwhile.
        let lane = self.lane_mut(which);
        if let Some(lane) = lane.filter(|lane| lane.segments.as_ref().is_some_and(|segments| !segments.ended))
        {
            lane.segments = None;
            lane.reload_at = now;
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
mod tests;
