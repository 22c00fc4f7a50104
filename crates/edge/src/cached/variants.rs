//! Answers that differ by fields of the request (RFC 9111 §4.1).
//!
//! A site names the fields that go to its origin. Which of them an object differs by, its origin says in Vary; it is
//! known from the first answer on. Until then all ask for the same, and whoever waited finds out that it wants another.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use penstock_cache::Key;
use penstock_config::limits;
use penstock_http::Request;
use penstock_http::caching::normalised;
use penstock_sys::digest::sha256;

use super::Asked;

/// Fields of a request that go to the origin, as they go there.
pub(super) type Fields = Arc<[(String, String)]>;

/// With more of them than workers, two seldom meet.
const SHARDS: usize = 16;

/// What differs by what.
#[derive(Debug)]
pub(crate) struct Variants([Mutex<HashMap<Key, Varied>>; SHARDS]);

#[derive(Debug, Default)]
struct Varied {
    /// Names of fields, sorted.
    fields: Vec<String>,
    /// The variants that are kept, oldest first.
    kept: VecDeque<Key>,
}

/// The fields of a request that a site passes on.
pub(super) fn fields(request: &Request<'_>, names: &[String]) -> Fields {
    let value = |name: &String| Some((name.clone(), normalised(name, request.values(name))?));
    names.iter().filter_map(value).collect()
}

/// Whether an answer is for whoever sent this field, unless it says otherwise (RFC 9111 §3.5, and what Cookie is for).
fn is_personal(name: &str) -> bool {
    matches!(name, "authorization" | "cookie")
}

/// The key of what a request asks for, if that differs by these fields.
pub(super) fn key_of(place: &str, target: &str, fields: &Fields, by: &[String]) -> Key {
    let mut parts = vec![place.as_bytes(), target.as_bytes()];
    for (name, value) in fields.iter().filter(|(name, _)| by.contains(name) || is_personal(name)) {
        parts.extend([name.as_bytes(), value.as_bytes()]);
    }
    let digest = sha256(&parts);
    let mut key = Key::default();
    key.copy_from_slice(&digest[..16]);
    key
}

impl Variants {
    pub(super) fn new() -> Self {
        Self(std::array::from_fn(|_| Mutex::default()))
    }

    /// What a request asks for by now, if that is another key than was thought.
    pub(super) fn other(&self, asked: &Asked, place: &str) -> Option<Asked> {
        if asked.passes.is_empty() {
            return None;
        }
        let shard = self.shard(&asked.primary);
        let key = key_of(place, &asked.target, &asked.fields, &shard.get(&asked.primary)?.fields);
        (key != asked.key).then(|| Asked { key, ..asked.clone() })
    }

    /// Takes note of what an answer differs by, and says what was asked for with it, and which variant has to go.
    pub(super) fn learn<'v>(
        &self,
        asked: &Asked,
        place: &str,
        names: impl Iterator<Item = &'v str>,
    ) -> (Asked, Option<Key>) {
        if asked.passes.is_empty() {
            return (asked.clone(), None);
        }
        let names: Vec<String> =
            names.map(str::to_ascii_lowercase).filter(|name| asked.passes.contains(name)).collect();
        let mut shard = self.shard(&asked.primary);
        if names.is_empty() && !shard.contains_key(&asked.primary) {
            return (asked.clone(), None);
        }
        if shard.len() >= limits::VARYING_OBJECTS / SHARDS && !shard.contains_key(&asked.primary) {
            // What it knew is found out again from the next answers.
            shard.clear();
        }
        let varied = shard.entry(asked.primary).or_default();
        varied.fields.extend(names);
        varied.fields.sort_unstable();
        varied.fields.dedup();
        let key = key_of(place, &asked.target, &asked.fields, &varied.fields);
        if !varied.kept.contains(&key) {
            varied.kept.push_back(key);
        }
        let gone = (varied.kept.len() > limits::VARIANTS).then(|| varied.kept.pop_front()).flatten();
        (Asked { key, ..asked.clone() }, gone)
    }

    fn shard(&self, key: &Key) -> MutexGuard<'_, HashMap<Key, Varied>> {
        self.0[usize::from(key[15]) % SHARDS].lock().unwrap_or_else(PoisonError::into_inner)
    }
}
