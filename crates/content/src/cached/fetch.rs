//! Fetching objects and slices. A fetch is a task of its own: it goes on when the client that began it leaves.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use penstock_cache::{Object, ObjectClaim};
use penstock_cluster::BLOCK_BYTES;
use penstock_http::caching::Storage;
use penstock_origin::http::{Fetch, OriginError, OriginFault};
use tokio::sync::oneshot;
use tokio::time::timeout;

use crate::cache_status::CacheStatus;
use crate::cached::lookup::{FetchClaim, Lookup};
use crate::cached::restore::restore;
use crate::clock::Moment;
use crate::fault::origin_status;
use crate::fill::{claim_missing, fill_object, may_go_past_cache, record_fault, slices_of, window};
use crate::lifetime::Freshness;
use crate::object::{ObjectMetadata, Validation, is_newer_playlist};
use crate::origin::{
    FetchedResponse, Relay, Repeatable, Wanted, ask, count_answer, forward_fields, has_unknown_end, relay,
    whole_length,
};
use crate::origins::OriginBody;
use crate::site::{BodyKind, CacheRequest, OwnWords};

type Stored = Arc<Object<ObjectMetadata>>;

/// Fetches an object that no client has asked for yet.
pub(crate) async fn fetch_ahead(lookup: Lookup, claim: ObjectClaim<ObjectMetadata>) {
    let (reply, _) = oneshot::channel();
    fetch_object(&lookup, FetchClaim { claim: Some(claim), reply }, None).await;
}

/// Finds out what an object is, gives it to the waiters, and fills the slices that come with it. `stale` is the version
/// in the cache that is no longer fresh.
pub(crate) async fn fetch_object(lookup: &Lookup, claim: FetchClaim, stale: Option<Stored>) {
    let (claim, mut stale) = match stale {
        None if lookup.held.is_none() => match restore(lookup, claim).await {
            Ok(()) => return,
            Err(missed) => missed,
        },
        stale => (claim, stale),
    };
    let metrics = &lookup.context.metrics;
    // The version whose 304 is for one client only.
    let mut unshared = None;
    let unconditional;
    let requests = ObjectRequests::new(lookup, stale.as_ref());
    let mut fetched = requests.ask_for_object(lookup).await;
    let mut now = lookup.context.moment();
    if let (Ok(answer), Some(object)) = (&fetched, &stale)
        && matches!(answer.status(), 304 | 412)
    {
        let validation = match answer.status() {
            304 => {
                metrics.origin("not_modified");
                object.metadata().confirm(&**answer, &lookup.request, now)
            }
            // The condition of a client is not sent, so this is about the one of the cache.
            _ => Validation::OtherVersion,
        };
        match validation {
            Validation::Confirmed => {
                claim.keep(object, CacheStatus::Revalidated);
                return;
            }
            // That client has left, and those that wait look again.
            Validation::Unshared if claim.reply.is_closed() => {
                lookup.store.index.forget_version(object.key(), object);
                return;
            }
            Validation::Unshared => unshared = stale.take(),
            Validation::OtherVersion => {}
        }
        // There is no body: the origin is asked again for a whole response.
        drop(fetched);
        unconditional = ObjectRequests::new(lookup, None);
        fetched = unconditional.ask_for_object(lookup).await;
        now = lookup.context.moment();
    }
    let fetched = match fetched {
        Ok(answer) => FetchedResponse::read_kind(answer, &lookup.request.target).await,
        Err(error) => Err(error),
    };
    let known = stale.as_ref().or(unshared.as_ref());
    let substitute = known.filter(|object| may_stand_in(lookup, object, &fetched, now));
    if let (Some(object), None) = (&unshared, substitute) {
        lookup.store.index.forget_version(object.key(), object);
    }
    match (fetched, substitute) {
        (fetched, Some(object)) => {
            metrics.origin(fetched.err().map_or("server_error", OriginError::label));
            match lookup.own_words(&[]).is_some_and(|words| words.is_marked()) {
                true => claim.give_to_first(object, CacheStatus::StaleIfError),
                false => claim.share(object, CacheStatus::StaleIfError),
            }
        }
        (Err(error), None) => {
            metrics.origin(error.label());
            claim.share(&failure(lookup, error, now), CacheStatus::Miss);
        }
        (Ok(response), None) => {
            let status = if stale.is_some() { CacheStatus::Replaced } else { CacheStatus::Miss };
            take_in(lookup, response, claim, status, now).await;
        }
    }
}

