//! The body of a request on an HTTP/1 connection.

use std::rc::Rc;
use std::time::Instant;

use penstock_config::limits;
use penstock_egress::{Part, Transmission};
use penstock_http::body::{BodyDecoder, Decoded};
use penstock_http::{Rejection, Request, response};

use super::carrier::Http1Carrier;
use crate::carrier::{Sent, send};
use crate::clients::{BodyPiece, ClientBody, Upload, departure};
use crate::connection::Connection;
use crate::settings::Settings;

/// The body of the request that is being answered.
pub(super) struct Http1Body<'c> {
    connection: &'c mut Connection,
    settings: &'c Settings,
}

impl<'c> Http1Body<'c> {
    pub(super) fn new(connection: &'c mut Connection, request: &Request<'_>, settings: &'c Settings) -> Self {
        connection.body = Some(BodyDecoder::new(request.body(), settings.limits.body_bytes));
        Self::rest(connection, settings)
    }

    /// What has not been read of it.
    pub(super) fn rest(connection: &'c mut Connection, settings: &'c Settings) -> Self {
        Self { connection, settings }
    }
}

impl ClientBody for Http1Body<'_> {
    fn check(&mut self) -> Result<(), Rejection> {
        self.connection.body.as_mut().map_or(Ok(()), |decoder| decoder.skip(&[]).map(drop))
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
