//! What an object is: the head of the response it came with, and how long that holds.

mod written;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use penstock_config::limits;
use penstock_http::caching::{Directives, Lifetime, Response, Storage};
use penstock_http::manifest::Manifest;
use penstock_origin::http::Answer;

use super::audience::Audience;
use super::live::{Bounds, Reading};
use super::{Asked, HttpSite};

pub use written::WrittenObject;

/// One version of an object, as its origin described it.
pub(crate) struct Description {
    /// Status code.
    pub(crate) status: u16,
    /// Fields to pass on, as lines ready to be written.
    pub(crate) fields: Vec<u8>,
    /// Content-Type, for multipart ranges.
    pub(crate) content_type: String,
    /// ETag as it came; empty if there was none.
    pub(crate) etag: String,
    /// Last-Modified as it came, and its meaning.
    pub(crate) modified: Option<(String, SystemTime)>,
    /// When it came, for conditions by date where the origin names no other.
    pub(crate) received: SystemTime,
    /// Whether the origin gave a part when it was asked for one.
    pub(crate) ranges: bool,
    /// Why there is no answer of an origin, if this stands for one that failed.
    pub(super) failed: Option<&'static str>,
    /// Why a slice of it could not be filled.
    pub(super) fault: Fault,
    pub(super) asked: Asked,
    pub(super) site: Arc<HttpSite>,
    /// What it says, if it is a manifest.
    pub(super) manifest: Option<Manifest>,
    /// Whether it was kept for later requests.
    pub(super) stored: bool,
    /// Tags to be purged by, separated by spaces.
    pub(super) tags: String,
    /// The moment up to which purges are known not to be about it.
    pub(super) judged: AtomicU64,
    pub(super) audience: Audience,
    freshness: Mutex<Freshness>,
}

