//! Writing the body of a response into slices: in order, throttled to the readers, waking them as bytes come.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::ops::Range;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use penstock_cache::{Object, SliceClaim, SliceFill};
use penstock_config::limits;
use penstock_origin::http::OriginError;
use tokio::task::yield_now;
use tokio::time::{sleep, timeout};

use crate::context::Context;
use crate::fault::FillFault;
use crate::fill::past_cache::may_go_past_cache;
use crate::object::{FillStep, ObjectMetadata, ReaderThrottle, Windows};
use crate::origin::FetchedResponse;

pub(crate) type Fill = SliceFill<ObjectMetadata>;

/// The number of slices of an object of this length.
pub(crate) fn slices_of(slice_bytes: u64, length: Option<u64>) -> u32 {
    match length {
        Some(length) => u32::try_from(length.div_ceil(slice_bytes)).unwrap_or(u32::MAX),
        None => 1,
    }
}

/// Claims those of these slices that are neither in the cache nor being filled.
pub(crate) fn claim_missing(object: &Arc<Object<ObjectMetadata>>, slices: Range<u32>) -> VecDeque<Fill> {
    let mut fills = VecDeque::new();
    for slice in slices.filter(|slice| object.slice_length(*slice) > 0) {
        if let SliceClaim::Missing(fill) = object.claim_slice(slice) {
            fills.push_back(fill);
        }
    }
    fills
}

/// Gives fills up with a fault, which each of their readers finds.
pub(crate) fn give_up(
    object: &Object<ObjectMetadata>,
    fills: impl IntoIterator<Item = Fill>,
    fault: FillFault,
) {
    for fill in fills {
        object.metadata().set_fault(fill.slice(), fault);
        drop(fill);
    }
}

/// Fills slices, in order, from a body that begins at byte `at` of the object. Bytes of other slices are skipped. Fills
/// that are finished leave `fills`. The body may end before the last of them is full.
///
/// # Errors
/// Why not all fills could be finished.
pub(crate) async fn write_body(
    context: &Context,
    mut response: FetchedResponse<'_>,
    object: &Object<ObjectMetadata>,
    fills: &mut VecDeque<Fill>,
    mut at: u64,
) -> Result<(), FillFault> {
    let slice_bytes = u64::from(object.slice_bytes());
    let is_copy = is_copy(&response);
    while let Some(chunk) = next_piece(&mut response, fills.front_mut()).await? {
        context.metrics.filled(chunk.len() as u64);
        let mut rest = &chunk[..];
        while !rest.is_empty() {
            let Some(fill) = fills.front_mut() else { break };
            let slice_start = u64::from(fill.slice()) * slice_bytes;
            // A response that begins before the byte that is missing.
            let skipped = (slice_start + u64::from(fill.written())).saturating_sub(at);
            if skipped > 0 {
                let skipped = rest.len().min(usize::try_from(skipped).unwrap_or(usize::MAX));
                at += skipped as u64;
                rest = &rest[skipped..];
                continue;
            }
            if at != slice_start + u64::from(fill.written()) {
                // The response begins behind the bytes that it was asked for.
                return Err(OriginError::Malformed.into());
            }
            let left = slice_start + slice_bytes - at;
            let (now, later) = rest.split_at(rest.len().min(usize::try_from(left).unwrap_or(usize::MAX)));
            rest = later;
            at += now.len() as u64;
            reserve(object, fill).await?;
            if is_copy {
                fill.mark_copy();
            }
            if append(fill, now)? != now.len() {
                return Err(OriginError::Malformed.into());
            }
            if fill.is_full()
                && let Some(full) = fills.pop_front()
            {
                full.finish();
                if let Some(next) = fills.front() {
                    wait_for_readers(object, u64::from(next.slice()) * slice_bytes).await?;
                }
            }
        }
    }
    // Fills that are left are of bytes behind a part that ends early (RFC 9110 §15.3.7).
    Ok(())
}

/// How many slices a fill may be ahead of its readers. Slices that have not been read are in the small queue of the tier,
/// a tenth of it, and must not be driven out of it.
pub(crate) fn fill_window(object: &Object<ObjectMetadata>) -> u32 {
    window(object.tier_slices())
}

/// The same for a tier of this many slices.
pub(crate) fn window(tier_slices: u64) -> u32 {
    let fitting = u32::try_from(tier_slices / 40).unwrap_or(u32::MAX);
    fitting.clamp(1, limits::FILL_WINDOW_SLICES)
}

/// Waits for the readers of an object before bytes from `next` on are written.
async fn wait_for_readers(object: &Object<ObjectMetadata>, next: u64) -> Result<(), FillFault> {
    let slice_bytes = u64::from(object.slice_bytes());
    let windows = Windows {
        full: u64::from(fill_window(object)) * slice_bytes,
        alone: limits::FILL_ALONE_SLICES * slice_bytes,
    };
    let waiting = wait_for_any_reader(&object.metadata().readers, next, windows, object);
    if !may_go_past_cache(object) {
        return waiting.await;
    }
    let patience = Duration::from_millis(limits::FILL_STALLED_MILLISECONDS);
    timeout(patience, waiting).await.unwrap_or(Err(FillFault::NoReaders))
}

