//! Following an object: which bytes can be sent now, and waiting for those that cannot.

use std::collections::VecDeque;
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;

use penstock_cache::{Lease, Object, Part};
use penstock_config::limits;
use penstock_egress::{Lent, Part as BodyPart};

use super::fill::{CHANGED, fetch_slice};
use super::flow::Flow;
use super::pour::fill_window;
use super::{Description, Store};
use crate::task;
use crate::worker::Worker;

/// A body that is sent while it may still be coming.
pub(crate) struct Following {
    store: Store,
    object: Arc<Object<Description>>,
    pieces: VecDeque<Piece>,
    /// Chunked, because nobody knows how long it will be (RFC 9112 §7.1).
    chunked: bool,
    attempts: usize,
    /// The slice that this request has been counted for.
    counted: Option<u32>,
    /// Slices before this one have been looked at, whether they need to be fetched.
    looked_at: u32,
}

impl Drop for Following {
    fn drop(&mut self) {
        self.object.description().audience.leave();
    }
}

/// A piece of a body.
pub(super) enum Piece {
    /// Bytes made for this response, such as the heads of multipart ranges.
    Bytes(Vec<u8>),
    /// Bytes of the object; an end beyond its own means as far as it goes.
    Range(Range<u64>),
    /// A body that never comes into the cache.
    Flow(Flow),
}

/// What can be sent now. Its bytes stay where they are until it is dropped.
pub(crate) struct Stretch {
    pub(crate) parts: Vec<BodyPart>,
    _lease: Option<Lease>,
}

/// Why no more of a body comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Broken {
    /// Origin and cache have nothing more to give.
    Gone,
    /// Too many follow this fill; who has begun may go on.
    Crowded,
}

