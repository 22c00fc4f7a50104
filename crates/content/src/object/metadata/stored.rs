//! The stored form of an object's metadata, for the next process.
//!
//! One byte is the version of the format. Then come fields, each with its number (1 byte), its length (4 bytes, little
//! endian) and its bytes. A reader skips numbers that it does not know, so that fields can be added. An object with
//! metadata that cannot be read is fetched again.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use penstock_cache::Metadata;
use penstock_http::Fields;
use penstock_http::caching::Lifetime;

use super::rare::Rare;
use super::texts::{TextParts, Texts};
use super::{ObjectMetadata, Traits, is_compressible};
use crate::lifetime::{Freshness, SharedLifetime, StoredLifetime, milliseconds};
use crate::object::readers::ReaderThrottle;
use crate::site::HttpSite;

/// The version of the format. Metadata of another version are not read.
const FORM: u8 = 1;

/// Numbers of the fields. A number is never used again for another field.
mod field {
    pub(super) const STATUS: u8 = 1;
    pub(super) const FIELDS: u8 = 2;
    pub(super) const CONTENT_TYPE: u8 = 3;
    pub(super) const ETAG: u8 = 4;
    pub(super) const MODIFIED: u8 = 5;
    pub(super) const RECEIVED: u8 = 6;
    pub(super) const RANGES: u8 = 7;
    pub(super) const TARGET: u8 = 8;
    pub(super) const IS_MANIFEST: u8 = 9;
    pub(super) const SITE: u8 = 10;
    /// Start of the freshness lifetime, then fresh, age, stale-while-revalidate and stale-if-error, all in milliseconds.
    pub(super) const FRESHNESS: u8 = 11;
    pub(super) const TAGS: u8 = 12;
    /// The moment up to which purges are known not to concern the object.
    pub(super) const JUDGED: u8 = 13;
    /// Fields of the request that went to the origin, each with a colon and a line end.
    pub(super) const REQUEST_FIELDS: u8 = 14;
    /// Names of request fields that the response varies by, each with a line end.
    pub(super) const VARIES_BY: u8 = 15;
    /// Whether Last-Modified is a strong validator. Processes that judged it by their own clock have not said.
    pub(super) const STRONG_DATE: u8 = 16;
}

impl Metadata for ObjectMetadata {
    fn encode(&self, out: &mut Vec<u8>) {
        self.encode_at(out, (Instant::now(), SystemTime::now()));
    }

    fn heap_bytes(&self) -> usize {
        self.heap_size()
    }

    fn is_stale(&self) -> bool {
        self.freshness(Instant::now()) == Freshness::Expired
    }
}

impl ObjectMetadata {
    pub(super) fn encode_at(&self, out: &mut Vec<u8>, now: (Instant, SystemTime)) {
        if self.manifest().is_some() {
            // A manifest is small and soon stale: the next process fetches it again instead of parsing it.
            return;
        }
        out.push(FORM);
        put(out, field::STATUS, &self.status.to_le_bytes());
        put(out, field::FIELDS, &self.fields().unpacked().to_lines());
        put(out, field::CONTENT_TYPE, self.content_type().as_bytes());
        put(out, field::ETAG, self.etag().as_bytes());
        if let Some(text) = self.modified_text() {
            put(out, field::MODIFIED, text.as_bytes());
        }
        put(out, field::RECEIVED, &(1000 * u64::from(self.texts.received())).to_le_bytes());
        put(out, field::RANGES, &[u8::from(self.came_in_part())]);
        put(out, field::TARGET, self.target().as_bytes());
        put(out, field::IS_MANIFEST, &[u8::from(self.traits.has(Traits::MANIFEST))]);
        put(out, field::SITE, self.site.name.as_bytes());
        put(out, field::TAGS, self.tags().as_bytes());
        put(out, field::JUDGED, &self.judged.load(Ordering::Relaxed).to_le_bytes());
        let lines: String =
            self.request_fields().iter().map(|(name, value)| format!("{name}:{value}\n")).collect();
        put(out, field::REQUEST_FIELDS, lines.as_bytes());
        let names: String = self.varies_by().iter().flat_map(|name| [name, "\n"]).collect();
        put(out, field::VARIES_BY, names.as_bytes());
        put(out, field::STRONG_DATE, &[u8::from(self.has_strong_date())]);
        let lifetime = self.lifetime();
        let StoredLifetime { fresh, age, stale_while_revalidate, stale_if_error, .. } = lifetime;
        let resident = Duration::from_millis(lifetime.resident(now.0));
        let since = now.1.checked_sub(resident).unwrap_or(UNIX_EPOCH);
        let since = milliseconds(since.duration_since(UNIX_EPOCH).unwrap_or_default());
        let times = [since, fresh, age, stale_while_revalidate, stale_if_error];
        let times: Vec<u8> = times.into_iter().flat_map(u64::to_le_bytes).collect();
        put(out, field::FRESHNESS, &times);
    }

