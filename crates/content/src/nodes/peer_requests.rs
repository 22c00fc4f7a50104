//! Requests of other nodes of the cluster: for objects, for a sign of life, for how this one is doing, and to purge.
//!
//! They come on a listener of their own, whose clients have shown a certificate of the cluster's authority. What
//! `penstock-` fields say is believed there and nowhere else.

#[cfg(any(test, feature = "fuzz"))]
pub(crate) mod fuzz;

use std::rc::Rc;
use std::sync::Arc;

use penstock_cache::Presence;
use penstock_http::range::{Ranges, select};
use penstock_http::{Method, Request, Status};

use crate::cache_status::CacheStatus;
use crate::cached::{LookupResult, find_fresh};
use crate::clock::Clock;
use crate::context::Context;
use crate::fill::slices_of;
use crate::nodes::catch_up::missed_by;
use crate::nodes::purge_cluster::learn_missed;
use crate::nodes::purge_fields::{missing_nodes, pattern, value};
use crate::peers::peer_fields as fields;
use crate::peers::{ALIVE, Peers, SUMMARY};
use crate::pipeline::{from_cache, from_object};
use crate::requester::{Hop, Requester};
use crate::response::{Body, ChunkSource, ClientRequest, Exchange, Response};
use crate::site::HttpSite;
use crate::site_table::SiteTable;
use crate::store::Store;

/// What answers other nodes.
#[derive(Clone, Copy, Debug)]
pub struct PeerService<'s> {
    /// The sites in force.
    pub sites: &'s SiteTable,
    /// The nodes of the cluster.
    pub peers: &'s Arc<Peers>,
    /// The cache; `None` if no site needs one.
    pub store: Option<&'s Arc<Store>>,
}

/// Answers a request of another node.
pub(crate) async fn respond_to_peer(
    context: &Rc<Context>,
    service: PeerService<'_>,
    client: ClientRequest<'_>,
) -> Response {
    let serving = service.peers.serve();
    let exchange = Exchange::new(context, &client, None);
    let request = client.head;
    let mut response = match (request.method(), value(request, fields::SITE)) {
        (Method::Get, None) if request.raw_path() == ALIVE => {
            match value(request, fields::PURGES_OF).and_then(fields::unescape) {
                Some(node) => Response::text(missed_by(&node, service.store, service.peers)),
                None => Response::no_content(),
            }
        }
        (Method::Get, None) if request.raw_path() == SUMMARY => match service.peers.summary() {
            nothing if nothing.is_empty() => exchange.page(Status::NotFound),
            summary => Response::text(summary),
        },
        (Method::Get | Method::Head, Some(site)) => object(exchange, service, site).await,
        (Method::Other(_), Some(site)) => forget(&exchange, service, site),
        (Method::Other(_), None) if value(request, fields::PURGE).is_some() => {
            service.peers.note_purge(context.now());
            purge(&exchange, service.store, service.peers).await
        }
        _ => exchange.page(Status::NotFound),
    };
    response
        .head
        .fields
        .field(fields::LOAD, fields::load_text(service.peers.own_load(), service.peers.leaves()));
    if let Body::Stream(_, stream) = &mut response.body
        && let ChunkSource::Object(stream) = &mut stream.1
    {
        stream.serving = Some(serving);
    }
    response
}

async fn object(mut exchange: Exchange<'_>, service: PeerService<'_>, identity: &[u8]) -> Response {
    let found = str::from_utf8(identity).ok().and_then(|identity| service.sites.find_shared(identity));
    let Some((site, store)) = found else {
        // Another configuration: there are other objects here.
        return exchange.page(Status::MisdirectedRequest);
    };
    let request = exchange.request;
    if request.url_path().is_err() {
        return exchange.page(Status::NotFound);
    }
    let Some(hop) = value(request, fields::HOP).and_then(Hop::named) else {
        return exchange.page(Status::BadRequest);
    };
    let target = site.target(request.raw_path(), request.query());
    let first = first_byte(request);
    if site.loop_member.has_passed(request) || service.peers.is_asking(site.route(&target, first)) {
        return exchange.page(Status::LoopDetected);
    }
    exchange.requester = Requester::Peer(hop);
    match hop {
        Hop::OnlyIfCached => only_if_cached(&exchange, site, store).await,
        Hop::Owner | Hop::Shield => from_cache(&exchange, site, store).await,
    }
}

