//! What a player does with a DASH description, which has all qualities in it.

use std::time::Duration;

use super::sides::Which;
use super::{Action, CLOCK_LOOK, Fetch, Kind, Player};
use crate::player::Segment;
use crate::player::dash::{Presentation, Progress, Unread};

/// The number of the first segment of a presentation that a player takes: far from 0, so that there are numbers for
/// those before it.
const FIRST_NUMBER: u64 = 1 << 32;

impl Player {
    pub(super) fn take_presentation(&mut self, now: Duration, presentation: Presentation) {
        self.failures.manifests = 0;
        let is_first = self.presentation.is_none();
        self.qualities.variants = presentation.variants();
        self.presentation = Some(presentation);
        self.search = None;
        if is_first {
            self.take_level(now, self.qualities.wanted());
        }
        self.qualities.level = self.qualities.level.min(self.qualities.variants.len().saturating_sub(1));
        if let Some(reload) = self.list_presentation(now) {
            self.picture.reload_at = now + reload;
        }
    }

    /// Lists what there is of the presentation now, and says how long the description is good for.
    pub(super) fn list_presentation(&mut self, now: Duration) -> Option<Duration> {
        let mut segments = self.presentation.as_ref()?.segments(self.qualities.level, self.wall + now);
        let reload = segments.reload;
        segments.first = FIRST_NUMBER;
        if let (Some(next), Some(position)) = (self.picture.next, self.picture.position) {
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
                self.picture.position = Some(first.start);
            }
        }
        let reload_at = self.picture.reload_at;
        self.take_segments(now, Which::Picture, segments);
        self.picture.reload_at = reload_at;
        Some(reload)
    }

    /// When there may be another segment.
    pub(super) fn next_look(&self, now: Duration) -> Duration {
        let reload_at = self.picture.reload_at;
        let last = self.picture.segments.as_ref().and_then(|segments| segments.list.last());
        let due = last.and_then(|last| self.presentation.as_ref()?.due_after(last));
        match (due, &self.presentation) {
            (Some(due), _) => reload_at.min(due.saturating_sub(self.wall).max(now + CLOCK_LOOK)),
            (None, Some(presentation)) if presentation.is_by_clock() => reload_at.min(now + CLOCK_LOOK),
            _ => reload_at,
        }
    }

    /// The index that has to be read before anything else can be fetched.
    fn unread(&self) -> Option<Unread> {
        let unread = self.presentation.as_ref()?.unread(self.qualities.level, self.picture.position)?;
        let next = self.picture.next_segment();
        next.is_none_or(|next| next.start >= unread.from).then_some(unread)
    }

    /// The part of it that is to be fetched now, if there is one to read.
    pub(super) fn fetch_index(&mut self) -> Option<Action> {
        let Unread { target, mut search, .. } = self.unread()?;
        let (first, last) = match &self.search {
            Some((_, range)) => *range,
            None => match search.go_on() {
                Progress::Fetch(first, last) => {
                    self.search = Some((search, (first, last)));
                    (first, last)
                }
                Progress::Done(_) | Progress::Nothing => return Some(Action::Leave),
            },
        };
        Some(Action::Fetch(Fetch { target, range: Some(format!("{first}-{last}")), kind: Kind::Index }))
    }

    /// What was fetched is a part of an index, or of what is before it. False if there is none to be found.
    pub fn take_index(&mut self, now: Duration, bytes: &[u8]) -> bool {
        let Some((mut search, _)) = self.search.take() else { return false };
        search.take(bytes);
        match search.go_on() {
            Progress::Nothing => false,
            Progress::Fetch(first, last) => {
                self.search = Some((search, (first, last)));
                true
            }
            Progress::Done(found) => {
                let (level, position) = (self.qualities.level, self.picture.position);
                if let Some(presentation) = &mut self.presentation {
                    presentation.read(level, position, found);
                }
                self.list_presentation(now);
                true
            }
        }
    }
}
