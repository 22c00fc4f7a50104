//! A description as the cache writes it down for the next process, and as that reads it.
//!
//! One byte says which form this is; then come fields, each with its number, its length and its bytes. A reader passes
//! over numbers that it does not know, so that a field can be added without another form. What it cannot make sense of
//! is as good as gone.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use penstock_cache::Describe;
use penstock_http::caching::Lifetime;

use super::{Description, Freshness, Rare, Text, Texts, since_1970};
use crate::cached::HttpSite;
use crate::cached::audience::Audience;

/// The form that is written. A reader of another one starts anew.
const FORM: u8 = 1;

/// Numbers of the fields. A number is never used for anything else again.
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
    /// When freshness began, then fresh, age, stale-while-revalidate and stale-if-error, all in milliseconds.
    pub(super) const FRESHNESS: u8 = 11;
    pub(super) const TAGS: u8 = 12;
    /// The moment up to which purges are known not to be about it.
    pub(super) const JUDGED: u8 = 13;
    /// Fields of the request that went to the origin, each with a colon and a line end.
    pub(super) const ASKED_WITH: u8 = 14;
}

impl Describe for Description {
    fn encode(&self, out: &mut Vec<u8>) {
        self.encode_at(out, (Instant::now(), SystemTime::now()));
    }
}

impl Description {
    pub(super) fn encode_at(&self, out: &mut Vec<u8>, now: (Instant, SystemTime)) {
        if self.manifest().is_some() {
            // What it says would have to be read again, and it is small and soon old: a reader finds nothing here and
            // fetches it.
            return;
        }
        out.push(FORM);
        put(out, field::STATUS, &self.status.to_le_bytes());
        put(out, field::FIELDS, self.fields());
        put(out, field::CONTENT_TYPE, self.content_type().as_bytes());
        put(out, field::ETAG, self.etag().as_bytes());
        if let Some(text) = self.modified_text() {
            put(out, field::MODIFIED, text.as_bytes());
        }
        put(out, field::RECEIVED, &self.received.to_le_bytes());
        put(out, field::RANGES, &[u8::from(self.ranges)]);
        put(out, field::TARGET, self.target().as_bytes());
        put(out, field::IS_MANIFEST, &[u8::from(self.is_manifest)]);
        put(out, field::SITE, self.site.name.as_bytes());
        put(out, field::TAGS, self.tags().as_bytes());
        put(out, field::JUDGED, &self.judged.load(Ordering::Relaxed).to_le_bytes());
        let lines: String =
            self.asked_with().iter().map(|(name, value)| format!("{name}:{value}\n")).collect();
        put(out, field::ASKED_WITH, lines.as_bytes());
        let Freshness { since, fresh, age, stale_while_revalidate, stale_if_error } = self.freshness();
        let since = now.1.checked_sub(now.0.saturating_duration_since(since)).unwrap_or(UNIX_EPOCH);
        let times = [since_1970(since), fresh, age, stale_while_revalidate, stale_if_error];
        let times: Vec<u8> = times.into_iter().flat_map(u64::to_le_bytes).collect();
        put(out, field::FRESHNESS, &times);
    }

    /// Reads what an earlier process wrote about an object of this site.
    pub(in crate::cached) fn decode(
        bytes: &[u8],
        site: &Arc<HttpSite>,
        now: (Instant, SystemTime),
    ) -> Option<Self> {
        let fields = Fields::of(bytes)?;
        if fields.text(field::SITE)? != site.name {
            return None;
        }
        let text = |number| fields.text(number);
        let modified = text(field::MODIFIED).unwrap_or_default();
        let with = text(field::ASKED_WITH).unwrap_or_default();
        let with = with.split_terminator('\n').filter_map(|line| line.split_once(':'));
        let asked_with = with.map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
        Some(Self {
            status: u16::from_le_bytes(fields.get(field::STATUS)?.try_into().ok()?),
            ranges: fields.get(field::RANGES)? == [1],
            stored: true,
            is_manifest: fields.get(field::IS_MANIFEST)? == [1],
            texts: Texts::new([
                (Text::Fields, fields.get(field::FIELDS)?),
                (Text::Target, text(field::TARGET)?.as_bytes()),
                (Text::Tags, text(field::TAGS)?.as_bytes()),
                (Text::ContentType, text(field::CONTENT_TYPE)?.as_bytes()),
                (Text::Etag, text(field::ETAG)?.as_bytes()),
                (Text::Modified, modified.as_bytes()),
            ]),
            modified: match modified {
                "" => 0,
                text => since_1970(httpdate::parse_http_date(text).ok()?),
            },
            received: u64_of(fields.get(field::RECEIVED)?)?,
            site: Arc::clone(site),
            judged: AtomicU64::new(u64_of(fields.get(field::JUDGED)?)?),
            audience: Audience::default(),
            freshness: Mutex::new(freshness(fields.get(field::FRESHNESS)?, now)?),
            rare: Rare { asked_with, ..Rare::default() }.kept(),
        })
    }
}

/// What is left of a freshness: time went on while nobody looked.
fn freshness(bytes: &[u8], now: (Instant, SystemTime)) -> Option<Freshness> {
    let mut times = bytes.chunks_exact(8).map(u64_of);
    let mut next = || times.next().flatten();
    let since = UNIX_EPOCH.checked_add(Duration::from_millis(next()?))?;
    let mut time = || next().map(Duration::from_millis);
    let (fresh, age) = (time()?, time()?);
    let (stale_while_revalidate, stale_if_error) = (time()?, time()?);
    // A clock that went back tells nothing about how old it is: then it is asked for again.
    let held = now.1.duration_since(since).unwrap_or(fresh);
    let left = fresh.saturating_sub(held);
    let beyond = |grace: Duration| fresh.saturating_add(grace).saturating_sub(held).saturating_sub(left);
    let lifetime = Lifetime {
        fresh: left,
        age: age.saturating_add(held),
        stale_while_revalidate: beyond(stale_while_revalidate),
        stale_if_error: beyond(stale_if_error),
    };
    Some(Freshness::new(now.0, &lifetime))
}

fn put(out: &mut Vec<u8>, number: u8, bytes: &[u8]) {
    out.push(number);
    out.extend_from_slice(&u32::try_from(bytes.len()).unwrap_or(u32::MAX).to_le_bytes());
    out.extend_from_slice(bytes);
}

/// The fields of a description.
struct Fields<'b>(Vec<(u8, &'b [u8])>);

impl<'b> Fields<'b> {
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

/// What is written about an object, for people: its site and target, status and when it came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WrittenObject {
    /// The origin server that the site names first, which tells its objects from those of others.
    pub site: String,
    /// Path and query.
    pub target: String,
    /// Status code of the answer.
    pub status: u16,
    /// Content-Type of the answer; may be empty.
    pub content_type: String,
    /// ETag of the answer; may be empty.
    pub etag: String,
    /// When the answer came.
    pub received: SystemTime,
    /// How long it was fresh from then on, or from the moment that it was last confirmed.
    pub fresh_until: SystemTime,
}

impl WrittenObject {
    /// Reads what [`Describe::encode`] wrote.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let fields = Fields::of(bytes)?;
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
