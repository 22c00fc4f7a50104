//! A player of DASH: one description with all renditions.

use std::time::Duration;

use super::action::{Fetch, FetchKind, PlayerAction};
use super::state::Player;
use super::track::TrackKind;
use crate::player::dash::{Presentation, SearchStep, Unread};
use crate::player::segments::MediaSegment;

/// The number of the first segment that a player takes, far from 0, so that earlier segments have numbers too.
const FIRST_NUMBER: u64 = 1 << 32;

/// The shortest time between two looks at a live stream whose segments appear by the clock.
const CLOCK_LOOK: Duration = Duration::from_millis(100);

impl Player {
    pub(super) fn take_presentation(&mut self, now: Duration, presentation: Presentation) {
        self.failures.manifests = 0;
        let is_first = self.presentation.is_none();
        let steering = presentation.steering().filter(|_| is_first);
        self.qualities.variants = presentation.variants();
        self.presentation = Some(presentation);
        self.search = None;
        if is_first {
            self.begin_steering(now, steering);
            self.take_level(now, self.qualities.wanted());
        }
        self.qualities.level = self.qualities.level.min(self.qualities.variants.len().saturating_sub(1));
        if let Some(reload) = self.list_presentation(now) {
            self.video.reload_at = now + reload;
        }
    }

    /// Lists the segments that exist now. Returns how long the description stays valid.
    pub(super) fn list_presentation(&mut self, now: Duration) -> Option<Duration> {
        let mut segments = self.presentation.as_ref()?.segments(self.qualities.level, self.wall + now);
        let reload = segments.reload;
        segments.first = FIRST_NUMBER;
        if let (Some(next), Some(position)) = (self.video.next, self.video.position) {
            // Updated descriptions number their segments again; the next segment is found by its time.
            let is_next = |segment: &MediaSegment| segment.start + segment.duration / 2 > position;
            let place = segments.list.iter().position(is_next).unwrap_or(segments.list.len());
            segments.first = next.saturating_sub(place as u64);
            if place == 0
                && let Some(first) = segments.list.first()
                && first.start > position + first.duration / 2
            {
                let each = first.duration.as_millis().max(1);
                let lost = (first.start - position).as_millis() / each;
                self.news.skipped += u64::try_from(lost).unwrap_or(u64::MAX).max(1);
                self.video.position = Some(first.start);
            }
        }
        let reload_at = self.video.reload_at;
        self.take_segments(now, TrackKind::Video, segments);
        self.video.reload_at = reload_at;
        Some(reload)
    }

    /// When another segment may exist.
    pub(super) fn next_look(&self, now: Duration) -> Duration {
        let reload_at = self.video.reload_at;
        let last = self.video.segments.as_ref().and_then(|segments| segments.list.last());
        let due = last.and_then(|last| self.presentation.as_ref()?.due_after(last));
        match (due, &self.presentation) {
            (Some(due), _) => reload_at.min(due.saturating_sub(self.wall).max(now + CLOCK_LOOK)),
            (None, Some(presentation)) if presentation.is_by_clock() => reload_at.min(now + CLOCK_LOOK),
            _ => reload_at,
        }
    }

    /// The index that must be read before segments can be fetched.
    fn unread(&self) -> Option<Unread> {
        let unread = self.presentation.as_ref()?.unread(self.qualities.level, self.video.position)?;
        let next = self.video.next_segment();
        next.is_none_or(|next| next.start >= unread.from).then_some(unread)
    }

    /// The fetch for that index, if one must be read.
    pub(super) fn fetch_index(&mut self) -> Option<PlayerAction> {
        let Unread { target, mut search, .. } = self.unread()?;
        let (first, last) = match &self.search {
            Some((_, range)) => *range,
            None => match search.go_on() {
                SearchStep::Fetch(first, last) => {
                    self.search = Some((search, (first, last)));
                    (first, last)
                }
                SearchStep::Done(_) | SearchStep::NotFound => return Some(PlayerAction::Leave),
            },
        };
        Some(PlayerAction::Fetch(Fetch {
            target,
            range: Some(format!("{first}-{last}")),
            kind: FetchKind::Index,
            cmcd: None,
        }))
    }

    /// Takes bytes in which the index is searched. Returns false if there is no index.
    pub fn take_index(&mut self, now: Duration, bytes: &[u8]) -> bool {
        let Some((mut search, _)) = self.search.take() else { return false };
        search.take(bytes);
        match search.go_on() {
            SearchStep::NotFound => false,
            SearchStep::Fetch(first, last) => {
                self.search = Some((search, (first, last)));
                true
            }
            SearchStep::Done(found) => {
                let (level, position) = (self.qualities.level, self.video.position);
                if let Some(presentation) = &mut self.presentation {
                    presentation.read(level, position, found);
                }
                self.list_presentation(now);
                true
            }
        }
    }
}
