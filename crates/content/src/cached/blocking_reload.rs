//! Blocking playlist reload of low-latency HLS (RFC 8216bis §6.2.5.2): a player asks for a playlist with a part that does
//! not exist yet, and the response is held back until it does.
//!
//! The origin holds the response. Here all requests for the same part wait for one request to the origin, and its
//! response replaces the playlist in the cache, where later requests find the part. So there is one object for each
//! playlist and one for each kind of delta update, whatever numbers clients ask for.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use penstock_cache::{ClaimResult, IndexEntry, Key, Object, ObjectClaim};
use penstock_config::limits;
use penstock_http::Status;
use penstock_http::manifest::{Delivery, Position, Reach};

use crate::cache_status::CacheStatus;
use crate::cached::lookup::{HeldRequest, Lookup, LookupResult};
use crate::lifetime::Freshness;
use crate::object::{ObjectMetadata, media, newest, reach};
use crate::site::{CacheRequest, key_of, split_target};

/// A target with delivery directives.
struct Directed {
    path: String,
    /// The query without the directives.
    rest: String,
    delivery: Delivery,
}

impl Lookup {
    /// Finds the object of a request that may have delivery directives.
    ///
    /// # Errors
    /// As [`Self::find`], and 400 for directives that make no sense.
    pub(crate) async fn find_or_hold(&self) -> Result<LookupResult, Status> {
        let directed = match Directed::of(&self.request) {
            Ok(Some(directed)) => directed,
            Ok(None) => return self.find().await,
            Err(status) => {
                self.context.metrics.reload("bad");
                return Err(status);
            }
        };
        let playlist = self.at(directed.without(Delivery::default()));
        let Delivery { wanted, skip } = directed.delivery;
        let variant = match skip {
            Some(_) => self.at(directed.without(Delivery { wanted: None, skip })),
            None => playlist.clone(),
        };
        let Some(wanted) = wanted else { return variant.find().await };
        let newest = match newest(variant.known_playlist(), playlist.known_playlist()) {
            Some(known) => known,
            None => {
                let found = playlist.find().await?;
                if media(&found.object).is_none() {
                    // No media playlist: there is nothing to hold back.
                    return Ok(found);
                }
                found.object
            }
        };
        let control = media(&newest).cloned().unwrap_or_default();
        if control.ended || !control.can_block {
            return variant.find().await;
        }
        let own = variant.known_playlist();
        match reach(own.as_ref().unwrap_or(&newest), wanted) {
            Reach::Within => {
                self.context.metrics.reload("at_once");
                variant.find().await
            }
            // A delta update that is older than the full playlist does not tell how far the stream goes.
            Reach::TooFar if !playlist.confirms_too_far(&newest, wanted).await => {
                self.context.metrics.reload("too_far");
                Err(Status::BadRequest)
            }
            Reach::Next | Reach::TooFar => {
                self.context.metrics.reload("held");
                let longest = control.longest_hold() + Duration::from_secs(limits::HOLD_GRACE_SECONDS);
                let held = HeldRequest { target: directed.target(), longest };
                variant.of(variant.request.clone(), Some(held.clone())).hold(&held, &newest).await
            }
        }
    }

    /// The same lookup at another target.
    fn at(&self, target: String) -> Self {
        self.of(self.site.request_like(&self.request, Cow::Owned(target)), None)
    }

    /// The key of the variant that the request selects, by what is known now.
    fn selected_key(&self) -> Key {
        let other = self.store.variants.other_key(&self.request, &self.site.name);
        other.unwrap_or(self.request.key)
    }

    /// Has the origin asked for the held request.
    async fn fetch_held(&self, claim: Option<ObjectClaim<ObjectMetadata>>) -> Result<LookupResult, Status> {
        let request = CacheRequest { key: self.selected_key(), ..self.request.clone() };
        self.fetch(&request, claim, None).await
    }

