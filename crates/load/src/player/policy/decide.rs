//! The next action of each fetch slot.

use std::time::Duration;

use super::action::{Fetch, FetchKind, FetchSlot, PlayerAction};
use super::state::{InFlight, Player};
use super::track::{Track, TrackKind};

/// A player with a full buffer looks again when this much more fits.
const AFTER_FULL: Duration = Duration::from_millis(500);

/// The next step of a track.
enum NextStep {
    Item,
    Manifest,
    Later(Duration),
    /// Nothing until another slot has fetched something.
    News,
    /// The track is complete.
    Nothing,
}

impl Player {
    /// Returns the next action of this slot. The driver asks again after a fetch, after a wait, and when another slot
    /// has fetched something.
    pub fn act(&mut self, slot: FetchSlot, now: Duration) -> PlayerAction {
        self.buffer.advance(now);
        let is_late = self.config.watch.is_some_and(|watch| now >= self.began + watch);
        if is_late || self.buffer.has_ended() || self.failures.are_too_many() {
            return PlayerAction::Leave;
        }
        let retry_at = self.retry_at[slot.index()];
        if now < retry_at {
            return PlayerAction::Wait(self.bounded(retry_at));
        }
        match slot {
            FetchSlot::Main => self.act_main(now),
            FetchSlot::Audio => self.follow(slot, now),
            FetchSlot::VideoList => self.await_playlist(slot, TrackKind::Video, now),
            FetchSlot::AudioList => self.await_playlist(slot, TrackKind::Audio, now),
            FetchSlot::Steering => self.steer(now),
        }
    }

    fn act_main(&mut self, now: Duration) -> PlayerAction {
        let is_unknown = self.video.segments.is_none() && !self.video.is_low_latency;
        if is_unknown && self.presentation.is_none() {
            return self.fetch_manifest(FetchSlot::Main, TrackKind::Video, now);
        }
        if self.presentation.is_some() && self.video.next_segment().is_none() && now < self.video.reload_at {
            // Segments may have appeared by the clock.
            self.list_presentation(now);
        }
        if let Some(action) = self.fetch_index() {
            return action;
        }
        self.follow(FetchSlot::Main, now)
    }

    /// Fetches for the track of this slot that is furthest behind.
    fn follow(&mut self, slot: FetchSlot, now: Duration) -> PlayerAction {
        let mut order = [TrackKind::Audio, TrackKind::Video];
        order.sort_by_key(|which| self.track(*which).map(Track::reach));
        let mut until: Option<Duration> = None;
        for which in order.into_iter().filter(|which| self.slot_of(*which) == slot) {
            match self.next_step(which, now) {
                NextStep::Item => return self.fetch_item(slot, which, now),
                NextStep::Manifest => return self.fetch_manifest(slot, which, now),
                NextStep::Later(then) => until = Some(until.map_or(then, |until| until.min(then))),
                NextStep::News | NextStep::Nothing => {}
            }
        }
        // Only the main slot knows of periods whose segments are not listed yet.
        let is_complete = slot == FetchSlot::Main && self.tracks().all(Track::is_over);
        if is_complete {
            self.buffer.complete(now);
        }
        match until {
            Some(until) => PlayerAction::Wait(self.bounded(until)),
            None if is_complete => PlayerAction::Wait(self.bounded(now + self.buffer.ahead())),
            None => self.idle(),
        }
    }

    fn next_step(&self, which: TrackKind, now: Duration) -> NextStep {
        let Some(track) = self.track(which) else { return NextStep::Nothing };
        let ahead = self.ahead(track);
        match track.next_media() {
            // Another slot fetches the playlist.
            None if track.is_low_latency && !track.is_over() => NextStep::News,
            _ if track.segments.is_none() => NextStep::Manifest,
            Some(_) if ahead < self.config.buffer => NextStep::Item,
            Some(_) => NextStep::Later(now + (ahead - self.config.buffer) + AFTER_FULL),
            None if track.is_over() => NextStep::Nothing,
            None if now >= track.reload_at => NextStep::Manifest,
            None if which == TrackKind::Video => NextStep::Later(self.next_look(now)),
            None => NextStep::Later(track.reload_at),
        }
    }

    fn fetch_item(&mut self, slot: FetchSlot, which: TrackKind, now: Duration) -> PlayerAction {
        let wanted = self.qualities.wanted();
        if which == TrackKind::Video && wanted != self.qualities.level {
            if self.qualities.have_one_pathway(wanted, self.qualities.level) {
                self.news.switches += 1;
            } else {
                self.news.pathway_changes += 1;
            }
            self.take_level(now, wanted);
            if self.presentation.is_none() {
                return self.fetch_manifest(FetchSlot::Main, TrackKind::Video, now);
            }
            self.list_presentation(now);
            return self.act(slot, now);
        }
        let Some(track) = self.track_mut(which) else { return PlayerAction::Leave };
        let Some(item) = track.next_item() else { return PlayerAction::Leave };
        let (uri, range) = item.place();
        let range = range.map(str::to_owned);
        let Ok(target) = self.place(which).join(uri) else { return PlayerAction::Leave };
        let cmcd = self.config.cmcd.then(|| self.said_with(which, &item, &target));
        self.in_flight[slot.index()] = Some(InFlight::Item { which, item, since: now });
        PlayerAction::Fetch(Fetch { target, range, kind: FetchKind::Media, cmcd })
    }

    /// Changes the rendition, from the next segment on.
    pub(super) fn take_level(&mut self, now: Duration, level: usize) {
        self.qualities.level = level;
        self.search = None;
        let variant = self.qualities.variants.get(level).filter(|_| self.presentation.is_none());
        let place = |uri: &str| self.master.join(uri).ok();
        let video = variant.and_then(|variant| place(&variant.uri));
        let audio = variant.and_then(|variant| place(variant.audio.as_deref()?));
        self.video.change(video);
        self.audio = match (self.audio.take(), audio) {
            (_, None) => None,
            (None, Some(audio)) => Some(Track::beside(&self.video, audio, now)),
            (Some(mut track), audio) => {
                if track.manifest != audio {
                    track.change(audio);
                }
                Some(track)
            }
        };
    }

    /// The slot that fetches a track.
    fn slot_of(&self, which: TrackKind) -> FetchSlot {
        match which {
            TrackKind::Audio if self.audio.as_ref().is_some_and(|track| track.is_low_latency) => {
                FetchSlot::Audio
            }
            TrackKind::Video | TrackKind::Audio => FetchSlot::Main,
        }
    }

    /// The action of a slot that depends on other slots.
    pub(super) fn idle(&self) -> PlayerAction {
        match self.config.watch {
            Some(watch) => PlayerAction::Wait(self.began + watch),
            None => PlayerAction::Idle,
        }
    }

    /// Bounds a wait by the time at which the viewer leaves.
    pub(super) fn bounded(&self, until: Duration) -> Duration {
        self.config.watch.map_or(until, |watch| until.min(self.began + watch))
    }
}
