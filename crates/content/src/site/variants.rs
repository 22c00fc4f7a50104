//! Responses that vary by fields of the request (RFC 9111 §4.1).
//!
//! A site names the request fields that go to its origin. The origin's Vary says which of them select a response. The
//! names are learned from responses, and again from an object found in the cache, whose metadata keep them. Until then
//! all requests for a target share one key, so every object is compared with the request before it is used.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use penstock_cache::{Budget, Key};
use penstock_config::limits;
use penstock_http::Request;
use penstock_http::caching::normalised;
use penstock_sys::digest::sha256;
use penstock_sys::lock::Unpoisoned;

use crate::site::cache_request::{CacheRequest, RequestFields};
use crate::site::cookies::{cookies_of, without_cookies};

/// More shards than workers, so that two workers seldom meet.
const SHARDS: usize = 16;

/// The request fields that each varying object varies by, by primary key.
#[derive(Debug)]
pub(crate) struct Variants {
    shards: [Mutex<HashMap<Key, Varied>>; SHARDS],
    /// Whether any object varies: until then no request takes a lock.
    any_varies: AtomicBool,
    /// Memory that the entries share with the index.
    budget: Arc<Budget>,
}

#[derive(Debug, Default)]
struct Varied {
    /// Names of fields, sorted.
    fields: Vec<String>,
    /// Keys of the variants that are kept, oldest first.
    kept: VecDeque<Key>,
}

impl Varied {
    /// Memory of the entry in bytes, with its key.
    fn bytes(&self) -> u64 {
        let names: usize = self.fields.iter().map(|name| size_of::<String>() + name.len()).sum();
        (size_of::<Key>() + size_of::<Self>() + names + self.kept.len() * size_of::<Key>()) as u64
    }
}

/// The fields of a request that a site forwards, without the cookies `tokens`, and with the cookies `only` if there are any.
pub(crate) fn fields(
    request: &Request<'_>,
    names: &[String],
    (tokens, only): (&[String], &[String]),
) -> RequestFields {
    let value = |name: &String| match (name == "cookie").then_some((tokens, only)) {
        Some((_, [_, ..])) => {
            let chosen = chosen_cookies(request, tokens, only);
            normalised(name, [chosen.as_bytes()].into_iter())
        }
        Some(([_, ..], [])) => {
            let rest: Vec<String> = request.values(name).map(|line| without_cookies(line, tokens)).collect();
            normalised(name, rest.iter().map(String::as_bytes))
        }
        Some(([], [])) | None => normalised(name, request.values(name)),
    };
    let value = |name: &String| Some((name.clone(), value(name)?));
    names.iter().filter_map(value).collect()
}

/// The cookies `only` of a request, each in its order, without the cookies `tokens`.
fn chosen_cookies(request: &Request<'_>, tokens: &[String], only: &[String]) -> String {
    let chosen = only.iter().filter(|name| !tokens.contains(name));
    let pairs = chosen.flat_map(|name| cookies_of(request, name).map(move |value| format!("{name}={value}")));
    pairs.collect::<Vec<_>>().join("; ")
}

/// Whether a field selects a response for one user, unless the response says otherwise (RFC 9111 §3.5).
fn is_personal(name: &str) -> bool {
    matches!(name, "authorization" | "cookie")
}

/// The fields of a request that select its variant among responses that vary by `names`, or those that do not.
pub(crate) fn selecting(
    fields: &[(String, String)],
    names: &[String],
    does_select: bool,
) -> Vec<(String, String)> {
    let is_one = |name: &String| (names.contains(name) || is_personal(name)) == does_select;
    fields.iter().filter(|(name, _)| is_one(name)).cloned().collect()
}

/// Whether a request has fields that select responses for one user.
pub(crate) fn has_personal(fields: &[(String, String)]) -> bool {
    fields.iter().any(|(name, _)| is_personal(name))
}

/// The key of a target of the site `site`, varying by the fields named in `by`.
pub(crate) fn key_of(site: &str, target: &str, fields: &[(String, String)], by: &[String]) -> Key {
    let digest = if fields.is_empty() {
        sha256(&[site.as_bytes(), target.as_bytes()])
    } else {
        let mut parts = vec![site.as_bytes(), target.as_bytes()];
        for (name, value) in fields.iter().filter(|(name, _)| by.contains(name) || is_personal(name)) {
            parts.extend([name.as_bytes(), value.as_bytes()]);
        }
        sha256(&parts)
    };
    let mut key = Key::default();
    key.copy_from_slice(&digest[..16]);
    key
}

/// Whether two requests have the same values in these fields.
pub(crate) fn is_same_variant(one: &[(String, String)], other: &[(String, String)], by: &[String]) -> bool {
    let value = |fields: &'_ [(String, String)], name: &String| {
        fields.iter().find(|(known, _)| known == name).map(|(_, value)| value.clone())
    };
    by.iter().all(|name| value(one, name) == value(other, name))
}

impl Variants {
    pub(crate) fn new(budget: Arc<Budget>) -> Self {
        Self { shards: std::array::from_fn(|_| Mutex::default()), any_varies: AtomicBool::new(false), budget }
    }

    /// The key of a request by what is known now, if that is another key than the request has.
    pub(crate) fn other_key(&self, request: &CacheRequest<'_>, site: &str) -> Option<Key> {
        // Without fields the key is the same whatever the object varies by.
        if request.fields.is_empty() || !self.any_varies.load(Ordering::Relaxed) {
            return None;
        }
        let shard = self.shard(&request.primary);
        let key = key_of(site, &request.target, &request.fields, &shard.get(&request.primary)?.fields);
        (key != request.key).then_some(key)
    }

