//! What is answered to a request.

use hyper::header::{self, HeaderValue};
use hyper::{Method, Request, Response, StatusCode};

use crate::{Health, Source, page, purge};

const TEXT: &str = "text/plain; charset=utf-8";
const PROMETHEUS: &str = "text/plain; version=0.0.4; charset=utf-8";
const JSON: &str = "application/json";
const HTML: &str = "text/html; charset=utf-8";

const CHACHA20: &str = "/ciphers/chacha20";

/// The answer to a request. To HEAD it is the same, and hyper leaves the body out.
pub(crate) fn to<B>(request: &Request<B>, source: &dyn Source) -> Response<String> {
    if request.method().as_str() == "PURGE" {
        return purge::by_method(request, source);
    }
    let page = match request.uri().path() {
        "/" => page_at_the_root,
        "/metrics" => metrics,
        "/healthz" => health,
        "/status.json" => status,
        CHACHA20 if request.method() == Method::POST => return set_chacha20(request, source),
        CHACHA20 => chacha20,
        purge::PATH => return purge::by_query(request, source),
        _ => return plain(StatusCode::NOT_FOUND, "not found\n"),
    };
    if request.method() == Method::GET || request.method() == Method::HEAD {
        page(source)
    } else {
        let (text, allowed) = match request.uri().path() {
            CHACHA20 => ("only GET, HEAD and POST\n", "GET, HEAD, POST"),
            _ => ("only GET and HEAD\n", "GET, HEAD"),
        };
        let mut response = plain(StatusCode::METHOD_NOT_ALLOWED, text);
        response.headers_mut().insert(header::ALLOW, HeaderValue::from_static(allowed));
        response
    }
}

fn page_at_the_root(source: &dyn Source) -> Response<String> {
    let mut response = response(StatusCode::OK, HTML, page::index(source.health(), &source.status()));
    let policy =
        HeaderValue::from_static("default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'");
    response.headers_mut().insert(header::CONTENT_SECURITY_POLICY, policy);
    response
}

fn metrics(source: &dyn Source) -> Response<String> {
    response(StatusCode::OK, PROMETHEUS, source.metrics())
}

fn health(source: &dyn Source) -> Response<String> {
    match source.health() {
        Health::Ready => plain(StatusCode::OK, "ok\n"),
        Health::Starting => plain(StatusCode::SERVICE_UNAVAILABLE, "starting\n"),
        Health::Draining => plain(StatusCode::SERVICE_UNAVAILABLE, "draining\n"),
    }
}

fn status(source: &dyn Source) -> Response<String> {
    response(StatusCode::OK, JSON, format!("{:#}\n", source.status()))
}

fn chacha20(source: &dyn Source) -> Response<String> {
    response(StatusCode::OK, JSON, format!("{:#}\n", source.chacha20()))
}

/// `POST /ciphers/chacha20?mode=never`: whatever is in the body does not count.
fn set_chacha20<B>(request: &Request<B>, source: &dyn Source) -> Response<String> {
    if let Some(refusal) = not_from_a_web_page(request) {
        return refusal;
    }
    let Some(mode) = request.uri().query().and_then(|query| query.strip_prefix("mode=")) else {
        return plain(StatusCode::BAD_REQUEST, "write /ciphers/chacha20?mode=client, never or auto\n");
    };
    match source.set_chacha20(mode) {
        Ok(status) => response(StatusCode::OK, JSON, format!("{status:#}\n")),
        Err(message) => plain(StatusCode::BAD_REQUEST, &format!("{message}\n")),
    }
}

/// Browsers say where a request comes from, and there is no password here: a page that somebody on this machine looks at
/// must not change anything.
pub(crate) fn not_from_a_web_page<B>(request: &Request<B>) -> Option<Response<String>> {
    let from_a_page = request.headers().contains_key(header::ORIGIN);
    from_a_page.then(|| plain(StatusCode::FORBIDDEN, "not from a web page\n"))
}

/// An answer for programs.
pub(crate) fn json(status: StatusCode, value: &serde_json::Value) -> Response<String> {
    response(status, JSON, format!("{value:#}\n"))
}

pub(crate) fn plain(status: StatusCode, text: &str) -> Response<String> {
    response(status, TEXT, text.to_owned())
}

fn response(status: StatusCode, kind: &'static str, body: String) -> Response<String> {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}
