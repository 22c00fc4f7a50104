//! The metadata of an object: the head of the response it came with, and until when it is fresh.

#[cfg(feature = "fuzz")]
pub(crate) mod fuzz;
mod head;
mod packed_lines;
mod rare;
mod stored;
mod texts;
mod unix_time;
mod validators;
#[cfg(test)]
mod weight;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use once_cell::race::OnceBox;
use penstock_config::limits;
use penstock_http::Fields;
use penstock_http::caching::{Directives, Lifetime, Storage, updated_fields};
use penstock_http::manifest::Manifest;
use penstock_http::types::is_compressible_response;

use crate::cache_status::StoredState;
use crate::clock::Moment;
use crate::fault::FillFault;
use crate::lifetime::{Freshness, SharedLifetime, StoredLifetime};
use crate::object::readers::ReaderThrottle;
use crate::origins::{OriginBody, PeerObject};
use crate::site::{BodyKind, CacheRequest, HttpSite, OwnWords, is_same_variant};

use head::{directives, fields_of, storage, tags, updated_storage, vary};
use packed_lines::{PackedLines, pack};
use rare::Rare;
pub use stored::StoredObject;
use texts::{TextParts, Texts};
use unix_time::since_1970;
use validators::has_strong_date;

/// The metadata of one version of an object. There is one for each object in the index, so values that few objects have
/// are kept in `rare`.
pub(crate) struct ObjectMetadata {
    /// Status code.
    pub(crate) status: u16,
    traits: Traits,
    /// The place of the server that gave the head among those of the origin, from 1; 0 if it is not known.
    server: u8,
    texts: Texts,
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
    /// Last-Modified is a strong validator.
    const STRONG_DATE: Self = Self(8);
    /// The body ended with its connection, which proves no end: the response was not kept for that.
    const UNPROVEN: Self = Self(16);
    /// The response is text that may be sent compressed.
    const COMPRESSIBLE: Self = Self(32);
    /// Another node of the cluster gave the head.
    const OF_NODE: Self = Self(64);

    fn with(self, other: Self, is_true: bool) -> Self {
        if is_true { Self(self.0 | other.0) } else { self }
    }

    fn has(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }
}

/// What a 304 means for the stored response that it was asked about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Validation {
    /// The response is current. Its metadata have been updated.
    Confirmed,
    /// The 304 is for one client only.
    Unshared,
    /// The 304 is about another version or variant than the stored one.
    OtherVersion,
}

/// Fields of an object, packed.
pub(crate) enum FieldLines<'m> {
    /// As they were stored.
    Stored(PackedLines<'m>),
    /// As a 304 has updated them.
    Updated(Arc<Vec<u8>>),
}

impl FieldLines<'_> {
    fn packed(&self) -> PackedLines<'_> {
        match self {
            Self::Stored(lines) => *lines,
            Self::Updated(lines) => PackedLines(lines),
        }
    }

    /// Whether there is a field of this name, in lowercase letters.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.packed().has(name)
    }

    /// Appends the fields without those of the names `left_out`.
    pub(crate) fn write(&self, fields: &mut Fields, left_out: &[&str]) {
        self.packed().write(fields, left_out);
    }

    /// The fields as the origin sent them.
    pub(crate) fn unpacked(&self) -> Fields {
        let mut fields = Fields::new();
        self.write(&mut fields, &[]);
        fields
    }
}

/// Whether a response may be sent in a content coding. One with a digest of its content is left alone: the digest is of these
/// bytes.
fn is_compressible(status: u16, parts: &TextParts<'_>) -> bool {
    status == 200 && is_compressible_response(parts.content_type, parts.target) && allows_coding(parts.fields)
}