/// Waits until an object whose length nobody knows has its bytes up to `end`, or has come to its own end.
///
/// # Errors
/// [`Broken`] if it will not come so far.
pub(super) async fn until_there(object: &Arc<Object<Description>>, end: u64) -> Result<(), Broken> {
    let (last, at) = object.locate(end.saturating_sub(1));
    // In order: a slice is taken on before the one in front of it is finished, so what is missing here has gone or
    // will not come, and two of them in a row mean the latter.
    let (mut slice, mut gone) = (0, 0);
    while object.length().is_none() && slice <= last && gone < 2 {
        match object.slice(slice) {
            Part::Here(_) => (slice, gone) = (slice + 1, 0),
            Part::Missing(_) => (slice, gone) = (slice + 1, gone + 1),
            Part::Coming(mut follower) => {
                let progress = follower.progress();
                if progress.failed {
                    return Err(Broken::Gone);
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
    if gone < 2 { Ok(()) } else { Err(Broken::Gone) }
}

impl Following {
    pub(super) fn new(
        store: &Store,
        object: &Arc<Object<Description>>,
        pieces: impl IntoIterator<Item = Piece>,
        chunked: bool,
    ) -> Self {
        let pieces = pieces.into_iter().collect();
        object.description().audience.enter();
        Self {
            store: store.clone(),
            object: Arc::clone(object),
            pieces,
            chunked,
            attempts: 0,
            counted: None,
            looked_at: 0,
        }
    }

    /// The next bytes, as soon as there are any; `None` behind the last.
    ///
    /// # Errors
    /// See [`Broken`].
    pub(crate) async fn next(&mut self, worker: &Rc<Worker>) -> Result<Option<Stretch>, Broken> {
        loop {
            match self.pieces.front_mut() {
                None if self.chunked => {
                    self.chunked = false;
                    return Ok(Some(Stretch {
                        parts: vec![BodyPart::Owned(b"0\r\n\r\n".to_vec())],
                        _lease: None,
                    }));
                }
                None => return Ok(None),
                Some(Piece::Bytes(bytes)) => {
                    let parts = vec![BodyPart::Owned(std::mem::take(bytes))];
                    self.pieces.pop_front();
                    return Ok(Some(Stretch { parts, _lease: None }));
                }
                Some(Piece::Flow(flow)) => match flow.next().await? {
                    Some(pieces) => {
                        let length = pieces.iter().map(|piece| piece.len() as u64).sum();
                        let pieces = pieces.into_iter().map(|piece| BodyPart::Lent(Lent::new(piece)));
                        return Ok(Some(Stretch { parts: self.framed(length, pieces), _lease: None }));
                    }
                    None => drop(self.pieces.pop_front()),
                },
                Some(Piece::Range(range)) => {
                    let range = range.clone();
                    if range.is_empty() || self.object.length().is_some_and(|length| range.start >= length) {
                        self.pieces.pop_front();
                    } else if let Some(stretch) = self.advance(worker, range).await? {
                        return Ok(Some(stretch));
                    }
                }
            }
        }
    }

    /// Bytes from the start of `range`, or `None` if something has changed and it is worth looking again.
    async fn advance(&mut self, worker: &Rc<Worker>, range: Range<u64>) -> Result<Option<Stretch>, Broken> {
        let (slice, from) = self.object.locate(range.start);
        let audience = &self.object.description().audience;
        audience.is_at(range.start);
        let part = self.object.slice(slice);
        audience.wants_slice(slice, !matches!(part, Part::Missing(_)));
        match part {
            Part::Here(lease) => {
                self.prefetch(worker, slice, range.end);
                let available = lease.length();
                if available <= from {
                    // The end has been found, and it is here.
                    self.pieces.pop_front();
                    return Ok(None);
                }
                Ok(self.stretch(lease, from..available, range))
            }
            Part::Coming(mut follower) => {
                self.prefetch(worker, slice, range.end);
                let most = worker.settings().limits.waiters_per_fill;
                if self.counted.is_none() && follower.followers() > most {
                    return Err(Broken::Crowded);
                }
                let progress = follower.progress();
                if progress.bytes > from
                    && let Some(lease) = follower.lease()
                {
                    return Ok(self.stretch(lease, from..progress.bytes, range));
                }
                if progress.failed {
                    return self.try_again();
                }
                if !progress.complete {
                    follower.further().await;
                }
                Ok(None)
            }
            Part::Missing(fill) => {
                self.try_again()?;
                let (worker, store) = (Rc::clone(worker), self.store.clone());
                let mut follower = fill.follow();
                task::begin(async move { fetch_slice(&worker, &store, fill).await });
                follower.further().await;
                if follower.progress().failed { self.try_again() } else { Ok(None) }
            }
        }
    }

    fn try_again(&mut self) -> Result<Option<Stretch>, Broken> {
        // An object whose length is unknown cannot be asked for in parts: its one fill was the only chance.
        // Of a version that is not any more there is nothing to be had.
        let outdated = self.object.description().fault() == Some(CHANGED);
        if outdated || self.attempts >= limits::ORIGIN_ATTEMPTS || self.object.length().is_none() {
            return Err(Broken::Gone);
        }
        self.attempts += 1;
        Ok(None)
    }

    /// Has the next slices come while this one does or is sent: one after the other would cost an origin far away a
    /// round trip each.
    fn prefetch(&mut self, worker: &Rc<Worker>, slice: u32, end: u64) {
        let end = self.object.length().unwrap_or(0).min(end);
        let window = fill_window(&self.object);
        let ahead = self.looked_at.max(slice + 1)..slice.saturating_add(window).saturating_add(1);
        for next in ahead {
            self.looked_at = next + 1;
            if u64::from(next) * u64::from(self.object.slice_bytes()) >= end {
                return;
            }
            if let Part::Missing(fill) = self.object.slice(next) {
                self.object.description().audience.mark_slice(&self.store.prefetches, next);
                let (worker, store) = (Rc::clone(worker), self.store.clone());
                task::begin(async move { fetch_slice(&worker, &store, fill).await });
            }
        }
    }

    fn stretch(&mut self, lease: Lease, within: Range<u32>, wanted: Range<u64>) -> Option<Stretch> {
        let left = u32::try_from(wanted.end - wanted.start).unwrap_or(u32::MAX);
        let end = within.end.min(within.start.saturating_add(left));
        let extent = lease.extent(within.start..end)?;
        let (slice, _) = self.object.locate(wanted.start);
        if self.counted.replace(slice) != Some(slice) {
            self.object.count_request(slice);
        }
        // Progress: what fails later gets its own attempts.
        self.attempts = 0;
        let length = extent.len;
        if let Some(Piece::Range(range)) = self.pieces.front_mut() {
            range.start += length;
        }
        let parts = self.framed(length, [BodyPart::Extent(extent)]);
        Some(Stretch { parts, _lease: Some(lease) })
    }

    /// These bytes of the body as they are sent: as one chunk, if it goes in chunks.
    fn framed(&self, length: u64, parts: impl IntoIterator<Item = BodyPart>) -> Vec<BodyPart> {
        if !self.chunked {
            return parts.into_iter().collect();
        }
        let (size, end) = (format!("{length:x}\r\n").into_bytes(), b"\r\n".to_vec());
        std::iter::once(BodyPart::Owned(size)).chain(parts).chain([BodyPart::Owned(end)]).collect()
    }
}
