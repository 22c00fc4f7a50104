//! Fills: tasks that bring bytes from an origin into the cache. They belong to nobody's connection.

use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Instant, SystemTime};

use penstock_cache::{Object, SliceFill};
use penstock_config::limits;
use penstock_http::caching::Storage;
use penstock_origin::http::{Answer, Fetch, OriginError};
use tokio::time::timeout;

use super::find::{Announce, Outcome, Search};
use super::flow::{Asking, Carriage, flow};
use super::live::Reading;
use super::manifest::Arriving;
use super::pour::{missing, pour, pour_all, slices_of, window};
use super::{Description, Store};
use crate::worker::Worker;

/// The moment something came, on both clocks.
type Now = (Instant, SystemTime);

impl Search {
    /// Finds out what an object is, tells whoever waits, and fills what comes with it.
    pub(super) async fn fetch_object(self, announce: Announce, stale: Option<Arc<Object<Description>>>) {
        let (announce, stale) = match stale {
            Some(stale) => (announce, Some(stale)),
            None if self.held.is_some() => (announce, None),
            None => match self.recall(announce).await {
                Ok(()) => return,
                Err(missed) => missed,
            },
        };
        let shard = &self.worker.shard;
        let last = self.first_bytes() - 1;
        let whole = self.asked.is_manifest || self.store.unsteady.has(&self.asked.key, Instant::now());
        let mut fetch = Fetch {
            early: self.asked.early,
            range: (!whole).then_some((0, last)),
            known: stale.as_ref().and_then(|object| object.description().condition()),
            ..Fetch::get(self.held.as_ref().map_or(&self.asked.target, |held| &held.target))
        };
        pass_fields(&self.asked.fields, &mut fetch);
        let mut fetched = self.ask(&fetch).await;
        if fetched.as_ref().is_ok_and(has_unknown_end) {
            // A part of what is still being made does not tell where that ends; all of it does.
            drop(fetched);
            fetch.range = None;
            fetched = self.ask(&fetch).await;
        }
        let now = (Instant::now(), SystemTime::now());
        if let (Ok(answer), Some(object)) = (&fetched, &stale)
            && answer.status() == 304
        {
            shard.origin("not_modified");
            object.description().confirm(answer, self.asked.moment, now);
            announce.keep(object, Outcome::Revalidated);
            return;
        }
        let fetched = match fetched {
            Ok(answer) => Arriving::look(answer, &self.asked.target).await,
            Err(error) => Err(error),
        };
        let failed = fetched.as_ref().map_or(true, |arriving| arriving.answer.status() >= 500);
        let substitute =
            stale.as_ref().filter(|object| failed && object.description().may_replace_an_error(now.0));
        match (fetched, substitute) {
            (fetched, Some(object)) => {
                shard.origin(fetched.err().map_or("server_error", OriginError::label));
                announce.share(object, Outcome::StaleIfError);
            }
            (Err(error), None) => {
                shard.origin(error.label());
                announce.share(&self.failure(error, now), Outcome::Miss);
            }
            (Ok(arriving), None) => {
                let outcome = if stale.is_some() { Outcome::Replaced } else { Outcome::Miss };
                self.take_in(arriving, announce, outcome, now).await;
            }
        }
    }