    /// The media playlist in the cache that the request selects.
    fn known_playlist(&self) -> Option<Arc<Object<ObjectMetadata>>> {
        let known = self.store.index.get(&self.selected_key())?;
        let usable = !self.store.drop_if_purged(&known, self.context.now())
            && known.metadata().is_selected_by(&self.request)
            && media(&known).is_some();
        usable.then_some(known)
    }

    /// Whether a position that is too far for the known version is worth asking the origin for: it is within reach of the
    /// newest version, or of the version that the origin has now.
    async fn confirms_too_far(&self, newest: &Arc<Object<ObjectMetadata>>, wanted: Position) -> bool {
        if reach(newest, wanted) != Reach::TooFar {
            return true;
        }
        if newest.metadata().freshness(self.context.now()) == Freshness::Fresh {
            return false;
        }
        let renewed = self.find().await;
        renewed.is_ok_and(|found| reach(&found.object, wanted) != Reach::TooFar)
    }

    /// The key of a held request. Requests that differ in what `playlist` and earlier responses vary by have different keys.
    fn held_key(&self, held: &HeldRequest, playlist: &Object<ObjectMetadata>) -> Key {
        let mut names = self.store.variants.names(&self.request);
        names.extend_from_slice(playlist.metadata().varies_by());
        key_of(&self.site.name, &held.target, &self.request.fields, &names)
    }

    /// Waits for the one request that the origin holds back, or makes it. `playlist` is the newest version so far. If the
    /// response varies by more than that, clients that wait for another variant look again.
    async fn hold(
        &self,
        held: &HeldRequest,
        playlist: &Object<ObjectMetadata>,
    ) -> Result<LookupResult, Status> {
        let mut lookup = self.clone();
        for _ in 0..limits::ORIGIN_ATTEMPTS {
            let key = self.held_key(held, playlist);
            let pending = match self.store.index.get_or_claim(&key) {
                IndexEntry::Claimed(claim) => return lookup.fetch_held(Some(claim)).await,
                IndexEntry::Known(object) => return Ok(LookupResult::shared(object, CacheStatus::Hit)),
                IndexEntry::Pending(pending) => pending,
            };
            let place = self.context.enter_wait(self.requester, pending.waiters());
            let _place = place.map_err(|_| Status::ServiceUnavailable)?;
            let resolved = tokio::select! {
                biased;
                resolved = pending.result() => resolved,
                () = self.site.until_asking(self.requester, &held.target, 0) => return Err(Status::LoopDetected),
            };
            match resolved {
                Some(ClaimResult::Shared(object)) if self.is_other_variant(&object, &self.request) => {}
                Some(ClaimResult::Shared(object)) if !lookup.may_take(&object) => {
                    lookup.ask_plainly(&self.request)
                }
                Some(ClaimResult::Shared(object)) => {
                    return Ok(LookupResult::shared(object, CacheStatus::Collapsed));
                }
                Some(ClaimResult::Private) => return lookup.fetch_held(None).await,
                None => lookup.loops = None,
            }
        }
        Err(Status::BadGateway)
    }
}

impl Directed {
    /// `None` if there are no directives.
    fn of(request: &CacheRequest<'_>) -> Result<Option<Self>, Status> {
        let (path, Some(query)) = split_target(&request.target) else { return Ok(None) };
        if !query.contains("_HLS_") {
            return Ok(None);
        }
        let (delivery, rest) = Delivery::take(query).map_err(|_| Status::BadRequest)?;
        if delivery == Delivery::default() {
            return Ok(None);
        }
        Ok(Some(Self { path: path.to_owned(), rest, delivery }))
    }

    fn target(&self) -> String {
        self.without(self.delivery)
    }

    /// The target with these directives and no others.
    fn without(&self, delivery: Delivery) -> String {
        match delivery.query(&self.rest).as_str() {
            "" => self.path.clone(),
            query => format!("{}?{query}", self.path),
        }
    }
}
