//! Streaming the body of an object: the bytes that can be sent now, and waiting for the rest.

use std::collections::VecDeque;
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use penstock_cache::{Demand, Lease, Object, SliceClaim};
use penstock_config::limits;
use penstock_egress::{ExternalBytes, Part, Parts};
use tokio::time::sleep;

use crate::context::Context;
use crate::fault::{BodyError, FillFault};
use crate::fill::past_cache::{PastCache, fetch_past_cache, may_go_past_cache};
use crate::fill::write_body::fill_window;
use crate::fill::{fetch_slice, fetch_slice_ahead, record_fault};
use crate::networks::NetworkEntry;
use crate::object::ObjectMetadata;
use crate::origin::{BodyReceiver, wait_before_retry};
use crate::peers::ServingEntry;
use crate::requester::Requester;
use crate::store::Store;
use crate::task;

/// A body that may still be coming while it is sent.
pub struct BodyStream {
    store: Arc<Store>,
    /// The sender of the request that the fetches are for.
    requester: Requester,
    /// Counts the response while a node of the cluster receives it.
    pub(crate) serving: Option<ServingEntry>,
    /// Its place among the readers that wait for a fill.
    waiting: Option<NetworkEntry>,
    /// Since when its network has had too many fetches for this one to go on.
    refused_since: Option<Instant>,
    object: Arc<Object<ObjectMetadata>>,
    current: Option<Piece>,
    /// Pieces behind the current one.
    rest: VecDeque<Piece>,
    attempts: usize,
    /// The slice for which this request has been counted.
    counted: Option<u32>,
    /// Slices before this one have been prefetched if they were missing.
    prefetched: u32,
    /// Bytes of a chunk from the cache.
    chunk_max: u32,
}

impl Drop for BodyStream {
    fn drop(&mut self) {
        self.object.metadata().readers.leave();
    }
}

/// A piece of a body.
pub(crate) enum Piece {
    /// Bytes made for this response, such as the heads of multipart ranges.
    Bytes(Vec<u8>),
    /// Bytes of the object; an end behind the object's own means up to its end.
    Range(Range<u64>),
    /// A body that does not enter the cache.
    Relayed(BodyReceiver),
}

/// Bytes of a body that can be sent now. They stay in the cache until the chunk is dropped.
pub struct BodyChunk {
    /// The bytes, in order.
    pub parts: Parts,
    /// Length of the parts in bytes; greater than zero.
    pub length: u64,
    memory: Memory,
}

/// The owner of the bytes of a chunk.
enum Memory {
    /// The chunk itself.
    Own,
    /// The cache.
    Lease(Lease),
    /// Memory that readers share, past the cache.
    Shared(PastCache),
}

impl BodyChunk {
    /// Parts that own their bytes, of so many bytes.
    pub(crate) fn of(parts: impl IntoIterator<Item = Part>, length: u64) -> Self {
        Self { parts: parts.into_iter().collect(), length, memory: Memory::Own }
    }

    /// Reports that sending the bytes failed because their file lost them. The cache compares them with their checksum before
    /// it uses them again.
    pub fn report_failure(&self) {
        if let Memory::Lease(lease) = &self.memory {
            lease.report_failure();
        }
    }

    /// Called when all bytes are sent. The lease on the slice keeps it for the next chunk, which often comes from it too.
    pub fn into_lease(self) -> Option<Lease> {
        match self.memory {
            Memory::Lease(lease) => Some(lease),
            Memory::Own | Memory::Shared(_) => None,
        }
    }

    /// Waits until others need the memory of the chunk more than a client that takes nothing, beginning now. The chunk is
    /// to be dropped then, with [`BodyStream::go_back`] to what was not sent.
    pub async fn until_needed_by_others(&self) {
        let (step, short, long) = (
            limits::CLIENT_HOLDS_CHECK_MILLISECONDS,
            limits::CLIENT_HOLDS_SHORT_MILLISECONDS,
            limits::CLIENT_HOLDS_MILLISECONDS,
        );
        let mut held = 0;
        loop {
            sleep(Duration::from_millis(step)).await;
            held += step;
            let demand = match &self.memory {
                Memory::Own => Demand::None,
                Memory::Lease(lease) => lease.demand(),
                Memory::Shared(memory) => memory.demand(),
            };
            match demand {
                Demand::Urgent if held >= short => return,
                Demand::Some if held >= long => return,
                Demand::None | Demand::Some | Demand::Urgent => {}
            }
        }
    }
}