/// Whether a stale object is sent in place of what its origin gave.
fn may_stand_in(
    lookup: &Lookup,
    object: &Stored,
    fetched: &Result<FetchedResponse<'_>, OriginError>,
    now: Moment,
) -> bool {
    let (failed, is_down) = match fetched {
        Ok(response) => (response.head.status() >= 500, matches!(response.head.status(), 502..=504)),
        Err(error) => (true, error.fault() == OriginFault::Server),
    };
    let grace = if is_down { lookup.site.grace() } else { Duration::ZERO };
    failed && object.metadata().may_replace_a_failure(grace, now.0)
}

/// The first request for an object, for a part or for all of it, and the one for all of it.
struct ObjectRequests {
    first: Fetch,
    whole: Fetch,
}

impl ObjectRequests {
    fn new(lookup: &Lookup, stale: Option<&Stored>) -> Self {
        let first = object_request(lookup, stale);
        let whole = Fetch { range: None, interim: None, ..first.clone() };
        Self { first, whole }
    }

    /// Asks the origin. A part that is of no use is followed by a request for all of the object.
    async fn ask_for_object<'f>(
        &'f self,
        lookup: &'f Lookup,
    ) -> Result<Box<dyn OriginBody + 'f>, OriginError> {
        let answer = ask_for_object(lookup, &self.first).await?;
        if self.first.range.is_none() || !must_be_whole(&*answer, lookup) {
            return Ok(answer);
        }
        drop(answer);
        ask_for_object(lookup, &self.whole).await
    }
}

/// The first request for an object.
fn object_request(lookup: &Lookup, stale: Option<&Stored>) -> Fetch {
    let request = &lookup.request;
    let whole = request.is_manifest || lookup.store.volatile.has(&request.key, lookup.context.now());
    let target = lookup.held.as_ref().map_or(&*request.target, |held| &held.target);
    let mut fetch = Fetch {
        early: request.early,
        range: (!whole).then(|| (0, first_bytes(lookup) - 1)),
        known: stale.and_then(|object| object.metadata().condition()),
        preferred: stale
            .and_then(|object| object.metadata().server())
            .or_else(|| lookup.site.server_of(target)),
        interim: lookup.interim.clone(),
        ..Fetch::get(target)
    };
    forward_fields(&request.fields, &mut fetch);
    lookup.cause.add_to(&mut fetch);
    fetch
}

/// How much the first request for an object asks for, in bytes: for a client that wants all of it, the first slices in
/// one response.
fn first_bytes(lookup: &Lookup) -> u64 {
    let tier = &lookup.store.tier;
    let slices = if lookup.wants_all { window(tier.slices_max()) } else { 1 };
    (u64::from(slices) * u64::from(tier.slice_bytes())).min(BLOCK_BYTES)
}

/// Whether the answer to a request for a part is of no use: the origin does not know the length of the object, the part has
/// no strong validator to combine it with others, or the object is empty, so that no range of it exists
/// (RFC 9110 §14.1.2).
fn must_be_whole(answer: &dyn OriginBody, lookup: &Lookup) -> bool {
    if answer.status() != 206 {
        return answer.status() == 416;
    }
    if has_unknown_end(answer) {
        return true;
    }
    let is_all = whole_length(answer, answer.length(), u64::MAX) == Some(answer.length());
    !is_all && !ObjectMetadata::has_strong_validator(answer, lookup.context.clock.wall())
}

async fn ask_for_object<'f>(
    lookup: &'f Lookup,
    fetch: &'f Fetch,
) -> Result<Box<dyn OriginBody + 'f>, OriginError> {
    let wanted = Wanted {
        target: &lookup.request.target,
        first_byte: 0,
        requester: lookup.requester,
        loops: lookup.loops.as_deref(),
        cmcd: lookup.cmcd.as_deref(),
    };
    let coming = ask(&lookup.context, &lookup.site, &wanted, fetch);
    match &lookup.held {
        Some(held) => timeout(held.longest, coming).await.unwrap_or(Err(OriginError::Timeout)),
        None => coming.await,
    }
}

