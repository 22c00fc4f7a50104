//! The body of a fuzz target: arbitrary bytes as the response of an origin.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use hyper::Request;
use hyper::client::conn::http1::Builder;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::task::LocalSet;

use super::body::Outgoing;
use super::dial::begin;
use super::error::OriginError;
use super::exchange::fault_of_head;
use super::fetch::Fetch;
use super::relay;
use super::response::{OriginResponse, ResponseConnection};
use super::settings::{HealthLimits, MinimumRate, OriginLimits};
use super::stream::ServerStream;

const MINUTE: Duration = Duration::from_secs(60);

pub(super) const LIMITS: OriginLimits = OriginLimits {
    connect: MINUTE,
    first_byte: MINUTE,
    between_bytes: MINUTE,
    minimum_rate: MinimumRate { bytes_per_second: 0, window: MINUTE },
    head_bytes: 16 * 1024,
    read_bytes: 16 * 1024,
    head_fields: 100,
    idle_connections: 0,
    connection_age: MINUTE,
    connections: 1,
    waiting: 0,
    lookups: 0,
    retries: 0,
    redirects: 0,
    sessions: 0,
    health: HealthLimits {
        unhealthy_after: 1,
        healthy_after: 1,
        backoff: MINUTE,
        backoff_max: MINUTE,
        checked: false,
    },
};

/// Status, fields and body of a response, and whether the body came to its end.
type ReadResponse = Result<(u16, Vec<(String, Vec<u8>)>, Vec<u8>, bool), OriginError>;

/// Reads one byte and a response: at once, and in pieces of so many bytes. Both say the same, and so does the parser of
/// relayed responses if it takes the head; the answer of the first is shown to `look` before its body is read.
///
/// # Panics
/// When they do not.
#[doc(hidden)]
pub fn fuzz_response(input: &[u8], look: impl Fn(&OriginResponse<'_>)) {
    let Some((&piece, response)) = input.split_first() else { return };
    let whole = read(response, response.len().max(1), &look);
    // The parser of relayed responses is stricter than hyper, and reads nothing else.
    if let (Some(head), Ok(read)) = (relay::final_head(response, &Fetch::get("/"), &LIMITS), &whole) {
        assert_eq!(head.status, read.0);
        let announced = read.1.iter().find(|(name, _)| name == "content-length");
        let announced = announced.and_then(|(_, value)| str::from_utf8(value).ok()?.parse().ok());
        assert_eq!(head.announced, announced);
    }
    let in_pieces = read(response, usize::from(piece % 32) + 1, |_| {});
    match (whole, in_pieces) {
        (Err(_), Err(_)) => {}
        (Ok(whole), Ok(in_pieces)) if !whole.3 => assert!(whole.0 == in_pieces.0 && !in_pieces.3),
        (whole, in_pieces) => assert_eq!(whole, in_pieces, "in pieces of {}", piece % 32 + 1),
    }
}

fn read(response: &[u8], piece: usize, look: impl Fn(&OriginResponse<'_>)) -> ReadResponse {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
    let runtime = runtime.expect("a runtime without I/O needs nothing");
    let given = response.len();
    LocalSet::new().block_on(&runtime, async {
        let stream = Scripted { response: response.to_vec(), sent: 0, piece, asked: false, waiting: None };
        let mut builder = Builder::new();
        builder.max_buf_size(LIMITS.read_bytes).max_headers(LIMITS.head_fields);
        let mut sender = begin(&builder, stream, None).await?;
        let request = Request::builder().uri("/").header("host", "a").body(Outgoing::Nothing);
        let request = request.expect("it is a request");
        let fetch = Fetch::get("/");
        let response = sender.requests.send_request(request).await.map_err(|_| OriginError::Malformed)?;
        if fault_of_head(&response, &fetch, LIMITS.head_bytes).is_some() {
            return Err(OriginError::Malformed);
        }
        let mut answer = OriginResponse::new(response, ResponseConnection::Own(sender), false, &LIMITS);
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

impl ServerStream for Scripted {
    fn acknowledge(&self) {}

    fn is_end_confirmed(&self) -> bool {
        true
    }
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
