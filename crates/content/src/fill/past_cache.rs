//! Bytes of an object for one reader while the cache has no space for them: a part at a time, from the origin through
//! memory.
//!
//! A part is read whole before it is sent, so a reader that takes its time holds memory and no connection to the origin.
//! All readers share [`limits::past_cache_bytes`]; a reader that takes nothing loses its part ([`PastCache::demand`]).

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use penstock_cache::{Demand, Object};
use penstock_config::limits;
use penstock_origin::http::OriginError;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use crate::context::Context;
use crate::fault::FillFault;
use crate::object::ObjectMetadata;
use crate::origin::{FetchedResponse, ask_for, part_request};
use crate::requester::Requester;
use crate::store::Store;

/// The memory of one part.
pub(crate) struct PastCache {
    permit: OwnedSemaphorePermit,
    /// Bytes for all readers together.
    total: usize,
}

impl PastCache {
    /// Waits for memory for so many bytes.
    ///
    /// # Errors
    /// [`FillFault::NoSpace`] if none became free in time.
    async fn reserve(store: &Store, bytes: u64) -> Result<Self, FillFault> {
        let patience = Duration::from_millis(limits::PAST_CACHE_WAIT_MILLISECONDS);
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        let free = Arc::clone(&store.past_cache).acquire_many_owned(bytes);
        let permit = timeout(patience, free).await.ok().and_then(Result::ok).ok_or(FillFault::NoSpace)?;
        Ok(Self { permit, total: store.past_cache_bytes() })
    }

    /// How much other readers need this memory.
    pub(crate) fn demand(&self) -> Demand {
        let semaphore: &Arc<Semaphore> = self.permit.semaphore();
        if semaphore.available_permits() < self.total / 2 { Demand::Urgent } else { Demand::Some }
    }
}

/// Whether parts of the object may go past the cache: another version would be noticed.
pub(crate) fn may_go_past_cache(object: &Object<ObjectMetadata>) -> bool {
    object.length().is_some() && object.metadata().may_be_fetched_in_parts()
}

/// Bytes of the object from the start of a range, at least one, up to its end and at most [`limits::PAST_CACHE_PART_BYTES`],
/// with their memory.
///
/// # Errors
/// Why they did not come.
pub(crate) async fn fetch_past_cache(
    context: &Context,
    store: &Store,
    object: &Object<ObjectMetadata>,
    requester: Requester,
    Range { start, end }: Range<u64>,
) -> Result<(Vec<Bytes>, PastCache), FillFault> {
    let end = end.min(start + limits::PAST_CACHE_PART_BYTES);
    // First, so that no connection to the origin waits for memory.
    let memory = PastCache::reserve(store, end - start).await?;
    let wanted = start..end;
    let fetch = part_request(object.metadata(), &wanted);
    let (answer, mut at) = ask_for(context, object, requester, &fetch, &wanted).await?;
    let mut response = FetchedResponse::unread(answer);
    let mut pieces = Vec::new();
    while at < end {
        let Some(mut piece) = response.next().await? else {
            // A part may be shorter than it was asked for.
            return if pieces.is_empty() { Err(OriginError::CutShort.into()) } else { Ok((pieces, memory)) };
        };
        context.metrics.filled(piece.len() as u64);
        // The origin may ignore Range, and send what is in front and behind.
        let before = usize::try_from(start.saturating_sub(at)).unwrap_or(usize::MAX).min(piece.len());
        at += piece.len() as u64;
        drop(piece.split_to(before));
        let behind = usize::try_from(at.saturating_sub(end)).unwrap_or(usize::MAX).min(piece.len());
        piece.truncate(piece.len() - behind);
        if !piece.is_empty() {
            pieces.push(piece);
        }
    }
    Ok((pieces, memory))
}
