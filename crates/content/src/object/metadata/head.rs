//! Reading the head of an origin's response.

use std::time::SystemTime;

use penstock_http::Fields;
use penstock_http::caching::{Directives, Response, Storage, is_of_connection};

use crate::origins::{OriginBody, passed_fields};
use crate::peers::is_internal;
use crate::site::FreshnessBounds;

/// Fields that this server writes or reads for itself, and Alt-Svc, which names addresses of the origin.
pub(super) const NOT_PASSED_ON: [&str; 9] = [
    "accept-ranges",
    "age",
    "alt-svc",
    "cache-status",
    "cache-tag",
    "content-length",
    "server",
    "surrogate-key",
    "via",
];

/// Whether a response may be shared, and for how long it is fresh.
pub(super) fn storage(
    answer: &dyn OriginBody,
    status: u16,
    bounds: &FreshnessBounds,
    now: SystemTime,
) -> Storage {
    let fields: Vec<_> =
        answer.fields().iter().map(|(name, value)| (name.as_ref(), value.as_bytes())).collect();
    let response = Response::read(status, fields.iter().copied());
    redirected(answer, bounds.of(response.storage(now, bounds.default)))
}

/// The same for stored fields that a 304 has updated (RFC 9111 §3.2): directives of the stored response stay in force
/// if the 304 has none. Set-Cookie of the 304 counts, though the fields do not have it.
pub(super) fn updated_storage(
    fields: &Fields,
    not_modified: &dyn OriginBody,
    status: u16,
    bounds: &FreshnessBounds,
    now: SystemTime,
) -> Storage {
    let first = |name| not_modified.fields().get_all(name).iter().next()?.to_str().ok();
    let updated = Response::read(status, fields.iter());
    let sets_cookie = updated.sets_cookie || not_modified.fields().contains_key("set-cookie");
    let response = Response { date: first("date"), age: first("age"), sets_cookie, ..updated };
    redirected(not_modified, bounds.of(response.storage(now, bounds.default)))
}

/// Cuts what the redirections allow that led to a response.
fn redirected(answer: &dyn OriginBody, storage: Storage) -> Storage {
    match (storage, answer.freshness_limit()) {
        (Storage::Shared(mut lifetime), Some(most)) => {
            lifetime.fresh = lifetime.fresh.min(most);
            Storage::Shared(lifetime)
        }
        (storage, _) => storage,
    }
}

/// The members of Vary.
pub(super) fn vary(answer: &dyn OriginBody) -> impl Iterator<Item = &str> {
    let values = answer.fields().get_all("vary").iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|list| list.split(',')).map(str::trim)
}

/// The cache directives of a response; targeted ones replace the general ones (RFC 9213 §2.2).
pub(super) fn directives(answer: &dyn OriginBody) -> Directives {
    let all = |name: &str| answer.fields().get_all(name).iter().map(|value| value.as_bytes());
    let targeted = Directives::parse_targeted(all("cdn-cache-control"));
    targeted.unwrap_or_else(|| Directives::parse(all("cache-control")))
}

/// Tags for purges: Surrogate-Key separates them by spaces, Cache-Tag by commas.
pub(super) fn tags(answer: &dyn OriginBody) -> String {
    let values = |name: &str| answer.fields().get_all(name).iter().filter_map(|value| value.to_str().ok());
    let (keys, tags) = (values("surrogate-key"), values("cache-tag"));
    let all: Vec<&str> = keys
        .chain(tags)
        .flat_map(|list| list.split([' ', ',', '\t']))
        .filter(|tag| !tag.is_empty())
        .collect();
    all.join(" ")
}

/// The fields that go to the client unchanged. Content-Range of a 206 is about the part that was fetched; that of
/// another status is stored like any field (RFC 9111 §3.1).
pub(super) fn fields_of(answer: &dyn OriginBody) -> Fields {
    let is_part = answer.status() == 206;
    passed_fields(answer.fields(), |name| {
        (is_part && name == "content-range")
            || NOT_PASSED_ON.contains(&name)
            || is_of_connection(name)
            || is_internal(name)
    })
}
