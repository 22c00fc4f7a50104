//! Responses of an origin that are relayed without the cache.

use std::sync::Arc;

use http::HeaderMap;
use penstock_http::caching::is_of_connection;
use penstock_http::{HttpVersion, Status};
use penstock_origin::http::{Fetch, OriginError};

use crate::fault::{BodyError, FillFault, origin_status};
use crate::fill::RelayedBody;
use crate::origin::{client_request, name_client};
use crate::origins::field_lines;
use crate::peers::passed_through;
use crate::response::{Body, ChunkSource, Exchange, Fields, Response};
use crate::site::{HttpSite, change_request};
use crate::site_table::Site;

/// Fields that each response has from this server, and Alt-Svc, which names addresses of the origin.
const NOT_PASSED_ON: [&str; 3] = ["alt-svc", "content-length", "server"];

/// Relays the response of a server.
pub(crate) async fn relay_response(exchange: &Exchange<'_>, site: &Site, http: &Arc<HttpSite>) -> Response {
    let (context, request) = (exchange.context, exchange.request);
    let Ok(place) = context.enter_fetch(exchange.requester) else {
        return exchange.page(Status::TooManyRequests);
    };
    let Some(fetch) = client_fetch(exchange, site, http) else {
        return exchange.page(Status::BadRequest);
    };
    let fetch = Fetch { bare: true, ..fetch };
    let spread = http.spread.as_ref().map(|spread| (spread, spread.key(request)));
    let by_key = spread.map(|(spread, key)| move |loads: &[Option<u64>]| spread.order(&key, loads));
    let order = by_key.as_ref().map(|order| order as _);
    match context.origins.relay(http.origin(), &fetch, order).await {
        Ok(response) => {
            context.metrics.origin("answered");
            let head = RelayedHead {
                status: response.status(),
                fields: response.fields().clone(),
                announced: response.announced_length(),
            };
            let may_move = request.version() != HttpVersion::Http2;
            let body = RelayedBody::of_server(response, may_move, http.max_unannounced, place);
            respond_with(exchange, &head, body).await
        }
        Err(error) => {
            context.metrics.origin(error.label());
            fault_page(exchange, error)
        }
    }
}

/// The request of a client as one for an origin, with the whole query. `None` if its method is no method.
pub(super) fn client_fetch(exchange: &Exchange<'_>, site: &Site, http: &HttpSite) -> Option<Fetch> {
    let (request, client) = (exchange.request, exchange.client);
    let target = match request.query() {
        Some(query) => format!("{}?{query}", request.raw_path()),
        None => request.raw_path().to_owned(),
    };
    let token = site.signed_urls.as_ref().and_then(|rules| rules.cookie.as_deref());
    let mut fetch = client_request(request, target, client.early, token)?;
    (fetch.host, fetch.client) = (http.host_for(request), Some(client.address));
    http.loop_member.add_to(&mut fetch, passed_through(request).as_deref());
    name_client(&mut fetch, site.forwarded, request.authority(), client.address.ip(), client.secure);
    if !http.request_rules.is_empty() {
        let address = client.address.ip().to_canonical().to_string();
        change_request(&http.request_rules, &mut fetch, Some((request, &address)));
    }
    Some(fetch)
}

/// The head of a response.
pub(crate) struct RelayedHead {
    pub(crate) status: u16,
    pub(crate) fields: HeaderMap,
    /// The length that it announces, also of a response without a body.
    pub(crate) announced: Option<u64>,
}

/// The page for a server that gave no response.
pub(crate) fn fault_page(exchange: &Exchange<'_>, error: OriginError) -> Response {
    exchange.page_with(origin_status(error), |head| {
        head.field("Cache-Status", format!("penstock; fwd=bypass; detail={}", error.label()));
    })
}

/// The response of a server, as soon as the first bytes of its body are there.
pub(crate) async fn respond_with(
    exchange: &Exchange<'_>,
    head: &RelayedHead,
    mut body: RelayedBody,
) -> Response {
    let lines = field_lines(&head.fields, |name| NOT_PASSED_ON.contains(&name) || is_of_connection(name));
    let mut fields = Fields::new();
    let mut writer = fields.writer();
    writer.lines(&lines).field("Via", "1.1 penstock");
    let (status, has_date) = (head.status, head.fields.contains_key("date"));
    if matches!(status, 204 | 304) {
        return Response { has_date, ..Response::without_content(status, fields) };
    }
    let announced = head.announced;
    let body = if exchange.wants_body() {
        match body.next(exchange.context).await {
            Ok(Some(first)) => Body::Stream(announced, Box::new((first, ChunkSource::Relayed(body)))),
            Ok(None) => Body::Empty,
            Err(BodyError::Gone(Some(FillFault::Origin(error)))) => return fault_page(exchange, error),
            Err(_) => return exchange.page(Status::BadGateway),
        }
    } else {
        Body::Withheld(announced)
    };
    Response { status, fields, body, has_date, cache_status: None }
}
