//! What the head of a response says.

use std::time::SystemTime;

use penstock_http::caching::{Directives, Response, Storage};
use penstock_origin::http::Answer;

use crate::cached::live::Bounds;

/// Fields that belong to one connection (RFC 9110 §7.6.1), or that we write ourselves.
pub(super) const NOT_PASSED_ON: [&str; 21] = [
    "accept-ranges",
    "access-control-allow-origin",
    "age",
    "alt-svc",
    "cache-status",
    "cache-tag",
    "connection",
    "content-length",
    "content-range",
    "date",
    "keep-alive",
    "proxy-authenticate",
    "proxy-connection",
    "server",
    "surrogate-key",
    "strict-transport-security",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "via",
];

/// Who may have it, and for how long.
pub(super) fn storage(answer: &Answer<'_>, status: u16, bounds: &Bounds, now: SystemTime) -> Storage {
    let all = |name: &str| answer.fields().get_all(name).iter().map(|value| value.as_bytes());
    // What is meant for caches like this one says all (RFC 9213 §2.2).
    let targeted = Directives::parse_targeted(all("cdn-cache-control"));
    let response = Response {
        status,
        directives: targeted.unwrap_or_else(|| Directives::parse(all("cache-control"))),
        sets_cookie: answer.fields().contains_key("set-cookie"),
        varies_by_everything: all("vary").any(|value| value.trim_ascii() == b"*"),
        expires: answer.field("expires").filter(|_| targeted.is_none()),
        date: answer.field("date"),
        age: answer.field("age"),
    };
    bounds.of(response.storage(now, bounds.default))
}

/// What a response says to a cache like this one; what is meant for such caches alone says all (RFC 9213 §2.2).
pub(super) fn directives(answer: &Answer<'_>) -> Directives {
    let all = |name: &str| answer.fields().get_all(name).iter().map(|value| value.as_bytes());
    let targeted = Directives::parse_targeted(all("cdn-cache-control"));
    targeted.unwrap_or_else(|| Directives::parse(all("cache-control")))
}

/// What it can be purged by: Surrogate-Key has tags separated by spaces, Cache-Tag by commas.
pub(super) fn tags(answer: &Answer<'_>) -> String {
    let values = |name: &str| answer.fields().get_all(name).iter().filter_map(|value| value.to_str().ok());
    let (keys, tags) = (values("surrogate-key"), values("cache-tag"));
    let all: Vec<&str> = keys
        .chain(tags)
        .flat_map(|list| list.split([' ', ',', '\t']))
        .filter(|tag| !tag.is_empty())
        .collect();
    all.join(" ")
}

/// The fields that go to the client unchanged. The origin's response was parsed, so no value can break its line.
pub(super) fn lines(answer: &Answer<'_>) -> Vec<u8> {
    let named = |value: &[u8]| String::from_utf8_lossy(value).to_ascii_lowercase();
    let connection: Vec<String> =
        answer.fields().get_all("connection").iter().map(|value| named(value.as_bytes())).collect();
    let of_connection =
        |name: &str| connection.iter().any(|list| list.split(',').any(|option| option.trim() == name));
    let mut lines = Vec::new();
    for (name, value) in answer.fields() {
        let name = name.as_str();
        if NOT_PASSED_ON.contains(&name) || of_connection(name) {
            continue;
        }
        lines.extend_from_slice(name.as_bytes());
        lines.extend_from_slice(b": ");
        lines.extend_from_slice(value.as_bytes());
        lines.extend_from_slice(b"\r\n");
    }
    lines
}
