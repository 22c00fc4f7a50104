//! The metadata of an object: the head of the response it came with, and until when it is fresh.

pub(crate) mod fuzz;
mod head;
mod packed;
mod stored;
#[cfg(test)]
mod weight;

use std::ops::Deref;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use arc_swap::ArcSwapOption;
use once_cell::race::OnceBox;
use penstock_config::limits;
use penstock_http::caching::{Lifetime, Storage, updated_lines};
use penstock_http::manifest::Manifest;

use crate::cache_request::{CacheRequest, RequestFields};
use crate::cache_status::StoredState;
use crate::context::Moment;
use crate::fault::FillFault;
use crate::http_site::HttpSite;
use crate::lifetime::{Freshness, SharedLifetime, StoredLifetime};
use crate::live::BodyKind;
use crate::origins::{OriginBody, PeerObject};
use crate::readers::ReaderThrottle;
use crate::variants::is_same_variant;

use head::{directives, lines, storage, tags, updated_storage, vary};
use packed::{PackedText, Text};
pub use stored::StoredObject;

/// The metadata of one version of an object. There is one for each object in the index, so values that few objects have
/// are kept in `rare`.
pub(crate) struct ObjectMetadata {
    /// Status code.
    pub(crate) status: u16,
    traits: Traits,
    texts: PackedText,
    /// The time in Last-Modified, in seconds since 1970.
    modified: u32,
    /// When the response came, in seconds since 1970: the date of conditions if the origin names no other.
    received: u32,
    pub(crate) site: Arc<HttpSite>,
    /// The moment up to which purges are known not to concern the object.
    pub(crate) judged: AtomicU64,
    pub(crate) readers: ReaderThrottle,
    lifetime: SharedLifetime,
    rare: OnceBox<Rare>,
}

/// Properties of an object, in one byte.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Traits(u8);

impl Traits {
    /// The origin answered a request for a part with a part.
    const RANGES: Self = Self(1);
    /// The response was kept for later requests.
    const STORED: Self = Self(2);
    /// The target is called as manifests are.
    const MANIFEST: Self = Self(4);

    fn with(self, other: Self, is_true: bool) -> Self {
        if is_true { Self(self.0 | other.0) } else { self }
    }

    fn has(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }
}

/// Values that few objects have.
#[derive(Default)]
struct Rare {
    /// Why there is no response, if the object stands for an origin that failed.
    failure: Option<FillFault>,
    /// The last fault of the fill of a slice, by slice; see [`limits::FILL_FAULTS`].
    faults: Mutex<Vec<(u32, FillFault)>>,
    /// The parsed body, if it is a manifest.
    manifest: Option<Manifest>,
    /// Fields of the request that went to the origin.
    request_fields: RequestFields,
    /// Names of those fields that the response varies by, in lowercase letters.
    varies_by: Vec<String>,
    /// The fields for the client, if a 304 has changed them.
    updated_fields: ArcSwapOption<Vec<u8>>,
}

/// Field lines of an object.
pub(crate) enum FieldLines<'m> {
    /// As they were stored.
    Stored(&'m [u8]),
    /// As a 304 has updated them.
    Updated(Arc<Vec<u8>>),
}

impl Deref for FieldLines<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Self::Stored(lines) => lines,
            Self::Updated(lines) => lines,
        }
    }
}

impl Rare {
    fn kept(self) -> OnceBox<Self> {
        let is_needed = self.failure.is_some()
            || self.manifest.is_some()
            || !self.request_fields.is_empty()
            || !self.varies_by.is_empty();
        if is_needed { OnceBox::with_value(Box::new(self)) } else { OnceBox::new() }
    }
}

const NEVER_FRESH: Lifetime = Lifetime {
    fresh: Duration::ZERO,
    age: Duration::ZERO,
    stale_while_revalidate: Duration::ZERO,
    stale_if_error: Duration::ZERO,
};

