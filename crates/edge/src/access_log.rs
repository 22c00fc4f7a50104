//! A record of one response, and its form as a line of the access log. The worker that gave the response makes the line.

mod fields;
mod format;
mod json;
mod sampling;
#[cfg(test)]
mod tests;
mod time;

pub(crate) use sampling::Logging;

use std::borrow::Cow;
use std::net::SocketAddr;
use std::time::{Duration, SystemTime};

use penstock_content::RequestId;
use penstock_http::cmcd::Cmcd;
use penstock_origin::http::Upstream;
use penstock_tls::Ja4;

use crate::metrics::{Carried, HandshakeFacts, OutletKind, ShortReason};

/// What the texts of most records need, so that they are not moved while they grow.
const TEXTS_BYTES: usize = 512;

/// The record of one response.
#[derive(Clone, Debug)]
pub struct Record {
    /// When the head of the request was complete.
    pub time: SystemTime,
    /// The client's address and port; with a PROXY header, the ones in the header.
    pub client: SocketAddr,
    /// The texts that others of its values are parts of.
    pub texts: Texts,
    /// The requested host.
    pub host: Text,
    /// The method as it was sent.
    pub method: Text,
    /// The request target as it was sent. The line hides the signatures of signed URLs.
    pub target: Text,
    /// The status code of the response.
    pub status: u16,
    /// Why the request was refused; `None` if it was not.
    pub refusal: Option<&'static str>,
    /// Bytes of the body given to the socket.
    pub body_bytes: u64,
    /// From the complete head of the request to the last byte given to the socket.
    pub duration: Duration,
    /// From the complete head of the request to the first byte given to the socket.
    pub first_byte: Option<Duration>,
    /// How the network carried the response, if it was asked.
    pub carried: Option<Carried>,
    /// What the player says of itself.
    pub player: Option<Box<Cmcd>>,
    /// `Referer`
    pub referer: Option<Text>,
    /// `User-Agent`
    pub user_agent: Option<Text>,
    /// The id of the trace in `traceparent`.
    pub trace_id: Option<Text>,
    /// `Range`
    pub range: Option<Text>,
    /// The protocol of the request: `HTTP/1.0`, `HTTP/1.1` or `h2`.
    pub protocol: &'static str,
    /// The negotiated parameters of the handshake; `None` on plain HTTP.
    pub tls: Option<HandshakeFacts>,
    /// Whether the request may be a replay: it arrived before the end of the handshake, or carried `Early-Data: 1`.
    pub early_data: bool,
    /// The JA4 fingerprint of the client's TLS; `None` if the configuration does not ask for it.
    pub ja4: Option<Ja4>,
    /// The name in the client's certificate, cut to a bound; `None` without a certificate.
    pub client_certificate: Option<Text>,
    /// How the bytes were encrypted and sent.
    pub outlet: OutletKind,
    /// The number of the request on its connection, from 1.
    pub request_number: u64,
    /// The number of the stream of HTTP/2 or HTTP/3; `None` on HTTP/1.
    pub stream: Option<u64>,
    /// The name of the request; `None` if its site gives it none.
    pub id: Option<RequestId>,
    /// The first host of the site that answered, as configured; `None` if no site did.
    pub site: Option<Text>,
    /// The path of the route that answered, as configured; `None` if no route of the site matched.
    pub route: Option<Text>,
    /// The cache status; `None` on sites without a cache.
    pub cache: Option<&'static str>,
    /// Where the first bytes came from; `None` if neither a cache nor an origin was asked.
    pub tier: Option<&'static str>,
    /// The request to an origin that the response has caused; `None` if there was none.
    pub upstream: Option<Box<Upstream>>,
    /// Why the response is short; `None` if it is complete.
    pub short: Option<ShortReason>,
    /// Whether this is about a connection that has ended without a request, so that there was no response.
    pub without_request: bool,
}

/// The texts of a record, one behind the other in one block.
#[derive(Clone, Debug, Default)]
pub struct Texts(String);

/// One of the texts of a record.
#[derive(Clone, Copy, Debug, Default)]
pub struct Text {
    begin: usize,
    end: usize,
}

impl Texts {
    /// No text yet, and space for the usual ones.
    #[must_use]
    pub fn with_space() -> Self {
        Self(String::with_capacity(TEXTS_BYTES))
    }

    /// Adds at most `limit` bytes of a text.
    pub fn add(&mut self, text: &str, limit: usize) -> Text {
        let mut length = text.len().min(limit);
        while !text.is_char_boundary(length) {
            length -= 1;
        }
        let begin = self.0.len();
        self.0.push_str(&text[..length]);
        Text { begin, end: self.0.len() }
    }

    fn get(&self, text: Text) -> &str {
        self.0.get(text.begin..text.end).unwrap_or_default()
    }
}

impl Record {
    /// A text of this record.
    fn text(&self, text: Text) -> &str {
        self.texts.get(text)
    }

    /// The same without the signatures of signed URLs.
    fn unsigned(&self, text: Text) -> Cow<'_, str> {
        unsigned(self.text(text))
    }
}

/// The beginnings of a signature, plain and percent-encoded.
const MARKS: [&str; 3] = ["hmac=", "hmac%3D", "hmac%3d"];

/// Text without the signatures of signed URLs, so that access to the log does not give access to signed content. The
/// rest of a token stays readable.
fn unsigned(text: &str) -> Cow<'_, str> {
    if !text.contains("hmac") {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(end) = MARKS.iter().filter_map(|mark| Some(rest.find(mark)? + mark.len())).min() {
        let (before, after) = rest.split_at(end);
        shown.push_str(before);
        rest = after.trim_start_matches(|digit: char| digit.is_ascii_hexdigit());
        if rest.len() < after.len() {
            shown.push_str("hidden");
        }
    }
    shown.push_str(rest);
    Cow::Owned(shown)
}
