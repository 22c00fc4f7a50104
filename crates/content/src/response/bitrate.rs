//! The pace of a response in bytes: as its site says, or by the bitrate of the film that it is of.

use std::num::NonZeroU64;
use std::sync::Arc;

use penstock_cache::{Object, SliceClaim};
use penstock_config::{Pace, PaceRate, limits};
use penstock_egress::Part;
use penstock_http::mp4::{self, Search};
use penstock_sys::file::{Extent, OpenFile};

use super::paced::BytePace;
use super::{Body, ChunkSource, ContentLength};
use crate::context::Context;
use crate::object::ObjectMetadata;
use crate::remembered::source;

/// Places of a film that are looked at: its start, and its end if the start leads there.
const PLACES: usize = 2;

/// What a response is a part of.
enum Film {
    File(Arc<OpenFile>),
    Object(Arc<Object<ObjectMetadata>>),
}

impl BytePace {
    /// The pace of a response with this body; `None` if it has none, because its bitrate is not known.
    pub(crate) async fn of(context: &Context, pace: Pace, body: &Body) -> Option<Self> {
        let rate = match pace.rate {
            PaceRate::Bytes(rate) => rate,
            PaceRate::Bitrate(thousandths) => {
                // All of it is sent at once anyway.
                if matches!(body.length(), ContentLength::Known(length) if length <= pace.after) {
                    return None;
                }
                let bitrate = bitrate(context, Film::of(body)?).await?;
                let rate = u128::from(bitrate.get()) * u128::from(thousandths.get()) / 1000;
                NonZeroU64::new(u64::try_from(rate).ok()?.max(limits::PACE_RATE_MIN))?
            }
        };
        Some(Self { after: pace.after, rate })
    }
}

impl Film {
    fn of(body: &Body) -> Option<Self> {
        let file = |parts: &[Part]| {
            parts.iter().find_map(|part| match part {
                Part::Extent(extent) => Some(Self::File(Arc::clone(&extent.file))),
                _ => None,
            })
        };
        match body {
            Body::Part(part) => file(std::slice::from_ref(part)),
            Body::Parts(parts) => file(parts),
            Body::Stream(_, stream) => match &stream.1 {
                ChunkSource::Object(stream) => Some(Self::Object(Arc::clone(stream.object()))),
                ChunkSource::Relayed(_) | ChunkSource::Paced(_) => None,
            },
            Body::None | Body::Empty | Body::Withheld(_) | Body::Tunnel(_) => None,
        }
    }
}

/// Bytes in a second of a film.
async fn bitrate(context: &Context, film: Film) -> Option<NonZeroU64> {
    let (name, length) = match &film {
        Film::File(file) => (source::of_file(file), file.len()),
        Film::Object(object) => (source::of_object(object), object.length()?),
    };
    if let Some(known) = context.bitrates.get(&name) {
        return known;
    }
    let (search, is_final) = match film {
        Film::File(file) => (search(context, Extent::whole(file), 0, 0).await?, true),
        Film::Object(object) => search_object(context, &object).await?,
    };
    let bitrate = match search {
        Search::Found(time) => {
            let milliseconds = time.as_millis().max(1);
            NonZeroU64::new(u64::try_from(u128::from(length) * 1000 / milliseconds).unwrap_or(u64::MAX))
        }
        Search::Needs(_) | Search::Unknown => None,
    };
    if bitrate.is_some() || is_final {
        context.bitrates.put(name, bitrate);
    }
    bitrate
}

/// Searches what the cache has of an object, and whether more would make no difference.
async fn search_object(context: &Context, object: &Arc<Object<ObjectMetadata>>) -> Option<(Search, bool)> {
    let mut at = 0;
    for _ in 0..PLACES {
        let (slice, _) = object.locate(at);
        let (lease, length, is_whole) = match object.claim_slice(slice) {
            SliceClaim::Ready(lease) => {
                let length = lease.length();
                (lease, length, true)
            }
            SliceClaim::Filling(mut follower) => (follower.lease()?, follower.progress().bytes, false),
            SliceClaim::Missing(_) => return None,
        };
        let start = u64::from(slice) * u64::from(object.slice_bytes());
        match search(context, lease.extent(0..length)?, start, at).await? {
            Search::Needs(next) if next > at => at = next,
            found => return Some((found, is_whole)),
        }
    }
    None
}

/// Searches from `at` in bytes of a film, of which `start` is the first place.
async fn search(context: &Context, bytes: Extent, start: u64, at: u64) -> Option<Search> {
    let searched = context.io.run(move || {
        mp4::duration(at, |at, out| {
            let Some(offset) = at.checked_sub(start).filter(|offset| *offset < bytes.len) else { return 0 };
            let length = (out.len() as u64).min(bytes.len - offset);
            let window = bytes.file.window(bytes.offset + offset, length);
            window.ok().and_then(|window| window.copy_to(out).ok()).unwrap_or(0)
        })
    });
    searched.ok()?.await.ok()
}