async fn wait_for_any_reader(
    readers: &ReaderThrottle,
    next: u64,
    windows: Windows,
    object: &Object<ObjectMetadata>,
) -> Result<(), FillFault> {
    while readers.wait_for_readers(next, windows, || object.is_tier_full()).await == FillStep::Stop {
        // The request that the fill is for may not have begun to read yet.
        let patience = Duration::from_millis(limits::FILL_ALONE_MILLISECONDS);
        timeout(patience, readers.entered()).await.map_err(|_| FillFault::NoReaders)?;
    }
    Ok(())
}

/// Fills an object whose length only its end tells.
///
/// # Errors
/// Why the end did not come; the fault is recorded for the readers.
pub(crate) async fn write_to_the_end(
    context: &Context,
    response: FetchedResponse<'_>,
    object: &Arc<Object<ObjectMetadata>>,
    mut fills: VecDeque<Fill>,
) -> Result<(), FillFault> {
    let Some(mut fill) = fills.pop_front() else { return Ok(()) };
    let mut next = None;
    match write_unannounced(context, response, object, &mut fill, &mut next).await {
        Ok(total) => {
            object.set_length(total);
            fill.finish();
            // A reader that waits for a slice behind the end finds the end.
            drop(next);
            Ok(())
        }
        Err(fault) => {
            give_up(object, [fill].into_iter().chain(next), fault);
            Err(fault)
        }
    }
}

async fn write_unannounced(
    context: &Context,
    mut response: FetchedResponse<'_>,
    object: &Arc<Object<ObjectMetadata>>,
    fill: &mut Fill,
    next: &mut Option<Fill>,
) -> Result<u64, FillFault> {
    let mut total = 0;
    let is_copy = is_copy(&response);
    while let Some(chunk) = next_piece(&mut response, Some(&mut *fill)).await? {
        context.metrics.filled(chunk.len() as u64);
        total += chunk.len() as u64;
        if total > object.metadata().site.max_unannounced {
            return Err(FillFault::TooLong);
        }
        let mut rest = &chunk[..];
        while !rest.is_empty() {
            if let Some(next) = next.take_if(|_| fill.is_full()) {
                std::mem::replace(fill, next).finish();
                wait_for_readers(object, u64::from(fill.slice()) * u64::from(object.slice_bytes())).await?;
            }
            if rest.len() as u64 + u64::from(fill.written()) >= u64::from(object.slice_bytes()) {
                // Claimed before a reader can see the last byte of this slice: the reader would claim it.
                let SliceClaim::Missing(following) = object.claim_slice(fill.slice() + 1) else {
                    return Err(FillFault::Superseded);
                };
                *next = Some(following);
            }
            reserve(object, fill).await?;
            if is_copy {
                fill.mark_copy();
            }
            let written = append(fill, rest)?;
            rest = &rest[written..];
        }
    }
    Ok(total)
}

/// Whether the node that sends a response owns and keeps its object.
fn is_copy(response: &FetchedResponse<'_>) -> bool {
    response.head.peer().is_some_and(|peer| peer.is_owner)
}

/// Takes space for a slice before its first byte. Readers of an object that can be fetched in parts go past the cache if
/// there is none; any other object waits for some, since its bytes come once.
async fn reserve(object: &Object<ObjectMetadata>, fill: &Fill) -> Result<(), FillFault> {
    if fill.written() > 0 || fill.reserve().is_ok() {
        return Ok(());
    }
    if !may_go_past_cache(object) {
        let step = limits::CLIENT_HOLDS_CHECK_MILLISECONDS;
        for _ in 0..limits::FILL_SPACE_MILLISECONDS / step {
            sleep(Duration::from_millis(step)).await;
            if fill.reserve().is_ok() {
                return Ok(());
            }
        }
    }
    Err(FillFault::NoSpace)
}

/// Appends bytes to a slice. Wakes the readers if they are few, for the first bytes, and when there is enough to send;
/// otherwise [`next_piece`] wakes them.
fn append(fill: &mut Fill, bytes: &[u8]) -> Result<usize, FillFault> {
    let written = fill.append_unnotified(bytes).map_err(|_| FillFault::NoSpace)?;
    let first = fill.unnotified_bytes() as u64 == u64::from(fill.written());
    if first
        || fill.unnotified_bytes() >= limits::FILL_NOTIFY_BYTES
        || fill.followers() <= limits::FILL_FEW_READERS
    {
        fill.notify_readers();
    }
    Ok(written)
}

/// The next piece of a body. Wakes the readers before it waits: pieces that come together wake a thousand readers once,
/// and no reader later than the next piece would.
async fn next_piece(
    response: &mut FetchedResponse<'_>,
    fill: Option<&mut Fill>,
) -> Result<Option<Bytes>, FillFault> {
    let Some(fill) = fill.filter(|fill| fill.unnotified_bytes() > 0) else {
        return Ok(response.next().await?);
    };
    let mut coming = pin!(response.next());
    // Another task reads the connection, and needs its turn.
    for _ in 0..2 {
        let looked = poll_fn(|context| Poll::Ready(coming.as_mut().poll(context))).await;
        if let Poll::Ready(piece) = looked {
            return Ok(piece?);
        }
        yield_now().await;
    }
    fill.notify_readers();
    Ok(coming.await?)
}
