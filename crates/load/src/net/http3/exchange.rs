//! One request and its response on a stream.

use std::rc::Rc;
use std::time::Instant;

use quiche::h3;
use tokio::sync::Notify;
use tokio::time::{Instant as Deadline, timeout, timeout_at};

use super::state::{ConnectionState, StreamEnd, StreamState};
use super::{ConnectionShared, Http3Connection};
use crate::failure::LoadFailure;
use crate::net::exchange::{BodyPace, RequestExchange, ResponseSummary};
use crate::workload::PreparedRequest;

/// `H3_REQUEST_CANCELLED` of RFC 9114 §8.1.
const REQUEST_CANCELLED: u64 = 0x10c;
/// `H3_REQUEST_REJECTED`: the server has not acted upon the request.
const REQUEST_REJECTED: u64 = 0x10b;

/// A stream; one that is given up is cancelled.
struct OpenStream<'c> {
    shared: &'c ConnectionShared,
    number: u64,
    news: Rc<Notify>,
}

impl Http3Connection {
    /// Sends the request on a stream of its own and reads the whole response. Returns `None` if the meter said stop.
    pub(in crate::net) async fn run(
        &self,
        mut exchange: RequestExchange<'_>,
        request: &PreparedRequest,
    ) -> Result<Option<ResponseSummary>, LoadFailure> {
        let start = Instant::now();
        let deadline = Deadline::from_std(start) + exchange.timeout;
        let response = async {
            let stream = self.open(request).await?;
            let status = stream.status().await?;
            Ok((stream, status))
        };
        let (stream, status) = match timeout_at(deadline, response).await {
            Ok(opened) => opened?,
            Err(_) => return Err(LoadFailure::ResponseTimeout),
        };
        let first_byte = start.elapsed();
        if !stream.receive(&mut exchange, request.for_head).await? {
            return Ok(None);
        }
        Ok(Some(ResponseSummary { status, keeps_alive: true, first_byte }))
    }

    /// Waits until the server allows another stream, and sends the request.
    async fn open(&self, request: &PreparedRequest) -> Result<OpenStream<'_>, LoadFailure> {
        let fields = fields(request);
        let shared = &*self.shared;
        loop {
            let changed = shared.changed.notified();
            if let Some(stream) = shared.try_open(&fields)? {
                return Ok(stream);
            }
            changed.await;
        }
    }
}

impl ConnectionShared {
    fn try_open(&self, fields: &[h3::Header]) -> Result<Option<OpenStream<'_>>, LoadFailure> {
        let mut state = self.state.borrow_mut();
        if !state.is_open() {
            return Err(LoadFailure::RequestNotSent);
        }
        let ConnectionState { quic, http: Some(http), streams, .. } = &mut *state else { return Ok(None) };
        match http.send_request(quic, fields, true) {
            Ok(number) => {
                let stream = StreamState::default();
                let news = Rc::clone(&stream.news);
                streams.insert(number, stream);
                self.wake.notify_one();
                Ok(Some(OpenStream { shared: self, number, news }))
            }
            Err(
                h3::Error::Done
                | h3::Error::StreamBlocked
                | h3::Error::TransportError(quiche::Error::StreamLimit),
            ) => Ok(None),
            Err(_) => Err(LoadFailure::RequestNotSent),
        }
    }
}

