//! Fills: tasks that bring bytes from an origin into the cache. They belong to nobody's connection.

use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use penstock_cache::{Object, Part, SliceFill};
use penstock_config::limits;
use penstock_http::caching::Storage;
use penstock_origin::http::{Answer, Fetch, OriginError};
use tokio::time::timeout;

use super::audience::{Turn, Windows};
use super::find::{Announce, Outcome, Search};
use super::live::Reading;
use super::manifest::Arriving;
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
        let coming = self.worker.origins.fetch(&self.site.origin, &fetch);
        let fetched = match &self.held {
            Some(held) => timeout(held.longest, coming).await.unwrap_or(Err(OriginError::Timeout)),
            None => coming.await,
        };
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
            Storage::Private => announce.alone(&object),
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

pub(super) fn slices_of(slice_bytes: u64, length: Option<u64>) -> u32 {
    match length {
        Some(length) => u32::try_from(length.div_ceil(slice_bytes)).unwrap_or(u32::MAX),
        None => 1,
    }
}

/// Takes on those of these slices that nobody has or fills.
pub(super) fn missing(
    object: &Arc<Object<Description>>,
    slices: std::ops::Range<u32>,
) -> Vec<SliceFill<Description>> {
    let mut fills = Vec::new();
    for slice in slices.filter(|slice| object.slice_length(*slice) > 0) {
        if let Part::Missing(fill) = object.slice(slice) {
            fills.push(fill);
        }
    }
    fills
}

/// Fills a new object with the body that came with it.
pub(super) async fn pour_all(
    worker: &Worker,
    arriving: Arriving<'_>,
    object: &Arc<Object<Description>>,
    fills: Vec<SliceFill<Description>>,
) -> Result<(), &'static str> {
    match object.length() {
        Some(_) => pour(worker, arriving, object, fills, 0).await,
        None => pour_to_the_end(worker, arriving, object, fills).await,
    }
}

/// Fills slices, in order, from a body that begins at byte `at` of the object. Bytes of other slices are passed over.
async fn pour(
    worker: &Worker,
    mut arriving: Arriving<'_>,
    object: &Object<Description>,
    fills: Vec<SliceFill<Description>>,
    mut at: u64,
) -> Result<(), &'static str> {
    let slice_bytes = u64::from(object.slice_bytes());
    let mut fills = fills.into_iter().peekable();
    while let Some(chunk) = arriving.next().await.map_err(OriginError::label)? {
        worker.shard.filled(chunk.len() as u64);
        let mut rest = &chunk[..];
        while !rest.is_empty() {
            let left = slice_bytes - at % slice_bytes;
            let (now, later) = rest.split_at(rest.len().min(usize::try_from(left).unwrap_or(usize::MAX)));
            rest = later;
            let here = fills.peek_mut().filter(|fill| u64::from(fill.slice()) == at / slice_bytes);
            at += now.len() as u64;
            let Some(fill) = here else { continue };
            if fill.append(now).map_err(|_| "no_room")? != now.len() {
                return Err(OriginError::Malformed.label());
            }
            if fill.is_full()
                && let Some(full) = fills.next()
            {
                full.finish();
                if let Some(next) = fills.peek() {
                    turn(object, u64::from(next.slice()) * slice_bytes).await?;
                }
            }
        }
    }
    // What is left over was promised and did not come.
    if fills.next().is_some() { Err(OriginError::CutShort.label()) } else { Ok(()) }
}

/// How many slices may come ahead of who reads them. What nobody has read yet is in the small queue of the tier, a tenth
/// of it, and must not be driven out of it.
pub(super) fn fill_window(object: &Object<Description>) -> u32 {
    window(object.tier_slices())
}

fn window(tier_slices: u64) -> u32 {
    let fitting = u32::try_from(tier_slices / 40).unwrap_or(u32::MAX);
    fitting.clamp(1, limits::FILL_WINDOW_SLICES)
}

/// Waits for the readers of an object before what begins at `next` is brought.
async fn turn(object: &Object<Description>, next: u64) -> Result<(), &'static str> {
    let slice_bytes = u64::from(object.slice_bytes());
    let windows = Windows {
        full: u64::from(fill_window(object)) * slice_bytes,
        alone: limits::FILL_ALONE_SLICES * slice_bytes,
    };
    let audience = &object.description().audience;
    while audience.turn(next, windows, || object.is_tier_full()).await == Turn::Stop {
        // Those for whom it is may be on their way here.
        let patience = Duration::from_millis(limits::FILL_ALONE_MILLISECONDS);
        timeout(patience, audience.entered()).await.map_err(|_| "no_readers")?;
    }
    Ok(())
}

/// Fills an object whose length only its end tells.
async fn pour_to_the_end(
    worker: &Worker,
    mut arriving: Arriving<'_>,
    object: &Arc<Object<Description>>,
    mut fills: Vec<SliceFill<Description>>,
) -> Result<(), &'static str> {
    let Some(mut fill) = fills.pop() else { return Ok(()) };
    let mut total = 0;
    while let Some(chunk) = arriving.next().await.map_err(OriginError::label)? {
        worker.shard.filled(chunk.len() as u64);
        total += chunk.len() as u64;
        if total > object.description().site.max_unannounced {
            return Err("too_long");
        }
        let mut rest = &chunk[..];
        while !rest.is_empty() {
            if fill.is_full() {
                // The next is taken on before this one is finished, or a reader would think it its own to fill.
                let Part::Missing(next) = object.slice(fill.slice() + 1) else { return Err("taken") };
                std::mem::replace(&mut fill, next).finish();
                turn(object, u64::from(fill.slice()) * u64::from(object.slice_bytes())).await?;
            }
            let kept = fill.append(rest).map_err(|_| "no_room")?;
            rest = &rest[kept..];
        }
    }
    object.set_length(total);
    fill.finish();
    Ok(())
}

/// Fills one slice of an object that is known.
pub(super) async fn fetch_slice(worker: &Rc<Worker>, store: &Store, fill: SliceFill<Description>) {
    let Err(fill) = fill.from_disk().await else { return };
    let object = Arc::clone(fill.object());
    if let Err(reason) = try_slice(worker, &object, fill).await {
        worker.shard.origin(reason);
        let description = object.description();
        description.set_fault(reason);
        if reason == CHANGED {
            let age = description.received().elapsed().unwrap_or_default();
            store.unsteady.changed(object.key(), age, Instant::now());
            store.index.forget_version(object.key(), &object);
        }
    }
}

/// The object is not any more what it was when it was found.
pub(super) const CHANGED: &str = "changed";

async fn try_slice(
    worker: &Rc<Worker>,
    object: &Arc<Object<Description>>,
    fill: SliceFill<Description>,
) -> Result<(), &'static str> {
    let description = object.description();
    let slice_bytes = u64::from(object.slice_bytes());
    let first = u64::from(fill.slice()) * slice_bytes;
    let last = first + u64::from(object.slice_length(fill.slice())) - 1;
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
            pour(worker, Arriving::unread(answer), object, vec![fill], first).await
        }
        200 => {
            if answer.length() != object.length() || !description.is_same_version(&answer) {
                return Err(CHANGED);
            }
            // It ignores Range: whatever passes by and is missing is taken along.
            worker.shard.origin("answered");
            let number = fill.slice();
            let mut fills = missing(object, 0..number);
            fills.push(fill);
            fills.extend(missing(object, number + 1..slices_of(slice_bytes, object.length())));
            pour(worker, Arriving::unread(answer), object, fills, 0).await
        }
        404 | 410 | 412 | 416 => Err(CHANGED),
        _ => Err("server_error"),
    }
}