/// Waits until an object of unknown length has its bytes up to `end`, or has ended.
///
/// # Errors
/// [`BodyError`] if it will not come so far.
pub(crate) async fn wait_for_bytes(object: &Arc<Object<ObjectMetadata>>, end: u64) -> Result<(), BodyError> {
    let (last, at) = object.locate(end.saturating_sub(1));
    // A fill claims a slice before it finishes the one in front of it. So a missing slice has been evicted or will not
    // come, and two in a row mean the latter.
    let (mut slice, mut gone) = (0, 0);
    while object.length().is_none() && slice <= last && gone < 2 {
        match object.claim_slice(slice) {
            SliceClaim::Ready(_) => (slice, gone) = (slice + 1, 0),
            SliceClaim::Missing(_) => (slice, gone) = (slice + 1, gone + 1),
            SliceClaim::Filling(mut follower) => {
                let progress = follower.progress();
                if progress.failed {
                    return Err(BodyError::Gone(object.metadata().fault_of(slice)));
                }
                if slice == last && progress.bytes > at {
                    return Ok(());
                }
                if !progress.complete {
                    follower.further().await;
                }
            }
        }
    }
    if gone < 2 { Ok(()) } else { Err(BodyError::Gone(None)) }
}

impl BodyStream {
    /// A stream of these pieces of an object.
    pub(crate) fn new(
        store: &Arc<Store>,
        object: &Arc<Object<ObjectMetadata>>,
        requester: Requester,
        pieces: Pieces,
    ) -> Self {
        object.metadata().readers.enter();
        let (current, rest) = match pieces {
            Pieces::One(piece) => (Some(piece), VecDeque::new()),
            Pieces::Many(pieces) => (None, pieces.into()),
        };
        Self {
            store: Arc::clone(store),
            requester,
            serving: None,
            waiting: None,
            refused_since: None,
            object: Arc::clone(object),
            current,
            rest,
            attempts: 0,
            counted: None,
            prefetched: 0,
            chunk_max: u32::MAX,
        }
    }

    /// The object that the bytes are of.
    pub(crate) fn object(&self) -> &Arc<Object<ObjectMetadata>> {
        &self.object
    }

    /// Has chunks from the cache be no larger than this.
    pub(crate) fn limit_chunks(&mut self, bytes: u64) {
        self.chunk_max = u32::try_from(bytes).unwrap_or(u32::MAX).max(1);
    }

    /// The next bytes, as soon as there are any; `None` behind the last.
    ///
    /// # Errors
    /// See [`BodyError`].
    pub async fn next(&mut self, context: &Rc<Context>) -> Result<Option<BodyChunk>, BodyError> {
        loop {
            if self.current.is_none() {
                self.current = self.rest.pop_front();
            }
            match &mut self.current {
                None => return Ok(None),
                Some(Piece::Bytes(bytes)) => {
                    let bytes = std::mem::take(bytes);
                    self.current = None;
                    let length = bytes.len() as u64;
                    return Ok(Some(BodyChunk::of([Part::Owned(bytes)], length)));
                }
                Some(Piece::Relayed(receiver)) => match receiver.next().await? {
                    Some(pieces) => {
                        let length = pieces.iter().map(|piece| piece.len() as u64).sum();
                        return Ok(Some(BodyChunk::of(external(pieces), length)));
                    }
                    None => self.current = None,
                },
                Some(Piece::Range(range)) => {
                    let range = range.clone();
                    if is_behind(&self.object, &range) {
                        self.current = None;
                    } else if let Some(chunk) = self.advance(context, range).await? {
                        return Ok(Some(chunk));
                    }
                }
            }
        }
    }

    /// Takes a place among those that wait for bytes, unless it has one.
    ///
    /// # Errors
    /// There is no place, and the response has not begun.
    fn enter_wait(&mut self, context: &Rc<Context>, followers: usize) -> Result<(), BodyError> {
        if self.waiting.is_none() {
            match context.enter_wait(self.requester, followers) {
                Ok(place) => self.waiting = Some(place),
                Err(_) if self.counted.is_none() => return Err(BodyError::Crowded),
                Err(_) => {}
            }
        }
        Ok(())
    }