impl OpenStream<'_> {
    /// Waits for the head of the response.
    async fn status(&self) -> Result<u16, LoadFailure> {
        loop {
            if let Some(status) = self.with(|stream| stream.status) {
                return Ok(status);
            }
            self.look(false)?;
            self.news.notified().await;
        }
    }

    /// Reads the body. Returns false if the meter said stop.
    async fn receive(
        &self,
        exchange: &mut RequestExchange<'_>,
        is_for_head: bool,
    ) -> Result<bool, LoadFailure> {
        let mut received = 0;
        loop {
            let taken = self.take_turn(exchange);
            received += taken;
            let pace = if taken > 0 { (exchange.meter)(taken) } else { BodyPace::Go };
            match pace {
                BodyPace::Stop => return Ok(false),
                BodyPace::After(pause) => {
                    tokio::time::sleep(pause).await;
                    continue;
                }
                BodyPace::Go => {}
            }
            if taken >= exchange.turn_bytes {
                tokio::task::yield_now().await;
                continue;
            }
            if self.with(|stream| stream.end) == Some(StreamEnd::Whole) {
                let announced = self.with(|stream| stream.length).filter(|_| !is_for_head);
                return match announced.map(|length| received.cmp(&length)) {
                    Some(std::cmp::Ordering::Less) => Err(LoadFailure::BodyShort),
                    Some(std::cmp::Ordering::Greater) => Err(LoadFailure::BodyLong),
                    _ => Ok(true),
                };
            }
            self.look(true)?;
            if timeout(exchange.timeout, self.news.notified()).await.is_err() {
                return Err(LoadFailure::BodyTimeout);
            }
        }
    }

    /// Takes what has arrived, up to the bytes of a turn, and returns how much.
    fn take_turn(&self, exchange: &mut RequestExchange<'_>) -> u64 {
        let mut state = self.shared.state.borrow_mut();
        let mut scratch = exchange.scratch.borrow_mut();
        let mut taken = 0;
        while taken < exchange.turn_bytes {
            let ConnectionState { quic, http: Some(http), .. } = &mut *state else { break };
            let Ok(count) = http.recv_body(quic, self.number, &mut scratch) else { break };
            (exchange.body)(&scratch[..count]);
            taken += count as u64;
        }
        if taken > 0 {
            // The end of the body is an event of its own, and the server gets more window.
            state.follow();
            self.shared.wake.notify_one();
        }
        taken
    }

    /// Finds out whether the response has been broken off, or the connection has ended.
    fn look(&self, has_begun: bool) -> Result<(), LoadFailure> {
        match self.with(|stream| stream.end) {
            Some(StreamEnd::Reset(REQUEST_REJECTED)) => return Err(LoadFailure::RequestNotSent),
            Some(StreamEnd::Reset(code)) => {
                return Err(LoadFailure::StreamReset(u32::try_from(code).unwrap_or(u32::MAX)));
            }
            Some(StreamEnd::Whole) if !has_begun => return Err(LoadFailure::ResponseMalformed),
            _ => {}
        }
        let state = self.shared.state.borrow();
        if state.has_ended() || state.quic.local_error().is_some() {
            return Err(state.failure(has_begun));
        }
        Ok(())
    }

    fn with<T>(&self, look: impl FnOnce(&StreamState) -> Option<T>) -> Option<T> {
        self.shared.state.borrow().streams.get(&self.number).and_then(look)
    }
}

impl Drop for OpenStream<'_> {
    fn drop(&mut self) {
        let mut state = self.shared.state.borrow_mut();
        let end = state.streams.remove(&self.number).and_then(|stream| stream.end);
        if end.is_none() {
            for side in [quiche::Shutdown::Read, quiche::Shutdown::Write] {
                let _gone = state.quic.stream_shutdown(self.number, side, REQUEST_CANCELLED);
            }
            self.shared.wake.notify_one();
        }
    }
}

/// The fields of a request; names are in lower case (RFC 9114 §4.2).
fn fields(request: &PreparedRequest) -> Vec<h3::Header> {
    let field = |name: &str, value: &str| h3::Header::new(name.as_bytes(), value.as_bytes());
    let head = [
        (":method", &request.method),
        (":scheme", &"https".to_owned()),
        (":authority", &request.authority),
        (":path", &request.path),
    ]
    .map(|(name, value)| field(name, value));
    let others = request.fields.iter().map(|(name, value)| field(&name.to_ascii_lowercase(), value));
    head.into_iter().chain(others).collect()
}
