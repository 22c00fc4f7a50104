//! What a track fetches after a resource.

use std::sync::Arc;

use super::{FetchItem, Track};
use crate::player::segments::{InitSegment, MediaSegment};

impl Track {
    /// What follows a resource that is being fetched, as far as the manifest at hand tells. Parts do not tell: the next one
    /// may not exist yet.
    pub(in crate::player::policy) fn after(&self, item: &FetchItem) -> Option<FetchItem> {
        let segments = self.segments.as_ref().filter(|segments| segments.low_latency.is_none())?;
        let place = self.next.unwrap_or(segments.first).checked_sub(segments.first)?;
        let place = usize::try_from(place).ok()?;
        match item {
            FetchItem::Init(_) => self.first_of(segments.list.get(place)?, self.inits + 1),
            FetchItem::Segment(_) => self.first_of(segments.list.get(place + 1)?, 0),
            FetchItem::Part(_) | FetchItem::Hint(_) => None,
        }
    }

    /// The first resource of a segment, of which so many init segments need no fetch.
    fn first_of(&self, segment: &MediaSegment, inits: usize) -> Option<FetchItem> {
        let is_due = |init: &&Arc<InitSegment>| !(init.once && self.had.contains(init));
        let init = segment.before.iter().skip(inits).find(is_due);
        Some(
            init.map_or_else(
                || FetchItem::Segment(segment.clone()),
                |init| FetchItem::Init(Arc::clone(init)),
            ),
        )
    }
}
