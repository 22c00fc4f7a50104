//! Sending one response to its end: the only place that waits for a client to take bytes.

use std::pin::pin;
use std::rc::Rc;
use std::time::{Duration, Instant};

use penstock_config::limits;
use penstock_content::{Body, BodyChunk, ChunkSource};
use penstock_egress::{Part, Parts, SendError, Step, Transmission};
use penstock_origin::http::OriginError;
use penstock_origin::residency::{NotResident, Stream};
use tokio::time::timeout;

use crate::metrics::{Carried, ShortReason};
use crate::worker::Worker;

/// The longest time that a source without a limit of its own may have no bytes.
const SOURCE_PATIENCE: Duration = Duration::from_secs(limits::SOURCE_DEADLINE_SECONDS);

/// How a response was sent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sent {
    /// Bytes given to the carrier, head and framing included, before encryption.
    pub(crate) bytes: u64,
    /// When the first of them were.
    pub(crate) first_byte: Option<Instant>,
    /// Why the response ended early, if it did.
    pub(crate) short: Option<ShortReason>,
    /// How the network carried it, if it was asked.
    pub(crate) carried: Option<Carried>,
    /// When the last of them were, unless something else was waited for since.
    pub(crate) now: Option<Instant>,
}

/// Nothing yet.
pub(crate) const NOTHING_SENT: Sent =
    Sent { bytes: 0, first_byte: None, short: None, carried: None, now: None };

/// What carries one response to its client: an HTTP/1 connection, or a stream of a connection with many responses.
///
/// A carrier frames content, gives bytes to an outlet, and waits for its client, which may meanwhile send
/// more, close, or take too long. Nothing here concerns other responses of the same connection.
pub(crate) trait Carrier {
    /// Frames `length` bytes of content for this carrier.
    fn frame(&self, parts: Parts, length: u64) -> Parts;

    /// What follows the last content; empty if the end needs no bytes.
    fn end(&self) -> Parts;

    /// Called with the last bytes of a response, before their first step.
    fn finish(&self, transmission: &mut Transmission);

    /// Called before the first step of some bytes that can be sent.
    fn begin(&mut self, transmission: &Transmission);

    /// Gives some of the bytes to the outlet. Waits only for the turn of this response, if it shares its connection.
    ///
    /// # Errors
    /// See [`SendError`].
    async fn advance(&mut self, transmission: &mut Transmission, now: Instant) -> Result<Step, SendError>;

    /// Called after each step with bytes left to send. Other responses get their turn here.
    async fn between_steps(&mut self, now: Instant) -> Option<ShortReason>;

    /// Waits until the outlet takes more, as long as the client has time left in its budget. `sent` bytes of the response
    /// were given to the outlet.
    async fn wait_until_writable(&mut self, sent: u64) -> Option<ShortReason>;

    /// Waits for `coming`.
    ///
    /// # Errors
    /// The client is gone, or took too long.
    async fn wait_for<T>(&mut self, coming: impl Future<Output = T>) -> Result<T, ShortReason>;
}

/// Sends a head and a body.
pub(crate) async fn drive(carrier: &mut impl Carrier, worker: &Worker, head: Vec<u8>, body: Body) -> Sent {
    let mut sent = NOTHING_SENT;
    let is_whole = {
        // Pinned here: an async function keeps a future that it gets by value twice.
        let sending = pin!(drive_whole(carrier, worker, head, body, &mut sent));
        worker.send_unless_aborted(sending).await
    };
    if !is_whole {
        sent.short = Some(ShortReason::Drain);
    }
    sent
}

/// Sends a response of which `transmission` is left, as well as what follows its first chunk.
pub(crate) async fn drive_rest(
    carrier: &mut impl Carrier,
    worker: &Worker,
    transmission: Transmission,
    stream: Option<Box<(BodyChunk, ChunkSource)>>,
) -> Sent {
    let mut sent = NOTHING_SENT;
    let is_whole = {
        let sending = pin!(drive_parts(carrier, worker, transmission, stream, &mut sent));
        worker.send_unless_aborted(sending).await
    };
    if !is_whole {
        sent.short = Some(ShortReason::Drain);
    }
    sent
}

