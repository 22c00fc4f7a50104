//! The body of a request to an origin, as a bounded channel of pieces.

use std::cell::Cell;
use std::fmt;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Instant;

use hyper::body::{Body, Bytes, Frame, SizeHint};
use tokio::sync::mpsc;

/// Pieces that may wait between the sender of a body and the connection.
const PIECES: usize = 4;

/// State shared by both ends of a body.
#[derive(Debug, Default)]
struct BodyProgress {
    finished: Cell<bool>,
    /// When a piece was last taken.
    moved: Cell<Option<Instant>>,
    /// Whether the connection waits for the next piece.
    starved: Cell<bool>,
}

/// The sending end of a request's body. Dropping it without [`finish`](Self::finish) aborts the request.
#[derive(Debug)]
pub struct BodySender {
    pieces: mpsc::Sender<Bytes>,
    shared: Rc<BodyProgress>,
}

/// Space for one piece of a request's body.
#[derive(Debug)]
pub struct PieceSpace<'s>(mpsc::Permit<'s, Bytes>);

impl PieceSpace<'_> {
    /// Sends a piece.
    pub fn send(self, piece: impl Into<Bytes>) {
        self.0.send(piece.into());
    }
}

/// The receiving end of a request's body, which goes with the request.
#[derive(Debug)]
pub struct RequestBody {
    pieces: mpsc::Receiver<Bytes>,
    length: Option<u64>,
    taken: u64,
    shared: Rc<BodyProgress>,
}

/// The request has ended, so that no more of its body is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestEnded;

/// Makes a body of `length` bytes. Without a length it is sent in chunks (RFC 9112 §7.1).
pub fn request_body(length: Option<u64>) -> (BodySender, RequestBody) {
    let (sender, pieces) = mpsc::channel(PIECES);
    let shared = Rc::new(BodyProgress::default());
    let body = RequestBody { pieces, length, taken: 0, shared: Rc::clone(&shared) };
    (BodySender { pieces: sender, shared }, body)
}

impl BodySender {
    /// Sends the next piece as soon as there is space for it.
    ///
    /// # Errors
    /// The request has ended; its answer says how.
    pub async fn send(&self, piece: impl Into<Bytes>) -> Result<(), RequestEnded> {
        self.space().await.map(|space| space.send(piece))
    }

    /// Waits until there is space for the next piece.
    ///
    /// # Errors
    /// The request has ended; its answer says how.
    pub async fn space(&self) -> Result<PieceSpace<'_>, RequestEnded> {
        self.pieces.reserve().await.map(PieceSpace).map_err(|_| RequestEnded)
    }

    /// Marks the end of the body.
    pub fn finish(self) {
        self.shared.finished.set(true);
    }
}

/// Progress of a body, for deadlines.
pub(super) struct BodyWatch(Rc<BodyProgress>);

impl BodyWatch {
    /// When a piece was last taken; `None` if none ever was, so that the request can still be sent elsewhere.
    pub(super) fn moved(&self) -> Option<Instant> {
        self.0.moved.get()
    }

    /// Whether the connection waits for the client to send more.
    pub(super) fn is_starved(&self) -> bool {
        self.0.starved.get()
    }
}

/// The body ended before its announced end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BodyAborted;

impl fmt::Display for BodyAborted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the body of the request broke off")
    }
}

impl std::error::Error for BodyAborted {}

/// The body of any request to an origin.
#[derive(Debug)]
pub(super) enum Outgoing {
    Nothing,
    Stream(RequestBody),
}

impl Outgoing {
    /// A view of the progress of a body that is streamed.
    pub(super) fn watch(&self) -> Option<BodyWatch> {
        match self {
            Self::Nothing => None,
            Self::Stream(body) => Some(BodyWatch(Rc::clone(&body.shared))),
        }
    }
}

impl Body for Outgoing {
    type Data = Bytes;
    type Error = BodyAborted;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyAborted>>> {
        let Self::Stream(body) = self.get_mut() else { return Poll::Ready(None) };
        let next = body.pieces.poll_recv(context);
        body.shared.starved.set(next.is_pending());
        let Poll::Ready(piece) = next else { return Poll::Pending };
        Poll::Ready(match piece {
            Some(piece) => {
                body.taken += piece.len() as u64;
                body.shared.moved.set(Some(Instant::now()));
                Some(Ok(Frame::data(piece)))
            }
            None if body.shared.finished.get() && body.length.is_none_or(|length| length == body.taken) => {
                None
            }
            None => Some(Err(BodyAborted)),
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
