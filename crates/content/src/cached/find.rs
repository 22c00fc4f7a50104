//! Finding an object in the cache, or having it fetched.

use std::sync::Arc;
use std::time::Instant;

use penstock_cache::purge::PurgeEffect;
use penstock_cache::{ClaimResult, IndexEntry, Object, ObjectClaim};
use penstock_config::limits;
use penstock_http::Status;
use tokio::sync::oneshot;
use tokio::time::timeout;

use crate::cache_status::CacheStatus;
use crate::cached::fetch::fetch_object;
use crate::cached::lookup::{FetchClaim, Lookup, LookupResult};
use crate::lifetime::Freshness;
use crate::networks::NetworkFull;
use crate::object::ObjectMetadata;
use crate::site::{CacheRequest, HttpSite};
use crate::store::Store;
use crate::task;

/// The object that answers a request at once: stored, fresh, and the variant that the request selects.
pub(crate) fn find_fresh(
    store: &Store,
    site: &HttpSite,
    request: &CacheRequest<'_>,
    now: Instant,
) -> Option<Arc<Object<ObjectMetadata>>> {
    let other = store.variants.other_key(request, &site.name);
    let object = store.index.get(other.as_ref().unwrap_or(&request.key))?;
    let metadata = object.metadata();
    // Purges first: a soft purge makes the object stale.
    let usable = !store.drop_if_purged(&object, now)
        && metadata.freshness(now) == Freshness::Fresh
        && metadata.is_selected_by(request);
    usable.then_some(object)
}

impl Lookup {
    /// Finds the object.
    ///
    /// # Errors
    /// The status to answer with: the fetch of the last attempt was given up, or too many requests wait already.
    pub(crate) async fn find(&self) -> Result<LookupResult, Status> {
        let mut lookup = self.clone();
        let mut request = self.request.clone();
        let (mut status, mut is_plain) = (CacheStatus::Hit, false);
        // An attempt may end with an object that was purged before this request, or with another variant.
        for _ in 0..2 * limits::ORIGIN_ATTEMPTS {
            // What the object varies by may have become known while this waited.
            if let Some(key) = self.store.variants.other_key(&request, &self.site.name) {
                request.key = key;
                status = CacheStatus::Hit;
            }
            match lookup.look_at(&request, &mut status).await? {
                Some(found) if self.is_other_variant(&found.object, &self.request) => {}
                Some(found) if lookup.may_take(&found.object) => return Ok(found),
                // An answer that may be about the words of another client: the next request is for all that wait.
                Some(_) => is_plain = true,
                None => lookup.loops = None,
            }
            if is_plain {
                lookup.ask_plainly(&self.request);
                request.fields = Arc::clone(&lookup.request.fields);
            }
            // A purge that came meanwhile concerns the object of that attempt, and not that of the next one.
            request.stamp = self.store.stamp(self.context.clock.wall());
        }
        // A fetch for this request alone, which begins after all purges so far.
        lookup.fetch(&request, None, None).await
    }

    /// Whether an object that this request waited for is too old for it: it was purged, softly or not, and its fetch did not
    /// begin after this request. A later purge may be in force already, but was not when this request came.
    fn is_purged_for_this(&self, object: &Arc<Object<ObjectMetadata>>) -> bool {
        let now = self.context.now();
        let is_purged = self.store.drop_if_purged(object, now)
            || self.store.judge(object.metadata(), now) == PurgeEffect::Stale;
        is_purged && object.metadata().unpurged_until() < self.request.stamp
    }

    /// Whether the object is not the variant that the request selects. Then what it varies by is known from now on.
    pub(crate) fn is_other_variant(
        &self,
        object: &Object<ObjectMetadata>,
        request: &CacheRequest<'_>,
    ) -> bool {
        if object.metadata().is_selected_by(request) {
            return false;
        }
        let key = self.store.learn_variants(request, &self.site.name, object);
        if key == *object.key() {
            // An object of another variant under this request's own key would be found for ever.
            self.store.index.forget(&key, &self.store.tier);
        }
        true
    }

