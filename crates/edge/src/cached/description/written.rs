//! A description as the cache writes it down for the next process, and as that reads it.
//!
//! One byte says which form this is; then come fields, each with its number, its length and its bytes. A reader passes
//! over numbers that it does not know, so that a field can be added without another form. What it cannot make sense of
//! is as good as gone.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use penstock_cache::{Describe, Key};
use penstock_http::caching::Lifetime;

use super::{Description, Fault, Freshness};
use crate::cached::audience::Audience;
use crate::cached::{Asked, HttpSite};

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
    fn encode_at(&self, out: &mut Vec<u8>, now: (Instant, SystemTime)) {
        if self.manifest.is_some() {
            // What it says would have to be read again, and it is small and soon old: a reader finds nothing here and
            // fetches it.
            return;
        }
        out.push(FORM);
        put(out, field::STATUS, &self.status.to_le_bytes());
        put(out, field::FIELDS, &self.fields);
        put(out, field::CONTENT_TYPE, self.content_type.as_bytes());
        put(out, field::ETAG, self.etag.as_bytes());
        if let Some((text, _)) = &self.modified {
            put(out, field::MODIFIED, text.as_bytes());
        }
        put(out, field::RECEIVED, &milliseconds(self.received).to_le_bytes());
        put(out, field::RANGES, &[u8::from(self.ranges)]);
        put(out, field::TARGET, self.asked.target.as_bytes());
        put(out, field::IS_MANIFEST, &[u8::from(self.asked.is_manifest)]);
        put(out, field::SITE, self.site.name.as_bytes());
        put(out, field::TAGS, self.tags.as_bytes());
        put(out, field::JUDGED, &self.judged.load(Ordering::Relaxed).to_le_bytes());
        let lines: String =
            self.asked.fields.iter().map(|(name, value)| format!("{name}:{value}\n")).collect();
        put(out, field::ASKED_WITH, lines.as_bytes());
        let Freshness { since, lifetime } = self.freshness();
        let since = now.1.checked_sub(now.0.saturating_duration_since(since)).unwrap_or(UNIX_EPOCH);
        let mut times = milliseconds(since).to_le_bytes().to_vec();
        for time in [lifetime.fresh, lifetime.age, lifetime.stale_while_revalidate, lifetime.stale_if_error] {
            times.extend_from_slice(&u64::try_from(time.as_millis()).unwrap_or(u64::MAX).to_le_bytes());
        }
        put(out, field::FRESHNESS, &times);
    }

    /// Reads what an earlier process wrote about an object of this site.
    pub(in crate::cached) fn decode(
        bytes: &[u8],
        key: &Key,
        site: &Arc<HttpSite>,
        now: (Instant, SystemTime),
    ) -> Option<Self> {
        let fields = Fields::of(bytes)?;
        if fields.text(field::SITE)? != site.name {
            return None;
        }
        let modified = match fields.text(field::MODIFIED) {
            Some(text) => {
                let time = httpdate::parse_http_date(&text).ok()?;
                Some((text, time))
            }
            None => None,
        };
        let judged = u64_of(fields.get(field::JUDGED)?)?;
        let with = fields.text(field::ASKED_WITH).unwrap_or_default();
        let with = with.lines().filter_map(|line| line.split_once(':'));
        let asked = Asked {
            key: *key,
            primary: *key,
            fields: with.map(|(name, value)| (name.to_owned(), value.to_owned())).collect(),
            passes: Arc::default(),
            moment: judged,
            target: fields.text(field::TARGET)?,
            early: false,
            is_manifest: fields.get(field::IS_MANIFEST)? == [1],
        };
        let received = Duration::from_millis(u64_of(fields.get(field::RECEIVED)?)?);
        Some(Self {
            status: u16::from_le_bytes(fields.get(field::STATUS)?.try_into().ok()?),
            fields: fields.get(field::FIELDS)?.to_vec(),
            content_type: fields.text(field::CONTENT_TYPE)?,
            etag: fields.text(field::ETAG)?,
            modified,
            received: UNIX_EPOCH.checked_add(received)?,
            ranges: fields.get(field::RANGES)? == [1],
            failed: None,
            fault: Fault::default(),
            asked,
            site: Arc::clone(site),
            stored: true,
            tags: fields.text(field::TAGS)?,
            judged: AtomicU64::new(judged),
            manifest: None,
            audience: Audience::default(),
            freshness: Mutex::new(freshness(fields.get(field::FRESHNESS)?, now)?),
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
    Some(Freshness { since: now.0, lifetime })
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

    fn text(&self, number: u8) -> Option<String> {
        Some(std::str::from_utf8(self.get(number)?).ok()?.to_owned())
    }
}

fn u64_of(bytes: &[u8]) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.try_into().ok()?))
}

fn milliseconds(time: SystemTime) -> u64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
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
            site: fields.text(field::SITE)?,
            target: fields.text(field::TARGET)?,
            status: u16::from_le_bytes(fields.get(field::STATUS)?.try_into().ok()?),
            content_type: fields.text(field::CONTENT_TYPE)?,
            etag: fields.text(field::ETAG)?,
            received: at(u64_of(fields.get(field::RECEIVED)?)?)?,
            fresh_until: at(since.saturating_add(fresh))?,
        })
    }
}

#[cfg(test)]
mod tests;
