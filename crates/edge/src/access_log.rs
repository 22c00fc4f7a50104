//! A record of one response, and its form as a line of the access log. The worker that gave the response makes the line.

mod format;
mod sampling;
#[cfg(test)]
mod tests;
mod time;

pub(crate) use sampling::Logging;

use std::borrow::Cow;
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, SystemTime};

use penstock_content::RequestId;
use penstock_http::cmcd::Cmcd;
use penstock_origin::http::Upstream;
use penstock_tls::Ja4;
use serde::{Serialize, Serializer};

use time::Rfc3339;

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
    /// The name of the request; `None` if no rule of its site uses it.
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

impl Serialize for Text {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.as_str())
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

impl Serialize for Unsigned<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.shown())
    }
}

/// The fields of a line, in their order. Fields that do not apply are omitted.
#[derive(Serialize)]
struct Line<'a> {
    time: Rfc3339,
    client_ip: IpAddr,
    client_port: u16,
    host: &'a Text,
    #[serde(skip_serializing_if = "Option::is_none")]
    site: Option<&'a Text>,
    #[serde(skip_serializing_if = "Option::is_none")]
    route: Option<&'a Text>,
    method: &'a Text,
    target: Unsigned<'a>,
    status: u16,
    #[serde(skip_serializing_if = "Option::is_none")]
    refusal: Option<&'static str>,
    body_bytes: u64,
    duration_ms: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    ttfb_ms: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    rtt_ms: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    delivery_bytes_per_second: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    retransmitted_ratio: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    referer: Option<Unsigned<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    user_agent: Option<&'a Text>,
    #[serde(skip_serializing_if = "Option::is_none")]
    range: Option<&'a Text>,
    protocol: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    tls: Option<Tls<'a>>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    early_data: bool,
    outlet: &'static str,
    request_number: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    stream: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    request_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cmcd_session: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cmcd_content: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cache: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tier: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    upstream: Option<UpstreamFields<'a>>,
    outcome: &'static str,
}

#[derive(Serialize)]
struct UpstreamFields<'a> {
    url: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    connect_ms: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ttfb_ms: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    duration_ms: Option<f64>,
}

#[derive(Serialize)]
struct Tls<'a> {
    version: &'static str,
    cipher: &'static str,
    group: &'static str,
    resumed: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    ja4: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    client_certificate: Option<&'a Text>,
}

impl<'a> Line<'a> {
    fn of(record: &'a Record) -> Self {
        Self {
            time: Rfc3339::of(record.time),
            client_ip: record.client.ip().to_canonical(),
            client_port: record.client.port(),
            host: &record.host,
            site: record.site.as_ref(),
            route: record.route.as_ref(),
            method: &record.method,
            target: Unsigned(&record.target),
            status: record.status,
            refusal: record.refusal,
            body_bytes: record.body_bytes,
            duration_ms: milliseconds(record.duration),
            ttfb_ms: record.first_byte.map(milliseconds),
            rtt_ms: record.carried.map(|carried| milliseconds(carried.round_trip)),
            delivery_bytes_per_second: record.carried.and_then(|carried| carried.delivery_rate),
            retransmitted_ratio: record
                .carried
                .and_then(|carried| carried.share_sent_again())
                .map(of_millionths),
            referer: record.referer.as_ref().map(Unsigned),
            user_agent: record.user_agent.as_ref(),
            range: record.range.as_ref(),
            protocol: record.protocol,
            tls: record.tls.as_ref().map(|facts| Tls::of(facts, record)),
            early_data: record.early_data,
            outlet: record.outlet.label(),
            request_number: record.request_number,
            stream: record.stream,
            request_id: record.id.map(|id| id.to_string()),
            cmcd_session: record.player.as_ref().and_then(|player| player.session.as_deref()),
            cmcd_content: record.player.as_ref().and_then(|player| player.content.as_deref()),
            cache: record.cache,
            tier: record.tier,
            upstream: record.upstream.as_deref().map(UpstreamFields::of),
            outcome: match record.short {
                Some(short) => short.label(),
                None if record.without_request => "no_request",
                None => "complete",
            },
        }
    }
}

impl<'a> UpstreamFields<'a> {
    fn of(upstream: &'a Upstream) -> Self {
        Self {
            url: &upstream.url,
            connect_ms: upstream.connect.map(milliseconds),
            ttfb_ms: upstream.first_byte.map(milliseconds),
            duration_ms: upstream.whole.map(milliseconds),
        }
    }
}

impl<'a> Tls<'a> {
    fn of(facts: &HandshakeFacts, record: &'a Record) -> Self {
        Self {
            version: facts.version,
            cipher: facts.cipher,
            group: facts.group,
            resumed: facts.resumed,
            ja4: record.ja4.as_ref().map(Ja4::as_str),
            client_certificate: record.client_certificate.as_ref(),
        }
    }
}

fn of_millionths(share: u64) -> f64 {
    share as f64 / 1e6
}

/// Milliseconds with three decimals.
fn milliseconds(duration: Duration) -> f64 {
    (duration.as_secs_f64() * 1e6).round() / 1e3
}