/// The words of the client that a response may be about. A status that says something of the target is not about
/// fields that the origin does not name in Vary: those that RFC 9110 §15.1 lets caches store without a lifetime, and other
/// redirections for which the origin names one.
fn words_of_answer(lookup: &Lookup, answer: &ObjectMetadata) -> Option<OwnWords> {
    let words = lookup.own_words(answer.varies_by())?;
    let is_about_target = match answer.status {
        300 | 301 | 308 | 404 | 405 | 410 | 414 | 501 => true,
        302 | 303 | 307 => answer.is_stored(),
        _ => false,
    };
    match answer.status {
        200..300 => None,
        _ if is_about_target && !words.is_marked() => None,
        _ => Some(words),
    }
}

/// Makes an object of a response, gives it to those it is for, and fills it.
async fn take_in(
    lookup: &Lookup,
    mut response: FetchedResponse<'_>,
    claim: FetchClaim,
    status: CacheStatus,
    now: Moment,
) {
    let Lookup { context, store, site, .. } = lookup;
    let metrics = &context.metrics;
    let slice_bytes = u64::from(store.tier.slice_bytes());
    let asked_bytes = first_bytes(lookup);
    let Some(length) = whole_length(&*response.head, response.length, asked_bytes) else {
        metrics.origin(OriginError::Malformed.label());
        claim.share(&failure(lookup, OriginError::Malformed, now), status);
        return;
    };
    count_answer(context, &*response.head);
    if let Some(kind) = response.kind.label() {
        metrics.manifest(kind);
    }
    let kind = std::mem::replace(&mut response.kind, BodyKind::Other);
    let request = selected(lookup, &*response.head);
    let (mut metadata, mut storage) = ObjectMetadata::read(&*response.head, &request, site, kind, now);
    if let Some(words) = words_of_answer(lookup, &metadata) {
        metadata.set_own_words(words);
        if storage != Storage::Private {
            storage = Storage::Passing;
        }
    }
    if let Some(manifest) = metadata.manifest() {
        site.learn(&lookup.request.target, manifest);
    }
    if fetches_an_error_ahead(lookup, &metadata) && matches!(storage, Storage::Shared(_)) {
        storage = Storage::Passing;
    }
    let coming = length.map(|length| if metadata.came_in_part() { length.min(asked_bytes) } else { length });
    let slices = slices_of(slice_bytes, coming);
    let is_other_variant = request.key != lookup.request.key;
    let is_private = storage == Storage::Private && !is_other_variant && lookup.wants_all;
    let is_cold = || status == CacheStatus::Miss && is_cold(lookup, &*response.head, &metadata, length);
    // No later request could find what a fetch without a claim keeps.
    let is_passed_on = storage != Storage::Private
        && !is_other_variant
        && (!claim.is_shared() && lookup.wants_all || is_cold());
    if is_passed_on {
        metadata.set_unstored();
    }
    let object = Object::new(&request.key, metadata, length, Arc::clone(&store.tier));
    // Before another request can see the object: the slices of this response are for this task to fill.
    let fills = if is_private || is_passed_on { VecDeque::new() } else { claim_missing(&object, 0..slices) };
    // The bytes of such an object come once. Without space in the cache they are for this client alone.
    let has_no_space =
        !may_go_past_cache(&object) && fills.front().is_some_and(|fill| fill.reserve().is_err());
    if is_private || is_passed_on || has_no_space {
        drop(fills);
        store.learn_variants(&lookup.request, &site.name, &object);
        let (sender, receiver) = relay();
        match is_passed_on {
            true => claim.give_body_to_first(&object, status, receiver),
            false => claim.give_unshared(&object, Some(receiver)),
        }
        let requester = lookup.requester;
        let relay = Relay { context, object: &object, requester, sender, repeatable: Repeatable::Yes };
        if let Err(fault) = relay.run(response).await {
            record_fault(context, store, &object, fault);
        }
        return;
    }
    give_object(lookup, claim, &object, storage, status);
    if let Err(fault) = fill_object(context, response, &object, lookup.requester, fills).await {
        record_fault(context, store, &object, fault);
        if length.is_none() {
            // Its length is unknown: the rest cannot be asked for.
            store.index.forget_version(&request.key, &object);
        }
    }
}

