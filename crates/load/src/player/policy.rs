//! What a player fetches next.

use std::time::Duration;

use super::hls::Playlist;
use super::{Buffer, Habits, Quality, Segment, Segments, Totals, Variant};
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
    segments: Option<Segments>,
    reload_at: Duration,
    next: Option<u64>,
    map: Option<(String, Option<String>)>,
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
    Map,
    Segment { duration: Duration, since: Duration },
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
            segments: None,
            reload_at: now,
            next: None,
            map: None,
            fetching: Fetching::Nothing,
            throughput: None,
            failures: 0,
            retry_at: now,
            totals: Totals { players: 1, ..Totals::default() },
        }
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
        let Some(segments) = &self.segments else { return self.fetch_manifest() };
        let next = self.next.unwrap_or(segments.first);
        let place = next.checked_sub(segments.first).and_then(|place| usize::try_from(place).ok());
        match place.and_then(|place| segments.list.get(place)).cloned() {
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
            None => Action::Wait(self.bounded(self.reload_at)),
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
            return self.fetch_manifest();
        }
        let (uri, range) = match &segment.map {
            Some(map) if self.map.as_ref() != Some(map) => {
                self.map = Some(map.clone());
                self.fetching = Fetching::Map;
                map.clone()
            }
            _ => {
                self.fetching = Fetching::Segment { duration: segment.duration, since: now };
                (segment.uri.clone(), segment.range.clone())
            }
        };
        let base = self.media.as_ref().unwrap_or(&self.master);
        match base.join(&uri) {
            Ok(target) => Action::Fetch(Fetch { target, range, is_manifest: false }),
            Err(_) => Action::Leave,
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
        self.map = None;
        self.segments = None;
        if let Some(variant) = self.variants.get(level) {
            self.media = self.master.join(&variant.uri).ok();
        }
    }

    /// What was fetched is a manifest. False if it cannot be played.
    pub fn take_manifest(&mut self, now: Duration, playlist: Playlist) -> bool {
        self.fetching = Fetching::Nothing;
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
        let Fetching::Segment { duration, since } = fetched else { return };
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
        if self.fetching == Fetching::Map {
            self.map = None;
        }
        self.fetching = Fetching::Nothing;
        self.failures += 1;
        self.retry_at = now + AFTER_FAILURE;
        // A segment of a live stream may have left the manifest meanwhile.
        if self.segments.as_ref().is_some_and(|segments| !segments.ended) {
            self.segments = None;
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