impl ObjectMetadata {
    /// Reads the head of a response, and decides whether the response may be shared.
    pub(crate) fn read(
        answer: &dyn OriginBody,
        request: &CacheRequest<'_>,
        site: &Arc<HttpSite>,
        kind: BodyKind,
        now: Moment,
    ) -> (Self, Storage) {
        let ranges = answer.status() == 206;
        let status = if ranges { 200 } else { answer.status() };
        let bounds = site.bounds(status, &request.target, &kind, now.0);
        let storage = personal(request, answer, storage(answer, status, &bounds, now.1));
        let storage = as_peer_says(answer, storage);
        // A body that may be cut short is delivered, and not kept (RFC 9112 §9.8).
        let storage = match storage {
            Storage::Shared(_) if !answer.proves_completeness() => Storage::Passing,
            storage => storage,
        };
        let lifetime = match storage {
            Storage::Shared(lifetime) => lifetime,
            Storage::Private | Storage::Passing => NEVER_FRESH,
        };
        let text = |name| answer.field(name).unwrap_or_default();
        let modified = httpdate::parse_http_date(text("last-modified"));
        let texts = PackedText::new([
            (Text::Fields, &lines(answer)),
            (Text::Target, request.target.as_bytes()),
            (Text::Tags, tags(answer).as_bytes()),
            (Text::ContentType, text("content-type").as_bytes()),
            (Text::Etag, text("etag").as_bytes()),
            (Text::Modified, modified.as_ref().map_or(b"", |_| text("last-modified").as_bytes())),
        ]);
        let varies_by = vary(answer)
            .map(str::to_ascii_lowercase)
            .filter(|name| request.forwarded.contains(name))
            .collect();
        let rare = Rare {
            manifest: kind.manifest(),
            request_fields: Arc::clone(&request.fields),
            varies_by,
            ..Rare::default()
        };
        let metadata = Self {
            status,
            traits: Traits::default()
                .with(Traits::RANGES, ranges)
                .with(Traits::STORED, matches!(storage, Storage::Shared(_)))
                .with(Traits::MANIFEST, request.is_manifest),
            texts,
            modified: modified.map_or(0, since_1970),
            received: since_1970(now.1),
            site: Arc::clone(site),
            judged: AtomicU64::new(request.moment),
            readers: ReaderThrottle::default(),
            lifetime: SharedLifetime::new(&StoredLifetime::new(now.0, &lifetime)),
            rare: rare.kept(),
        };
        (metadata, storage)
    }

    /// Metadata that stand for the failure of an origin.
    pub(crate) fn failure(
        status: u16,
        fault: FillFault,
        request: &CacheRequest<'_>,
        site: &Arc<HttpSite>,
        now: Moment,
    ) -> Self {
        Self {
            status,
            traits: Traits::default().with(Traits::MANIFEST, request.is_manifest),
            texts: PackedText::default(),
            modified: 0,
            received: since_1970(now.1),
            site: Arc::clone(site),
            judged: AtomicU64::new(request.moment),
            readers: ReaderThrottle::default(),
            lifetime: SharedLifetime::new(&StoredLifetime::new(now.0, &NEVER_FRESH)),
            rare: Rare { failure: Some(fault), ..Rare::default() }.kept(),
        }
    }

    /// Whether the origin answered a request for a part with a part.
    pub(crate) fn came_in_part(&self) -> bool {
        self.traits.has(Traits::RANGES)
    }

