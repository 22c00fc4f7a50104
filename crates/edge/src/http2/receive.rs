//! What a connection has received: bytes for the protocol, and the events that come of them.

use std::time::Instant;

use penstock_http2::{RequestHead, StreamEvent, StreamId};

use super::protocol::Http2;
use super::{Client, End, Session};
use crate::carrier::{Early, Incoming, OpenedStream};
use crate::connection::{CLOSE_NOTIFY, ReadOutcome, UNEXPECTED_MESSAGE};

impl Session {
    /// Reads what the client has sent, without waiting, and processes it. Returns whether bytes were read.
    pub(super) fn read(&mut self, open: &mut impl FnMut(OpenedStream<Http2>)) -> Result<bool, End> {
        // A replay of early data never finishes its handshake.
        if self.connection.early_deadline().is_some_and(|deadline| Instant::now() >= deadline) {
            self.connection.worker.shard.early_request("abandoned");
            return Err(End(CLOSE_NOTIFY));
        }
        if self.client == Client::Ended {
            return Ok(false);
        }
        let outcome =
            if self.connection.inbox.is_empty() { self.connection.read() } else { ReadOutcome::Bytes };
        self.notice_handshake();
        match outcome {
            ReadOutcome::Bytes => {
                self.receive(open)?;
                Ok(true)
            }
            ReadOutcome::Nothing => Ok(false),
            ReadOutcome::Ended => {
                self.client = Client::Ended;
                Ok(false)
            }
            ReadOutcome::KeyUpdates => Err(End(UNEXPECTED_MESSAGE)),
            ReadOutcome::Broken(alert) => Err(End(alert.unwrap_or(CLOSE_NOTIFY))),
        }
    }

    /// Streams that wait for the end of the handshake go on once it has come.
    fn notice_handshake(&self) {
        if self.connection.unfinished_handshake.is_none() {
            self.shared.state.borrow_mut().finish_handshake();
        }
    }

    /// Gives the inbox to the protocol and follows its events.
    fn receive(&mut self, open: &mut impl FnMut(OpenedStream<Http2>)) -> Result<(), End> {
        let now = Instant::now();
        let received =
            self.shared.state.borrow_mut().protocol.connection.receive(&self.connection.inbox, now);
        self.connection.inbox.clear();
        self.holds_memory = true;
        loop {
            let event = self.shared.state.borrow_mut().protocol.connection.next_event();
            let Some(event) = event else { break };
            self.follow(event, now, open);
        }
        if let Err(error) = received {
            self.connection.worker.shard.http2_error(error.reason);
            tracing::debug!("{}: HTTP/2 connection error: {error}", self.connection.client);
            // The client learns why before the connection ends.
            drop(self.send());
            return Err(End(CLOSE_NOTIFY));
        }
        let number = self.shared.state.borrow().protocol.connection.unfinished();
        let before = self.unfinished.filter(|(before, _)| Some(*before) == number);
        self.unfinished = before.or_else(|| number.map(|number| (number, now)));
        Ok(())
    }

    fn follow(&mut self, event: StreamEvent, now: Instant, open: &mut impl FnMut(OpenedStream<Http2>)) {
        let shard = &self.shared.worker.shard;
        match event {
            StreamEvent::Request { stream, head, end } => {
                let early = self.judge_early(head.method(), end, head.lines().len());
                open(self.opened(stream, Incoming::Request { head, has_body: !end, early }, end, now));
            }
            StreamEvent::Rejected { stream, status, reason } => {
                open(self.opened(stream, Incoming::Rejected { status, reason }, true, now));
            }
            StreamEvent::Data { stream, bytes, end } => {
                self.shared.state.borrow_mut().received(stream, bytes, end);
            }
            StreamEvent::Trailers { stream, .. } => self.shared.state.borrow_mut().received_end(stream),
            StreamEvent::BrokenOff { stream } => self.shared.state.borrow_mut().received_break_off(stream),
            StreamEvent::Reset { stream, reason, .. } => {
                shard.stream_reset(reason);
                self.shared.state.borrow_mut().reset_by_client(stream, &self.shared, now);
            }
            StreamEvent::Refused { reason, .. } => shard.stream_refused(reason),
            StreamEvent::GoAway { .. } => self.client = Client::Left,
        }
    }

    /// The rules of early data are those of HTTP/1.
    fn judge_early(&mut self, method: &str, end: bool, head_bytes: usize) -> Early {
        match &mut self.connection.unfinished_handshake {
            None => Early::No,
            Some(unfinished) => {
                let is_harmless = matches!(method, "GET" | "HEAD") && end;
                if unfinished.admits(is_harmless, head_bytes) { Early::Answer } else { Early::Wait }
            }
        }
    }

    fn opened(
        &mut self,
        stream: StreamId,
        request: Incoming<RequestHead>,
        is_body_whole: bool,
        started: Instant,
    ) -> OpenedStream<Http2> {
        let before = std::mem::replace(&mut self.settings, self.connection.worker.settings());
        self.connection.requests += 1;
        (self.idle, self.idle_since) = (None, started);
        let numbered = (self.connection.requests, &self.settings);
        let opened = OpenedStream::new(&self.shared, stream, (request, is_body_whole), numbered, started);
        // The client was told other bounds in SETTINGS.
        let has_changed = before.http2 != self.settings.http2;
        if has_changed || self.connection.requests >= self.settings.limits.requests_per_connection {
            self.begin_shutdown();
        }
        opened
    }
}
