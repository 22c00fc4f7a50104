//! Fetching segments before a viewer asks for them: what its player says (CMCD), what its playlist has next, or the next number.

use std::borrow::Cow;
use std::sync::Arc;

use penstock_cache::{IndexEntry, Presence};
use penstock_config::limits;
use penstock_metrics::{PrefetchKind, Prefetched};

use crate::cached::fetch::fetch_ahead;
use crate::cached::lookup::Lookup;
use crate::fill::{fetch_slice_ahead, fill_window, window};
use crate::served::Cause;
use crate::site::{CacheRequest, has_personal, neighbours};
use crate::task;

/// Fetches the next segments of the playlist that the object at `lookup` belongs to, as many as the site asks for, unless
/// they are in the cache or on their way. They are the variants that the request at `lookup` selects.
///
/// For a request with Authorization or Cookie nothing is fetched: the response to such a request is for one user, and that
/// user has not asked for it.
pub(crate) fn prefetch_next(lookup: &Lookup) {
    if has_personal(&lookup.request.fields) {
        return;
    }
    let mut key = lookup.request.primary;
    for _ in 0..lookup.site.prefetch {
        let Some(target) = lookup.site.next.of(&key) else {
            if key == lookup.request.primary && lookup.site.prefetches_numbers {
                prefetch_number(lookup);
            }
            return;
        };
        let ahead = ahead(lookup, target.to_string(), PrefetchKind::Playlist);
        key = ahead.request.primary;
        start(ahead);
    }
}

/// Fetches the object whose number is one more, if that whose number is one less is in the cache: then they are a sequence that a
/// viewer follows. The next segment of a live stream may not exist yet.
fn prefetch_number(lookup: &Lookup) {
    let Some([before, after]) = neighbours(&lookup.request.target) else { return };
    let before = with_known_variant(ahead(lookup, before, PrefetchKind::Number));
    let is_sequence = lookup.store.index.get(&before.request.key).is_some();
    if is_sequence && !lookup.site.is_live(&after, lookup.context.now()) {
        start(ahead(lookup, after, PrefetchKind::Number));
    }
}

/// Fetches the object that the player of the request at `lookup` says it will ask for next, under the same conditions. Of an
/// object that is in the cache, it fetches the first slices of `range` that are missing.
pub(crate) fn prefetch_named(lookup: &Lookup, target: &str, range: Option<(u64, Option<u64>)>) {
    if has_personal(&lookup.request.fields) {
        return;
    }
    let ahead = ahead(lookup, target.to_owned(), PrefetchKind::Cmcd);
    let Some((first, last)) = range else { return start(ahead) };
    let ahead = with_known_variant(ahead);
    let Some(object) = ahead.store.index.get(&ahead.request.key) else {
        return start(Lookup { wants_all: false, ..ahead });
    };
    let slice_bytes = u64::from(object.slice_bytes());
    let end = last.map_or(u64::MAX, |last| last.saturating_add(1)).min(object.length().unwrap_or(0));
    let slices = (first / slice_bytes)..end.div_ceil(slice_bytes);
    for slice in slices.take(usize::try_from(fill_window(&object)).unwrap_or(1)) {
        let Ok(slice) = u32::try_from(slice) else { return };
        if matches!(object.presence(slice), Presence::Memory | Presence::Filling) {
            continue;
        }
        let Some(under_way) = ahead.store.prefetches.begin(most_at_once(&ahead)) else { return };
        let slice = (slice, Some(under_way));
        if fetch_slice_ahead(&ahead.context, &ahead.store, ahead.requester, &object, slice).is_err() {
            return;
        }
    }
}

/// The lookup of an object that is fetched ahead for the client of another one.
fn ahead(lookup: &Lookup, target: String, kind: PrefetchKind) -> Lookup {
    let request = lookup.site.request_like(&lookup.request, Cow::Owned(target));
    let request = CacheRequest { early: false, ..request };
    Lookup {
        request,
        held: None,
        loops: None,
        cmcd: None,
        in_advance: Some(kind),
        wants_all: true,
        interim: None,
        cause: Cause::default(),
        ..lookup.clone()
    }
}

/// The same lookup with the key of the variant that is known to be selected.
fn with_known_variant(mut lookup: Lookup) -> Lookup {
    if let Some(key) = lookup.store.variants.other_key(&lookup.request, &lookup.site.name) {
        lookup.request.key = key;
    }
    lookup
}

/// Fetches an object unless it is in the cache, or too many are fetched ahead: of the places of the client's network, of the
/// origin's connections, and of the memory tier they have a share only.
fn start(lookup: Lookup) {
    let lookup = with_known_variant(lookup);
    let prefetches = Arc::clone(&lookup.store.prefetches);
    if lookup.store.index.get(&lookup.request.key).is_some() {
        return;
    }
    let Some(under_way) = prefetches.begin(most_at_once(&lookup)) else { return };
    let Ok(place) = lookup.context.enter_prefetch(lookup.requester) else {
        prefetches.add(Prefetched::SegmentSkipped, 1);
        return;
    };
    let IndexEntry::Claimed(claim) = lookup.store.index.get_or_claim(&lookup.request.key) else { return };
    task::spawn_filling(async move {
        fetch_ahead(lookup, claim).await;
        drop((place, under_way));
    });
}

/// How many segments, or slices of a range that a player has named, may be fetched ahead at the same time, when the next one is of
/// this site.
fn most_at_once(lookup: &Lookup) -> usize {
    let slices = lookup.store.tier.slices_max();
    let of_tier = slices / limits::PREFETCH_TIER_SHARE / u64::from(window(slices));
    let of_tier = usize::try_from(of_tier).unwrap_or(usize::MAX);
    limits::PREFETCHES.min(lookup.site.prefetch_connections).min(of_tier).max(1)
}
