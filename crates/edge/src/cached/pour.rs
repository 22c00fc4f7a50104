//! The body of an answer into slices: in their order, no further ahead than somebody reads, and with those woken who wait.

use std::future::poll_fn;
use std::ops::Range;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use hyper::body::Bytes;
use penstock_cache::{Object, Part, SliceFill};
use penstock_config::limits;
use penstock_origin::http::OriginError;
use tokio::task::yield_now;
use tokio::time::timeout;

use super::Description;
use super::audience::{Turn, Windows};
use super::manifest::Arriving;
use crate::worker::Worker;

pub(super) fn slices_of(slice_bytes: u64, length: Option<u64>) -> u32 {
    match length {
        Some(length) => u32::try_from(length.div_ceil(slice_bytes)).unwrap_or(u32::MAX),
        None => 1,
    }
}

/// Takes on those of these slices that nobody has or fills.
pub(super) fn missing(object: &Arc<Object<Description>>, slices: Range<u32>) -> Vec<SliceFill<Description>> {
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
pub(super) async fn pour(
    worker: &Worker,
    mut arriving: Arriving<'_>,
    object: &Object<Description>,
    fills: Vec<SliceFill<Description>>,
    mut at: u64,
) -> Result<(), &'static str> {
    let slice_bytes = u64::from(object.slice_bytes());
    let mut fills = fills.into_iter().peekable();
    while let Some(chunk) = next_piece(&mut arriving, fills.peek_mut()).await? {
        worker.shard.filled(chunk.len() as u64);
        let mut rest = &chunk[..];
        while !rest.is_empty() {
            let left = slice_bytes - at % slice_bytes;
            let (now, later) = rest.split_at(rest.len().min(usize::try_from(left).unwrap_or(usize::MAX)));
            rest = later;
            let here = fills.peek_mut().filter(|fill| u64::from(fill.slice()) == at / slice_bytes);
            at += now.len() as u64;
            let Some(fill) = here else { continue };
            if keep(fill, now)? != now.len() {
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

pub(super) fn window(tier_slices: u64) -> u32 {
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
    let mut next = None;
    let mut total = 0;
    while let Some(chunk) = next_piece(&mut arriving, Some(&mut fill)).await? {
        worker.shard.filled(chunk.len() as u64);
        total += chunk.len() as u64;
        if total > object.description().site.max_unannounced {
            return Err("too_long");
        }
        let mut rest = &chunk[..];
        while !rest.is_empty() {
            if let Some(next) = next.take_if(|_| fill.is_full()) {
                std::mem::replace(&mut fill, next).finish();
                turn(object, u64::from(fill.slice()) * u64::from(object.slice_bytes())).await?;
            }
            if rest.len() as u64 + u64::from(fill.written()) >= u64::from(object.slice_bytes()) {
                // Taken on before anybody can see the last byte of this one, or a reader would think it its own to fill.
                let Part::Missing(following) = object.slice(fill.slice() + 1) else { return Err("taken") };
                next = Some(following);
            }
            let kept = keep(&mut fill, rest)?;
            rest = &rest[kept..];
        }
    }
    object.set_length(total);
    fill.finish();
    // Whoever waits for a slice behind the end finds the end.
    drop(next);
    Ok(())
}

/// Keeps bytes of a slice. Few readers are woken at once, and so is everybody for the first bytes and when there is
/// enough to send; otherwise [`next_piece`] does it.
fn keep(fill: &mut SliceFill<Description>, bytes: &[u8]) -> Result<usize, &'static str> {
    let kept = fill.add(bytes).map_err(|_| "no_room")?;
    let first = fill.untold() as u64 == u64::from(fill.written());
    if first || fill.untold() >= limits::FILL_TELL_BYTES || fill.followers() <= limits::FILL_FEW_READERS {
        fill.tell();
    }
    Ok(kept)
}

/// The next piece of a body. Before this waits for one, everybody is told of what has come: pieces that come together
/// wake a thousand readers once, and none of them later than the next piece would let it.
async fn next_piece(
    arriving: &mut Arriving<'_>,
    fill: Option<&mut SliceFill<Description>>,
) -> Result<Option<Bytes>, &'static str> {
    let Some(fill) = fill.filter(|fill| fill.untold() > 0) else {
        return arriving.next().await.map_err(OriginError::label);
    };
    let mut coming = pin!(arriving.next());
    // What reads the connection is another task, and needs its turn.
    for _ in 0..2 {
        let looked = poll_fn(|context| Poll::Ready(coming.as_mut().poll(context))).await;
        if let Poll::Ready(piece) = looked {
            return piece.map_err(OriginError::label);
        }
        yield_now().await;
    }
    fill.tell();
    coming.await.map_err(OriginError::label)
}
