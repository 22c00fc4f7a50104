//! What a fuzzer calls: a response as an origin may send it, read as every response is.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use hyper::Request;
use hyper::client::conn::http1::Builder;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::task::LocalSet;

use super::OriginError;
use super::answer::{Answer, Held};
use super::body::Outgoing;
use super::dial::begin;

/// What was read: status, fields and body, and whether the body came to its end.
type Seen = Result<(u16, Vec<(String, Vec<u8>)>, Vec<u8>, bool), OriginError>;

/// Reads one byte and a response: at once, and in pieces of so many bytes. Both say the same; the answer of the first
/// is shown to `look` before its body is read.
///
/// # Panics
/// When they do not.
#[doc(hidden)]
pub fn fuzz_answer(input: &[u8], look: impl Fn(&Answer<'_>)) {
    let Some((&piece, response)) = input.split_first() else { return };
    let whole = read(response, response.len().max(1), &look);
    let in_pieces = read(response, usize::from(piece % 32) + 1, |_| {});
    match (whole, in_pieces) {
        (Err(_), Err(_)) => {}
        (Ok(whole), Ok(in_pieces)) if !whole.3 => assert!(whole.0 == in_pieces.0 && !in_pieces.3),
        (whole, in_pieces) => assert_eq!(whole, in_pieces, "in pieces of {}", piece % 32 + 1),
    }
}

fn read(response: &[u8], piece: usize, look: impl Fn(&Answer<'_>)) -> Seen {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
    let runtime = runtime.expect("a runtime without I/O needs nothing");
    let given = response.len();
    LocalSet::new().block_on(&runtime, async {
        let stream = Scripted { response: response.to_vec(), sent: 0, piece, asked: false, waiting: None };
        let mut builder = Builder::new();
        builder.max_buf_size(16 * 1024).max_headers(100);
        let mut sender = begin(&builder, stream, None).await?;
        let request = Request::builder().uri("/").header("host", "a").body(Outgoing::Nothing);
        let request = request.expect("it is a request");
        let response = sender.send_request(request).await.map_err(|_| OriginError::Malformed)?;
        let mut answer = Answer::new(response, Held::Own(sender), Duration::from_secs(60));
        look(&answer);
        let fields = answer.fields().iter();
        let fields = fields.map(|(name, value)| (name.to_string(), value.as_bytes().to_vec())).collect();
        let announced = answer.length();
        let mut body = Vec::new();
        let ended = loop {
            match answer.next().await {
                Ok(Some(piece)) => body.extend_from_slice(&piece),
                Ok(None) => break true,
                Err(_) => break false,
            }
        };
        assert!(body.len() <= given, "{} bytes of {given}", body.len());
        assert!(!ended || announced.is_none_or(|announced| announced == body.len() as u64));
        Ok((answer.status(), fields, body, ended))
    })
}

/// A server that answers the first request with these bytes, and closes.
struct Scripted {
    response: Vec<u8>,
    sent: usize,
    piece: usize,
    asked: bool,
    waiting: Option<Waker>,
}

impl AsyncRead for Scripted {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if !self.asked {
            self.waiting = Some(context.waker().clone());
            return Poll::Pending;
        }
        let end = self.response.len().min(self.sent + self.piece.min(buffer.remaining()));
        buffer.put_slice(&self.response[self.sent..end]);
        self.sent = end;
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Scripted {
    fn poll_write(mut self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.asked = true;
        if let Some(waiting) = self.waiting.take() {
            waiting.wake();
        }
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}