async fn drive_whole(
    carrier: &mut impl Carrier,
    worker: &Worker,
    head: Vec<u8>,
    body: Body,
    sent: &mut Sent,
) {
    let head = Part::Owned(head);
    let (parts, stream): (Parts, _) = match body {
        Body::None | Body::Empty | Body::Withheld(_) | Body::Tunnel(_) => (Parts::from_iter([head]), None),
        Body::Part(part) => (Parts::from_iter([head, part]), None),
        Body::Parts(parts) => (std::iter::once(head).chain(parts).collect(), None),
        Body::Stream(_, mut stream) => {
            let first = &mut stream.0;
            let content = carrier.frame(std::mem::take(&mut first.parts), first.length);
            (std::iter::once(head).chain(content).collect(), Some(stream))
        }
    };
    drive_parts(carrier, worker, Transmission::new(parts), stream, sent).await;
}

/// Sends `first`, and what follows it.
async fn drive_parts(
    carrier: &mut impl Carrier,
    worker: &Worker,
    mut first: Transmission,
    stream: Option<Box<(BodyChunk, ChunkSource)>>,
    sent: &mut Sent,
) {
    match stream {
        Some(stream) => {
            let (chunk, rest) = *stream;
            // Boxed, as all that waits here: most responses leave in one call.
            Box::pin(drive_stream(carrier, worker, first, chunk, rest, sent)).await;
        }
        None => {
            carrier.finish(&mut first);
            send(carrier, worker, first, sent).await;
        }
    }
}

/// Sends a stream, of which `transmission` has the first chunk.
async fn drive_stream(
    carrier: &mut impl Carrier,
    worker: &Worker,
    mut transmission: Transmission,
    first: BodyChunk,
    rest: ChunkSource,
    sent: &mut Sent,
) {
    let mut body = Chunked { chunk: Some(first), rest };
    loop {
        if body.rest.is_at_end() && carrier.end().is_empty() {
            carrier.finish(&mut transmission);
        }
        let given_up = send_chunk(carrier, worker, transmission, Some(&mut body), sent).await;
        if sent.short == Some(ShortReason::Truncated)
            && let Some(chunk) = &body.chunk
        {
            chunk.report_failure();
        }
        if sent.short.is_none() && !body.rest.go_back(given_up) {
            sent.short = Some(ShortReason::TooSlow);
        }
        if sent.short.is_some() {
            return;
        }
        let lease = body.chunk.take().and_then(BodyChunk::into_lease).filter(|_| !body.rest.is_paced());
        let next = carrier.wait_for(pin!(body.rest.next(&worker.content))).await;
        sent.now = None;
        drop(lease);
        let mut chunk = match next {
            Ok(Ok(Some(next))) => next,
            Ok(Ok(None)) => {
                let end = carrier.end();
                if !end.is_empty() {
                    let mut end = Transmission::new(end);
                    carrier.finish(&mut end);
                    send(carrier, worker, end, sent).await;
                }
                return;
            }
            Ok(Err(_)) => {
                sent.short = Some(ShortReason::Origin);
                return;
            }
            Err(why) => {
                sent.short = Some(why);
                return;
            }
        };
        let parts = carrier.frame(std::mem::take(&mut chunk.parts), chunk.length);
        transmission = Transmission::new(parts);
        body.chunk = Some(chunk);
    }
}

/// Sends all of `transmission`, or as much as client, files and deadlines allow.
pub(crate) async fn send(
    carrier: &mut impl Carrier,
    worker: &Worker,
    transmission: Transmission,
    sent: &mut Sent,
) {
    send_chunk(carrier, worker, transmission, None, sent).await;
}

/// A body in chunks while one of them is sent.
struct Chunked {
    /// The chunk. Its bytes stay in the cache until they have been sent, or it is given up.
    chunk: Option<BodyChunk>,
    /// The chunks behind it.
    rest: ChunkSource,
}