    /// Fields for the client, as lines.
    pub(crate) fn fields(&self) -> FieldLines<'_> {
        match self.rare.get().and_then(|rare| rare.updated_fields.load_full()) {
            Some(updated) => FieldLines::Updated(updated),
            None => FieldLines::Stored(self.texts.bytes(Text::Fields)),
        }
    }

    /// Content-Type; empty if there is none.
    pub(crate) fn content_type(&self) -> &str {
        self.texts.text(Text::ContentType)
    }

    /// ETag; empty if there is none.
    pub(crate) fn etag(&self) -> &str {
        self.texts.text(Text::Etag)
    }

    /// Path and query that the origin was asked for.
    pub(crate) fn target(&self) -> &str {
        self.texts.text(Text::Target)
    }

    /// Tags for purges, separated by spaces.
    pub(crate) fn tags(&self) -> &str {
        self.texts.text(Text::Tags)
    }

    /// Last-Modified as it was sent.
    fn modified_text(&self) -> Option<&str> {
        Some(self.texts.text(Text::Modified)).filter(|text| !text.is_empty())
    }

    /// The date that conditions are compared with.
    pub(crate) fn date(&self) -> SystemTime {
        at(if self.texts.bytes(Text::Modified).is_empty() { self.received } else { self.modified })
    }

    /// When the response came.
    pub(crate) fn received(&self) -> SystemTime {
        at(self.received)
    }

    /// Fields of the request that went to the origin.
    pub(crate) fn request_fields(&self) -> &[(String, String)] {
        self.rare.get().map_or(&[], |rare| &rare.request_fields)
    }

    /// Names of request fields that the response varies by.
    pub(crate) fn varies_by(&self) -> &[String] {
        self.rare.get().map_or(&[], |rare| &rare.varies_by)
    }

    /// Whether the object is the variant that a request selects (RFC 9111 §4.1).
    pub(crate) fn is_selected_by(&self, request: &CacheRequest<'_>) -> bool {
        let names = self.varies_by();
        names.is_empty() || is_same_variant(self.request_fields(), &request.fields, names)
    }

    /// The manifest, if the object is one.
    pub(crate) fn manifest(&self) -> Option<&Manifest> {
        self.rare.get()?.manifest.as_ref()
    }

    /// Why there is no response, if the object stands for an origin that failed.
    pub(crate) fn failed(&self) -> Option<FillFault> {
        self.rare.get()?.failure
    }

    /// Why the last fill of this slice failed.
    pub(crate) fn fault_of(&self, slice: u32) -> Option<FillFault> {
        let faults = self.rare.get()?.faults.lock().unwrap_or_else(PoisonError::into_inner);
        faults.iter().rfind(|(failed, _)| *failed == slice).map(|(_, fault)| *fault)
    }

    /// Records why the fill of a slice failed. Called before the slice's readers see that it failed, so that each of
    /// them is told the fault of the fill it followed.
    pub(crate) fn set_fault(&self, slice: u32, fault: FillFault) {
        let rare = self.rare.get_or_init(Box::default);
        let mut faults = rare.faults.lock().unwrap_or_else(PoisonError::into_inner);
        faults.retain(|(failed, _)| *failed != slice);
        if faults.len() >= limits::FILL_FAULTS {
            faults.remove(0);
        }
        faults.push((slice, fault));
    }

    /// Makes the object stale at `now`.
    pub(crate) fn make_stale(&self, now: Instant) {
        self.lifetime.end(now);
    }

    /// The stamp up to which no purge concerns the object: that of its request, or a later one.
    pub(crate) fn unpurged_until(&self) -> u64 {
        self.judged.load(Ordering::Relaxed)
    }

    /// Takes in a 304 of the origin (RFC 9111 §4.3.4) to a request made at `moment`: fields, age and freshness.
    pub(crate) fn confirm(&self, answer: &dyn OriginBody, moment: u64, now: Moment) {
        self.judged.fetch_max(moment, Ordering::Relaxed);
        let kind = self.manifest().cloned().map_or(BodyKind::Other, BodyKind::Manifest);
        let bounds = self.site.bounds(self.status, self.target(), &kind, now.0);
        let stored = self.fields();
        let updated = updated_lines(&stored, &lines(answer));
        let storage = updated_storage(&updated, answer, self.status, &bounds, now.1);
        if updated != *stored {
            let rare = self.rare.get_or_init(Box::default);
            rare.updated_fields.store(Some(Arc::new(updated)));
        }
        if let Storage::Shared(lifetime) = as_peer_says(answer, storage) {
            self.lifetime.set(&StoredLifetime::new(now.0, &lifetime));
        }
    }

    /// Memory outside of the metadata themselves, in bytes.
    fn heap_size(&self) -> usize {
        let rare = self.rare.get().map_or(0, |rare| {
            let fields = rare.request_fields.iter().map(|(name, value)| name.len() + value.len() + 48);
            let updated = rare.updated_fields.load().as_ref().map_or(0, |lines| lines.len());
            let segments = rare
                .manifest
                .as_ref()
                .and_then(Manifest::media)
                .map_or(0, |playlist| playlist.segments.iter().map(|uri| uri.len() + 24).sum());
            size_of::<Rare>() + fields.sum::<usize>() + updated + segments
        });
        self.texts.len() + rare
    }

    /// How fresh the object is.
    pub(crate) fn freshness(&self, now: Instant) -> Freshness {
        self.lifetime.get().freshness(now)
    }

    /// Until when the object is fresh, with its age.
    pub(crate) fn lifetime(&self) -> StoredLifetime {
        self.lifetime.get()
    }

    /// Whether the object may replace an error of its origin (RFC 5861 §4).
    pub(crate) fn may_replace_an_error(&self, now: Instant) -> bool {
        self.lifetime.get().may_replace_an_error(now)
    }

    /// How long a request that could be answered with this stale object waits for a newer version; `None` for as long as
    /// it takes. A player with an old playlist asks again; a player without one stops.
    pub(crate) fn patience(&self, now: Instant) -> Option<Duration> {
        let manifest = self.manifest().filter(|manifest| manifest.is_live())?;
        let longest = Duration::from_millis(limits::LIVE_PATIENCE_MILLISECONDS);
        self.may_replace_an_error(now).then(|| manifest.fresh().unwrap_or(longest).min(longest))
    }

    /// Makes these the metadata of a response that is forwarded to one client, with this status.
    pub(crate) fn set_forwarded(&mut self, status: u16) {
        self.status = status;
        self.traits = Traits::default().with(Traits::MANIFEST, self.traits.has(Traits::MANIFEST));
    }

    /// Whether the response was kept for later requests.
    pub(crate) fn is_stored(&self) -> bool {
        self.traits.has(Traits::STORED)
    }

    /// Makes these the metadata of an object that goes to one client and is not kept.
    pub(crate) fn set_unstored(&mut self) {
        self.traits = Traits(self.traits.0 & !Traits::STORED.0);
    }

    /// The part of Cache-Status that describes the object.
    pub(crate) fn stored_state(&self, lifetime: &StoredLifetime, now: Instant) -> StoredState {
        StoredState {
            origin_status: if self.came_in_part() { 206 } else { self.status },
            stored: self.is_stored(),
            ttl: lifetime.ttl_seconds(now),
        }
    }

    /// The condition of a revalidation (RFC 9111 §4.3.1).
    pub(crate) fn condition(&self) -> Option<(&'static str, String)> {
        if !self.etag().is_empty() {
            return Some(("if-none-match", self.etag().to_owned()));
        }
        self.modified_text().map(|text| ("if-modified-since", text.to_owned()))
    }

    /// The strong validator (RFC 9110 §8.8.1): a strong ETag, or without any ETag a Last-Modified at least a second older
    /// than the response. Without one, bytes of two responses must not be combined (§15.3.7.3).
    fn strong_validator(&self) -> Option<&str> {
        if !self.etag().is_empty() {
            return Some(self.etag()).filter(|etag| etag.starts_with('"'));
        }
        self.modified_text().filter(|_| self.modified < self.received)
    }

    /// Whether a response has a strong validator, at `now` by the wall clock.
    pub(crate) fn has_strong_validator(answer: &dyn OriginBody, now: SystemTime) -> bool {
        match answer.field("etag") {
            Some(etag) => etag.starts_with('"'),
            None if answer.fields().contains_key("etag") => false,
            None => answer
                .field("last-modified")
                .and_then(|text| httpdate::parse_http_date(text).ok())
                .is_some_and(|modified| since_1970(modified) < since_1970(now)),
        }
    }

    /// The members of a response's Vary.
    pub(crate) fn vary_of(answer: &dyn OriginBody) -> impl Iterator<Item = &str> {
        vary(answer)
    }

    /// The If-Range of a request for a part: of another version the origin sends all (RFC 9110 §13.1.5). `None` if the
    /// object has no strong validator.
    pub(crate) fn same_version_condition(&self) -> Option<(&'static str, String)> {
        self.strong_validator().map(|validator| ("if-range", validator.to_owned()))
    }

    /// Whether the object may be fetched in parts.
    pub(crate) fn may_be_fetched_in_parts(&self) -> bool {
        self.strong_validator().is_some()
    }

    /// Whether a response is of the same version, by strong comparison (RFC 9110 §8.8.3.2).
    pub(crate) fn is_same_version(&self, answer: &dyn OriginBody) -> bool {
        let name = if self.etag().is_empty() { "last-modified" } else { "etag" };
        self.strong_validator().is_some_and(|validator| answer.field(name) == Some(validator))
    }
}

/// The freshness that another node of the cluster tells: it knows when the origin was asked, and of soft purges.
fn as_peer_says(answer: &dyn OriginBody, storage: Storage) -> Storage {
    match (storage, answer.peer()) {
        (Storage::Shared(_), Some(PeerObject { lifetime })) => {
            lifetime.map_or(Storage::Passing, Storage::Shared)
        }
        (storage, _) => storage,
    }
}

/// Whole seconds since 1970, up to 2106.
fn since_1970(time: SystemTime) -> u32 {
    u32::try_from(time.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()).unwrap_or(u32::MAX)
}

fn at(since_1970: u32) -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(since_1970.into())
}

/// A response to a request with Authorization is for that user only, unless it says otherwise (RFC 9111 §3.5).
fn personal(request: &CacheRequest<'_>, answer: &dyn OriginBody, storage: Storage) -> Storage {
    if !request.fields.iter().any(|(name, _)| name == "authorization") {
        return storage;
    }
    let says = directives(answer);
    let allowed = says.public || says.must_revalidate || says.s_maxage.is_some();
    if allowed { storage } else { Storage::Private }
}