/// What went wrong last.
#[derive(Debug, Default)]
pub(super) struct Fault(Mutex<Option<&'static str>>);

impl Fault {
    pub(super) fn set(&self, reason: &'static str) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(reason);
    }

    pub(super) fn get(&self) -> Option<&'static str> {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Until when a description holds.
#[derive(Clone, Copy, Debug)]
struct Freshness {
    since: Instant,
    lifetime: Lifetime,
}

/// How good a description is at some moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Quality {
    Fresh,
    /// Good enough while somebody fetches a newer one.
    Stale,
    /// Good only if the origin says so, or fails.
    Old,
}

const NOTHING: Lifetime = Lifetime {
    fresh: Duration::ZERO,
    age: Duration::ZERO,
    stale_while_revalidate: Duration::ZERO,
    stale_if_error: Duration::ZERO,
};

/// Fields that belong to one connection (RFC 9110 §7.6.1), or that we write ourselves.
const NOT_PASSED_ON: [&str; 21] = [
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

impl Description {
    /// Reads the head of a response. The storage says whether anybody else may have it.
    pub(super) fn read(
        answer: &Answer<'_>,
        asked: &Asked,
        site: &Arc<HttpSite>,
        reading: Reading,
        now: (Instant, SystemTime),
    ) -> (Self, Storage) {
        let ranges = answer.status() == 206;
        let status = if ranges { 200 } else { answer.status() };
        let bounds = site.bounds(status, &asked.target, &reading, now.0);
        let storage = asked.personal(answer, storage(answer, status, &bounds, now.1));
        let lifetime = match storage {
            Storage::Shared(lifetime) => lifetime,
            Storage::Private | Storage::Passing => NOTHING,
        };
        let text = |name| answer.field(name).unwrap_or_default().to_owned();
        let modified = answer.field("last-modified").and_then(|text| {
            let time = httpdate::parse_http_date(text).ok()?;
            Some((text.to_owned(), time))
        });
        let description = Self {
            status,
            fields: lines(answer),
            content_type: text("content-type"),
            etag: text("etag"),
            modified,
            received: now.1,
            ranges,
            failed: None,
            fault: Fault::default(),
            asked: asked.clone(),
            site: Arc::clone(site),
            manifest: reading.manifest(),
            stored: matches!(storage, Storage::Shared(_)),
            tags: tags(answer),
            judged: AtomicU64::new(asked.moment),
            audience: Audience::default(),
            freshness: Mutex::new(Freshness { since: now.0, lifetime }),
        };
        (description, storage)
    }

    /// What stands for an origin that did not answer.
    pub(super) fn failure(
        status: u16,
        reason: &'static str,
        asked: &Asked,
        site: &Arc<HttpSite>,
        now: (Instant, SystemTime),
    ) -> Self {
        Self {
            status,
            fields: Vec::new(),
            content_type: String::new(),
            etag: String::new(),
            modified: None,
            received: now.1,
            ranges: false,
            failed: Some(reason),
            fault: Fault::default(),
            asked: asked.clone(),
            site: Arc::clone(site),
            manifest: None,
            stored: false,
            tags: String::new(),
            judged: AtomicU64::new(asked.moment),
            audience: Audience::default(),
            freshness: Mutex::new(Freshness { since: now.0, lifetime: NOTHING }),
        }
    }

    /// From now on it is stale: good while a newer one is fetched or cannot be had, if its origin allows that.
    pub(super) fn make_stale(&self, now: Instant) {
        let mut freshness = self.freshness.lock().unwrap_or_else(PoisonError::into_inner);
        let Freshness { since, lifetime } = *freshness;
        let held = now.saturating_duration_since(since);
        // What was stale already stays as stale as it was.
        if held < lifetime.fresh {
            let lifetime =
                Lifetime { fresh: Duration::ZERO, age: lifetime.age.saturating_add(held), ..lifetime };
            *freshness = Freshness { since: now, lifetime };
        }
    }

    /// The origin has confirmed it (RFC 9111 §4.3.4) when it was asked at this moment.
    pub(super) fn confirm(&self, answer: &Answer<'_>, moment: u64, now: (Instant, SystemTime)) {
        self.judged.fetch_max(moment, Ordering::Relaxed);
        let reading = self.manifest.clone().map_or(Reading::Other, Reading::Manifest);
        let bounds = self.site.bounds(self.status, &self.asked.target, &reading, now.0);
        if let Storage::Shared(lifetime) = storage(answer, self.status, &bounds, now.1) {
            *self.freshness.lock().unwrap_or_else(PoisonError::into_inner) =
                Freshness { since: now.0, lifetime };
        }
    }

    pub(super) fn quality(&self, now: Instant) -> Quality {
        let Freshness { since, lifetime } = self.freshness();
        let held = now.saturating_duration_since(since);
        if held < lifetime.fresh {
            Quality::Fresh
        } else if held < lifetime.fresh.saturating_add(lifetime.stale_while_revalidate) {
            Quality::Stale
        } else {
            Quality::Old
        }
    }

    /// Whether it may stand in for an origin that fails (RFC 5861 §4).
    pub(super) fn may_replace_an_error(&self, now: Instant) -> bool {
        let Freshness { since, lifetime } = self.freshness();
        now.saturating_duration_since(since) < lifetime.fresh.saturating_add(lifetime.stale_if_error)
    }

    /// How long whoever has this stale one waits for a newer one, if not for as long as it takes: a player with an old
    /// playlist asks again, one without any stands still.
    pub(super) fn patience(&self, now: Instant) -> Option<Duration> {
        let manifest = self.manifest.as_ref().filter(|manifest| manifest.is_live())?;
        let longest = Duration::from_millis(limits::LIVE_PATIENCE_MILLISECONDS);
        self.may_replace_an_error(now).then(|| manifest.fresh().unwrap_or(longest).min(longest))
    }

    /// It answers one request that was passed on, with this status, and nothing else.
    pub(super) fn be_passed(&mut self, status: u16) {
        (self.status, self.ranges, self.stored) = (status, false, false);
    }

    /// Status code as its origin gave it.
    pub(super) fn status_of_origin(&self) -> u16 {
        if self.ranges { 206 } else { self.status }
    }

    /// How long it is still fresh, in seconds; negative if it is not (RFC 9211 §2.3).
    pub(super) fn ttl(&self, now: Instant) -> i64 {
        let Freshness { since, lifetime } = self.freshness();
        let held = now.saturating_duration_since(since);
        let seconds = |time: Duration| i64::try_from(time.as_secs()).unwrap_or(i64::MAX);
        match lifetime.fresh.checked_sub(held) {
            Some(left) => seconds(left),
            None => -seconds(held.saturating_sub(lifetime.fresh)),
        }
    }

    /// Value of Age (RFC 9111 §5.1), in seconds.
    pub(crate) fn age(&self, now: Instant) -> u64 {
        let Freshness { since, lifetime } = self.freshness();
        lifetime.age.saturating_add(now.saturating_duration_since(since)).as_secs()
    }

    /// The condition under which a new fetch may say that nothing has changed.
    pub(super) fn condition(&self) -> Option<(&'static str, String)> {
        if !self.etag.is_empty() {
            return Some(("if-none-match", self.etag.clone()));
        }
        self.modified.as_ref().map(|(text, _)| ("if-modified-since", text.clone()))
    }

    /// The condition under which a part of it makes sense; another version is answered whole (RFC 9110 §13.1.5). A weak
    /// ETag cannot say so.
    pub(super) fn same_version_condition(&self) -> Option<(&'static str, String)> {
        let strong = Some(&self.etag).filter(|etag| etag.starts_with('"'));
        let modified = self.modified.as_ref().filter(|_| self.etag.is_empty()).map(|(text, _)| text);
        strong.or(modified).map(|validator| ("if-range", validator.clone()))
    }

    /// Whether a response with these validators is the same version (RFC 9110 §8.8.1).
    pub(super) fn is_same_version(&self, answer: &Answer<'_>) -> bool {
        if !self.etag.is_empty() {
            return answer.field("etag") == Some(self.etag.as_str());
        }
        self.modified.as_ref().map(|(text, _)| text.as_str()) == answer.field("last-modified")
    }

    fn freshness(&self) -> Freshness {
        *self.freshness.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn storage(answer: &Answer<'_>, status: u16, bounds: &Bounds, now: SystemTime) -> Storage {
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

impl Asked {
    /// What came for one Authorization is for nobody else, unless its origin says so (RFC 9111 §3.5).
    fn personal(&self, answer: &Answer<'_>, storage: Storage) -> Storage {
        if !self.fields.iter().any(|(name, _)| name == "authorization") {
            return storage;
        }
        let says = directives(answer);
        let allowed = says.public || says.must_revalidate || says.s_maxage.is_some();
        if allowed { storage } else { Storage::Private }
    }
}

/// What a response says to a cache like this one; what is meant for such caches alone says all (RFC 9213 §2.2).
fn directives(answer: &Answer<'_>) -> Directives {
    let all = |name: &str| answer.fields().get_all(name).iter().map(|value| value.as_bytes());
    let targeted = Directives::parse_targeted(all("cdn-cache-control"));
    targeted.unwrap_or_else(|| Directives::parse(all("cache-control")))
}

/// What it can be purged by: Surrogate-Key has tags separated by spaces, Cache-Tag by commas.
fn tags(answer: &Answer<'_>) -> String {
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
fn lines(answer: &Answer<'_>) -> Vec<u8> {
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
