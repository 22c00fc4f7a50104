//! The body of a request on its way to an origin: a few pieces at a time, and no more.

use std::cell::Cell;
use std::fmt;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Instant;

use hyper::body::{Body, Bytes, Frame, SizeHint};
use tokio::sync::mpsc;

/// Pieces that may wait between who sends a body and the connection that takes it.
const PIECES: usize = 4;

/// What both ends of a body share.
#[derive(Debug)]
struct Shared {
    finished: Cell<bool>,
    /// When a piece was last taken.
    moved: Cell<Option<Instant>>,
}

/// The end of a request's body where it is put in. Dropped without [`finish`](Self::finish) the request breaks off.
#[derive(Debug)]
pub struct BodySender {
    pieces: mpsc::Sender<Bytes>,
    shared: Rc<Shared>,
}

/// The end of a request's body that goes with the request.
#[derive(Debug)]
pub struct RequestBody {
    pieces: mpsc::Receiver<Bytes>,
    length: Option<u64>,
    taken: u64,
    shared: Rc<Shared>,
}

/// Nobody takes the body any more: the request has ended, one way or another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NobodyTakes;

/// A body of `length` bytes, or of any number, which is then sent in chunks (RFC 9112 §7.1).
pub fn request_body(length: Option<u64>) -> (BodySender, RequestBody) {
    let (sender, pieces) = mpsc::channel(PIECES);
    let shared = Rc::new(Shared { finished: Cell::new(false), moved: Cell::new(None) });
    let body = RequestBody { pieces, length, taken: 0, shared: Rc::clone(&shared) };
    (BodySender { pieces: sender, shared }, body)
}

impl BodySender {
    /// Puts in the next piece as soon as there is room for it.
    ///
    /// # Errors
    /// The request has ended; its answer says how.
    pub async fn send(&self, piece: impl Into<Bytes>) -> Result<(), NobodyTakes> {
        self.pieces.send(piece.into()).await.map_err(|_| NobodyTakes)
    }

    /// That was all of it.
    pub fn finish(self) {
        self.shared.finished.set(true);
    }
}

impl RequestBody {
    /// What tells how far it has come.
    pub(super) fn watch(&self) -> BodyWatch {
        BodyWatch(Rc::clone(&self.shared))
    }
}

/// How far a body has come, for deadlines.
pub(super) struct BodyWatch(Rc<Shared>);

impl BodyWatch {
    /// When a piece was last taken; `None` if none ever was, so that the request can still be sent elsewhere.
    pub(super) fn moved(&self) -> Option<Instant> {
        self.0.moved.get()
    }
}

/// Whoever sent the body has stopped before its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BrokeOff;

impl fmt::Display for BrokeOff {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the body of the request broke off")
    }
}

impl std::error::Error for BrokeOff {}

/// The body of any request to an origin.
#[derive(Debug)]
pub(super) enum Outgoing {
    Nothing,
    Stream(RequestBody),
}

impl Body for Outgoing {
    type Data = Bytes;
    type Error = BrokeOff;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BrokeOff>>> {
        let Self::Stream(body) = self.get_mut() else { return Poll::Ready(None) };
        let Poll::Ready(piece) = body.pieces.poll_recv(context) else { return Poll::Pending };
        Poll::Ready(match piece {
            Some(piece) => {
                body.taken += piece.len() as u64;
                body.shared.moved.set(Some(Instant::now()));
                Some(Ok(Frame::data(piece)))
            }
            None if body.shared.finished.get() && body.length.is_none_or(|length| length == body.taken) => {
                None
            }
            None => Some(Err(BrokeOff)),
        })
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Nothing => true,
            Self::Stream(body) => body.length == Some(body.taken),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Nothing => SizeHint::with_exact(0),
            Self::Stream(body) => match body.length {
                Some(length) => SizeHint::with_exact(length.saturating_sub(body.taken)),
                None => SizeHint::default(),
            },
        }
    }
}
