//! Which response a request gets.

use std::sync::Arc;

use hyper::{Method, Request, Response, StatusCode};

use crate::backend::{Backend, Readiness};
use crate::feed::Feed;
use crate::guard::{refuse_foreign_host, refuse_other_pages, refuse_without_token};
use crate::response::{asset, html, json, json_text, method_not_allowed, metrics, plain};
use crate::{assets, page, purge, revoke};

const CHACHA20: &str = "/ciphers/chacha20";
const EVENTS: &str = "/events";
const HEALTH: &str = "/healthz";
const PURGE: &str = "PURGE";

/// What a request gets.
pub(crate) enum AdminAnswer {
    /// A response that exists.
    Whole(Response<String>),
    /// Events, while it listens.
    Events,
}

/// The answer to a request. HEAD gets that of GET; hyper leaves the body out.
pub(crate) async fn respond<B>(request: Request<B>, backend: Arc<dyn Backend>, feed: &Feed) -> AdminAnswer {
    let is_events = request.uri().path() == EVENTS && request.method() == Method::GET;
    match refuse(&request, &*backend) {
        Some(refusal) => AdminAnswer::Whole(refusal),
        None if is_events => AdminAnswer::Events,
        None => AdminAnswer::Whole(whole(request, backend, feed).await),
    }
}

/// The refusal of a request without the token, or with a foreign name; `None` if it may be answered.
fn refuse<B>(request: &Request<B>, backend: &dyn Backend) -> Option<Response<String>> {
    if request.uri().path() == HEALTH {
        // Load balancers send any Host, and the answer is no secret.
        return None;
    }
    if request.method().as_str() != PURGE
        && let Some(refusal) = refuse_foreign_host(request, backend)
    {
        return Some(refusal);
    }
    refuse_without_token(request, backend.token())
}

async fn whole<B>(request: Request<B>, backend: Arc<dyn Backend>, feed: &Feed) -> Response<String> {
    if request.method().as_str() == PURGE {
        // Its Host is that of a site.
        return purge::by_method(&request, backend).await;
    }
    match request.uri().path() {
        HEALTH => only_get(&request, || health(&*backend)),
        "/" => only_get(&request, || html(page::index(backend.readiness(), &backend.status()))),
        "/metrics" => only_get(&request, || metrics(backend.metrics())),
        "/status.json" => only_get(&request, || json(StatusCode::OK, &backend.status())),
        "/history.json" => only_get(&request, || history(request.uri().query(), feed)),
        EVENTS => only_get(&request, || plain(StatusCode::OK, "")),
        CHACHA20 => chacha20(&request, &*backend),
        purge::PATH => purge::by_query(&request, backend).await,
        revoke::PATH => revoke::by_query(&request, backend).await,
        path => match assets::find(path) {
            Some((kind, text)) => only_get(&request, || asset(kind, text.to_owned())),
            None => plain(StatusCode::NOT_FOUND, "not found\n"),
        },
    }
}

/// `GET /history.json?seconds=900`: all points without a number.
fn history(query: Option<&str>, feed: &Feed) -> Response<String> {
    match query {
        None => json_text(feed.history_json(usize::MAX)),
        Some(query) => match query.strip_prefix("seconds=").and_then(|number| number.parse().ok()) {
            Some(points) => json_text(feed.history_json(points)),
            None => plain(StatusCode::BAD_REQUEST, "write /history.json?seconds=900\n"),
        },
    }
}

fn only_get<B>(request: &Request<B>, respond: impl FnOnce() -> Response<String>) -> Response<String> {
    match *request.method() {
        Method::GET | Method::HEAD => respond(),
        _ => method_not_allowed("GET, HEAD", "only GET and HEAD\n"),
    }
}

fn health(backend: &dyn Backend) -> Response<String> {
    match backend.readiness() {
        Readiness::Ready => plain(StatusCode::OK, "ok\n"),
        Readiness::Draining => plain(StatusCode::SERVICE_UNAVAILABLE, "draining\n"),
    }
}

fn chacha20<B>(request: &Request<B>, backend: &dyn Backend) -> Response<String> {
    match *request.method() {
        Method::GET | Method::HEAD => json(StatusCode::OK, &backend.chacha20()),
        Method::POST => set_chacha20(request, backend),
        _ => method_not_allowed("GET, HEAD, POST", "only GET, HEAD and POST\n"),
    }
}

/// `POST /ciphers/chacha20?mode=never`. The body does not count.
fn set_chacha20<B>(request: &Request<B>, backend: &dyn Backend) -> Response<String> {
    if let Some(refusal) = refuse_other_pages(request) {
        return refusal;
    }
    let Some(mode) = request.uri().query().and_then(|query| query.strip_prefix("mode=")) else {
        return plain(StatusCode::BAD_REQUEST, "write /ciphers/chacha20?mode=client, never or auto\n");
    };
    match backend.set_chacha20(mode) {
        Ok(status) => json(StatusCode::OK, &status),
        Err(message) => plain(StatusCode::BAD_REQUEST, &format!("{message}\n")),
    }
}
