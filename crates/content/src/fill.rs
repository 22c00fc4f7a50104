//! Fills: bringing bytes of slices from an origin into the cache, from where an earlier response broke off.
mod body_stream;
mod past_cache;
mod relayed_body;
mod write_body;

pub use body_stream::{BodyChunk, BodyStream};
pub(crate) use body_stream::{Piece, Pieces, wait_for_bytes};
pub(crate) use past_cache::may_go_past_cache;
pub use relayed_body::RelayedBody;
pub(crate) use write_body::{claim_missing, fill_window, slices_of, window};

use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;

use penstock_cache::{Object, SliceClaim, SliceFill};
use penstock_config::limits;
use penstock_metrics::PrefetchUnderWay;
use penstock_origin::http::OriginError;

use crate::context::Context;
use crate::fault::FillFault;
use crate::fill::write_body::{Fill, give_up, write_body, write_to_the_end};
use crate::networks::NetworkFull;
use crate::object::ObjectMetadata;
use crate::origin::{FetchedResponse, ask_for, part_request, wait_before_retry};
use crate::requester::Requester;
use crate::store::Store;
use crate::task;

/// Fills a new object with the body that came with its head.
///
/// # Errors
/// Why not all slices could be filled; the fault is recorded for their readers.
pub(crate) async fn fill_object(
    context: &Context,
    response: FetchedResponse<'_>,
    object: &Arc<Object<ObjectMetadata>>,
    requester: Requester,
    mut fills: VecDeque<Fill>,
) -> Result<(), FillFault> {
    if object.length().is_none() {
        return write_to_the_end(context, response, object, fills).await;
    }
    let written = write_body(context, response, object, &mut fills, 0).await;
    fill_rest(context, object, requester, fills, written).await
}

/// Fills one slice of an object that is known.
pub(crate) async fn fetch_slice(
    context: &Rc<Context>,
    store: &Store,
    requester: Requester,
    fill: SliceFill<ObjectMetadata>,
) {
    let Err(fill) = fill.restore().await else { return };
    let object = Arc::clone(fill.object());
    if !object.metadata().may_be_fetched_in_parts() {
        // A part of another response could be of another version.
        give_up(&object, [fill], FillFault::Changed);
        record_fault(context, store, &object, FillFault::Changed);
        return;
    }
    // Before the origin is asked: without space its answer is of no use.
    let filled = match fill.reserve() {
        Ok(()) => fill_rest(context, &object, requester, VecDeque::from([fill]), Ok(())).await,
        Err(_) => {
            give_up(&object, [fill], FillFault::NoSpace);
            Err(FillFault::NoSpace)
        }
    };
    if let Err(fault) = filled {
        record_fault(context, store, &object, fault);
    }
}

/// Starts to fetch a slice that no reader waits for, unless it is there or on its way. `under_way` lasts as long as that does.
///
/// # Errors
/// [`NetworkFull`]: the requester's network has its share of such fetches.
pub(crate) fn fetch_slice_ahead(
    context: &Rc<Context>,
    store: &Arc<Store>,
    requester: Requester,
    object: &Arc<Object<ObjectMetadata>>,
    (slice, under_way): (u32, Option<PrefetchUnderWay>),
) -> Result<(), NetworkFull> {
    if let SliceClaim::Missing(fill) = object.claim_slice(slice) {
        let place = context.enter_prefetch(requester)?;
        object.metadata().readers.mark_slice(&store.prefetches, slice);
        let (context, store) = (Rc::clone(context), Arc::clone(store));
        task::spawn_filling(async move {
            fetch_slice(&context, &store, requester, fill).await;
            drop((place, under_way));
        });
    }
    Ok(())
}

/// Fills the slices of `fills`, after an earlier response ended with `outcome`. Each response that brings bytes gives the
/// next one all attempts anew; attempts without progress are bounded and wait longer each time.
async fn fill_rest(
    context: &Context,
    object: &Arc<Object<ObjectMetadata>>,
    requester: Requester,
    mut fills: VecDeque<Fill>,
    mut outcome: Result<(), FillFault>,
) -> Result<(), FillFault> {
    let has_parts = object.metadata().may_be_fetched_in_parts();
    let mut attempts = 0;
    // Bytes that were missing before the last response.
    let mut before = None;
    while !fills.is_empty() {
        let missing = missing_bytes(object, &fills);
        let has_progress = before.is_some_and(|before| missing < before);
        if outcome.is_ok() && (!has_parts || before == Some(missing)) {
            // The body had none of the bytes that its head announced, or is a whole one that is not.
            outcome = Err(OriginError::CutShort.into());
        }
        before = Some(missing);
        if has_progress {
            attempts = 0;
        }
        if let Err(fault) = outcome {
            if !has_progress {
                attempts += 1;
            }
            let is_final = !fault.may_be_resumed() || !has_parts;
            if is_final || attempts >= limits::ORIGIN_ATTEMPTS {
                give_up(object, fills, fault);
                return Err(fault);
            }
            context.metrics.origin(fault.label());
            wait_before_retry(attempts).await;
        }
        outcome = fill_from_origin(context, object, requester, &mut fills).await;
    }
    Ok(())
}

/// One request for the bytes that are missing, from the first to the last.
async fn fill_from_origin(
    context: &Context,
    object: &Arc<Object<ObjectMetadata>>,
    requester: Requester,
    fills: &mut VecDeque<Fill>,
) -> Result<(), FillFault> {
    let slice_bytes = u64::from(object.slice_bytes());
    let (Some(first), Some(last)) = (fills.front(), fills.back()) else { return Ok(()) };
    let start = u64::from(first.slice()) * slice_bytes + u64::from(first.written());
    let end = u64::from(last.slice()) * slice_bytes + u64::from(object.slice_length(last.slice()));
    let (wanted, number) = (start..end, first.slice());
    let fetch = part_request(object.metadata(), &wanted);
    let (answer, from) = ask_for(context, object, requester, &fetch, &wanted).await?;
    if answer.status() != 206 && fills.len() == 1 {
        // The origin ignores Range: slices that are missing are filled from the same response.
        for before in claim_missing(object, 0..number).into_iter().rev() {
            fills.push_front(before);
        }
        fills.extend(claim_missing(object, number + 1..slices_of(slice_bytes, object.length())));
    }
    write_body(context, FetchedResponse::unread(answer), object, fills, from).await
}

/// Bytes that the fills have yet to bring.
fn missing_bytes(object: &Object<ObjectMetadata>, fills: &VecDeque<Fill>) -> u64 {
    let missing = |fill: &Fill| object.slice_length(fill.slice()).saturating_sub(fill.written());
    fills.iter().map(|fill| u64::from(missing(fill))).sum()
}

/// Counts a fault that ended a fill, and forgets an object that has changed.
pub(crate) fn record_fault(
    context: &Context,
    store: &Store,
    object: &Arc<Object<ObjectMetadata>>,
    fault: FillFault,
) {
    context.metrics.origin(fault.label());
    if fault == FillFault::Changed {
        let age = context.clock.wall().duration_since(object.metadata().received()).unwrap_or_default();
        store.volatile.changed(object.key(), age, context.now());
        store.index.forget_version(object.key(), object);
    }
}
