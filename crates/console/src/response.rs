//! Responses of the console.

use hyper::header::{self, HeaderValue};
use hyper::{Response, StatusCode};

const TEXT: &str = "text/plain; charset=utf-8";
const PROMETHEUS: &str = "text/plain; version=0.0.4; charset=utf-8";
const JSON: &str = "application/json";
const HTML: &str = "text/html; charset=utf-8";

pub(crate) fn plain(status: StatusCode, text: &str) -> Response<String> {
    response(status, TEXT, text.to_owned())
}

pub(crate) fn json(status: StatusCode, value: &serde_json::Value) -> Response<String> {
    response(status, JSON, format!("{value:#}\n"))
}

pub(crate) fn metrics(text: String) -> Response<String> {
    response(StatusCode::OK, PROMETHEUS, text)
}

/// A page that may contain inline style and nothing else.
pub(crate) fn html(page: String) -> Response<String> {
    let mut response = response(StatusCode::OK, HTML, page);
    let policy =
        HeaderValue::from_static("default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'");
    response.headers_mut().insert(header::CONTENT_SECURITY_POLICY, policy);
    response
}

/// 405 with the methods of the path, such as `GET, HEAD`.
pub(crate) fn method_not_allowed(allowed: &'static str, text: &str) -> Response<String> {
    let mut response = plain(StatusCode::METHOD_NOT_ALLOWED, text);
    response.headers_mut().insert(header::ALLOW, HeaderValue::from_static(allowed));
    response
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
