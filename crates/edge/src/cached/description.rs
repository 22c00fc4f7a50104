//! What an object is: the head of the response it came with, and how long that holds.

mod fuzz;
mod head;
#[cfg(test)]
mod kept;
mod texts;
mod written;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use penstock_config::limits;
use penstock_http::caching::{Lifetime, Storage};
use penstock_http::manifest::Manifest;
use penstock_origin::http::Answer;

use super::audience::Audience;
use super::live::Reading;
use super::variants::Fields;
use super::{Asked, HttpSite};

pub use fuzz::{fuzz_description, fuzz_origin_response};
use head::{directives, lines, storage, tags};
use texts::{Text, Texts};
pub use written::WrittenObject;

/// One version of an object, as its origin described it. There is one for each object that is known, so what few have
/// stands elsewhere.
pub(crate) struct Description {
    /// Status code.
    pub(crate) status: u16,
    /// Whether the origin gave a part when it was asked for one.
    pub(crate) ranges: bool,
    /// Whether it was kept for later requests.
    pub(super) stored: bool,
    is_manifest: bool,
    texts: Texts,
    /// What Last-Modified means, in milliseconds since 1970.
    modified: u64,
    /// When it came, for conditions by date where the origin names no other; in milliseconds since 1970.
    received: u64,
    pub(super) site: Arc<HttpSite>,
    /// The moment up to which purges are known not to be about it.
    pub(super) judged: AtomicU64,
    pub(super) audience: Audience,
    freshness: Mutex<Freshness>,
    rare: OnceLock<Box<Rare>>,
}

/// What few descriptions have.
#[derive(Default)]
struct Rare {
    /// Why there is no answer of an origin, if this stands for one that failed.
    failed: Option<&'static str>,
    /// Why a slice of it could not be filled, the last time.
    fault: Mutex<Option<&'static str>>,
    /// What it says, if it is a manifest.
    manifest: Option<Manifest>,
    /// Fields of the request that went to the origin.
    asked_with: Fields,
}

impl Rare {
    fn kept(self) -> OnceLock<Box<Self>> {
        let is_there = self.failed.is_some() || self.manifest.is_some() || !self.asked_with.is_empty();
        if is_there { OnceLock::from(Box::new(self)) } else { OnceLock::new() }
    }
}

/// Until when a description holds; lengths of time in milliseconds.
#[derive(Clone, Copy, Debug)]
struct Freshness {
    since: Instant,
    fresh: u64,
    age: u64,
    stale_while_revalidate: u64,
    stale_if_error: u64,
}

impl Freshness {
    fn new(since: Instant, lifetime: &Lifetime) -> Self {
        Self {
            since,
            fresh: milliseconds(lifetime.fresh),
            age: milliseconds(lifetime.age),
            stale_while_revalidate: milliseconds(lifetime.stale_while_revalidate),
            stale_if_error: milliseconds(lifetime.stale_if_error),
        }
    }

