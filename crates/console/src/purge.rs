//! Purging: `POST /cache/purge?url=…`, or the method PURGE with the URL itself as caches are used to.

use std::borrow::Cow;

use hyper::header::{self, HeaderValue};
use hyper::{Method, Request, Response, StatusCode};
use serde_json::json;

use crate::answer::{json, not_from_a_web_page, plain};
use crate::{Purge, PurgeError, Source};

/// Where POST purges.
pub(crate) const PATH: &str = "/cache/purge";

const HOW: &str = "write /cache/purge?url=URL, ?prefix=URL, ?tag=TAG or ?everything=1, with &soft=1 to make it only \
                   stale; a URL with & or % in it has to be percent-encoded\n";

/// `POST /cache/purge?url=https://video.example.com/a.mp4`
pub(crate) fn by_query<B>(request: &Request<B>, source: &dyn Source) -> Response<String> {
    if request.method() != Method::POST {
        let mut response = plain(StatusCode::METHOD_NOT_ALLOWED, "only POST\n");
        response.headers_mut().insert(header::ALLOW, HeaderValue::from_static("POST"));
        return response;
    }
    let (mut wanted, mut soft) = (None, false);
    for parameter in request.uri().query().unwrap_or_default().split('&').filter(|one| !one.is_empty()) {
        let (name, value) = parameter.split_once('=').unwrap_or((parameter, ""));
        let Some(value) = decoded(value) else { return plain(StatusCode::BAD_REQUEST, HOW) };
        match name {
            "soft" => soft = value != "0",
            "url" | "prefix" | "tag" if wanted.is_none() && !value.is_empty() => wanted = Some((name, value)),
            "everything" if wanted.is_none() => wanted = Some((name, Cow::Borrowed(""))),
            _ => return plain(StatusCode::BAD_REQUEST, HOW),
        }
    }
    match wanted {
        Some((kind, value)) => carry_out(request, source, Purge { kind, value: &value, soft }),
        None => plain(StatusCode::BAD_REQUEST, HOW),
    }
}

/// `PURGE /a.mp4` with Host, or with the whole URL. A field `Soft-Purge: 1` makes it only stale.
pub(crate) fn by_method<B>(request: &Request<B>, source: &dyn Source) -> Response<String> {
    let field = |name| request.headers().get(name).and_then(|value| value.to_str().ok());
    let target = request.uri().path_and_query().map_or("/", |target| target.as_str());
    let host = request.uri().authority().map(|authority| authority.as_str()).or_else(|| field("host"));
    let Some(host) = host.filter(|host| !host.is_empty()) else {
        return plain(StatusCode::BAD_REQUEST, "a PURGE needs a Host: that of the site\n");
    };
    let url = format!("http://{host}{target}");
    let soft = field("soft-purge").is_some_and(|value| value != "0");
    carry_out(request, source, Purge { kind: "url", value: &url, soft })
}

fn carry_out<B>(request: &Request<B>, source: &dyn Source, purge: Purge<'_>) -> Response<String> {
    if let Some(refusal) = not_from_a_web_page(request) {
        return refusal;
    }
    match source.purge(&purge) {
        Ok(answer) => json(StatusCode::OK, &answer),
        Err(PurgeError::Wrong(what)) => json(StatusCode::BAD_REQUEST, &json!({"error": what})),
        Err(PurgeError::Failed(what)) => json(StatusCode::INTERNAL_SERVER_ERROR, &json!({"error": what})),
    }
}

/// Decodes percent-encoding once; `None` if it is broken or what comes out is no text.
fn decoded(value: &str) -> Option<Cow<'_, str>> {
    if !value.contains('%') {
        return Some(Cow::Borrowed(value));
    }
    let mut bytes = Vec::with_capacity(value.len());
    let mut rest = value.chars();
    while let Some(letter) = rest.next() {
        if letter == '%' {
            let mut digit = || rest.next()?.to_digit(16);
            bytes.push(u8::try_from(digit()? << 4 | digit()?).ok()?);
        } else {
            bytes.extend_from_slice(letter.encode_utf8(&mut [0; 4]).as_bytes());
        }
    }
    String::from_utf8(bytes).ok().map(Cow::Owned)
}
