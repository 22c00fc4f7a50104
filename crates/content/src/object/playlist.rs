//! Comparing versions of a live playlist.

use std::sync::Arc;

use penstock_cache::Object;
use penstock_http::manifest::{Manifest, Playlist, Position, Reach};

use crate::object::metadata::ObjectMetadata;

/// The media playlist in an object, if it is one.
pub(crate) fn media(object: &Object<ObjectMetadata>) -> Option<&Playlist> {
    object.metadata().manifest().and_then(Manifest::media)
}

/// The last position of a playlist: segment and part.
fn end(playlist: &Playlist) -> (u64, u64) {
    (playlist.open_segment, playlist.open_parts)
}

/// Whether `new` may replace `known`: it goes as far or further, or the stream has ended.
pub(crate) fn is_newer_playlist(new: &Object<ObjectMetadata>, known: &Object<ObjectMetadata>) -> bool {
    let (Some(new), known) = (media(new), media(known)) else { return false };
    new.ended || known.is_none_or(|known| end(known) <= end(new))
}

/// The version that goes further.
pub(crate) fn newest(
    one: Option<Arc<Object<ObjectMetadata>>>,
    other: Option<Arc<Object<ObjectMetadata>>>,
) -> Option<Arc<Object<ObjectMetadata>>> {
    let end_of = |object: &Arc<Object<ObjectMetadata>>| media(object).map(end);
    one.into_iter().chain(other).max_by_key(end_of)
}

/// Whether a playlist has a position; [`Reach::Next`] if the object is no playlist.
pub(crate) fn reach(object: &Object<ObjectMetadata>, wanted: Position) -> Reach {
    media(object).map_or(Reach::Next, |playlist| playlist.reach(wanted))
}
