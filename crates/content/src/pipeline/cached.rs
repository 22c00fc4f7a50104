//! Source: the cache, and origins through the cache.

use std::rc::Rc;
use std::sync::Arc;

use penstock_cache::{Object, Presence};
use penstock_config::limits;
use penstock_http::{Method, Status};
use penstock_metrics::Sacrifice;
use penstock_origin::http::OriginError;

use crate::cache_status::CacheStatus;
use crate::cached::{Lookup, LookupResult, find_fresh, prefetch_named, prefetch_next};
use crate::fill::slices_of;
use crate::object::ObjectMetadata;
use crate::peers::{FAULT, passed_through};
use crate::requester::Requester;
use crate::response::{Exchange, NextObject, ObjectRepresentation, Representation, Response};
use crate::served::Tier;
use crate::site::{CacheRequest, HttpSite, SentCmcd};
use crate::store::Store;

/// Answers from the cache, or from the origin through the cache.
pub(crate) async fn from_cache(
    exchange: &Exchange<'_>,
    site: &Arc<HttpSite>,
    store: &Arc<Store>,
) -> Response {
    let context = exchange.context;
    let stamp = store.stamp(context.clock.wall());
    let request = site.request(&context.known_keys, exchange.request, exchange.client.early, stamp);
    // A fresh object needs nothing of what a fetch needs.
    if let Some(object) = find_fresh(store, site, &request, context.now()) {
        if prefetches(exchange, site) {
            let was_prefetched = object.metadata().readers.take_segment();
            if was_prefetched || exchange.next.is_some() {
                let lookup = lookup(exchange, site, store, request.clone().into_owned());
                prefetch(exchange, &lookup, was_prefetched);
            }
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
        let was_prefetched = found.object.metadata().readers.take_segment();
        if prefetches(exchange, site) {
            prefetch(exchange, &lookup, found.status == CacheStatus::Miss || was_prefetched);
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
    let is_client = matches!(exchange.requester, Requester::Client(_));
    let is_wanted = site.prefetch > 0 || exchange.site.is_some_and(|site| site.cmcd.prefetch);
    is_client && is_wanted && !exchange.context.given_up.is(Sacrifice::Prefetch)
}

/// Fetches what comes next: what the player says, or what its playlist says behind an object that is new here.
fn prefetch(exchange: &Exchange<'_>, lookup: &Lookup, is_new: bool) {
    match exchange.next.as_deref() {
        Some(NextObject::Nothing) => {}
        Some(NextObject::Object { target, range }) => prefetch_named(lookup, target, *range),
        None if is_new => prefetch_next(lookup),
        None => {}
    }
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
        cmcd: told_to_origin(exchange),
        in_advance: None,
        wants_all: wants_all(exchange, store),
        interim: exchange.interim(),
        cause: exchange.cause(),
    }
}

/// What the origin is told of the player.
fn told_to_origin(exchange: &Exchange<'_>) -> Option<Arc<SentCmcd>> {
    let site = exchange.site.filter(|site| site.cmcd.to_origin);
    site.and_then(|_| SentCmcd::of(exchange.client.head))
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
    let (status, tier) = shown_status(exchange, status, &object);
    exchange.tier.set(tier);
    let mut object = ObjectRepresentation::new(exchange, store, object, status, receiver);
    if object.is_compressible() {
        // Boxed: most requests are for other objects.
        Box::pin(object.negotiate(exchange)).await;
    }
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
    let needs_all = || !object.metadata().may_be_fetched_in_parts();
    // The cheaper question first.
    (slices <= FEW_SLICES || needs_all()) && is_missing() && needs_all()
}

/// The status of a lookup, and where the first bytes come from. It is a miss if the whole object is asked for and its first bytes
/// have been evicted.
fn shown_status(
    exchange: &Exchange<'_>,
    status: CacheStatus,
    object: &Object<ObjectMetadata>,
) -> (CacheStatus, Option<Tier>) {
    let elsewhere = || match object.metadata() {
        metadata if metadata.failed().is_some() => None,
        metadata if metadata.came_from_node() => Some(Tier::Peer),
        _ => Some(Tier::Origin),
    };
    if !status.is_stored() {
        return (status, elsewhere());
    }
    let range = exchange.request.range();
    let (slice, _) = object.locate(range.map_or(0, first_byte));
    match object.presence(slice) {
        Presence::Memory => (status, Some(Tier::Memory)),
        Presence::Disk => (status, Some(Tier::Disk)),
        Presence::Missing if status == CacheStatus::Hit && range.is_none() && object.length() != Some(0) => {
            (CacheStatus::Miss, elsewhere())
        }
        Presence::Filling | Presence::Missing => (status, elsewhere()),
    }
}

/// The first byte of a range, as far as it says so; a range of the last bytes begins anywhere.
fn first_byte(range: &str) -> u64 {
    let digits = range.strip_prefix("bytes=").and_then(|range| range.split('-').next());
    digits.and_then(|digits| digits.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use super::*;
    use crate::pipeline::facts::Facts;
    use crate::requester::Hop;
    use crate::site_table::SiteOrigin;
    use crate::tests::fixture::{SLICE, read, run};
    use crate::tests::scripted::{FieldList, Reply};

    const FRESH: FieldList<'static> = &[("cache-control", "max-age=60"), ("etag", "\"a\"")];
    const PEER: Requester = Requester::Peer(Hop::Owner);

    fn http(facts: &Facts) -> (&Arc<HttpSite>, &Arc<Store>) {
        let SiteOrigin::Http(http, store) = &facts.site().origin else { panic!("the site has a cache") };
        (http, store)
    }

    #[test]
    fn segments_are_fetched_in_advance_for_clients_of_sites_that_say_so() {
        run(async {
            for (number, requester, expected) in [(0, None, false), (2, None, true), (2, Some(PEER), false)] {
                let facts = Facts::cached(|site| site.cache.prefetch = number);
                let asked = facts.ask("GET /x", "", async |asked| {
                    asked.requester = requester.unwrap_or(asked.requester);
                    prefetches(asked, http(&facts).0)
                });
                assert_eq!(asked.await, expected, "{number} {requester:?}");
            }
        });
    }

    #[test]
    fn nothing_is_fetched_in_advance_while_the_cpu_is_short() {
        run(async {
            let facts = Facts::cached(|site| site.cache.prefetch = 2);
            for (since, expected) in [(Some(SystemTime::now()), false), (None, true)] {
                facts.fixture.context.given_up.set(Sacrifice::Prefetch, since);
                let asked = facts.ask("GET /x", "", async |asked| prefetches(asked, http(&facts).0));
                assert_eq!(asked.await, expected);
            }
        });
    }

    #[test]
    fn a_response_comes_from_the_tier_that_has_its_first_bytes() {
        run(async {
            let facts = Facts::cached(|_| {});
            facts.fixture.origin.reply(Reply::ok(FRESH, b"kept"));
            let (site, store) = http(&facts);
            for (range, expected) in
                [("", Tier::Origin), ("", Tier::Memory), ("Range: bytes=1-2\r\n", Tier::Memory)]
            {
                let asked = facts.ask("GET /x", range, async |asked| {
                    let response = from_cache(asked, site, store).await;
                    (response, asked.served())
                });
                let (response, served) = asked.await;
                read(&facts.fixture.context, response).await;
                assert_eq!(served.tier, Some(expected), "{range}");
            }
        });
    }

    #[test]
    fn the_first_byte_of_a_range_is_the_one_that_it_names() {
        for (range, expected) in [
            ("bytes=0-", 0),
            ("bytes=70000-70009", 70_000),
            ("bytes=-5", 0),
            ("bytes=5-6,9-", 5),
            ("lines=5-", 0),
        ] {
            assert_eq!(first_byte(range), expected, "{range}");
        }
    }

    #[test]
    fn all_of_an_object_is_wanted_without_a_range_and_by_nodes_that_begin_to_fetch_it() {
        run(async {
            let facts = Facts::cached(|_| {});
            let (below, slice) = (SLICE - 1, SLICE);
            for (line, range, by_client, by_peer) in [
                ("GET /x", String::new(), true, true),
                ("HEAD /x", String::new(), false, false),
                ("GET /x", format!("Range: bytes=0-{slice}\r\n"), false, true),
                ("GET /x", format!("Range: bytes=0-{below}\r\n"), false, false),
                ("GET /x", format!("Range: bytes=1-{slice}\r\n"), false, false),
                ("GET /x", "Range: bytes=0-\r\n".to_owned(), false, false),
            ] {
                let asked = facts.ask(line, &range, async |asked| {
                    let client = wants_all(asked, &facts.fixture.store);
                    asked.requester = PEER;
                    (client, wants_all(asked, &facts.fixture.store))
                });
                assert_eq!(asked.await, (by_client, by_peer), "{line} {range}");
            }
        });
    }

    #[test]
    fn another_node_is_told_why_there_is_no_object_and_a_client_is_not() {
        run(async {
            let facts = Facts::cached(|_| {});
            for (status, fault) in [
                (Status::BadRequest, OriginError::Unsendable.label()),
                (Status::ServiceUnavailable, OriginError::Busy.label()),
                (Status::TooManyRequests, ""),
            ] {
                let asked = facts.ask("GET /x", "", async |asked| {
                    let client = refusal(asked, status);
                    asked.requester = PEER;
                    (client, refusal(asked, status))
                });
                let (client, peer) = asked.await;
                let context = &facts.fixture.context;
                let (client, peer) = (read(context, client).await, read(context, peer).await);
                assert_eq!((client.status, client.field(FAULT)), (status.code(), String::new()));
                assert_eq!((peer.status, peer.field(FAULT).as_str()), (status.code(), fault));
            }
        });
    }

    #[test]
    fn what_a_lookup_finds_is_a_hit_or_comes_from_the_origin_once() {
        run(async {
            let facts = Facts::cached(|_| {});
            facts.fixture.origin.reply(Reply::ok(FRESH, b"kept"));
            let (site, store) = http(&facts);
            for label in ["miss", "hit", "hit"] {
                let response = facts.ask("GET /x", "", async |asked| from_cache(asked, site, store).await);
                let answer = read(&facts.fixture.context, response.await).await;
                assert_eq!(answer.summary(), (200, label, "kept".to_owned()));
            }
            assert_eq!(facts.fixture.origin.requests(), 1);
        });
    }
}
