//! An HTTP/1 connection as the carrier of one response and of its request's body.

use std::rc::Rc;
use std::time::Instant;

use penstock_config::limits;
use penstock_egress::{Part, Parts, SendError, Step, Transmission};
use penstock_http::body::{BodyDecoder, Decoded};
use penstock_http::{BodyFraming, Method, Rejection, Request, ResponseHead, response};
use tokio::time::sleep_until;

use crate::carrier::{Carrier, NOTHING_SENT, send};
use crate::clients::{BodyPiece, ClientBody, ClientBudget, Upload, departure};
use crate::connection::{
    Connection, ReadOutcome, UNEXPECTED_MESSAGE, drop_unacknowledged, unacknowledged_bytes,
};
use crate::metrics::ShortReason;
use crate::settings::Settings;

/// One response on an HTTP/1 connection.
pub(super) struct Http1Carrier<'c> {
    pub(super) connection: &'c mut Connection,
    pub(super) settings: &'c Settings,
    /// Whether the content is sent in chunks (RFC 9112 §7.1).
    chunked: bool,
    /// Whether the connection is closed behind the response.
    pub(super) is_last: bool,
    /// The client's time to take the whole response.
    pub(super) budget: ClientBudget,
    /// An upload that goes on until the response has been sent.
    upload: Option<Box<Upload>>,
}

impl<'c> Http1Carrier<'c> {
    pub(super) fn new(connection: &'c mut Connection, settings: &'c Settings, chunked: bool) -> Self {
        let budget = ClientBudget::to_take(&settings.limits);
        let upload = connection.upload.take();
        Self { connection, settings, chunked, is_last: false, budget, upload }
    }

    /// Sends the rest of the request's body on.
    async fn upload(&mut self) -> Option<ShortReason> {
        let Some(upload) = &mut self.upload else { return None };
        let socket = Rc::clone(&self.connection.socket);
        let mut body = Http1Body::rest(self.connection, self.settings);
        let sent = tokio::select! {
            biased;
            sent = upload.run_beside_response(&mut body) => sent,
            () = departure(&socket) => Err(ShortReason::ClientClosed),
        };
        self.upload = None;
        sent.err()
    }

    /// Waits until the socket is readable, if more may be read; else forever.
    async fn client_speaks(&mut self) -> Option<ShortReason> {
        if self.upload.is_some() {
            return Box::pin(self.upload()).await;
        }
        if !self.connection.may_read(self.settings) {
            std::future::pending::<()>().await;
        }
        match self.connection.socket.readable().await {
            Ok(()) => read_while_sending(self.connection),
            Err(_) => Some(ShortReason::ClientClosed),
        }
    }

    /// The same; if no more may be read, waits until the client has left.
    async fn client_speaks_or_leaves(&mut self) -> Option<ShortReason> {
        if self.upload.is_some() || self.connection.may_read(self.settings) {
            return self.client_speaks().await;
        }
        departure(&self.connection.socket).await;
        Some(ShortReason::ClientClosed)
    }
}

