//! The body of an answer that is for one client alone. It never comes into the cache: it goes from its origin to that
//! client through a few pieces of memory, and a client that takes no more of them holds up its origin.

use std::cell::Cell;
use std::ops::Range;
use std::rc::Rc;

use hyper::body::Bytes;
use penstock_cache::Object;
use penstock_config::limits;
use penstock_origin::http::OriginError;
use tokio::sync::{Semaphore, mpsc};

use super::Description;
use super::fill::{CHANGED, ask_for};
use super::follow::Broken;
use super::manifest::Arriving;
use crate::worker::Worker;

/// Nobody is there any more to take the rest.
const NO_READERS: &str = "no_readers";

/// The end of a body where it is put in. Dropped before all of it was, the body breaks off.
pub(super) struct Inlet {
    pieces: mpsc::Sender<Bytes>,
    room: Rc<Semaphore>,
    is_whole: Rc<Cell<bool>>,
}

/// The end of a body where it is taken out.
pub(super) struct Flow {
    pieces: mpsc::Receiver<Bytes>,
    /// In bytes.
    room: Rc<Semaphore>,
    is_whole: Rc<Cell<bool>>,
}

/// What was asked of the origin, as far as it says what to do when something goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Asking {
    /// A GET: what is missing can be asked for again.
    Get,
    /// Something that may have an effect: it is not asked twice, and goes on if the client leaves.
    Effect,
}

/// A body that has somewhere to go, and what is known of it.
pub(super) struct Carriage<'w> {
    pub(super) worker: &'w Worker,
    pub(super) object: &'w Object<Description>,
    pub(super) inlet: Inlet,
    pub(super) asking: Asking,
}

/// Both ends of a body.
pub(super) fn flow() -> (Inlet, Flow) {
    let (sender, receiver) = mpsc::channel(limits::FLOW_PIECES);
    let (room, is_whole) = (Rc::new(Semaphore::new(limits::FLOW_BYTES as usize)), Rc::new(Cell::new(false)));
    let inlet = Inlet { pieces: sender, room: Rc::clone(&room), is_whole: Rc::clone(&is_whole) };
    (inlet, Flow { pieces: receiver, room, is_whole })
}

/// The room that a piece takes: a larger one than fits waits until it is alone.
fn room_for(piece: &Bytes) -> u32 {
    u32::try_from(piece.len()).unwrap_or(u32::MAX).min(limits::FLOW_BYTES)
}

impl Inlet {
    /// Puts in a piece as soon as there is room for it; false if nobody takes it any more.
    async fn put(&self, piece: Bytes) -> bool {
        match self.room.acquire_many(room_for(&piece)).await {
            // Given back by who takes the piece.
            Ok(room) => room.forget(),
            Err(_) => return false,
        }
        self.pieces.send(piece).await.is_ok()
    }
}

impl Drop for Flow {
    fn drop(&mut self) {
        self.room.close();
    }
}

impl Flow {
    /// The pieces that are there, at least one; `None` behind the last.
    ///
    /// # Errors
    /// [`Broken::Gone`] if the body broke off.
    pub(super) async fn next(&mut self) -> Result<Option<Vec<Bytes>>, Broken> {
        let mut pieces = Vec::with_capacity(limits::FLOW_PIECES);
        match self.pieces.recv_many(&mut pieces, limits::FLOW_PIECES).await {
            0 if self.is_whole.get() => Ok(None),
            0 => Err(Broken::Gone),
            _ => {
                self.room.add_permits(pieces.iter().map(room_for).sum::<u32>() as usize);
                Ok(Some(pieces))
            }
        }
    }
}

impl<'w> Carriage<'w> {
    /// Hands on all of an object, of which `first` brings the beginning. What is not in that answer, and what breaks
    /// off, is asked for from where it ended.
    ///
    /// # Errors
    /// Why the rest does not come.
    pub(super) async fn carry(self, first: Arriving<'w>) -> Result<(), &'static str> {
        let Self { worker, object, .. } = self;
        let (mut at, mut attempts) = (0, 0);
        let mut next = Ok((first, 0));
        loop {
            let before = at;
            let outcome = match next {
                Ok((arriving, from)) => self.hand_on(arriving, from, &mut at).await,
                Err(reason) => Err(reason),
            };
            if at > before {
                // Progress: what fails later gets its own attempts.
                attempts = 0;
            }
            let rest: Option<Range<u64>> = object.length().map(|length| at..length);
            match outcome {
                Ok(()) if rest.as_ref().is_none_or(Range::is_empty) => {
                    self.inlet.is_whole.set(true);
                    return Ok(());
                }
                // A part, as it was asked for.
                Ok(()) => {}
                Err(reason) => {
                    let is_final = matches!(reason, NO_READERS | CHANGED) || self.asking == Asking::Effect;
                    attempts += 1;
                    if is_final || attempts > limits::ORIGIN_ATTEMPTS {
                        return Err(reason);
                    }
                    worker.shard.origin(reason);
                    object.description().set_fault(reason);
                }
            }
            // Without a length nobody can be asked for what is missing.
            let Some(rest) = rest else { return Err(OriginError::CutShort.label()) };
            let answer = ask_for(worker, object, rest).await;
            next = answer.map(|(answer, from)| (Arriving::unread(answer), from));
        }
    }

    /// Hands on what one answer brings, which begins at byte `from`. What is before `at` has been handed on already.
    async fn hand_on(&self, mut arriving: Arriving<'w>, from: u64, at: &mut u64) -> Result<(), &'static str> {
        let (pieces, goes_on) = (&self.inlet.pieces, self.asking == Asking::Effect);
        let mut known = at.saturating_sub(from);
        let mut for_nobody = 0;
        loop {
            let piece = tokio::select! {
                biased;
                () = pieces.closed(), if !goes_on => return Err(NO_READERS),
                piece = arriving.next() => piece.map_err(OriginError::label)?,
            };
            let Some(mut piece) = piece else { return Ok(()) };
            self.worker.shard.filled(piece.len() as u64);
            let passed_over = usize::try_from(known).unwrap_or(usize::MAX).min(piece.len());
            drop(piece.split_to(passed_over));
            known -= passed_over as u64;
            let length = piece.len() as u64;
            *at += length;
            if self.object.length().is_none() && *at > self.object.description().site.max_unannounced {
                return Err("too_long");
            }
            if length > 0 && !self.inlet.put(piece).await {
                for_nobody += length;
                if !goes_on || for_nobody > limits::FLOW_FOR_NOBODY_BYTES {
                    return Err(NO_READERS);
                }
            }
        }
    }
}