    /// One look at the index. `None` if the request has to look again.
    async fn look_at(
        &self,
        request: &CacheRequest<'static>,
        status: &mut CacheStatus,
    ) -> Result<Option<LookupResult>, Status> {
        let (index, key) = (&self.store.index, &request.key);
        let now = self.context.now();
        let (pending, stale) = match index.get_or_claim(key) {
            IndexEntry::Claimed(claim) => return self.fetch(request, Some(claim), None).await.map(Some),
            IndexEntry::Pending(pending) => {
                *status = CacheStatus::Collapsed;
                (pending, None)
            }
            IndexEntry::Known(object) if self.store.drop_if_purged(&object, now) => return Ok(None),
            IndexEntry::Known(object) => match object.metadata().freshness(now) {
                Freshness::Fresh => return Ok(Some(LookupResult::shared(object, *status))),
                Freshness::Stale => {
                    if let IndexEntry::Claimed(claim) = index.get_newer_or_claim(key, &object) {
                        // The client is answered with the stale object; the fetch renews it for later requests.
                        drop(self.start(request, Some(claim), Some(Arc::clone(&object))));
                    }
                    return Ok(Some(LookupResult::shared(object, CacheStatus::Stale)));
                }
                Freshness::Expired => match index.get_newer_or_claim(key, &object) {
                    IndexEntry::Claimed(claim) => {
                        let coming = self.fetch(request, Some(claim), Some(Arc::clone(&object)));
                        let found = unless_slow(Some(&object), now, coming).await.unwrap_or_else(Ok);
                        return found.map(Some);
                    }
                    IndexEntry::Pending(pending) => {
                        *status = CacheStatus::Revalidated;
                        (pending, Some(object))
                    }
                    // Another request has renewed it.
                    IndexEntry::Known(object) => return Ok(Some(LookupResult::shared(object, *status))),
                },
            },
        };
        if stale.is_none() && !self.site.coalesces() {
            return self.fetch(request, None, None).await.map(Some);
        }
        let Ok(_place) = self.context.enter_wait(self.requester, pending.waiters()) else {
            // A fetch for each of them would be a request to the origin for each of them.
            return match stale.filter(|object| object.metadata().may_replace_an_error(now)) {
                Some(object) => Ok(Some(LookupResult::shared(object, CacheStatus::Stale))),
                None => Err(Status::ServiceUnavailable),
            };
        };
        let resolved = tokio::select! {
            biased;
            resolved = unless_slow(stale.as_ref(), now, pending.result()) => resolved,
            () = self.site.until_asking(self.requester, &request.target, 0) => return Err(Status::LoopDetected),
        };
        let resolved = match resolved {
            Ok(resolved) => resolved,
            Err(stale) => return Ok(Some(stale)),
        };
        match resolved {
            Some(ClaimResult::Shared(object)) if self.is_purged_for_this(&object) => Ok(None),
            Some(ClaimResult::Shared(object)) => Ok(Some(LookupResult::shared(object, *status))),
            Some(ClaimResult::Private) => self.fetch(request, None, None).await.map(Some),
            // The other fetch was given up.
            None => Ok(None),
        }
    }

    /// Starts a fetch that outlives this request, and waits for its head.
    ///
    /// # Errors
    /// [`Status::BadGateway`] if the fetch was given up, [`Status::TooManyRequests`] if the client's network has too many.
    pub(crate) async fn fetch(
        &self,
        request: &CacheRequest<'static>,
        claim: Option<ObjectClaim<ObjectMetadata>>,
        stale: Option<Arc<Object<ObjectMetadata>>>,
    ) -> Result<LookupResult, Status> {
        match self.start(request, claim, stale) {
            Ok(answer) => answer.await.map_err(|_| Status::BadGateway),
            Err(NetworkFull) => {
                self.context.metrics.rejected("network_fetches");
                Err(Status::TooManyRequests)
            }
        }
    }

    fn start(
        &self,
        request: &CacheRequest<'static>,
        claim: Option<ObjectClaim<ObjectMetadata>>,
        stale: Option<Arc<Object<ObjectMetadata>>>,
    ) -> Result<oneshot::Receiver<LookupResult>, NetworkFull> {
        let place = self.context.enter_fetch(self.requester)?;
        let (reply, answer) = oneshot::channel();
        let lookup = self.of(request.clone(), self.held.clone());
        task::spawn_filling(async move {
            let _place = place;
            fetch_object(&lookup, FetchClaim { claim, reply }, stale).await;
        });
        Ok(answer)
    }
}

/// Waits for a newer version than `stale`, for as long as its metadata allow. The error is the stale object.
async fn unless_slow<T>(
    stale: Option<&Arc<Object<ObjectMetadata>>>,
    now: Instant,
    coming: impl Future<Output = T>,
) -> Result<T, LookupResult> {
    let Some(object) = stale else { return Ok(coming.await) };
    let Some(patience) = object.metadata().patience(now) else { return Ok(coming.await) };
    let stale = |_| LookupResult::shared(Arc::clone(object), CacheStatus::Stale);
    timeout(patience, coming).await.map_err(stale)
}
