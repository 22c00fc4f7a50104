//! Which response a request gets.

use std::sync::Arc;

use hyper::{Method, Request, Response, StatusCode};

use crate::backend::{Backend, Readiness};
use crate::guard::{refuse_foreign_host, refuse_web_page};
use crate::response::{html, json, method_not_allowed, metrics, plain};
use crate::{page, purge};

const CHACHA20: &str = "/ciphers/chacha20";

/// The response to a request. HEAD gets that of GET; hyper leaves the body out.
pub(crate) async fn respond<B>(request: Request<B>, backend: Arc<dyn Backend>) -> Response<String> {
    if request.method().as_str() == "PURGE" {
        // Its Host is that of a site.
        return purge::by_method(&request, backend).await;
    }
    if request.uri().path() == "/healthz" {
        // Load balancers send any Host, and the answer is no secret.
        return only_get(&request, || health(&*backend));
    }
    if let Some(refusal) = refuse_foreign_host(&request, &*backend) {
        return refusal;
    }
    match request.uri().path() {
        "/" => only_get(&request, || html(page::index(backend.readiness(), &backend.status()))),
        "/metrics" => only_get(&request, || metrics(backend.metrics())),
        "/status.json" => only_get(&request, || json(StatusCode::OK, &backend.status())),
        CHACHA20 => chacha20(&request, &*backend),
        purge::PATH => purge::by_query(&request, backend).await,
        _ => plain(StatusCode::NOT_FOUND, "not found\n"),
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
    if let Some(refusal) = refuse_web_page(request) {
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
