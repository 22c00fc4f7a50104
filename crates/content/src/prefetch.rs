//! Fetching segments before a viewer asks for them, in the order of their playlist.

use std::borrow::Cow;
use std::sync::Arc;

use penstock_cache::IndexEntry;
use penstock_config::limits;

use crate::fetch::fetch_ahead;
use crate::lookup::Lookup;
use crate::task;

/// Fetches the next segments of the playlist that the object at `lookup` belongs to, as many as the site asks for, unless
/// they are in the cache or on their way.
pub(crate) fn prefetch_next(lookup: &Lookup) {
    let mut key = lookup.request.key;
    for _ in 0..lookup.site.prefetch {
        let Some(target) = lookup.site.next.of(&key) else { return };
        let request = lookup
            .site
            .request_for(Cow::Owned(target.to_string()), false, lookup.request.moment)
            .into_owned();
        key = request.key;
        start(Lookup { request, held: None, in_advance: true, wants_all: true, ..lookup.clone() });
    }
}

fn start(lookup: Lookup) {
    let prefetches = Arc::clone(&lookup.store.prefetches);
    if lookup.store.index.get(&lookup.request.key).is_some() || !prefetches.begin(limits::PREFETCHES) {
        return;
    }
    let IndexEntry::Claimed(claim) = lookup.store.index.get_or_claim(&lookup.request.key) else {
        prefetches.end();
        return;
    };
    task::spawn(async move {
        fetch_ahead(lookup, claim).await;
        prefetches.end();
    });
}