    /// Reads the metadata that an earlier process stored for an object of this site.
    pub(crate) fn decode(bytes: &[u8], site: &Arc<HttpSite>, now: (Instant, SystemTime)) -> Option<Self> {
        let fields = StoredFields::of(bytes)?;
        if fields.text(field::SITE)? != site.name {
            return None;
        }
        let text = |number| fields.text(number);
        let modified = text(field::MODIFIED).unwrap_or_default();
        if !modified.is_empty() && httpdate::parse_http_date(modified).is_err() {
            return None;
        }
        let with = text(field::REQUEST_FIELDS).unwrap_or_default();
        let with = with.split_terminator('\n').filter_map(|line| line.split_once(':'));
        let request_fields = with.map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
        let varies_by = text(field::VARIES_BY).unwrap_or_default();
        let varies_by = varies_by.split_terminator('\n').map(str::to_owned).collect();
        let status = u16::from_le_bytes(fields.get(field::STATUS)?.try_into().ok()?);
        let parts = TextParts {
            fields: &Fields::from_lines(fields.get(field::FIELDS)?)?,
            target: text(field::TARGET)?,
            tags: text(field::TAGS)?,
            content_type: text(field::CONTENT_TYPE)?,
            etag: text(field::ETAG)?,
            modified,
            received: u32::try_from(u64_of(fields.get(field::RECEIVED)?)? / 1000).unwrap_or(u32::MAX),
        };
        Some(Self {
            status,
            traits: Traits::STORED
                .with(Traits::RANGES, fields.get(field::RANGES)? == [1])
                .with(Traits::MANIFEST, fields.get(field::IS_MANIFEST)? == [1])
                .with(Traits::STRONG_DATE, fields.get(field::STRONG_DATE) == Some(&[1]))
                .with(Traits::COMPRESSIBLE, is_compressible(status, &parts)),
            server: 0,
            texts: Texts::new(&parts),
            site: Arc::clone(site),
            judged: AtomicU64::new(u64_of(fields.get(field::JUDGED)?)?),
            readers: ReaderThrottle::default(),
            lifetime: SharedLifetime::new(&lifetime(fields.get(field::FRESHNESS)?, now)?),
            rare: Rare { request_fields, varies_by, ..Rare::default() }.kept(),
        })
    }
}

/// The rest of a freshness lifetime: time went on between the two processes.
fn lifetime(bytes: &[u8], now: (Instant, SystemTime)) -> Option<StoredLifetime> {
    let mut times = bytes.chunks_exact(8).map(u64_of);
    let mut next = || times.next().flatten();
    let since = UNIX_EPOCH.checked_add(Duration::from_millis(next()?))?;
    let mut time = || next().map(Duration::from_millis);
    let (fresh, age) = (time()?, time()?);
    let (stale_while_revalidate, stale_if_error) = (time()?, time()?);
    let held = match now.1.duration_since(since) {
        Ok(held) => held,
        // `since` was rounded to milliseconds.
        Err(ahead) if ahead.duration() <= Duration::from_millis(1) => Duration::ZERO,
        // A clock that was set back does not tell the age: the object counts as stale.
        Err(_) => fresh,
    };
    let left = fresh.saturating_sub(held);
    let beyond = |grace: Duration| fresh.saturating_add(grace).saturating_sub(held).saturating_sub(left);
    let lifetime = Lifetime {
        fresh: left,
        age: age.saturating_add(held),
        stale_while_revalidate: beyond(stale_while_revalidate),
        stale_if_error: beyond(stale_if_error),
    };
    Some(StoredLifetime::new(now.0, &lifetime))
}

fn put(out: &mut Vec<u8>, number: u8, bytes: &[u8]) {
    out.push(number);
    out.extend_from_slice(&u32::try_from(bytes.len()).unwrap_or(u32::MAX).to_le_bytes());
    out.extend_from_slice(bytes);
}

/// The fields of stored metadata.
struct StoredFields<'b>(Vec<(u8, &'b [u8])>);

impl<'b> StoredFields<'b> {
    fn of(bytes: &'b [u8]) -> Option<Self> {
        let (form, mut rest) = bytes.split_first()?;
        if *form != FORM {
            return None;
        }
        let mut fields = Vec::with_capacity(16);
        while let Some((number, after)) = rest.split_first() {
            let (length, after) = after.split_first_chunk::<4>()?;
            let (field, after) = after.split_at_checked(u32::from_le_bytes(*length) as usize)?;
            fields.push((*number, field));
            rest = after;
        }
        Some(Self(fields))
    }

    fn get(&self, number: u8) -> Option<&'b [u8]> {
        self.0.iter().find(|(known, _)| *known == number).map(|(_, bytes)| *bytes)
    }

    fn text(&self, number: u8) -> Option<&'b str> {
        std::str::from_utf8(self.get(number)?).ok()
    }
}

fn u64_of(bytes: &[u8]) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.try_into().ok()?))
}

/// Stored metadata for people: site and target, status, and when the response came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredObject {
    /// The first origin server of the site, which distinguishes its objects from those of others.
    pub site: String,
    /// Path and query.
    pub target: String,
    /// Status code.
    pub status: u16,
    /// Content-Type; may be empty.
    pub content_type: String,
    /// ETag; may be empty.
    pub etag: String,
    /// When the response came.
    pub received: SystemTime,
    /// Until when the response is fresh, counted from its arrival or its last revalidation.
    pub fresh_until: SystemTime,
}

impl StoredObject {
    /// Reads the output of [`Metadata::encode`].
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let fields = StoredFields::of(bytes)?;
        let freshness = fields.get(field::FRESHNESS)?;
        let (since, fresh) = (u64_of(freshness.get(..8)?)?, u64_of(freshness.get(8..16)?)?);
        let at = |milliseconds| UNIX_EPOCH.checked_add(Duration::from_millis(milliseconds));
        Some(Self {
            site: fields.text(field::SITE)?.to_owned(),
            target: fields.text(field::TARGET)?.to_owned(),
            status: u16::from_le_bytes(fields.get(field::STATUS)?.try_into().ok()?),
            content_type: fields.text(field::CONTENT_TYPE)?.to_owned(),
            etag: fields.text(field::ETAG)?.to_owned(),
            received: at(u64_of(fields.get(field::RECEIVED)?)?)?,
            fresh_until: at(since.saturating_add(fresh))?,
        })
    }
}

#[cfg(test)]
mod tests;