    /// How long it has held.
    fn held(&self, now: Instant) -> u64 {
        milliseconds(now.saturating_duration_since(self.since))
    }
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
        let text = |name| answer.field(name).unwrap_or_default();
        let modified = httpdate::parse_http_date(text("last-modified"));
        let texts = Texts::new([
            (Text::Fields, &lines(answer)),
            (Text::Target, asked.target.as_bytes()),
            (Text::Tags, tags(answer).as_bytes()),
            (Text::ContentType, text("content-type").as_bytes()),
            (Text::Etag, text("etag").as_bytes()),
            (Text::Modified, modified.as_ref().map_or(b"", |_| text("last-modified").as_bytes())),
        ]);
        let rare =
            Rare { manifest: reading.manifest(), asked_with: Arc::clone(&asked.fields), ..Rare::default() };
        let description = Self {
            status,
            ranges,
            stored: matches!(storage, Storage::Shared(_)),
            is_manifest: asked.is_manifest,
            texts,
            modified: modified.map_or(0, since_1970),
            received: since_1970(now.1),
            site: Arc::clone(site),
            judged: AtomicU64::new(asked.moment),
            audience: Audience::default(),
            freshness: Mutex::new(Freshness::new(now.0, &lifetime)),
            rare: rare.kept(),
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
            ranges: false,
            stored: false,
            is_manifest: asked.is_manifest,
            texts: Texts::default(),
            modified: 0,
            received: since_1970(now.1),
            site: Arc::clone(site),
            judged: AtomicU64::new(asked.moment),
            audience: Audience::default(),
            freshness: Mutex::new(Freshness::new(now.0, &NOTHING)),
            rare: Rare { failed: Some(reason), ..Rare::default() }.kept(),
        }
    }

    /// Fields to pass on, as lines ready to be written.
    pub(crate) fn fields(&self) -> &[u8] {
        self.texts.bytes(Text::Fields)
    }

    /// Content-Type, for multipart ranges.
    pub(crate) fn content_type(&self) -> &str {
        self.texts.text(Text::ContentType)
    }

    /// ETag as it came; empty if there was none.
    pub(crate) fn etag(&self) -> &str {
        self.texts.text(Text::Etag)
    }

    /// Path and query that its origin was asked for.
    pub(super) fn target(&self) -> &str {
        self.texts.text(Text::Target)
    }

    /// Tags to be purged by, separated by spaces.
    pub(super) fn tags(&self) -> &str {
        self.texts.text(Text::Tags)
    }

    /// Last-Modified as it came.
    fn modified_text(&self) -> Option<&str> {
        Some(self.texts.text(Text::Modified)).filter(|text| !text.is_empty())
    }

    /// The date that conditions are about.
    pub(crate) fn date(&self) -> SystemTime {
        at(if self.texts.bytes(Text::Modified).is_empty() { self.received } else { self.modified })
    }

    /// When it came.
    pub(super) fn received(&self) -> SystemTime {
        at(self.received)
    }

    /// Fields of the request that went to the origin.
    pub(super) fn asked_with(&self) -> &[(String, String)] {
        self.rare.get().map_or(&[], |rare| &rare.asked_with)
    }

    /// What it says, if it is a manifest.
    pub(super) fn manifest(&self) -> Option<&Manifest> {
        self.rare.get()?.manifest.as_ref()
    }

    /// Why there is no answer of an origin, if this stands for one that failed.
    pub(crate) fn failed(&self) -> Option<&'static str> {
        self.rare.get()?.failed
    }

    /// Why a slice of it could not be filled, the last time.
    pub(super) fn fault(&self) -> Option<&'static str> {
        *self.rare.get()?.fault.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn set_fault(&self, reason: &'static str) {
        let rare = self.rare.get_or_init(Box::default);
        *rare.fault.lock().unwrap_or_else(PoisonError::into_inner) = Some(reason);
    }

    /// From now on it is stale: good while a newer one is fetched or cannot be had, if its origin allows that.
    pub(super) fn make_stale(&self, now: Instant) {
        let mut freshness = self.freshness.lock().unwrap_or_else(PoisonError::into_inner);
        let held = freshness.held(now);
        // What was stale already stays as stale as it was.
        if held < freshness.fresh {
            *freshness =
                Freshness { since: now, fresh: 0, age: freshness.age.saturating_add(held), ..*freshness };
        }
    }

    /// The origin has confirmed it (RFC 9111 §4.3.4) when it was asked at this moment.
    pub(super) fn confirm(&self, answer: &Answer<'_>, moment: u64, now: (Instant, SystemTime)) {
        self.judged.fetch_max(moment, Ordering::Relaxed);
        let reading = self.manifest().cloned().map_or(Reading::Other, Reading::Manifest);
        let bounds = self.site.bounds(self.status, self.target(), &reading, now.0);
        if let Storage::Shared(lifetime) = storage(answer, self.status, &bounds, now.1) {
            *self.freshness.lock().unwrap_or_else(PoisonError::into_inner) = Freshness::new(now.0, &lifetime);
        }
    }

    pub(super) fn quality(&self, now: Instant) -> Quality {
        let freshness = self.freshness();
        let held = freshness.held(now);
        if held < freshness.fresh {
            Quality::Fresh
        } else if held < freshness.fresh.saturating_add(freshness.stale_while_revalidate) {
            Quality::Stale
        } else {
            Quality::Old
        }
    }

    /// Whether it may stand in for an origin that fails (RFC 5861 §4).
    pub(super) fn may_replace_an_error(&self, now: Instant) -> bool {
        let freshness = self.freshness();
        freshness.held(now) < freshness.fresh.saturating_add(freshness.stale_if_error)
    }

    /// How long whoever has this stale one waits for a newer one, if not for as long as it takes: a player with an old
    /// playlist asks again, one without any stands still.
    pub(super) fn patience(&self, now: Instant) -> Option<Duration> {
        let manifest = self.manifest().filter(|manifest| manifest.is_live())?;
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
        let freshness = self.freshness();
        let held = freshness.held(now);
        let seconds = |time: u64| i64::try_from(time / 1000).unwrap_or(i64::MAX);
        match freshness.fresh.checked_sub(held) {
            Some(left) => seconds(left),
            None => -seconds(held.saturating_sub(freshness.fresh)),
        }
    }

    /// Value of Age (RFC 9111 §5.1), in seconds.
    pub(crate) fn age(&self, now: Instant) -> u64 {
        let freshness = self.freshness();
        freshness.age.saturating_add(freshness.held(now)) / 1000
    }

    /// The condition under which a new fetch may say that nothing has changed.
    pub(super) fn condition(&self) -> Option<(&'static str, String)> {
        if !self.etag().is_empty() {
            return Some(("if-none-match", self.etag().to_owned()));
        }
        self.modified_text().map(|text| ("if-modified-since", text.to_owned()))
    }

    /// The condition under which a part of it makes sense; another version is answered whole (RFC 9110 §13.1.5). A weak
    /// ETag cannot say so.
    pub(super) fn same_version_condition(&self) -> Option<(&'static str, String)> {
        let strong = Some(self.etag()).filter(|etag| etag.starts_with('"'));
        let modified = self.modified_text().filter(|_| self.etag().is_empty());
        strong.or(modified).map(|validator| ("if-range", validator.to_owned()))
    }

    /// Whether a response with these validators is the same version (RFC 9110 §8.8.1).
    pub(super) fn is_same_version(&self, answer: &Answer<'_>) -> bool {
        if !self.etag().is_empty() {
            return answer.field("etag") == Some(self.etag());
        }
        self.modified_text() == answer.field("last-modified")
    }

    fn freshness(&self) -> Freshness {
        *self.freshness.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn milliseconds(time: Duration) -> u64 {
    time.as_secs().saturating_mul(1000).saturating_add(time.subsec_millis().into())
}

fn since_1970(time: SystemTime) -> u64 {
    milliseconds(time.duration_since(UNIX_EPOCH).unwrap_or_default())
}

fn at(since_1970: u64) -> SystemTime {
    UNIX_EPOCH.checked_add(Duration::from_millis(since_1970)).unwrap_or(UNIX_EPOCH)
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