    async fn ask(&self, fetch: &Fetch) -> Result<Answer<'_>, OriginError> {
        let coming = self.worker.origins.fetch(&self.site.origin, fetch);
        match &self.held {
            Some(held) => timeout(held.longest, coming).await.unwrap_or(Err(OriginError::Timeout)),
            None => coming.await,
        }
    }

    async fn take_in(&self, mut arriving: Arriving<'_>, announce: Announce, outcome: Outcome, now: Now) {
        let shard = &self.worker.shard;
        let slice_bytes = u64::from(self.store.tier.slice_bytes());
        let asked_bytes = self.first_bytes();
        let Some(length) = whole_length(&arriving.answer, arriving.length, asked_bytes) else {
            shard.origin(OriginError::Malformed.label());
            announce.share(&self.failure(OriginError::Malformed, now), outcome);
            return;
        };
        shard.origin("answered");
        if let Some(kind) = arriving.reading.label() {
            shard.manifest(kind);
        }
        let reading = std::mem::replace(&mut arriving.reading, Reading::Other);
        let (asked, gone) = self.store.variants.learn(&self.asked, &self.site.name, vary(&arriving.answer));
        if let Some(gone) = gone {
            self.store.index.forget(&gone, &self.store.tier);
        }
        let (description, storage) = Description::read(&arriving.answer, &asked, &self.site, reading, now);
        if let Some(manifest) = description.manifest() {
            self.site.learn(&self.asked.target, manifest);
        }
        if self.in_advance {
            description.audience.mark_segment(&self.store.prefetches);
        }
        let coming = length.map(|length| if description.ranges { length.min(asked_bytes) } else { length });
        let slices = slices_of(slice_bytes, coming);
        let object = Object::new(&asked.key, description, length, Arc::clone(&self.store.tier));
        if storage == Storage::Private && asked.key == self.asked.key && self.wants_all {
            let (inlet, flow) = flow();
            announce.alone(&object, Some(flow));
            let carriage = Carriage { worker: &self.worker, object: &object, inlet, asking: Asking::Get };
            if let Err(reason) = carriage.carry(arriving).await {
                note_fault(&self.worker, &self.store, &object, reason);
            }
            return;
        }
        // Before anybody else can see the object: what this answer brings is ours to fill.
        let fills = missing(&object, 0..slices);
        match storage {
            storage if asked.key != self.asked.key => {
                if matches!(storage, Storage::Shared(_)) {
                    self.store.index.put(&object, |_| true);
                }
                announce.elsewhere(&object, outcome);
            }
            Storage::Shared(_) if self.held.is_some() => {
                self.keep_if_newer(&object);
                announce.share(&object, outcome);
            }
            Storage::Shared(_) => announce.keep(&object, outcome),
            Storage::Passing => announce.share(&object, outcome),
            Storage::Private => announce.alone(&object, None),
        }
        let poured = pour_all(&self.worker, arriving, &object, fills).await;
        if let Err(reason) = poured {
            shard.origin(reason);
            object.description().set_fault(reason);
            if length.is_none() {
                // Nobody knows how long it would have been: it cannot be mended, only fetched again.
                self.store.index.forget_version(&asked.key, &object);
            }
        }
    }

    /// How much the first request for an object asks for: whoever wants all of it gets the first slices in one answer.
    fn first_bytes(&self) -> u64 {
        let slices = if self.wants_all { window(self.store.tier.slices_max()) } else { 1 };
        u64::from(slices) * u64::from(self.store.tier.slice_bytes())
    }

    /// What stands for an origin that did not answer.
    fn failure(&self, error: OriginError, now: Now) -> Arc<Object<Description>> {
        let status = match (error, &self.held) {
            // Held back for too long (RFC 8216bis §6.2.5.2): the player asks again.
            (OriginError::Timeout, Some(_)) | (OriginError::Busy, _) => 503,
            (OriginError::Timeout, None) => 504,
            _ => 502,
        };
        let description = Description::failure(status, error.label(), &self.asked, &self.site, now);
        Object::new(&self.asked.key, description, Some(0), Arc::clone(&self.store.tier))
    }
}

fn pass_fields(fields: &[(String, String)], fetch: &mut Fetch) {
    for (name, value) in fields {
        fetch.pass(name, value.as_bytes());
    }
}

/// What an answer says it differs by.
fn vary<'a>(answer: &'a Answer<'_>) -> impl Iterator<Item = &'a str> {
    let values = answer.fields().get_all("vary").iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|list| list.split(',')).map(str::trim)
}

/// The length of the whole object; `Some(None)` while only its end will tell, `None` if the answer makes no sense.
/// `body` is the length of the body when it began, if it was known or is by now.
pub(super) fn whole_length(answer: &Answer<'_>, body: Option<u64>, slice: u64) -> Option<Option<u64>> {
    if answer.status() != 206 {
        return Some(body).filter(|length| length.is_none_or(|length| length <= limits::OBJECT_BYTES_MAX));
    }
    let (first, last, total) = content_range(answer, body)?;
    let complete = first == 0 && last < slice && last + 1 == slice.min(total);
    (complete && total <= limits::OBJECT_BYTES_MAX).then_some(Some(total))
}

