//! Responses of an origin that are relayed without the cache.

use std::sync::Arc;

use penstock_http::{HttpVersion, Status};
use penstock_origin::http::{OriginError, RelayedResponse};

use crate::exchange::Exchange;
use crate::fault::{BodyError, FillFault, origin_status};
use crate::http_site::HttpSite;
use crate::networks::NetworkEntry;
use crate::origin_request::{client_request, name_client};
use crate::origins::field_lines;
use crate::relayed_body::RelayedBody;
use crate::response::{Body, ChunkSource, ContentLength, Fields, Response};
use crate::site::Site;

/// Fields of one connection (RFC 9110 §7.6.1), and those that each response has from this server.
const NOT_PASSED_ON: [&str; 11] = [
    "alt-svc",
    "connection",
    "content-length",
    "keep-alive",
    "proxy-authenticate",
    "proxy-connection",
    "server",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// Relays the response of a server.
pub(crate) async fn relay_response(exchange: &Exchange<'_>, site: &Site, http: &Arc<HttpSite>) -> Response {
    let (context, request, client) = (exchange.context, exchange.request, exchange.client);
    // A path that no file can have is no request for an origin.
    if request.path().is_err() {
        return exchange.page(Status::NotFound);
    }
    let Ok(place) = context.enter_fetch(exchange.requester) else {
        return exchange.page(Status::TooManyRequests);
    };
    let target = match request.query() {
        Some(query) => format!("{}?{query}", request.raw_path()),
        None => request.raw_path().to_owned(),
    };
    let token = site.signed_urls.as_ref().and_then(|rules| rules.cookie.as_deref());
    let Some(mut fetch) = client_request(client.head, target, client.early, token) else {
        return exchange.page(Status::BadRequest);
    };
    (fetch.bare, fetch.client) = (true, Some(client.address));
    fetch.host = http.host_for(client.head);
    name_client(&mut fetch, site.forwarded, client.head.host(), client.address.ip(), client.secure);
    let spread = http.spread.as_ref().map(|spread| (spread, spread.key(request)));
    let by_key = spread.map(|(spread, key)| move |loads: &[Option<u64>]| spread.order(&key, loads));
    let order = by_key.as_ref().map(|order| order as _);
    match context.origins.relay(http.origin(), &fetch, order).await {
        Ok(response) => {
            context.metrics.origin("answered");
            respond(exchange, site, http, response, place).await
        }
        Err(error) => fault_page(exchange, error),
    }
}

fn fault_page(exchange: &Exchange<'_>, error: OriginError) -> Response {
    exchange.context.metrics.origin(error.label());
    exchange.page_with(origin_status(error), |head| {
        head.field("Cache-Status", format!("penstock; fwd=bypass; detail={}", error.label()));
    })
}

async fn respond(
    exchange: &Exchange<'_>,
    site: &Site,
    http: &HttpSite,
    response: RelayedResponse,
    place: NetworkEntry,
) -> Response {
    let lines = field_lines(response.fields(), |name| {
        NOT_PASSED_ON.contains(&name)
            || (name == "access-control-allow-origin" && site.cors.is_some())
            || (name == "strict-transport-security" && site.hsts.is_some())
    });
    let mut fields = Fields::new();
    let mut head = fields.writer();
    head.lines(&lines).field("Via", "1.1 penstock");
    exchange.site_fields(&mut head);
    let status = response.status();
    let has_date = response.fields().contains_key("date");
    if matches!(status, 204 | 304) {
        return Response { has_date, ..Response::without_content(status, fields) };
    }
    let unknown = |length: Option<u64>| length.map_or(ContentLength::Unknown, ContentLength::Known);
    let (length, body) = if exchange.wants_body() {
        let length = response.length();
        let may_move = exchange.request.version() != HttpVersion::Http2;
        let mut body = RelayedBody::new(response, may_move, http.max_unannounced, place);
        match body.next(exchange.context).await {
            Ok(Some(first)) => {
                (unknown(length), Body::Stream(Box::new((first, ChunkSource::Relayed(Box::new(body))))))
            }
            Ok(None) => (ContentLength::Known(0), Body::Empty),
            Err(BodyError::Gone(Some(FillFault::Origin(error)))) => return fault_page(exchange, error),
            Err(_) => return exchange.page(Status::BadGateway),
        }
    } else {
        (unknown(response.announced_length()), Body::Empty)
    };
    Response { status, fields, length, body, has_date, cache_status: None }
}