/// Marks an object that is fetched ahead. Returns whether it is an error: nothing is kept of one that no client has asked for,
/// since the object may exist a moment later.
fn fetches_an_error_ahead(lookup: &Lookup, metadata: &ObjectMetadata) -> bool {
    let Some(kind) = lookup.in_advance else { return false };
    metadata.readers.mark_segment(&lookup.store.prefetches, kind);
    metadata.status >= 400
}

/// Whether an object that another node owns is wanted here for the first time, and whole: then it goes to its client and
/// displaces nothing. An object that grows, and one that is fetched for later, is kept.
fn is_cold(lookup: &Lookup, head: &dyn OriginBody, metadata: &ObjectMetadata, length: Option<u64>) -> bool {
    if !metadata.may_be_fetched_in_parts() {
        return false;
    }
    let now = lookup.context.now();
    let is_of_another = head.peer().is_some_and(|peer| peer.is_owner);
    let Some(sharing) = lookup.site.sharing.as_ref().filter(|_| is_of_another) else { return false };
    let is_known = sharing.peers.popularity.note(&lookup.request.key, now);
    let is_kept = lookup.in_advance.is_some()
        || lookup.request.is_manifest
        || lookup.site.is_live(&lookup.request.target, now);
    !is_known && !is_kept && lookup.wants_all && length.is_some_and(|length| length > 0)
}

/// The request with the key of the variant that the response says it selects.
fn selected(lookup: &Lookup, head: &dyn OriginBody) -> CacheRequest<'static> {
    let names = ObjectMetadata::vary_of(head);
    let key = lookup.store.variants.key_with(&lookup.request, &lookup.site.name, names);
    CacheRequest { key, ..lookup.request.clone() }
}

fn give_object(lookup: &Lookup, claim: FetchClaim, object: &Stored, storage: Storage, status: CacheStatus) {
    let index = &lookup.store.index;
    let is_other_variant = *object.key() != lookup.request.key;
    if is_other_variant && matches!(storage, Storage::Shared(_)) && claim.is_current() {
        let (asked, now) = (object.metadata().unpurged_until(), lookup.context.now());
        // The stamp of the known one is later than that of its request if it was compared with a purge or a change.
        index.insert_kept(object, |known| {
            let known = known.metadata();
            known.unpurged_until() <= asked || known.freshness(now) != Freshness::Fresh
        });
    }
    // A request that does not find the object before has the key of this fetch still, and waits for it.
    lookup.store.learn_variants(&lookup.request, &lookup.site.name, object);
    match storage {
        _ if is_other_variant => claim.give_to_first(object, status),
        Storage::Shared(_) if lookup.held.is_some() => {
            if object.metadata().manifest().is_some() {
                index.insert_unclaimed(object, |known| is_newer_playlist(object, known));
            }
            claim.share(object, status);
        }
        Storage::Shared(_) => claim.keep(object, status),
        Storage::Passing => claim.share(object, status),
        Storage::Private => claim.give_unshared(object, None),
    }
}

/// The object that stands for an origin that failed.
fn failure(lookup: &Lookup, error: OriginError, now: Moment) -> Stored {
    let status = match (error, &lookup.held) {
        // The origin held its response for too long (RFC 8216bis §6.2.5.2): the player asks again.
        (OriginError::Timeout, Some(_)) => 503,
        // Another node refused a position that this one did not: the playlist exists.
        (OriginError::Unsendable, Some(_)) => 502,
        (error, _) => origin_status(error).code(),
    };
    let mut metadata = ObjectMetadata::failure(status, error.into(), &lookup.request, &lookup.site, now);
    // What these say is not about the request.
    let is_about_request = !matches!(
        error,
        OriginError::Unreachable
            | OriginError::Timeout
            | OriginError::Busy
            | OriginError::Certificate
            | OriginError::Handshake
    );
    if let Some(words) = lookup.own_words(&[]).filter(|_| is_about_request) {
        metadata.set_own_words(words);
    }
    Object::new(&lookup.request.key, metadata, Some(0), Arc::clone(&lookup.store.tier))
}