impl Carrier for Http1Carrier<'_> {
    fn frame(&self, parts: Parts, length: u64) -> Parts {
        if !self.chunked {
            return parts;
        }
        let (size, end) = (format!("{length:x}\r\n").into_bytes(), b"\r\n".to_vec());
        std::iter::once(Part::Owned(size)).chain(parts).chain([Part::Owned(end)]).collect()
    }

    fn end(&self) -> Parts {
        self.chunked.then(|| Part::Owned(b"0\r\n\r\n".to_vec())).into_iter().collect()
    }

    fn finish(&self, transmission: &mut Transmission) {
        if self.is_last {
            transmission.end_connection();
        }
    }

    fn begin(&mut self, transmission: &Transmission) {
        let Connection { path, outlet, .. } = &mut *self.connection;
        path.before_responses(outlet, [transmission], &self.settings.kernel);
    }

    async fn advance(&mut self, transmission: &mut Transmission, now: Instant) -> Result<Step, SendError> {
        let step = self.connection.outlet.advance(transmission, now);
        if let Ok(Step::Sent(count)) = step {
            self.connection.worker.shard.sent(self.connection.outlet_kind(), count as u64);
        }
        step
    }

    async fn between_steps(&mut self, now: Instant) -> Option<ShortReason> {
        // Other connections of this worker get their turn between two batches.
        tokio::task::yield_now().await;
        if self.connection.may_read(self.settings)
            && let Some(why) = read_while_sending(self.connection)
        {
            return Some(why);
        }
        // A replay of early data never finishes its handshake.
        let is_late = self.connection.early_deadline().is_some_and(|deadline| now > deadline);
        is_late.then_some(ShortReason::TooSlow)
    }

    async fn wait_until_writable(&mut self, sent: u64) -> Option<ShortReason> {
        let socket = Rc::clone(&self.connection.socket);
        loop {
            let begun = Instant::now();
            let budgeted = self.budget.left().map(|left| begun + left);
            let early = self.connection.early_deadline();
            let too_late = async {
                match budgeted.into_iter().chain(early).min() {
                    Some(deadline) => sleep_until(deadline.into()).await,
                    None => std::future::pending().await,
                }
            };
            let ended = tokio::select! {
                biased;
                ready = socket.writable() => Some(ready.err().map(|_| ShortReason::ClientClosed)),
                why = self.client_speaks() => Some(why),
                () = too_late => None,
            };
            self.budget.spend(begun.elapsed());
            if let Some(ended) = ended {
                return ended;
            }
            // Bytes given to the kernel are not taken: a client that never reads leaves megabytes there.
            let taken = sent.saturating_sub(unacknowledged_bytes(&socket));
            let is_early_too_late = early.is_some_and(|deadline| Instant::now() >= deadline);
            if is_early_too_late || !self.budget.earn(taken) {
                drop_unacknowledged(&socket);
                return Some(ShortReason::TooSlow);
            }
        }
    }

    async fn wait_for<T>(&mut self, coming: impl Future<Output = T>) -> Result<T, ShortReason> {
        let mut coming = std::pin::pin!(coming);
        loop {
            tokio::select! {
                biased;
                done = &mut coming => return Ok(done),
                why = self.client_speaks_or_leaves() => if let Some(why) = why {
                    return Err(why);
                },
            }
        }
    }
}

/// Reads what the client sends during a response: pipelined requests, KeyUpdates, its end. A client that has closed its
/// sending direction still gets the response (RFC 8446 §6.1, RFC 9112 §9.6).
fn read_while_sending(connection: &mut Connection) -> Option<ShortReason> {
    match connection.read() {
        // A reset was read, and the kernel does not report it again.
        ReadOutcome::Ended if connection.socket.peer_addr().is_err() => Some(ShortReason::ClientClosed),
        ReadOutcome::Bytes | ReadOutcome::Nothing | ReadOutcome::Ended => None,
        ReadOutcome::KeyUpdates => {
            connection.set_closing_alert(Some(UNEXPECTED_MESSAGE));
            Some(ShortReason::KeyUpdates)
        }
        ReadOutcome::Broken(alert) => {
            connection.set_closing_alert(alert);
            Some(ShortReason::ClientClosed)
        }
    }
}

/// The body of the request that is being answered.
pub(super) struct Http1Body<'c> {
    connection: &'c mut Connection,
    settings: &'c Settings,
    unread: Unread,
}

/// What is known of a body before its first byte is read.
#[derive(Clone, Copy)]
struct Unread {
    framing: BodyFraming,
    /// Whether the client holds it back: the final response comes without `100 Continue`. The client may send the body or not,
    /// so the connection ends behind the response (RFC 9110 §10.1.1).
    is_held_back: bool,
    /// Whether the method has a body by its meaning: the response says more than 413.
    is_usual: bool,
    /// When the request had come.
    started: Instant,
}

