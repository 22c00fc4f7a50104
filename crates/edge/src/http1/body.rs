//! The body of a request on an HTTP/1 connection.

use std::rc::Rc;
use std::time::Instant;

use penstock_config::limits;
use penstock_egress::{Part, Transmission};
use penstock_http::body::BodyDecoder;
use penstock_http::{BodyFraming, Rejection, Request, response};

use super::carrier::Http1Carrier;
use crate::carrier::{BodyPiece, ClientBody, Sent, send};
use crate::clients::departure;
use crate::connection::Connection;
use crate::settings::Settings;

/// The body of the request that is being answered.
pub(super) struct Http1Body<'c> {
    connection: &'c mut Connection,
    settings: &'c Settings,
    framing: BodyFraming,
    /// Whether the client holds the body back (RFC 9110 §10.1.1).
    is_held_back: bool,
    /// When the request had come.
    started: Instant,
    decoder: BodyDecoder,
}

impl<'c> Http1Body<'c> {
    pub(super) fn new(
        connection: &'c mut Connection,
        request: &Request<'_>,
        started: Instant,
        settings: &'c Settings,
    ) -> Self {
        let (framing, is_held_back) = (request.body(), request.expect_continue());
        let decoder = BodyDecoder::new(framing, settings.limits.body_bytes);
        Self { connection, settings, framing, is_held_back, started, decoder }
    }

    async fn read_past(&mut self) -> Result<bool, Rejection> {
        if self.is_held_back {
            // The final response comes without `100 Continue`. The client may send the body or not, so the connection ends
            // behind the response (RFC 9110 §10.1.1).
            return Ok(false);
        }
        let deadline = self.started + self.settings.limits.head_deadline;
        let mut body = BodyDecoder::new(self.framing, limits::DROPPED_BODY_BYTES);
        loop {
            let skipped = body.skip(&self.connection.inbox)?;
            self.connection.drop_from_inbox(skipped.consumed);
            if skipped.done {
                return Ok(true);
            }
            if !self.connection.read_until(deadline).await {
                return Ok(false);
            }
        }
    }
}

impl ClientBody for Http1Body<'_> {
    async fn pass_over(&mut self) -> Result<bool, Rejection> {
        match self.framing {
            BodyFraming::None => Ok(true),
            // Boxed: few requests have a body.
            BodyFraming::Length(_) | BodyFraming::Chunked => Box::pin(self.read_past()).await,
        }
    }

    fn check(&mut self) -> Result<(), Rejection> {
        self.decoder.skip(&[]).map(|_| ())
    }

    async fn send_continue(&mut self) {
        let interim = Transmission::new([Part::Owned(response::CONTINUE.to_vec())]);
        let worker = Rc::clone(&self.connection.worker);
        let mut sent = Sent { bytes: 0, first_byte: None, short: None };
        let mut carrier = Http1Carrier::new(self.connection, self.settings, false);
        send(&mut carrier, &worker, interim, &mut sent).await;
    }

    fn take(&mut self) -> Result<BodyPiece, Rejection> {
        let mut content = Vec::new();
        let inbox = &self.connection.inbox;
        let available = inbox.len().min(limits::PASSED_PIECE_BYTES);
        let read = self.decoder.read(&inbox[..available], |bytes| content.extend_from_slice(bytes))?;
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
}
