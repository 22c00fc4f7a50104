//! The body of a response: a whole one, or events that come while the client listens.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use hyper::body::{Body, Bytes, Frame, SizeHint};

use crate::feed::Listener;

/// The body of a response of the console.
pub(crate) enum ConsoleBody {
    /// Bytes that exist, until they are taken.
    Whole(Option<Bytes>),
    /// Server-sent events.
    Events(Listener),
}

impl From<String> for ConsoleBody {
    fn from(text: String) -> Self {
        Self::Whole(Some(Bytes::from(text)).filter(|bytes| !bytes.is_empty()))
    }
}

impl Body for ConsoleBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let bytes = match self.get_mut() {
            Self::Whole(bytes) => Poll::Ready(bytes.take()),
            Self::Events(listener) => listener.poll_event(context),
        };
        bytes.map(|bytes| bytes.map(|bytes| Ok(Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        matches!(self, Self::Whole(None))
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Whole(bytes) => SizeHint::with_exact(bytes.as_ref().map_or(0, Bytes::len) as u64),
            Self::Events(_) => SizeHint::default(),
        }
    }
}