impl<'c> Http1Body<'c> {
    pub(super) fn new(
        connection: &'c mut Connection,
        request: &Request<'_>,
        started: Instant,
        settings: &'c Settings,
    ) -> Self {
        let unread = Unread {
            framing: request.body(),
            is_held_back: request.expect_continue() || request.has_unknown_expectation(),
            is_usual: matches!(request.method(), Method::Other(_)),
            started,
        };
        if unread.framing != BodyFraming::None {
            connection.body = Some(BodyDecoder::new(unread.framing, settings.limits.body_bytes));
        }
        Self { connection, settings, unread }
    }

    /// What has not been read of it.
    fn rest(connection: &'c mut Connection, settings: &'c Settings) -> Self {
        let unread = Unread {
            framing: BodyFraming::None,
            is_held_back: false,
            is_usual: true,
            started: Instant::now(),
        };
        Self { connection, settings, unread }
    }

    /// Sends the head of an interim response.
    async fn send_head(&mut self, head: Vec<u8>) {
        let interim = Transmission::new([Part::Owned(head)]);
        let worker = Rc::clone(&self.connection.worker);
        let mut sent = NOTHING_SENT;
        let mut carrier = Http1Carrier::new(self.connection, self.settings, false);
        send(&mut carrier, &worker, interim, &mut sent).await;
    }

    async fn read_past(&mut self) -> Result<bool, Rejection> {
        let Unread { framing, is_held_back, is_usual, started } = self.unread;
        let most = if is_usual { u64::MAX } else { limits::DROPPED_BODY_BYTES };
        let is_too_long =
            is_usual && matches!(framing, BodyFraming::Length(length) if length > limits::DROPPED_BODY_BYTES);
        self.connection.body = Some(BodyDecoder::new(framing, most));
        if is_too_long || is_held_back {
            return Ok(false);
        }
        let deadline = started + self.settings.limits.head_deadline;
        let mut dropped = 0;
        while dropped <= limits::DROPPED_BODY_BYTES {
            let Connection { inbox, body, .. } = &mut *self.connection;
            let Some(decoder) = body else { return Ok(true) };
            let skipped = decoder.skip(inbox)?;
            self.connection.drop_from_inbox(skipped.consumed);
            if skipped.done {
                self.connection.body = None;
                return Ok(true);
            }
            dropped += skipped.consumed as u64;
            if !self.connection.read_until(deadline).await {
                return Ok(false);
            }
        }
        Ok(false)
    }
}

impl ClientBody for Http1Body<'_> {
    async fn pass_over(&mut self) -> Result<bool, Rejection> {
        match self.unread.framing {
            BodyFraming::None => Ok(true),
            // Boxed: few requests have a body.
            BodyFraming::Length(_) | BodyFraming::Chunked => Box::pin(self.read_past()).await,
        }
    }

    fn check(&mut self) -> Result<(), Rejection> {
        self.connection.body.as_mut().map_or(Ok(()), |decoder| decoder.skip(&[]).map(drop))
    }

    async fn send_continue(&mut self) {
        self.send_head(response::CONTINUE.to_vec()).await;
    }

    async fn send_interim(&mut self, head: ResponseHead) {
        self.send_head(head.into_http1(|_| {})).await;
    }

    fn take(&mut self) -> Result<BodyPiece, Rejection> {
        let mut content = Vec::new();
        let Connection { inbox, body, .. } = &mut *self.connection;
        let available = inbox.len().min(limits::PASSED_PIECE_BYTES);
        let read = match body {
            Some(decoder) => decoder.read(&inbox[..available], |bytes| content.extend_from_slice(bytes))?,
            None => Decoded { consumed: 0, done: true },
        };
        if read.done {
            *body = None;
        }
        self.connection.drop_from_inbox(read.consumed);
        Ok(BodyPiece {
            content,
            received: read.consumed as u64,
            is_last: read.done,
            has_more: !self.connection.inbox.is_empty(),
        })
    }

    /// TCP tells the client how much may come.
    fn taken(&mut self, _bytes: usize) {}

    async fn wait_for_more(&mut self, deadline: Instant) -> bool {
        self.connection.read_until(deadline).await
    }

    async fn departed(&self) {
        departure(&self.connection.socket).await;
    }

    fn go_on(&mut self, upload: Box<Upload>) {
        self.connection.upload = Some(upload);
    }
}