/// Sends a transmission that holds the bytes of a chunk. Drops the chunk if the client takes nothing and other responses need
/// its memory; returns the bytes not sent.
async fn send_chunk(
    carrier: &mut impl Carrier,
    worker: &Worker,
    mut transmission: Transmission,
    mut body: Option<&mut Chunked>,
    sent: &mut Sent,
) -> u64 {
    let mut given_up = 0;
    carrier.begin(&transmission);
    let mut stream = Stream::default();
    sent.now = None;
    let mut now = Instant::now();
    while sent.short.is_none() {
        match carrier.advance(&mut transmission, now).await {
            Ok(Step::Done) => break,
            Ok(Step::Sent(count)) => {
                sent.first_byte.get_or_insert(now);
                sent.bytes += count as u64;
                if transmission.remaining() == 0 {
                    // What is left to do takes no time that counts.
                    continue;
                }
                sent.short = carrier.between_steps(now).await;
            }
            Ok(Step::Blocked) => {
                let chunk = body.as_deref_mut().map(|body| &mut body.chunk);
                let waiting = wait_for_client(carrier, &mut transmission, chunk, &mut given_up, sent.bytes);
                sent.short = Box::pin(waiting).await;
            }
            Ok(Step::Cold(rest)) => {
                match Box::pin(worker.residency.ensure_front(&mut stream, &rest, now)).await {
                    Ok(window) => transmission.warmed(window),
                    Err(NotResident::Truncated) => sent.short = Some(ShortReason::Truncated),
                    Err(NotResident::Busy | NotResident::Failed(_)) => sent.short = Some(ShortReason::Io),
                }
            }
            Ok(Step::Starved) => {
                let rest = body.as_deref_mut().map(|body| &mut body.rest);
                sent.short = Box::pin(wait_for_source(carrier, worker, &transmission, rest)).await;
            }
            Err(SendError::Truncated) if transmission.source().is_some() => {
                if let Some(body) = body.as_deref_mut() {
                    body.rest.count_fault(&worker.content, OriginError::CutShort);
                }
                sent.short = Some(ShortReason::Origin);
            }
            Err(error) => {
                if let SendError::Kernel(reason) = error {
                    worker.shard.egress_ended(reason);
                }
                sent.short = Some(short_reason(&error));
            }
        }
        now = Instant::now();
    }
    sent.now = Some(now);
    for file in transmission.into_files() {
        // This may be the last reference to a replaced file, and closing it can block.
        worker.io.discard(file);
    }
    given_up
}

/// Waits until the client takes more, and meanwhile gives the chunk up if others need its memory. A body that has to be
/// sent without a gap, since it is framed already, ends then.
async fn wait_for_client(
    carrier: &mut impl Carrier,
    transmission: &mut Transmission,
    chunk: Option<&mut Option<BodyChunk>>,
    given_up: &mut u64,
    sent: u64,
) -> Option<ShortReason> {
    let Some(leased) = chunk else { return carrier.wait_until_writable(sent).await };
    let Some(chunk) = leased else { return carrier.wait_until_writable(sent).await };
    let mut writable = pin!(carrier.wait_until_writable(sent));
    tokio::select! {
        biased;
        ended = &mut writable => return ended,
        () = chunk.until_needed_by_others() => {}
    }
    match transmission.give_up_body() {
        Some(bytes) => {
            *given_up += bytes;
            *leased = None;
            writable.await
        }
        None => Some(ShortReason::TooSlow),
    }
}

/// Waits until the socket that the body comes from has more, for as long as the body allows.
async fn wait_for_source(
    carrier: &mut impl Carrier,
    worker: &Worker,
    transmission: &Transmission,
    rest: Option<&mut ChunkSource>,
) -> Option<ShortReason> {
    let source = Rc::clone(transmission.source()?.socket());
    let patience = rest.as_ref().map_or(SOURCE_PATIENCE, |rest| rest.patience());
    let began = Instant::now();
    // An error of the source is found when it is read.
    let has_more = match carrier.wait_for(timeout(patience, source.readable())).await {
        Ok(waited) => waited.is_ok(),
        Err(why) => return Some(why),
    };
    let is_too_slow = rest.is_some_and(|rest| {
        if !has_more {
            rest.count_fault(&worker.content, OriginError::Timeout);
        }
        has_more && rest.count_wait(&worker.content, began.elapsed(), transmission.remaining()).is_err()
    });
    (is_too_slow || !has_more).then_some(ShortReason::Origin)
}

pub(crate) fn short_reason(error: &SendError) -> ShortReason {
    match error {
        SendError::Truncated => ShortReason::Truncated,
        SendError::Gone => ShortReason::ClientClosed,
        SendError::Io(_) | SendError::KeysWornOut | SendError::Internal | SendError::Kernel(_) => {
            ShortReason::Io
        }
    }
}
