//! Fetching segments before a viewer asks for them, in the order of their playlist.

use std::borrow::Cow;
use std::sync::Arc;

use penstock_cache::IndexEntry;
use penstock_config::limits;

use crate::cached::fetch::fetch_ahead;
use crate::cached::lookup::Lookup;
use crate::served::Cause;
use crate::site::{CacheRequest, has_personal};
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
        let Some(target) = lookup.site.next.of(&key) else { return };
        let request = lookup.site.request_like(&lookup.request, Cow::Owned(target.to_string()));
        key = request.primary;
        let request = CacheRequest { early: false, ..request };
        let ahead = Lookup {
            request,
            held: None,
            loops: None,
            in_advance: true,
            wants_all: true,
            interim: None,
            cause: Cause::default(),
            ..lookup.clone()
        };
        start(ahead);
    }
}

fn start(mut lookup: Lookup) {
    if let Some(key) = lookup.store.variants.other_key(&lookup.request, &lookup.site.name) {
        lookup.request.key = key;
    }
    let prefetches = Arc::clone(&lookup.store.prefetches);
    if lookup.store.index.get(&lookup.request.key).is_some() || !prefetches.begin(limits::PREFETCHES) {
        return;
    }
    let IndexEntry::Claimed(claim) = lookup.store.index.get_or_claim(&lookup.request.key) else {
        prefetches.end();
        return;
    };
    task::spawn_filling(async move {
        fetch_ahead(lookup, claim).await;
        prefetches.end();
    });
}