/// Forgets what a request through another node has changed (RFC 9111 §4.4).
fn forget(exchange: &Exchange<'_>, service: PeerService<'_>, identity: &[u8]) -> Response {
    let found = str::from_utf8(identity).ok().and_then(|identity| service.sites.find_shared(identity));
    let Some((site, store)) = found else { return exchange.page(Status::MisdirectedRequest) };
    let target = site.target(exchange.request.raw_path(), exchange.request.query());
    store.invalidate(site, &target, &[], exchange.context.clock.wall());
    Response::no_content()
}

/// The first byte that is wanted.
fn first_byte(request: &Request<'_>) -> u64 {
    match select(request.range(), u64::MAX, 1) {
        Ranges::One(range) => range.start,
        Ranges::Whole | Ranges::Many(_) | Ranges::Unsatisfiable => 0,
    }
}

/// An object that is here, with the slices that are wanted.
async fn only_if_cached(exchange: &Exchange<'_>, site: &Arc<HttpSite>, store: &Arc<Store>) -> Response {
    let context = exchange.context;
    let stamp = store.stamp(context.clock.wall());
    let request = site.request(&context.known_keys, exchange.request, exchange.client.early, stamp);
    let Some(object) = find_fresh(store, site, &request, context.now()) else {
        return exchange.page(Status::NotFound);
    };
    let Some(length) = object.length() else { return exchange.page(Status::NotFound) };
    let slice_bytes = u64::from(object.slice_bytes());
    let slices = match select(exchange.request.range(), length, 1) {
        Ranges::One(range) => (range.start / slice_bytes)..range.end.div_ceil(slice_bytes),
        _ => 0..slices_of(slice_bytes, Some(length)).into(),
    };
    let is_missing =
        |slice: u64| u32::try_from(slice).map_or(true, |slice| object.presence(slice) == Presence::Missing);
    if slices.into_iter().any(is_missing) {
        return exchange.page(Status::NotFound);
    }
    let found = LookupResult::shared(object, CacheStatus::Hit);
    match from_object(exchange, store, found).await {
        Some(response) => response,
        None => exchange.page(Status::NotFound),
    }
}

/// Purges here what another node was told to purge. The answer comes when the purge is in force.
async fn purge(exchange: &Exchange<'_>, store: Option<&Arc<Store>>, peers: &Arc<Peers>) -> Response {
    let Some((pattern, soft)) = pattern(exchange.request) else { return exchange.page(Status::BadRequest) };
    let done = || Response::no_content();
    let Some(store) = store.map(Arc::clone) else { return done() };
    let told = value(exchange.request, fields::PURGE_MISSING).and_then(missing_nodes);
    let peers = Arc::clone(peers);
    let purging = exchange.context.io.run(move || {
        let clock = Clock::system();
        // First: nothing is asked of these nodes once the purge is in force here.
        if let Some(told) = told {
            learn_missed(&store, &peers, (&pattern, soft), told);
        }
        store.purge_pattern(&pattern, soft, (clock.now(), clock.wall())).map(drop)
    });
    let outcome = match purging {
        Ok(outcome) => outcome.await,
        Err(_) => return exchange.page(Status::ServiceUnavailable),
    };
    match outcome {
        Ok(Ok(())) => done(),
        Ok(Err(failure)) => {
            tracing::error!("a purge of another node: {failure}");
            exchange.page(Status::InternalServerError)
        }
        Err(_) => exchange.page(Status::ServiceUnavailable),
    }
}
