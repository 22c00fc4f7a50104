//! Restoring objects of an earlier process, and objects that only a disk holds, on their first lookup.

use std::sync::Arc;

use penstock_cache::Object;

use crate::cache_status::CacheStatus;
use crate::cached::lookup::{FetchClaim, Lookup};
use crate::lifetime::Freshness;
use crate::object::ObjectMetadata;

/// The claim on an object that is still to be fetched, and the expired version that was restored, if there is one.
pub(crate) type Missed = (FetchClaim, Option<Arc<Object<ObjectMetadata>>>);

/// Restores the object, and gives it to the waiters.
///
/// # Errors
/// The object has to be fetched.
pub(crate) async fn restore(lookup: &Lookup, claim: FetchClaim) -> Result<(), Missed> {
    if !claim.is_shared() {
        return Err((claim, None));
    }
    let now = lookup.context.moment();
    let read = |bytes: &[u8]| {
        let metadata = ObjectMetadata::decode(bytes, &lookup.site, now)?;
        lookup.store.purges.correct_stamp(&metadata.judged, now.1);
        if metadata.fields().has("set-cookie") {
            // Of one client: an earlier version of this program took it from a 304.
            return None;
        }
        // It may have been purged before it was looked up.
        (!lookup.store.is_purged(&metadata, now.0)).then_some(metadata)
    };
    let mut restored = lookup.store.index.restore(&lookup.request.key, &lookup.store.tier, read).await;
    if restored.is_some() && lookup.store.may_restore().await {
        // By what other nodes of the cluster purged while this one was away.
        restored.take_if(|object| lookup.store.is_purged(object.metadata(), lookup.context.now()));
    }
    let now = lookup.context.moment();
    match restored {
        Some(object) if object.metadata().freshness(now.0) != Freshness::Expired => {
            claim.keep(&object, CacheStatus::Hit);
            Ok(())
        }
        restored => Err((claim, restored)),
    }
}
