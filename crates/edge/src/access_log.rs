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

/// The record of one response.
#[derive(Clone, Debug)]
pub struct Record {
    /// When the head of the request was complete.
    pub time: SystemTime,
    /// The client's address and port; with a PROXY header, the ones in the header.
    pub client: SocketAddr,
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

/// Bytes from a client, cut to a bound; the line has them as UTF-8.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Text(Box<[u8]>);

impl Text {
    /// Keeps at most `limit` bytes.
    #[must_use]
    pub fn cut(bytes: &[u8], limit: usize) -> Self {
        Self(bytes.get(..limit).unwrap_or(bytes).into())
    }

    /// The text; bytes that are not UTF-8 become U+FFFD.
    fn as_str(&self) -> Cow<'_, str> {
        String::from_utf8_lossy(&self.0)
    }
}

/// Text without the signatures of signed URLs, so that access to the log does not give access to signed content. The
/// rest of a token stays readable.
struct Unsigned<'a>(&'a Text);

impl Unsigned<'_> {
    /// The beginnings of a signature, plain and percent-encoded.
    const MARKS: [&'static str; 3] = ["hmac=", "hmac%3D", "hmac%3d"];

    fn shown(&self) -> Cow<'_, str> {
        let text = self.0.as_str();
        if !text.contains("hmac") {
            return text;
        }
        let mut shown = String::with_capacity(text.len());
        let mut rest = text.as_ref();
        while let Some(end) = Self::MARKS.iter().filter_map(|mark| Some(rest.find(mark)? + mark.len())).min()
        {
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
}