fn allows_coding(fields: &Fields) -> bool {
    const OTHER_BYTES: [&str; 5] =
        ["content-encoding", "content-digest", "repr-digest", "digest", "content-md5"];
    let directives = fields.iter().filter(|(name, _)| name.eq_ignore_ascii_case(b"cache-control"));
    !OTHER_BYTES.iter().any(|name| fields.has(name))
        && !Directives::parse(directives.map(|(_, value)| value)).no_transform
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
        let is_unproven = matches!(storage, Storage::Shared(_)) && !answer.proves_completeness();
        let storage = if is_unproven { Storage::Passing } else { storage };
        let lifetime = match storage {
            Storage::Shared(lifetime) => lifetime,
            Storage::Private | Storage::Passing => NEVER_FRESH,
        };
        let text = |name| answer.field(name).unwrap_or_default();
        let modified = text("last-modified");
        let parts = TextParts {
            fields: &fields_of(answer),
            target: &request.target,
            tags: &tags(answer),
            content_type: text("content-type"),
            etag: text("etag"),
            modified: if httpdate::parse_http_date(modified).is_ok() { modified } else { "" },
            received: since_1970(now.1),
        };
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
                .with(Traits::MANIFEST, request.is_manifest)
                .with(Traits::STRONG_DATE, has_strong_date(answer, now.1))
                .with(Traits::UNPROVEN, is_unproven)
                .with(Traits::COMPRESSIBLE, is_compressible(status, &parts))
                .with(Traits::OF_NODE, answer.peer().is_some()),
            server: answer.server().map_or(0, |server| u8::try_from(server.index() + 1).unwrap_or(0)),
            texts: Texts::new(&parts),
            site: Arc::clone(site),
            judged: AtomicU64::new(request.stamp),
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
            server: 0,
            texts: Texts::new(&TextParts { received: since_1970(now.1), ..TextParts::default() }),
            site: Arc::clone(site),
            judged: AtomicU64::new(request.stamp),
            readers: ReaderThrottle::default(),
            lifetime: SharedLifetime::new(&StoredLifetime::new(now.0, &NEVER_FRESH)),
            rare: Rare { failure: Some(fault), ..Rare::default() }.kept(),
        }
    }

    /// Whether the origin answered a request for a part with a part.
    pub(crate) fn came_in_part(&self) -> bool {
        self.traits.has(Traits::RANGES)
    }

    /// Whether another node of the cluster gave the head.
    pub(crate) fn came_from_node(&self) -> bool {
        self.traits.has(Traits::OF_NODE)
    }

    /// Fields for the client, as lines.
    pub(crate) fn fields(&self) -> FieldLines<'_> {
        match self.updated() {
            Some(updated) => FieldLines::Updated(updated),
            None => FieldLines::Stored(self.texts.lines()),
        }
    }

    /// Whether a 304 has updated the fields.
    pub(crate) fn is_updated(&self) -> bool {
        self.rare.get().is_some_and(|rare| rare.updated_fields.load().is_some())
    }

    /// The fields as the last 304 has updated them, packed.
    pub(crate) fn updated(&self) -> Option<Arc<Vec<u8>>> {
        self.rare.get()?.updated_fields.load_full()
    }

    /// Whether no 304 has updated the fields since they were these.
    pub(crate) fn is_updated_as(&self, known: Option<&Arc<Vec<u8>>>) -> bool {
        match (self.rare.get().map(|rare| rare.updated_fields.load()).as_deref(), known) {
            (Some(Some(updated)), Some(known)) => Arc::ptr_eq(updated, known),
            (updated, known) => updated.is_none_or(Option::is_none) && known.is_none(),
        }
    }

    /// Content-Type; empty if there is none.
    pub(crate) fn content_type(&self) -> &str {
        self.texts.content_type()
    }

    /// Path and query that the origin was asked for.
    pub(crate) fn target(&self) -> &str {
        self.texts.target()
    }

    /// Tags for purges, separated by spaces.
    pub(crate) fn tags(&self) -> &str {
        self.texts.tags()
    }

    /// Fields of the request that went to the origin.
    pub(crate) fn request_fields(&self) -> &[(String, String)] {
        self.rare.get().map_or(&[], |rare| &rare.request_fields)
    }

    /// Names of request fields that the response varies by.
    pub(crate) fn varies_by(&self) -> &[String] {
        self.rare.get().map_or(&[], |rare| &rare.varies_by)
    }

    /// The members of a response's Vary.
    pub(crate) fn vary_of(answer: &dyn OriginBody) -> impl Iterator<Item = &str> {
        vary(answer)
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

    /// The words of a client that the response may be about. It is for clients with the same words only.
    pub(crate) fn own_words(&self) -> Option<&OwnWords> {
        self.rare.get()?.own_words.get()
    }

    /// Makes the response one for clients with these words, which is not kept.
    pub(crate) fn set_own_words(&mut self, words: OwnWords) {
        self.set_unstored();
        // It was not set before: each response is read once.
        drop(self.rare.get_or_init(Box::default).own_words.set(words));
    }

    /// Why there is no response, if the object stands for an origin that failed.
    pub(crate) fn failed(&self) -> Option<FillFault> {
        self.rare.get()?.failure
    }

    /// Makes the object stale at `now`.
    pub(crate) fn make_stale(&self, now: Instant) {
        self.lifetime.end(now);
    }

    /// The stamp up to which no purge concerns the object: that of its request, or a later one.
    pub(crate) fn unpurged_until(&self) -> u64 {
        self.judged.load(Ordering::Relaxed)
    }

    /// Why the last fill of this slice failed.
    pub(crate) fn fault_of(&self, slice: u32) -> Option<FillFault> {
        self.rare.get()?.fault_of(slice)
    }

    /// Records why the fill of a slice failed. Called before the slice's readers see that it failed, so that each of
    /// them is told the fault of the fill it followed.
    pub(crate) fn set_fault(&self, slice: u32, fault: FillFault) {
        self.rare.get_or_init(Box::default).set_fault(slice, fault);
    }

    /// Takes in a 304 of the origin (RFC 9111 §4.3.4) to a request: fields, age and freshness. Takes in nothing unless the
    /// 304 confirms this version, for all clients that it was for before.
    #[must_use]
    pub(crate) fn confirm(
        &self,
        answer: &dyn OriginBody,
        request: &CacheRequest<'_>,
        now: Moment,
    ) -> Validation {
        // What selects is stored with the body, so a response that begins to vary is fetched with its body.
        let selects = |name: &str| {
            let name = name.to_ascii_lowercase();
            request.forwarded.contains(&name) && !self.varies_by().contains(&name)
        };
        if self.is_contradicted_by(answer) || vary(answer).any(selects) {
            return Validation::OtherVersion;
        }
        let kind = self.manifest().cloned().map_or(BodyKind::Other, BodyKind::Manifest);
        let bounds = self.site.bounds(self.status, self.target(), &kind, now.0);
        let stored = self.fields().unpacked();
        let updated = updated_fields(&stored, &fields_of(answer));
        let storage = as_peer_says(answer, updated_storage(&updated, answer, self.status, &bounds, now.1));
        if storage == Storage::Private {
            return Validation::Unshared;
        }
        self.judged.fetch_max(request.stamp, Ordering::Relaxed);
        if updated != stored {
            self.rare.get_or_init(Box::default).updated_fields.store(Some(Arc::new(pack(&updated))));
        }
        if let Storage::Shared(lifetime) = storage {
            self.lifetime.set(&StoredLifetime::new(now.0, &lifetime));
        }
        Validation::Confirmed
    }

    /// Memory outside of the metadata themselves, in bytes.
    fn heap_size(&self) -> usize {
        self.texts.len() + self.rare.get().map_or(0, Rare::heap_size)
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

    /// The same, or within the `grace` of its site.
    pub(crate) fn may_replace_a_failure(&self, grace: Duration, now: Instant) -> bool {
        let lifetime = self.lifetime.get();
        lifetime.may_replace_an_error(now)
            || (!grace.is_zero() && lifetime.is_stale_for_less_than(grace, now))
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

    /// Whether the object is text that clients may get compressed: kept, in no coding, and its origin allows it.
    pub(crate) fn is_compressible(&self) -> bool {
        let may = self.traits.has(Traits::COMPRESSIBLE) && self.is_stored();
        may && (!self.is_updated() || allows_coding(&self.fields().unpacked()))
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
            unproven: self.traits.has(Traits::UNPROVEN),
            ttl: lifetime.ttl_seconds(now),
        }
    }
}

/// The freshness that another node of the cluster tells: it knows when the origin was asked, and of soft purges.
fn as_peer_says(answer: &dyn OriginBody, storage: Storage) -> Storage {
    match (storage, answer.peer()) {
        (Storage::Shared(_), Some(PeerObject { lifetime, .. })) => {
            lifetime.map_or(Storage::Passing, Storage::Shared)
        }
        (storage, _) => storage,
    }
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