    /// Bytes from the start of `range`; `None` if the state has changed and is worth another look.
    async fn advance(
        &mut self,
        context: &Rc<Context>,
        range: Range<u64>,
    ) -> Result<Option<BodyChunk>, BodyError> {
        let (slice, from) = self.object.locate(range.start);
        let readers = &self.object.metadata().readers;
        readers.advance_to(range.start);
        let part = self.object.claim_slice(slice);
        readers.take_slice(slice, !matches!(part, SliceClaim::Missing(_)));
        match part {
            SliceClaim::Ready(lease) => {
                self.waiting = None;
                self.prefetch(context, slice, range.end);
                let available = lease.length();
                if available <= from {
                    // The end has been found, and it is here.
                    self.current = None;
                    return Ok(None);
                }
                Ok(self.chunk(lease, from..available, range))
            }
            SliceClaim::Filling(mut follower) => {
                self.prefetch(context, slice, range.end);
                self.enter_wait(context, follower.followers())?;
                let progress = follower.progress();
                if progress.bytes > from
                    && let Some(lease) = follower.lease()
                {
                    return Ok(self.chunk(lease, from..progress.bytes, range));
                }
                if progress.failed {
                    return self.recover(context, slice, range).await;
                }
                if !progress.complete {
                    let metadata = self.object.metadata();
                    tokio::select! {
                        biased;
                        () = follower.further() => {}
                        () = metadata.site.until_asking(self.requester, metadata.target(), range.start) => {
                            return Err(BodyError::Gone(None));
                        }
                    }
                    // The next look would find the slice missing, and not why.
                    if follower.progress().failed {
                        return self.recover(context, slice, range).await;
                    }
                }
                Ok(None)
            }
            SliceClaim::Missing(fill) => {
                if self.attempts > 0 && self.has_no_space(slice) {
                    drop(fill);
                    return self.recover(context, slice, range).await;
                }
                let Ok(place) = context.enter_fetch(self.requester) else {
                    // Another reader may fill it.
                    drop(fill);
                    return self.wait_for_fetches(context).await;
                };
                self.retry(slice)?;
                let mut follower = fill.follow();
                let (filling, store) = (Rc::clone(context), Arc::clone(&self.store));
                let requester = self.requester;
                task::spawn_filling(async move {
                    let _place = place;
                    fetch_slice(&filling, &store, requester, fill).await;
                });
                follower.further().await;
                if follower.progress().failed { self.recover(context, slice, range).await } else { Ok(None) }
            }
        }
    }

    /// Waits a moment for other fetches of the client's network to end, if the response has begun.
    async fn wait_for_fetches(&mut self, context: &Context) -> Result<Option<BodyChunk>, BodyError> {
        let since = *self.refused_since.get_or_insert_with(|| context.now());
        let wait_max = Duration::from_secs(limits::FETCH_PLACE_WAIT_SECONDS);
        if self.counted.is_none() || context.now().saturating_duration_since(since) > wait_max {
            return Err(BodyError::NetworkFull);
        }
        sleep(Duration::from_millis(limits::FETCH_PLACE_RETRY_MILLISECONDS)).await;
        Ok(None)
    }

    /// Goes on after the fill of a slice has failed: past the cache if that has no space, otherwise with another look.
    async fn recover(
        &mut self,
        context: &Context,
        slice: u32,
        range: Range<u64>,
    ) -> Result<Option<BodyChunk>, BodyError> {
        if !self.has_no_space(slice) {
            return self.retry(slice);
        }
        let end = self.object.length().unwrap_or(0).min(range.end);
        loop {
            let wanted = range.start..end;
            let fetched = fetch_past_cache(context, &self.store, &self.object, self.requester, wanted);
            // Boxed: few responses need it, and every one would carry its memory.
            match Box::pin(fetched).await {
                Ok((pieces, memory)) => {
                    let length = pieces.iter().map(|piece| piece.len() as u64).sum();
                    self.advance_by(length);
                    let memory = Memory::Shared(memory);
                    return Ok(Some(BodyChunk { parts: external(pieces), length, memory }));
                }
                Err(fault) => {
                    record_fault(context, &self.store, &self.object, fault);
                    self.attempts += 1;
                    let is_final = matches!(fault, FillFault::Changed | FillFault::NoSpace);
                    if is_final || self.attempts >= limits::ORIGIN_ATTEMPTS {
                        return Err(BodyError::Gone(Some(fault)));
                    }
                    wait_before_retry(self.attempts).await;
                }
            }
        }
    }

