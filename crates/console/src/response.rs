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

/// What the page may load: its own files, and nothing from elsewhere.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// A page that may load its own files and nothing else.
pub(crate) fn html(page: String) -> Response<String> {
    asset(HTML, page)
}

/// A file of the page.
pub(crate) fn asset(kind: &'static str, text: String) -> Response<String> {
    let mut response = response(StatusCode::OK, kind, text);
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
    headers.insert(header::REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    response
}

/// JSON that exists as text.
pub(crate) fn json_text(text: String) -> Response<String> {
    response(StatusCode::OK, JSON, text)
}

/// Server-sent events (HTML standard, section 9.2).
pub(crate) fn event_stream<B>(body: B) -> Response<B> {
    let mut response = Response::new(body);
    set_headers(&mut response, "text/event-stream");
    response
}

/// 401 that a browser answers by asking for the token: as a password, for any name.
pub(crate) fn unauthorized() -> Response<String> {
    let text =
        "the token of admin.token is needed: Authorization: Bearer TOKEN, or as a password for any name\n";
    let mut response = plain(StatusCode::UNAUTHORIZED, text);
    let scheme = HeaderValue::from_static("Basic realm=\"penstock\", charset=\"UTF-8\"");
    response.headers_mut().insert(header::WWW_AUTHENTICATE, scheme);
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
    set_headers(&mut response, kind);
    response
}

fn set_headers<B>(response: &mut Response<B>, kind: &'static str) {
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
}
