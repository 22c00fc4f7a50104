//! One request and its response on a stream.

use std::future::poll_fn;
use std::task::Poll;
use std::time::Instant;

use bytes::Bytes;
use h2::RecvStream;
use h2::client::ResponseFuture;
use http::uri::{Authority, PathAndQuery, Scheme};
use http::{HeaderName, HeaderValue, Method, Request, Uri};
use tokio::time::timeout;

use super::Http2Connection;
use super::transport::LinkEnd;
use crate::failure::LoadFailure;
use crate::net::exchange::{BodyPace, RequestExchange, ResponseSummary};
use crate::net::link::ClientConnection;
use crate::workload::PreparedRequest;

impl Http2Connection {
    /// Sends the request on a stream of its own and reads the whole response. Returns `None` if the meter said stop. A
    /// stream that is given up is reset with CANCEL (RFC 9113 §7).
    pub(in crate::net) async fn run(
        &self,
        exchange: RequestExchange<'_>,
        request: &PreparedRequest,
    ) -> Result<Option<ResponseSummary>, LoadFailure> {
        let start = Instant::now();
        let scheme = if self.with_link(ClientConnection::is_tls) { Scheme::HTTPS } else { Scheme::HTTP };
        let head = request_head(request, scheme).ok_or(LoadFailure::RequestNotSent)?;
        let response = async {
            let response = self.send(head).await.map_err(|error| self.not_sent(&error))?;
            response.await.map_err(|error| self.failure(&error, false))
        };
        let response = match timeout(exchange.timeout, response).await {
            Ok(response) => response?,
            Err(_) => return Err(LoadFailure::ResponseTimeout),
        };
        let first_byte = start.elapsed();
        let status = response.status().as_u16();
        if !self.receive(exchange, response.into_body()).await? {
            return Ok(None);
        }
        Ok(Some(ResponseSummary { status, keeps_alive: true, first_byte }))
    }

    /// Waits until the server allows another stream, and opens it.
    async fn send(&self, head: Request<()>) -> Result<ResponseFuture, h2::Error> {
        let mut sender = self.sender.clone().ready().await?;
        let (response, _) = sender.send_request(head, true)?;
        Ok(response)
    }

    /// Reads the body and the trailers. Returns false if the meter said stop.
    async fn receive(
        &self,
        mut exchange: RequestExchange<'_>,
        mut body: RecvStream,
    ) -> Result<bool, LoadFailure> {
        loop {
            let (step, taken) = self.take_turn(&mut exchange, &mut body).await;
            let pace = if taken > 0 { (exchange.meter)(taken) } else { BodyPace::Go };
            match (step?, pace) {
                (ReadStep::Done, _) => break,
                (ReadStep::Spent, BodyPace::Go) => tokio::task::yield_now().await,
                (ReadStep::Spent, BodyPace::After(pause)) => tokio::time::sleep(pause).await,
                (ReadStep::Spent, BodyPace::Stop) => return Ok(false),
            }
        }
        match timeout(exchange.timeout, body.trailers()).await {
            Ok(trailers) => trailers.map(|_| true).map_err(|error| self.failure(&error, true)),
            Err(_) => Err(LoadFailure::BodyTimeout),
        }
    }

    /// Waits for bytes and takes what has arrived, up to the end of the body or of the turn. Also returns their number.
    async fn take_turn(
        &self,
        exchange: &mut RequestExchange<'_>,
        body: &mut RecvStream,
    ) -> (Result<ReadStep, LoadFailure>, u64) {
        let mut taken = 0;
        let Ok(mut piece) = timeout(exchange.timeout, body.data()).await else {
            return (Err(LoadFailure::BodyTimeout), taken);
        };
        loop {
            match piece {
                None => return (Ok(ReadStep::Done), taken),
                Some(Err(error)) => return (Err(self.failure(&error, true)), taken),
                Some(Ok(bytes)) => {
                    taken += bytes.len() as u64;
                    (exchange.body)(&bytes);
                    release(body, &bytes);
                }
            }
            if taken >= exchange.turn_bytes {
                return (Ok(ReadStep::Spent), taken);
            }
            match arrived(body).await {
                Some(next) => piece = next,
                None => return (Ok(ReadStep::Spent), taken),
            }
        }
    }

    /// The kind of an error before the request was sent.
    fn not_sent(&self, error: &h2::Error) -> LoadFailure {
        match self.failure(error, false) {
            LoadFailure::ClosedBeforeResponse | LoadFailure::ResetBeforeResponse => {
                LoadFailure::RequestNotSent
            }
            failure => failure,
        }
    }

    /// The kind of an error. `begun` tells whether a part of the response has arrived.
    fn failure(&self, error: &h2::Error, begun: bool) -> LoadFailure {
        let alert = || self.with_link(ClientConnection::alert);
        let code = error.reason().map_or(0, u32::from);
        match self.link.ended() {
            _ if error.is_reset() && error.is_remote() => LoadFailure::StreamReset(code),
            _ if error.is_go_away() && error.is_remote() && code != 0 => LoadFailure::GoAway(code),
            // The server has not acted upon this stream: its GOAWAY names an earlier one as the last (RFC 9113 §6.8).
            _ if error.is_go_away() && error.is_remote() && !begun => LoadFailure::RequestNotSent,
            _ if error.is_library() => LoadFailure::Http2Invalid,
            Some(LinkEnd::Reset) if begun => LoadFailure::BodyReset,
            Some(LinkEnd::Reset) => LoadFailure::ResetBeforeResponse,
            // In TLS 1.3 a server rejects a client's certificate after the client's handshake is complete.
            Some(LinkEnd::Broken) => match alert() {
                Some(number) if !begun => LoadFailure::HandshakeAlert(number),
                _ => LoadFailure::TlsBroken,
            },
            _ if begun => LoadFailure::BodyShort,
            _ => LoadFailure::ClosedBeforeResponse,
        }
    }
}

enum ReadStep {
    Done,
    Spent,
}

/// Gives the bytes back to the windows of stream and connection.
fn release(body: &mut RecvStream, bytes: &Bytes) {
    // The stream may have ended meanwhile; then there is no window to give back to.
    drop(body.flow_control().release_capacity(bytes.len()));
}

/// The next piece of the body, if it has arrived.
async fn arrived(body: &mut RecvStream) -> Option<Option<Result<Bytes, h2::Error>>> {
    poll_fn(|context| match body.poll_data(context) {
        Poll::Ready(piece) => Poll::Ready(Some(piece)),
        Poll::Pending => Poll::Ready(None),
    })
    .await
}

/// The head of a request; `None` if HTTP/2 cannot carry it.
fn request_head(request: &PreparedRequest, scheme: Scheme) -> Option<Request<()>> {
    let mut uri = http::uri::Parts::default();
    uri.scheme = Some(scheme);
    uri.authority = Some(request.authority.parse::<Authority>().ok()?);
    uri.path_and_query = Some(request.path.parse::<PathAndQuery>().ok()?);
    let mut head = Request::new(());
    *head.method_mut() = Method::from_bytes(request.method.as_bytes()).ok()?;
    *head.uri_mut() = Uri::from_parts(uri).ok()?;
    for (name, value) in &request.fields {
        let name = HeaderName::from_bytes(name.as_bytes()).ok()?;
        head.headers_mut().append(name, HeaderValue::from_str(value).ok()?);
    }
    Some(head)
}
