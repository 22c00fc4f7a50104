//! From a request to its response: site, access, lookup, representation.

use std::rc::Rc;
use std::sync::Arc;

use penstock_cache::{Object, Presence};
use penstock_config::limits;
use penstock_http::{Method, Status};
use penstock_origin::http::OriginError;

use crate::cache_status::CacheStatus;
use crate::cached::{Lookup, LookupResult, find_fresh, prefetch_next};
use crate::context::Context;
use crate::fill::slices_of;
use crate::object::ObjectMetadata;
use crate::peers::{FAULT, passed_through};
use crate::pipeline::relayed::relay_response;
use crate::requester::Requester;
use crate::response::{
    ClientRequest, Exchange, FileRepresentation, ObjectRepresentation, Representation, Response,
};
use crate::site::{CacheRequest, HttpSite, admit};
use crate::site_table::{Site, SiteOrigin, SiteTable};
use crate::store::Store;

/// Answers a request whose body, if it has one, is not used. See [`forward`](crate::pipeline::forward) for the others.
pub async fn respond(context: &Rc<Context>, sites: &SiteTable, client: ClientRequest<'_>) -> Response {
    let request = client.head;
    let Some(site) = sites.find(request.host()) else {
        return Exchange::new(context, client, None).page(Status::MisdirectedRequest);
    };
    let mut exchange = Exchange::new(context, client, Some(site));
    if client.early && site.refuses_early {
        return exchange.page(Status::TooEarly);
    }
    let (bare, target);
    // A CORS preflight carries no token.
    if let Some(rules) = site.signed_urls.as_ref().filter(|_| request.method() != Method::Options) {
        let admitted = admit(rules, request, context.clock.wall());
        context.metrics.signed_url(admitted.as_ref().map_or_else(|why| why.label(), |_| "accepted"));
        let Ok(admitted) = admitted else { return exchange.page(Status::Forbidden) };
        bare = admitted;
        target = request.with_target(bare.path, bare.query.as_deref());
        exchange.request = &target;
    }
    match request.method() {
        Method::Options => exchange.options(site),
        Method::Get | Method::Head => match &site.origin {
            SiteOrigin::Directory(directory) => {
                match FileRepresentation::open(&exchange, site, directory).await {
                    // A file is opened once for a response, so it is never outdated.
                    Ok(file) => Representation::File(file)
                        .respond(&exchange)
                        .await
                        .unwrap_or_else(|_| exchange.page(Status::BadGateway)),
                    Err(response) => response,
                }
            }
            SiteOrigin::Http(origin, _) | SiteOrigin::Relayed(origin)
                if origin.loop_member.has_passed(request) =>
            {
                exchange.page(Status::LoopDetected)
            }
            // Boxed, as all that waits for an origin: most responses do not.
            SiteOrigin::Relayed(origin) => Box::pin(relay_response(&exchange, site, origin)).await,
            SiteOrigin::Http(origin, store) => from_cache(&exchange, origin, store).await,
        },
        Method::Other(_) => exchange.page(Status::MethodNotAllowed),
    }
}

/// Answers from the cache, or from the origin through the cache.
pub(crate) async fn from_cache(
    exchange: &Exchange<'_>,
    site: &Arc<HttpSite>,
    store: &Arc<Store>,
) -> Response {
    if exchange.request.url_path().is_err() {
        return exchange.page(Status::NotFound);
    }
    let context = exchange.context;
    let moment = store.stamp(context.clock.wall());
    let request = site.request(&context.known_keys, exchange.request, exchange.client.early, moment);
    // A fresh object needs nothing of what a fetch needs.
    if let Some(object) = find_fresh(store, site, &request, context.now()) {
        if prefetches(exchange, site) && object.description().readers.take_segment() {
            prefetch_next(&lookup(exchange, site, store, request.clone().into_owned()));
        }
        let found = LookupResult::shared(object, CacheStatus::Hit);
        if let Some(response) = from_object(exchange, store, found).await {
            return response;
        }
    }
    Box::pin(from_origin(exchange, site, store, request.into_owned())).await
}

/// Answers from the origin through the cache, or with what another request brings.
async fn from_origin(
    exchange: &Exchange<'_>,
    site: &Arc<HttpSite>,
    store: &Arc<Store>,
    request: CacheRequest<'static>,
) -> Response {
    let lookup = lookup(exchange, site, store, request);
    for _ in 0..limits::ORIGIN_ATTEMPTS {
        let found = match lookup.find_or_hold().await {
            Ok(found) => found,
            Err(status) => return refusal(exchange, status),
        };
        let was_prefetched = found.object.description().readers.take_segment();
        if prefetches(exchange, site) && (found.status == CacheStatus::Miss || was_prefetched) {
            prefetch_next(&lookup);
        }
        if let Some(response) = from_object(exchange, store, found).await {
            return response;
        }
    }
    exchange.page_with(Status::BadGateway, |head| {
        head.field("Cache-Status", "penstock; fwd=uri-miss; detail=changed");
    })
}

