//! One request and the head of its response on one connection.

use std::error::Error;
use std::io;
use std::pin::pin;
use std::time::Instant;

use hyper::body::Incoming;
use hyper::header::{self, HeaderMap, HeaderValue};
use hyper::{Request, Response};
use tokio::time::timeout_at;

use super::body::{BodyWatch, Outgoing};
use super::dial::Sender;
use super::error::OriginError;
use super::fetch::{self, Fetch};
use super::framing;
use super::origin::HttpOrigin;
use super::server::Server;
use super::settings::OriginLimits;

/// A request that one server did not answer.
pub(super) struct Failed {
    pub(super) error: OriginError,
    /// The body, if the server cannot have seen anything of the request.
    pub(super) unsent: Option<Outgoing>,
    /// Whether the connection was closed before a response began.
    pub(super) closed: bool,
}

impl Failed {
    pub(super) fn new(error: OriginError) -> Self {
        Self { error, unsent: None, closed: false }
    }

    pub(super) fn unsent(error: OriginError, body: Outgoing) -> Self {
        Self { error, unsent: Some(body), closed: false }
    }
}

/// Sends a request and waits for the end of the head of its response, at most `first_byte` after the request or the
/// last piece of its body.
pub(super) async fn send(
    sender: &mut Sender,
    request: Request<Outgoing>,
    watch: Option<&BodyWatch>,
    limits: &OriginLimits,
) -> Result<Response<Incoming>, Failed> {
    let first_byte = limits.first_byte;
    let mut since = Instant::now();
    // One full buffer may follow the head before the count ends.
    sender.progress.begin(2 * limits.read_bytes);
    let mut sending = pin!(sender.requests.try_send_request(request));
    let sent = loop {
        match timeout_at((since + first_byte).into(), &mut sending).await {
            Ok(sent) => break sent,
            Err(_) => match watch.and_then(BodyWatch::moved).filter(|moved| *moved > since) {
                Some(moved) => since = moved,
                // The server cannot answer while the client sends nothing.
                None if watch.is_some_and(BodyWatch::is_starved) => {
                    return Err(Failed::new(OriginError::Abandoned));
                }
                None => return Err(Failed::new(OriginError::Timeout)),
            },
        }
    };
    let exceeded = sender.progress.end();
    sent.map_err(|mut failed| {
        if exceeded {
            return Failed::new(OriginError::InterimResponses);
        }
        let unsent = failed.take_message().map(Request::into_body);
        let error = failed.error();
        let closed =
            error.is_canceled() || error.is_closed() || error.is_incomplete_message() || is_end(error);
        Failed { error: OriginError::from_exchange(error), unsent, closed }
    })
}

/// Whether the connection ended without close_notify, or with a reset.
fn is_end(error: &hyper::Error) -> bool {
    let source = error.source().and_then(|source| source.downcast_ref::<io::Error>());
    source.is_some_and(|source| {
        matches!(source.kind(), io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset)
    })
}

/// Refuses a response head that does not answer the request; the text is for the log.
pub(super) fn fault_of_head<B>(
    response: &Response<B>,
    fetch: &Fetch,
    head_bytes: usize,
) -> Option<&'static str> {
    match response.status().as_u16() {
        // Which part it is of a body that was asked for whole is not known.
        206 if !fetch.asks_for_part() => return Some("it answers 206 to what was asked for whole"),
        304 if !fetch.is_conditional() => return Some("it answers 304 to a request without a condition"),
        101 => return fault_of_switch(response.headers(), fetch),
        _ => {}
    }
    if let Some(fault) = framing::fault(response) {
        return Some(fault);
    }
    (length_of_head(response) > head_bytes).then_some("its head is too long")
}

/// Refuses a switch to another protocol than the one that was asked for (RFC 9110 §7.8).
fn fault_of_switch(fields: &HeaderMap, fetch: &Fetch) -> Option<&'static str> {
    let Some(asked) = &fetch.upgrade else { return Some("it switches protocols without being asked to") };
    let mut named = fields.get_all(header::UPGRADE).iter();
    let is_it = |value: &HeaderValue| value.as_bytes().trim_ascii().eq_ignore_ascii_case(asked.as_bytes());
    if !named.next().is_some_and(is_it) || named.next().is_some() {
        return Some("it switches to another protocol than the one that was asked for");
    }
    if !has_option(fields, "upgrade") {
        return Some("it switches protocols without Connection: Upgrade");
    }
    let has_length =
        fields.contains_key(header::CONTENT_LENGTH) || fields.contains_key(header::TRANSFER_ENCODING);
    has_length.then_some("it switches protocols with a body")
}

/// Whether Connection has an option.
pub(super) fn has_option(fields: &HeaderMap, option: &str) -> bool {
    let values = fields.get_all(header::CONNECTION).iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|list| list.split(',')).any(|found| found.trim().eq_ignore_ascii_case(option))
}

/// About as many bytes as the head of a response took.
fn length_of_head<B>(response: &Response<B>) -> usize {
    const LINE_AROUND: usize = ": \r\n".len();
    response.headers().iter().map(|(name, value)| name.as_str().len() + value.len() + LINE_AROUND).sum()
}

/// The head of a request to a server, signed if the origin is a bucket.
pub(super) fn head_for(
    origin: &HttpOrigin,
    server: &Server,
    fetch: &Fetch,
) -> Result<Request<()>, OriginError> {
    if let Some(signer) = origin.signer() {
        let (fetch, host) = signer.sign(fetch)?;
        return fetch::head(&server.url.at_root(), &host, &fetch);
    }
    let host = fetch.host.as_deref().unwrap_or_else(|| origin.host(server));
    fetch::head(&server.url, host, fetch)
}