    /// The key of the variant that `request` selects if responses vary by these fields too, which are not taken in yet.
    pub(crate) fn key_with<'v>(
        &self,
        request: &CacheRequest<'_>,
        site: &str,
        names: impl Iterator<Item = &'v str>,
    ) -> Key {
        if request.forwarded.is_empty() {
            return request.key;
        }
        let mut by: Vec<String> =
            names.map(str::to_ascii_lowercase).filter(|name| request.forwarded.contains(name)).collect();
        let shard = self.shard(&request.primary);
        let known = shard.get(&request.primary);
        if by.is_empty() && known.is_none() {
            return request.key;
        }
        by.extend(known.into_iter().flat_map(|varied| varied.fields.iter().cloned()));
        key_of(site, &request.target, &request.fields, &by)
    }

    /// Takes in the names of fields that an object varies by. Returns the key of the variant that `request` selects,
    /// and the key of the variant that has to go because the target has too many.
    pub(crate) fn learn(
        &self,
        request: &CacheRequest<'_>,
        site: &str,
        names: &[String],
    ) -> (Key, Option<Key>) {
        if request.forwarded.is_empty() {
            return (request.key, None);
        }
        let mut shard = self.shard(&request.primary);
        if names.is_empty() && !shard.contains_key(&request.primary) {
            return (request.key, None);
        }
        if shard.len() >= limits::VARYING_OBJECTS / SHARDS && !shard.contains_key(&request.primary) {
            // The names are learned again from the objects and from the next responses.
            let bytes: u64 = shard.values().map(Varied::bytes).sum();
            shard.clear();
            self.budget.release(bytes);
        }
        self.any_varies.store(true, Ordering::Relaxed);
        let before = shard.get(&request.primary).map_or(0, Varied::bytes);
        let varied = shard.entry(request.primary).or_default();
        varied.fields.extend(names.iter().filter(|name| request.forwarded.contains(name)).cloned());
        varied.fields.sort_unstable();
        varied.fields.dedup();
        let key = key_of(site, &request.target, &request.fields, &varied.fields);
        if !varied.kept.contains(&key) {
            varied.kept.push_back(key);
        }
        let gone = (varied.kept.len() > limits::VARIANTS).then(|| varied.kept.pop_front()).flatten();
        let after = varied.bytes();
        self.budget.charge(after);
        self.budget.release(before);
        (key, gone)
    }

    /// The names of fields that the responses to a request are known to vary by.
    pub(crate) fn names(&self, request: &CacheRequest<'_>) -> Vec<String> {
        if request.forwarded.is_empty() {
            return Vec::new();
        }
        let shard = self.shard(&request.primary);
        shard.get(&request.primary).map_or_else(Vec::new, |varied| varied.fields.clone())
    }

    /// The keys of the variants that are kept of a target, by its primary key.
    pub(crate) fn kept(&self, primary: &Key) -> Vec<Key> {
        self.shard(primary).get(primary).map_or_else(Vec::new, |varied| varied.kept.iter().copied().collect())
    }

    fn shard(&self, key: &Key) -> MutexGuard<'_, HashMap<Key, Varied>> {
        self.shards[usize::from(key[15]) % SHARDS].lock().unpoisoned()
    }
}

#[cfg(test)]
impl Variants {
    /// Holds all locks, to show that a hit does not take them.
    pub(crate) fn hold(&self) -> [impl Drop; SHARDS] {
        self.shards.each_ref().map(|shard| shard.lock().unwrap())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(language: &str) -> CacheRequest<'static> {
        let names = ["accept-language".to_owned(), "x-device".to_owned()];
        let fields = [("accept-language".to_owned(), language.to_owned())];
        let key = key_of("site", "/x", &fields, &[]);
        let request = CacheRequest::new(key, "/x".into(), false, 0);
        CacheRequest { fields: fields.into(), forwarded: names.into(), ..request }
    }

    #[test]
    fn a_key_before_names_are_known_has_personal_fields_alone() {
        let key = |fields: &[(String, String)]| key_of("site", "/x", fields, &[]);
        for (name, is_personal) in
            [("origin", false), ("range", false), ("cookie", true), ("authorization", true)]
        {
            let fields = [("accept".to_owned(), "a".to_owned()), (name.to_owned(), "b".to_owned())];
            assert_eq!(
                (key(&fields) != key(&[]), has_personal(&fields)),
                (is_personal, is_personal),
                "{name}"
            );
        }
    }

    #[test]
    fn the_key_of_a_response_is_known_before_other_requests_use_its_names() {
        let variants = Variants::new(Arc::new(Budget::new(1 << 20)));
        let (french, german) = (request("fr"), request("de"));
        assert_eq!(french.key, german.key);
        let cases = [(vec!["Accept-Language"], true), (vec!["foo"], false), (vec![], false)];
        for (names, selects) in cases {
            let keys =
                [&french, &german].map(|request| variants.key_with(request, "site", names.iter().copied()));
            assert_eq!(keys[0] != keys[1], selects, "{names:?}");
            assert_eq!(keys[0] != french.key, selects, "{names:?}");
            assert_eq!(variants.other_key(&french, "site"), None, "{names:?}");
        }
        let key = variants.key_with(&french, "site", ["Accept-Language"].into_iter());
        let (learned, gone) = variants.learn(&french, "site", &["accept-language".to_owned()]);
        assert_eq!((learned, gone), (key, None));
        assert_eq!(variants.other_key(&french, "site"), Some(key));
        // A response that names another field varies by both.
        let both = variants.key_with(&french, "site", ["x-device"].into_iter());
        assert_eq!(variants.learn(&french, "site", &["x-device".to_owned()]).0, both);
        assert_eq!(variants.learn(&french, "site", &["foo".to_owned()]).0, both);
    }
}