    /// Whether the last fill of a slice failed for lack of space, and its bytes may go past the cache.
    fn has_no_space(&self, slice: u32) -> bool {
        self.object.metadata().fault_of(slice) == Some(FillFault::NoSpace) && may_go_past_cache(&self.object)
    }

    /// Whether the chunk before was the last, as far as that is known already.
    pub fn is_at_end(&self) -> bool {
        let is_over = match &self.current {
            None => true,
            Some(Piece::Range(range)) => is_behind(&self.object, range),
            Some(Piece::Bytes(_) | Piece::Relayed(_)) => false,
        };
        is_over && self.rest.is_empty()
    }

    /// Takes back the last `bytes` of the chunk before: they were not sent, and come again with the next one. False if
    /// they cannot.
    pub fn go_back(&mut self, bytes: u64) -> bool {
        match &mut self.current {
            Some(Piece::Range(range)) if range.start >= bytes => {
                range.start -= bytes;
                true
            }
            _ => bytes == 0,
        }
    }

    /// Notes that so many bytes were found.
    fn advance_by(&mut self, bytes: u64) {
        // Progress: later faults have their own attempts.
        (self.attempts, self.refused_since) = (0, None);
        if let Some(Piece::Range(range)) = &mut self.current {
            range.start += bytes;
        }
    }

    /// Allows another look at a slice that is missing or whose fill failed, within bounds.
    fn retry(&mut self, slice: u32) -> Result<Option<BodyChunk>, BodyError> {
        let fault = self.object.metadata().fault_of(slice);
        // A fill of unknown length cannot be resumed. A fill that failed for good is not repeated by each reader.
        let is_final = fault.is_some_and(|fault| self.attempts > 0 && fault.is_final());
        let is_final = is_final || fault == Some(FillFault::Changed);
        if is_final || self.attempts >= limits::ORIGIN_ATTEMPTS || self.object.length().is_none() {
            return Err(BodyError::Gone(fault));
        }
        self.attempts += 1;
        Ok(None)
    }

    /// Has the next slices fetched while this one is filled or sent: one after the other would cost a round trip to the
    /// origin for each.
    fn prefetch(&mut self, context: &Rc<Context>, slice: u32, end: u64) {
        let end = self.object.length().unwrap_or(0).min(end);
        let first_after = (u64::from(slice) + 1) * u64::from(self.object.slice_bytes());
        if first_after >= end {
            return;
        }
        let window = fill_window(&self.object);
        let ahead = self.prefetched.max(slice + 1)..slice.saturating_add(window).saturating_add(1);
        for next in ahead {
            if u64::from(next) * u64::from(self.object.slice_bytes()) >= end {
                return;
            }
            let next_slice = (next, None);
            if fetch_slice_ahead(context, &self.store, self.requester, &self.object, next_slice).is_err() {
                return;
            }
            self.prefetched = next + 1;
        }
    }

    fn chunk(&mut self, lease: Lease, within: Range<u32>, wanted: Range<u64>) -> Option<BodyChunk> {
        let left = u32::try_from(wanted.end - wanted.start).unwrap_or(u32::MAX);
        let end = within.end.min(within.start.saturating_add(left.min(self.chunk_max)));
        let extent = lease.extent(within.start..end)?;
        let (slice, _) = self.object.locate(wanted.start);
        if self.counted.replace(slice) != Some(slice) {
            self.object.count_leased_request(slice, &lease);
        }
        let length = extent.len;
        self.advance_by(length);
        let parts = Parts::from_iter([Part::Extent(extent)]);
        Some(BodyChunk { parts, length, memory: Memory::Lease(lease) })
    }
}

/// Whether no bytes of the range are left.
fn is_behind(object: &Object<ObjectMetadata>, range: &Range<u64>) -> bool {
    range.is_empty() || object.length().is_some_and(|length| range.start >= length)
}

/// Pieces of memory as parts.
pub(crate) fn external(pieces: Vec<Bytes>) -> Parts {
    pieces.into_iter().map(|piece| Part::External(ExternalBytes::new(piece))).collect()
}

/// The pieces of a body.
pub(crate) enum Pieces {
    One(Piece),
    Many(Vec<Piece>),
}