/// Whether the answer is a range of something whose length the origin does not know either (RFC 9110 §14.4).
fn has_unknown_end(answer: &Answer<'_>) -> bool {
    let range = answer.field("content-range").filter(|_| answer.status() == 206);
    range.is_some_and(|range| range.starts_with("bytes ") && range.ends_with("/*"))
}

/// First byte, last byte and whole length by Content-Range (RFC 9110 §14.4), if the body can be as long as it says.
fn content_range(answer: &Answer<'_>, body: Option<u64>) -> Option<(u64, u64, u64)> {
    let range = answer.field("content-range")?.strip_prefix("bytes ")?;
    let (range, total) = range.split_once('/')?;
    let (first, last) = range.split_once('-')?;
    let (first, last, total): (u64, u64, u64) =
        (first.parse().ok()?, last.parse().ok()?, total.parse().ok()?);
    let fits = first <= last && last < total && body.is_none_or(|length| length == last - first + 1);
    fits.then_some((first, last, total))
}

/// Fills one slice of an object that is known.
pub(super) async fn fetch_slice(worker: &Rc<Worker>, store: &Store, fill: SliceFill<Description>) {
    let Err(fill) = fill.from_disk().await else { return };
    let object = Arc::clone(fill.object());
    if let Err(reason) = try_slice(worker, &object, fill).await {
        note_fault(worker, store, &object, reason);
    }
}

/// The object is not any more what it was when it was found.
pub(super) const CHANGED: &str = "changed";

/// Remembers why no more of an object came.
fn note_fault(worker: &Worker, store: &Store, object: &Arc<Object<Description>>, reason: &'static str) {
    worker.shard.origin(reason);
    let description = object.description();
    description.set_fault(reason);
    if reason == CHANGED {
        let age = description.received().elapsed().unwrap_or_default();
        store.unsteady.changed(object.key(), age, Instant::now());
        store.index.forget_version(object.key(), object);
    }
}

async fn try_slice(
    worker: &Rc<Worker>,
    object: &Arc<Object<Description>>,
    fill: SliceFill<Description>,
) -> Result<(), &'static str> {
    let slice_bytes = u64::from(object.slice_bytes());
    let first = u64::from(fill.slice()) * slice_bytes;
    let wanted = first..first + u64::from(object.slice_length(fill.slice()));
    let (answer, from) = ask_for(worker, object, wanted).await?;
    if answer.status() == 206 {
        return pour(worker, Arriving::unread(answer), object, vec![fill], from).await;
    }
    // It ignores Range: whatever passes by and is missing is taken along.
    let number = fill.slice();
    let mut fills = missing(object, 0..number);
    fills.push(fill);
    fills.extend(missing(object, number + 1..slices_of(slice_bytes, object.length())));
    pour(worker, Arriving::unread(answer), object, fills, from).await
}

/// Asks for bytes of an object that is known. Says at which byte of it the answer begins: at the first of these, or at
/// its own first if the origin ignores Range.
pub(super) async fn ask_for<'w>(
    worker: &'w Worker,
    object: &Object<Description>,
    wanted: Range<u64>,
) -> Result<(Answer<'w>, u64), &'static str> {
    let description = object.description();
    let (first, last) = (wanted.start, wanted.end - 1);
    let mut fetch = Fetch {
        range: Some((first, last)),
        known: description.same_version_condition(),
        ..Fetch::get(description.target())
    };
    pass_fields(description.asked_with(), &mut fetch);
    let answer = worker.origins.fetch(&description.site.origin, &fetch).await.map_err(OriginError::label)?;
    match answer.status() {
        206 => {
            let (got_first, got_last, total) =
                content_range(&answer, answer.length()).ok_or_else(|| OriginError::Malformed.label())?;
            if Some(total) != object.length() || !description.is_same_version(&answer) {
                return Err(CHANGED);
            }
            if (got_first, got_last) != (first, last) {
                return Err(OriginError::Malformed.label());
            }
            worker.shard.origin("answered");
            Ok((answer, first))
        }
        200 => {
            if answer.length() != object.length() || !description.is_same_version(&answer) {
                return Err(CHANGED);
            }
            worker.shard.origin("answered");
            Ok((answer, 0))
        }
        404 | 410 | 412 | 416 => Err(CHANGED),
        _ => Err("server_error"),
    }
}
