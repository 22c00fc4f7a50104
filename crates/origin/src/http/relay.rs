//! Requests whose responses are relayed without the cache. The body of a response without TLS stays in its socket, so that
//! the kernel can move it to the client.
//!
//! This is a small client of HTTP/1.1 beside hyper, which keeps the socket of a body to itself. Servers, health, bounds
//! and retries are those of all requests to origins.

mod head;
mod response;
mod stream;

use std::io;

use hyper::Request;
use tokio::time::{Instant as Deadline, timeout_at};

use self::head::{Head, end_of_head, parse};
use self::response::is_closed;
pub(super) use self::response::{ActiveRequest, Pooled};
pub use self::response::{Moved, Outgoing, RelayedResponse, Upgraded};
pub(super) use self::stream::Stream;
use super::error::OriginError;
use super::fetch::Fetch;
use super::settings::OriginLimits;

/// Bytes that one read of a response head brings at most: small bodies come with it, and little of a long one.
const HEAD_READ_BYTES: usize = 16 * 1024;

/// Why there is no head on one connection.
pub(super) enum NoHead {
    /// The connection ended before the first byte of a response.
    Closed,
    Failed(OriginError),
    /// The text is for the log.
    Malformed(&'static str),
}

/// Request line and fields as they are sent.
pub(super) fn bytes_of(request: &Request<()>) -> Vec<u8> {
    let target = request.uri().path_and_query().map_or("/", |target| target.as_str());
    let mut bytes = format!("{} {target} HTTP/1.1\r\n", request.method()).into_bytes();
    for (name, value) in request.headers() {
        for piece in [name.as_str().as_bytes(), b": ", value.as_bytes(), b"\r\n"] {
            bytes.extend_from_slice(piece);
        }
    }
    bytes.extend_from_slice(b"\r\n");
    bytes
}

/// Sends a request and reads the head of its response within `first_byte`. Returns what came behind the head, too.
pub(super) async fn ask(
    pooled: &mut Pooled,
    request: &[u8],
    fetch: &Fetch,
    limits: &OriginLimits,
) -> Result<(Head, Vec<u8>), NoHead> {
    let deadline = Deadline::now() + limits.first_byte;
    let exchange = async {
        // A server may answer and close before it has read all of the request. Reading tells which.
        let _written = pooled.connection.write(request).await;
        let (head, read) = read_head(&mut pooled.connection, fetch, limits).await?;
        if head.has_body() && read.is_empty() {
            pooled.connection.acknowledge();
        }
        Ok((head, read))
    };
    timeout_at(deadline, exchange).await.unwrap_or(Err(NoHead::Failed(OriginError::Timeout)))
}

/// Reads up to the end of a final head. Interim responses are skipped, and count like the bytes of the head.
async fn read_head(
    stream: &mut Stream,
    fetch: &Fetch,
    limits: &OriginLimits,
) -> Result<(Head, Vec<u8>), NoHead> {
    let (mut bytes, mut scanned, mut skipped) = (Vec::new(), 0, 0);
    loop {
        while let Some(end) = end_of_head(&bytes, scanned) {
            let head = parse(&bytes[..end], fetch, limits).map_err(NoHead::Malformed)?;
            bytes.drain(..end);
            // 101 is the last head of HTTP on its connection.
            if head.status == 101 || !(100..200).contains(&head.status) {
                return Ok((head, bytes));
            }
            if let Some(interim) = &fetch.interim {
                interim.put(head.status, &head.fields);
            }
            (scanned, skipped) = (0, skipped + end);
        }
        scanned = bytes.len();
        if skipped + scanned > limits.head_bytes {
            let error = if skipped > 0 { OriginError::InterimResponses } else { OriginError::Malformed };
            return Err(NoHead::Failed(error));
        }
        let read = stream.read(HEAD_READ_BYTES).await;
        let is_first = skipped + scanned == 0;
        match read {
            Ok(more) if more.is_empty() && is_first => return Err(NoHead::Closed),
            Ok(more) if more.is_empty() => return Err(NoHead::Failed(OriginError::CutShort)),
            Ok(more) if bytes.is_empty() => bytes = more,
            Ok(more) => bytes.extend_from_slice(&more),
            Err(error) => return Err(reading_failed(&error, is_first)),
        }
    }
}

fn reading_failed(error: &io::Error, is_first: bool) -> NoHead {
    if is_first && is_closed(error) { NoHead::Closed } else { NoHead::Failed(OriginError::CutShort) }
}

/// The final head at the start of `bytes`; `None` if there is none that can be relayed.
#[cfg(any(test, feature = "fuzz"))]
pub(super) fn final_head(mut bytes: &[u8], fetch: &Fetch, limits: &OriginLimits) -> Option<Head> {
    loop {
        let (start, behind) = bytes.split_at(end_of_head(bytes, 0)?);
        let head = parse(start, fetch, limits).ok()?;
        if head.status == 101 || !(100..200).contains(&head.status) {
            return Some(head);
        }
        bytes = behind;
    }
}