/// Whether the next segments are fetched as well. The node that has the client asks for them.
fn prefetches(exchange: &Exchange<'_>, site: &HttpSite) -> bool {
    site.prefetch > 0 && matches!(exchange.requester, Requester::Client(_))
}

/// The page for a request without an object. Another node is told whether another one would answer otherwise.
fn refusal(exchange: &Exchange<'_>, status: Status) -> Response {
    let fault = match (exchange.requester, status) {
        (Requester::Peer(_), Status::BadRequest) => OriginError::Unsendable.label(),
        (Requester::Peer(_), Status::ServiceUnavailable) => OriginError::Busy.label(),
        _ => return exchange.page(status),
    };
    exchange.page_with(status, |head| {
        head.field(FAULT, fault);
    })
}

/// For up to this many slices, looking at each slice is cheaper than reading the validators.
const FEW_SLICES: u32 = 16;

/// Whether all of an object is wanted, as far as the first request to its origin can bring it.
fn wants_all(exchange: &Exchange<'_>, store: &Store) -> bool {
    let range = exchange.request.range();
    let wanted = match (range, exchange.requester) {
        (None, _) => true,
        (Some(_), Requester::Client(_)) => false,
        (Some(range), Requester::Peer(_)) => {
            let last = range.strip_prefix("bytes=0-").and_then(|last| last.parse::<u64>().ok());
            last.is_some_and(|last| last >= u64::from(store.tier.slice_bytes()))
        }
    };
    wanted && exchange.request.method() == Method::Get
}

/// Makes the lookup of a request.
fn lookup(
    exchange: &Exchange<'_>,
    site: &Arc<HttpSite>,
    store: &Arc<Store>,
    request: CacheRequest<'static>,
) -> Lookup {
    Lookup {
        context: Rc::clone(exchange.context),
        store: Arc::clone(store),
        site: Arc::clone(site),
        request,
        held: None,
        requester: exchange.requester,
        loops: passed_through(exchange.request),
        in_advance: false,
        wants_all: wants_all(exchange, store),
    }
}

/// The response from an object; `None` if the object has changed or lost slices before its first byte.
pub(crate) async fn from_object(
    exchange: &Exchange<'_>,
    store: &Arc<Store>,
    found: LookupResult,
) -> Option<Response> {
    let LookupResult { object, status, receiver } = found;
    if receiver.is_none() && lacks_slices(exchange, &object) {
        store.index.forget_version(object.key(), &object);
        return None;
    }
    let status = truthful(exchange, status, &object);
    let object = ObjectRepresentation::new(exchange, store, object, status, receiver);
    let mut response = match object.failure(exchange) {
        Some(page) => page,
        None => Representation::Object(object).respond(exchange).await.ok()?,
    };
    exchange.context.metrics.cached(status.label());
    response.cache_status = Some(status);
    Some(response)
}

/// Whether the whole object is asked for, some of its slices have been evicted, and they cannot be fetched without the
/// others: a body would break off there.
fn lacks_slices(exchange: &Exchange<'_>, object: &Object<ObjectMetadata>) -> bool {
    if exchange.request.range().is_some() {
        return false;
    }
    let slices = object.length().map(|length| slices_of(object.slice_bytes().into(), Some(length)));
    let slices = slices.unwrap_or(0);
    let is_missing = || (0..slices).any(|slice| object.presence(slice) == Presence::Missing);
    let needs_all = || !object.description().may_be_fetched_in_parts();
    // The cheaper question first.
    (slices <= FEW_SLICES || needs_all()) && is_missing() && needs_all()
}

/// The status of a lookup; a miss if the whole object is asked for and its first bytes have been evicted.
fn truthful(exchange: &Exchange<'_>, status: CacheStatus, object: &Object<ObjectMetadata>) -> CacheStatus {
    let is_evicted = || {
        exchange.request.range().is_none()
            && object.length() != Some(0)
            && object.presence(0) == Presence::Missing
    };
    if status == CacheStatus::Hit && is_evicted() { CacheStatus::Miss } else { status }
}

/// The response of an origin to a forwarded request, as it came.
pub(crate) async fn forwarded(exchange: &Exchange<'_>, site: &Site, found: LookupResult) -> Response {
    let SiteOrigin::Http(_, store) = &site.origin else { return exchange.page(Status::BadGateway) };
    let LookupResult { object, status, receiver } = found;
    exchange.context.metrics.cached(status.label());
    let object = ObjectRepresentation::new(exchange, store, object, status, receiver);
    let mut response = match object.failure(exchange) {
        Some(page) => page,
        None => {
            let code = object.status();
            let whole = Representation::Object(object).whole(exchange, code).await;
            whole.unwrap_or_else(|_| exchange.page(Status::BadGateway))
        }
    };
    response.cache_status = Some(status);
    response
}
