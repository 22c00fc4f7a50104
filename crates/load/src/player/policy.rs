//! What a player fetches next.

use std::time::Duration;

use super::dash::Presentation;
use super::hls::Playlist;
use super::{Buffer, Companion, Habits, Manifest, Quality, Segment, Segments, Totals, Variant};
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
    /// Whether it is a manifest.
    pub is_manifest: bool,
}

/// Live players begin so many segments before the end of the manifest (RFC 8216 §6.3.3).
const SEGMENTS_BEHIND: u64 = 3;

/// Failures in a row after which a player gives up.
const FAILURES_MAX: u32 = 10;

/// A live stream whose segments appear by the clock is not looked at more often.
const CLOCK_LOOK: Duration = Duration::from_millis(100);

/// The number of the first segment of a presentation that a player takes: far from 0, so that there are numbers for
/// those before it.
const FIRST_NUMBER: u64 = 1 << 32;

/// More initialisations than this are not remembered.
const HAD_MAX: usize = 16;

/// A pause after a failure.
const AFTER_FAILURE: Duration = Duration::from_secs(1);

/// How much of the measured throughput a quality may take, in percent.
const THROUGHPUT_PERCENT: u64 = 80;

/// One player. Times are those since the beginning of the run.
#[derive(Clone, Debug)]
pub struct Player {
    habits: Habits,
    began: Duration,
    buffer: Buffer,
    /// The manifest that was asked for at first.
    master: Target,
    variants: Vec<Variant>,
    level: usize,
    /// The manifest of the present quality.
    media: Option<Target>,
    /// What a DASH description said, which has all qualities in it.
    presentation: Option<Presentation>,
    /// The moment at which the run began, since 1970.
    wall: Duration,
    /// Where in a presentation the next segment begins.
    position: Option<Duration>,
    segments: Option<Segments>,
    reload_at: Duration,
    next: Option<u64>,
    /// What is fetched once and has been.
    had: Vec<Companion>,
    /// How much of what comes before the next segment has been fetched.
    companions: usize,
    fetching: Fetching,
    throughput: Option<u64>,
    failures: u32,
    retry_at: Duration,
    totals: Totals,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Fetching {
    Nothing,
    Manifest,
    Companion(Companion),
    Segment { duration: Duration, since: Duration, end: Duration },
}

impl Player {
    /// A player that has just come to watch this.
    pub fn new(habits: Habits, manifest: Target, now: Duration) -> Self {
        Self {
            habits,
            began: now,
            buffer: Buffer::new(now, habits.start),
            master: manifest,
            variants: Vec::new(),
            level: 0,
            media: None,
            presentation: None,
            wall: Duration::ZERO,
            position: None,
            segments: None,
            reload_at: now,
            next: None,
            had: Vec::new(),
            companions: 0,
            fetching: Fetching::Nothing,
            throughput: None,
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
        if self.segments.is_none() && self.presentation.is_none() {
            return self.fetch_manifest();
        }
        if self.next_segment().is_none() && now < self.reload_at {
            // The clock may have brought more.
            self.list_presentation(now);
        }
        let next = self.next_segment().cloned();
        let Some(segments) = &self.segments else { return self.fetch_manifest() };
        match next {
            Some(segment) if self.buffer.ahead() < self.habits.buffer => self.fetch_segment(now, &segment),
            // Full: until one more second fits.
            Some(_) => {
                let over = self.buffer.ahead() - self.habits.buffer;
                Action::Wait(self.bounded(now + over + Duration::from_millis(500)))
            }
            None if segments.ended => {
                self.buffer.complete(now);
                Action::Wait(self.bounded(now + self.buffer.ahead()))
            }
            None if now >= self.reload_at => self.fetch_manifest(),
            None => Action::Wait(self.bounded(self.next_look(now))),
        }
    }

    fn next_segment(&self) -> Option<&Segment> {
        let segments = self.segments.as_ref()?;
        let place = self.next.unwrap_or(segments.first).checked_sub(segments.first)?;
        segments.list.get(usize::try_from(place).ok()?)
    }

    /// When there may be another segment.
    fn next_look(&self, now: Duration) -> Duration {
        let last = self.segments.as_ref().and_then(|segments| segments.list.last());
        let due = last.and_then(|last| self.presentation.as_ref()?.due_after(last));
        match (due, &self.presentation) {
            (Some(due), _) => self.reload_at.min(due.saturating_sub(self.wall).max(now + CLOCK_LOOK)),
            (None, Some(presentation)) if presentation.is_by_clock() => self.reload_at.min(now + CLOCK_LOOK),
            _ => self.reload_at,
        }
    }

    /// Nobody waits longer than the viewer stays.
    fn bounded(&self, until: Duration) -> Duration {
        self.habits.watch.map_or(until, |watch| until.min(self.began + watch))
    }

    fn fetch_manifest(&mut self) -> Action {
        let target = self.media.as_ref().unwrap_or(&self.master).clone();
        self.fetching = Fetching::Manifest;
        Action::Fetch(Fetch { target, range: None, is_manifest: true })
    }

    fn fetch_segment(&mut self, now: Duration, segment: &Segment) -> Action {
        let wanted = self.wanted_level();
        if wanted != self.level {
            self.take_level(wanted);
            self.totals.switches += 1;
            if self.presentation.is_none() {
                return self.fetch_manifest();
            }
            self.list_presentation(now);
            return self.act(now);
        }
        let (uri, range) = match self.next_companion(segment) {
            Some(companion) => {
                self.fetching = Fetching::Companion(companion.clone());
                (companion.uri, companion.range)
            }
            None => {
                let end = segment.start + segment.duration;
                self.fetching = Fetching::Segment { duration: segment.duration, since: now, end };
                (segment.uri.clone(), segment.range.clone())
            }
        };
        let base = self.media.as_ref().unwrap_or(&self.master);
        match base.join(&uri) {
            Ok(target) => Action::Fetch(Fetch { target, range, is_manifest: false }),
            Err(_) => Action::Leave,
        }
    }

    /// What is to be fetched before the segment, if anything is left of it.
    fn next_companion(&mut self, segment: &Segment) -> Option<Companion> {
        loop {
            let companion = segment.before.get(self.companions)?;
            if !(companion.once && self.had.contains(companion)) {
                return Some(companion.clone());
            }
            self.companions += 1;
        }
    }

    fn wanted_level(&self) -> usize {
        let by_bandwidth = |level: &usize| self.variants[*level].bandwidth;
        let levels = 0..self.variants.len();
        let found = match self.habits.quality {
            Quality::Lowest => levels.min_by_key(by_bandwidth),
            Quality::Highest => levels.max_by_key(by_bandwidth),
            Quality::Auto => {
                let allowed = self.throughput.map_or(0, |throughput| throughput / 100 * THROUGHPUT_PERCENT);
                let carried =
                    levels.clone().filter(|level| by_bandwidth(level) <= allowed).max_by_key(by_bandwidth);
                carried.or_else(|| levels.min_by_key(by_bandwidth))
            }
        };
        found.unwrap_or(self.level)
    }

    /// Goes on with another quality, from the segment that is next.
    fn take_level(&mut self, level: usize) {
        self.level = level;
        self.had.clear();
        self.companions = 0;
        self.segments = None;
        if self.presentation.is_none()
            && let Some(variant) = self.variants.get(level)
        {
            self.media = self.master.join(&variant.uri).ok();
        }
    }

    /// What was fetched is a manifest. False if it cannot be played.
    pub fn take_manifest(&mut self, now: Duration, manifest: Manifest) -> bool {
        self.fetching = Fetching::Nothing;
        let playlist = match manifest {
            Manifest::Hls(playlist) => playlist,
            Manifest::Dash(presentation) => {
                self.take_presentation(now, presentation);
                return true;
            }
        };
        match playlist {
            Playlist::Master(variants) if self.variants.is_empty() => {
                self.variants = variants;
                self.take_level(self.wanted_level());
                self.media.is_some()
            }
            Playlist::Master(_) => false,
            Playlist::Media(segments) => {
                self.take_segments(now, segments);
                true
            }
        }
    }

    fn take_presentation(&mut self, now: Duration, presentation: Presentation) {
        let is_first = self.presentation.is_none();
        self.variants = presentation.variants();
        self.presentation = Some(presentation);
        if is_first {
            self.take_level(self.wanted_level());
        }
        self.level = self.level.min(self.variants.len().saturating_sub(1));
        if let Some(segments) = self.list_presentation(now) {
            self.reload_at = now + segments;
        }
    }

    /// Lists what there is of the presentation now, and says how long the description is good for.
    fn list_presentation(&mut self, now: Duration) -> Option<Duration> {
        let mut segments = self.presentation.as_ref()?.segments(self.level, self.wall + now);
        let reload = segments.reload;
        segments.first = FIRST_NUMBER;
        if let (Some(next), Some(position)) = (self.next, self.position) {
            // Descriptions number anew as they move on; what is next is found by its time.
            let is_next = |segment: &Segment| segment.start + segment.duration / 2 > position;
            let place = segments.list.iter().position(is_next).unwrap_or(segments.list.len());
            segments.first = next.saturating_sub(place as u64);
            if place == 0
                && let Some(first) = segments.list.first()
                && first.start > position + first.duration / 2
            {
                let each = first.duration.as_millis().max(1);
                let lost = (first.start - position).as_millis() / each;
                self.totals.skipped += u64::try_from(lost).unwrap_or(u64::MAX).max(1);
                self.position = Some(first.start);
            }
        }
        let reload_at = self.reload_at;
        self.take_segments(now, segments);
        self.reload_at = reload_at;
        Some(reload)
    }

    fn take_segments(&mut self, now: Duration, segments: Segments) {
        self.failures = 0;
        let is_news = self.segments.as_ref() != Some(&segments);
        // A manifest that has not changed is looked at again sooner (RFC 8216 §6.3.4).
        self.reload_at = now + if is_news { segments.reload } else { segments.reload / 2 };
        let end = segments.first + segments.list.len() as u64;
        let next = match self.next {
            None if segments.ended => segments.first,
            None => end.saturating_sub(SEGMENTS_BEHIND).max(segments.first),
            Some(next) if next < segments.first => {
                self.totals.skipped += segments.first - next;
                segments.first
            }
            Some(next) => next,
        };
        self.next = Some(next);
        if !segments.ended {
            self.buffer.advance(now);
            let skipped = usize::try_from(next - segments.first).unwrap_or(usize::MAX);
            let to_come: Duration = segments.list.iter().skip(skipped).map(|segment| segment.duration).sum();
            self.totals.live_distance.note(self.buffer.ahead() + to_come);
        }
        self.segments = Some(segments);
    }

    /// What was fetched is a segment, or its initialisation, of so many bytes.
    pub fn take_segment(&mut self, now: Duration, bytes: u64) {
        self.failures = 0;
        let fetched = std::mem::replace(&mut self.fetching, Fetching::Nothing);
        let (duration, since) = match fetched {
            Fetching::Segment { duration, since, end } => {
                self.position = Some(end);
                (duration, since)
            }
            Fetching::Companion(companion) => {
                self.companions += 1;
                if companion.once && self.had.len() < HAD_MAX {
                    self.had.push(companion);
                }
                return;
            }
            Fetching::Nothing | Fetching::Manifest => return,
        };
        self.companions = 0;
        self.buffer.fill(now, duration);
        self.totals.segments += 1;
        self.next = self.next.map(|next| next + 1);
        let microseconds = (now.saturating_sub(since)).as_micros().max(1);
        let found = u64::try_from(u128::from(bytes) * 8_000_000 / microseconds).unwrap_or(u64::MAX);
        // Half old, half new, as a moving average.
        self.throughput = Some(self.throughput.map_or(found, |old| old / 2 + found / 2));
    }

    /// What was fetched failed.
    pub fn fail(&mut self, now: Duration) {
        self.fetching = Fetching::Nothing;
        self.failures += 1;
        self.retry_at = now + AFTER_FAILURE;
        // A segment of a live stream may have left the manifest meanwhile.
        if self.segments.as_ref().is_some_and(|segments| !segments.ended) {
            self.segments = None;
            self.reload_at = now;
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
