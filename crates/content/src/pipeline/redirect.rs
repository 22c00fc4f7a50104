//! Redirect: requests that should use HTTPS or another host, and routes that are elsewhere.

use std::rc::Rc;

use penstock_config::template::Variable;
use penstock_config::{FixedResponse, HttpsPort, Redirect};
use penstock_egress::Part;
use penstock_http::{Request, ResponseHead, Status};

use crate::context::Context;
use crate::response::{Body, ClientRequest, Exchange, Response};
use crate::site::Permit;
use crate::site_table::Site;

/// The redirect of a request of plain HTTP to the same URL of HTTPS.
pub(crate) fn to_https(context: &Rc<Context>, client: ClientRequest<'_>, port: HttpsPort) -> Response {
    redirect_to(&Exchange::new(context, &client, None), client.head.host(), Some(port))
}

/// The redirect of a request that should use HTTPS or another host.
pub(super) fn to_canonical(exchange: &Exchange<'_>, site: &Site) -> Option<Response> {
    let (canonical, client) = (&site.canonical, exchange.client);
    let port = canonical.https.filter(|_| !client.secure);
    let host = canonical.host.as_deref().filter(|host| !client.head.host().eq_ignore_ascii_case(host));
    if port.is_none() && host.is_none() {
        return None;
    }
    Some(redirect_to(exchange, host.unwrap_or_else(|| client.head.host()), port))
}

/// The redirect to another host, or to the port of HTTPS. The URL is that of the client, with its token.
fn redirect_to(exchange: &Exchange<'_>, host: &str, https: Option<HttpsPort>) -> Response {
    let (request, secure) = (exchange.client.head, exchange.client.secure);
    if host.is_empty() {
        return exchange.page(Status::BadRequest);
    }
    let scheme = if secure || https.is_some() { "https" } else { "http" };
    let port = match https {
        Some(HttpsPort::USUAL) => String::new(),
        Some(HttpsPort(port)) => format!(":{port}"),
        None => request.authority().strip_prefix(request.host()).unwrap_or_default().to_owned(),
    };
    let path = if request.is_server_wide() { "/" } else { request.raw_path() };
    let query = query_of(request);
    redirected_to(exchange, Status::PermanentRedirect, &format!("{scheme}://{host}{port}{path}{query}"))
}

/// The query with its question mark.
fn query_of(request: &Request<'_>) -> String {
    request.query().map(|query| format!("?{query}")).unwrap_or_default()
}

fn redirected_to(exchange: &Exchange<'_>, status: Status, location: &str) -> Response {
    exchange.page_with(status, |head| {
        head.field("Location", location);
    })
}

/// The redirect of a route that is elsewhere. The query is kept, unless the new place has one.
pub(super) fn redirected(exchange: &Exchange<'_>, redirect: &Redirect) -> Response {
    let request = exchange.request;
    let path = request.raw_path();
    let mut location = redirect.to.filled(|variable, out| match variable {
        Variable::Path => out.push_str(path),
        Variable::Query => out.push_str(request.query().unwrap_or_default()),
        Variable::Host => out.push_str(request.host()),
        Variable::Capture(name) => out.push_str(redirect.from.captured(path, name).unwrap_or_default()),
        Variable::Client | Variable::CacheStatus | Variable::RequestId => {}
    });
    if location.starts_with('/') {
        // `//host/` would name another host, which the client would choose.
        location = format!("/{}", location.trim_start_matches('/'));
    }
    if !redirect.to.written().contains('?') {
        location.push_str(&query_of(request));
    }
    redirected_to(exchange, redirect.status, &location)
}

/// The response that the configuration has.
pub(super) fn fixed(exchange: &Exchange<'_>, fixed: &FixedResponse) -> Response {
    let mut head = ResponseHead::new(fixed.status);
    if matches!(fixed.status, 204 | 304) {
        return Response::without_content(head);
    }
    if !fixed.body.is_empty() {
        head.fields.field("Content-Type", &fixed.content_type);
    }
    let body = match fixed.body.len() {
        0 => Body::Empty,
        length if !exchange.wants_body() => Body::Withheld(Some(length as u64)),
        _ => Body::Part(Part::Shared(fixed.body.clone())),
    };
    Response { head, body, cache_status: None, permit: Permit::default() }
}
