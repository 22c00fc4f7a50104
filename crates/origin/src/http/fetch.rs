//! A request to an origin.

use std::net::SocketAddr;
use std::sync::Arc;

pub use hyper::Method;
use hyper::Request;
use hyper::header::{self, HeaderMap, HeaderName, HeaderValue};
use penstock_http::OriginUrl;

use super::body::Outgoing;
use super::error::OriginError;
use super::framing::is_twin_of_any;
use super::interim::InterimHeads;
use super::server::{ServerId, SiteCounters};
use super::trace::UpstreamTrace;

/// A request to an origin.
#[derive(Clone, Debug)]
pub struct Fetch {
    /// GET, unless something is passed through.
    pub method: Method,
    /// Path and query, as they stand in the request line.
    pub target: String,
    /// Value of Host; that of the origin if `None`.
    pub host: Option<String>,
    /// Whether the client's request may be a replay, which the origin is told (RFC 8470 §5.1).
    pub early: bool,
    /// First and last byte wanted; all of it if `None`.
    pub range: Option<(u64, u64)>,
    /// A condition, such as If-None-Match with validators of a stored response.
    pub known: Option<(&'static str, String)>,
    /// Further fields; see [`Self::pass`].
    pub fields: HeaderMap,
    /// Whether fields that an origin is sent by default are left out: another cache would take them for the client's.
    pub bare: bool,
    /// The client, for servers that are told by the PROXY protocol.
    pub client: Option<SocketAddr>,
    /// The server that is asked first if it is in, such as the one that gave the head of the object.
    pub preferred: Option<ServerId>,
    /// Where interim responses go, if anyone takes them.
    pub interim: Option<InterimHeads>,
    /// The protocol to which the connection may switch, for [`Connections::relay`](super::Connections::relay) only.
    pub upgrade: Option<Arc<str>>,
    /// Where the server and the times of the request are noted, if they are logged.
    pub trace: Option<UpstreamTrace>,
    /// The counters of the site that asks, at the origin that is asked.
    pub counters: Option<SiteCounters>,
}

/// Fields of a request that belong to one connection (RFC 9110 §7.6.1), or that are written here.
pub(super) const NOT_PASSED_ON: [HeaderName; 14] = [
    header::CONNECTION,
    header::CONTENT_LENGTH,
    header::EXPECT,
    header::HOST,
    HeaderName::from_static("early-data"),
    HeaderName::from_static("keep-alive"),
    header::PROXY_AUTHENTICATE,
    header::PROXY_AUTHORIZATION,
    HeaderName::from_static("proxy-connection"),
    header::TE,
    header::TRAILER,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
    header::VIA,
];

impl Fetch {
    /// A GET for a path and query.
    pub fn get(target: impl Into<String>) -> Self {
        Self {
            method: Method::GET,
            target: target.into(),
            host: None,
            early: false,
            range: None,
            known: None,
            fields: HeaderMap::new(),
            bare: false,
            client: None,
            preferred: None,
            interim: None,
            upgrade: None,
            trace: None,
            counters: None,
        }
    }

    /// Adds a field of a client's request. Fields of its connection, those that are written for each connection (Host,
    /// Content-Length, Via…), their twins with underscores, and invalid fields are left out. Returns whether the field
    /// was added. The caller leaves out fields that the client's Connection names.
    pub fn pass(&mut self, name: &str, value: &[u8]) -> bool {
        let (Ok(name), Ok(value)) = (HeaderName::try_from(name), HeaderValue::from_bytes(value)) else {
            return false;
        };
        let passed = !NOT_PASSED_ON.contains(&name) && !is_twin_of_any(&name, &NOT_PASSED_ON);
        if passed {
            self.fields.append(name, value);
        }
        passed
    }

    /// Whether a part may be the answer.
    pub(super) fn asks_for_part(&self) -> bool {
        self.range.is_some() || self.fields.contains_key(header::RANGE)
    }

    /// Whether 304 may be the answer.
    pub(super) fn is_conditional(&self) -> bool {
        let conditions = [header::IF_NONE_MATCH, header::IF_MODIFIED_SINCE];
        let known = self.known.as_ref().is_some_and(|(name, _)| conditions.iter().any(|one| one == name));
        known || conditions.iter().any(|name| self.fields.contains_key(name))
    }

    /// Whether a response says that the object is not the version whose part is asked for (RFC 9110 §13.1.1, §13.1.5).
    pub(super) fn is_declined_as_changed(&self, status: u16, fields: &HeaderMap) -> bool {
        let Some(("if-range", version)) = self.known.as_ref().map(|(name, value)| (*name, value)) else {
            return false;
        };
        let validator = if version.starts_with('"') { header::ETAG } else { header::LAST_MODIFIED };
        match (status, fields.get(validator)) {
            (200 | 206, Some(found)) => found != version,
            (200, None) | (412, _) => true,
            _ => false,
        }
    }

    /// Removes fields that must reach no other server than the first: credentials of the client, and values marked as secret.
    pub(super) fn remove_credentials(&mut self) {
        let secret = |fields: &HeaderMap| {
            fields.iter().find(|(_, value)| value.is_sensitive()).map(|(name, _)| name.clone())
        };
        while let Some(name) = secret(&self.fields) {
            self.fields.remove(name);
        }
        for name in [header::AUTHORIZATION, header::COOKIE] {
            self.fields.remove(name);
        }
    }

    /// Removes the client's own conditions: their tags belong to the first URL.
    pub(super) fn remove_conditions(&mut self) {
        for name in [
            header::IF_MATCH,
            header::IF_MODIFIED_SINCE,
            header::IF_NONE_MATCH,
            header::IF_RANGE,
            header::IF_UNMODIFIED_SINCE,
        ] {
            self.fields.remove(name);
        }
    }

    /// Whether asking twice has the same effect as asking once (RFC 9110 §9.2.2).
    pub(super) fn is_repeatable(&self) -> bool {
        matches!(self.method, Method::GET | Method::HEAD | Method::OPTIONS)
    }
}

/// The request line and fields for a target.
pub(super) fn head(target: &OriginUrl, host: &str, fetch: &Fetch) -> Result<Request<()>, OriginError> {
    let mut request =
        Request::builder().method(&fetch.method).uri(format!("{}{}", target.base(), fetch.target));
    request = request.header(header::HOST, host).header(header::VIA, "1.1 penstock");
    if fetch.early {
        request = request.header("early-data", "1");
    }
    if let Some(protocol) = &fetch.upgrade {
        request = request.header(header::CONNECTION, "Upgrade").header(header::UPGRADE, &**protocol);
    }
    if let Some((first, last)) = fetch.range {
        request = request.header(header::RANGE, format!("bytes={first}-{last}"));
    }
    if let Some((name, value)) = &fetch.known {
        let value = HeaderValue::from_bytes(value.as_bytes()).map_err(|_| OriginError::Unsendable)?;
        request = request.header(*name, value);
    }
    for (name, value) in &fetch.fields {
        request = request.header(name, value);
    }
    if fetch.bare {
        return request.body(()).map_err(|_| OriginError::Unsendable);
    }
    if !fetch.fields.contains_key(header::USER_AGENT) {
        request = request.header(header::USER_AGENT, "penstock");
    }
    // Without this field the response may have any coding (RFC 9110 §12.5.3).
    if !fetch.fields.contains_key(header::ACCEPT_ENCODING) {
        request = request.header(header::ACCEPT_ENCODING, "identity");
    }
    request.body(()).map_err(|_| OriginError::Unsendable)
}

/// The same request with a body, and with a place for interim responses.
pub(super) fn with_body(
    head: &Request<()>,
    body: Outgoing,
    interim: Option<&InterimHeads>,
) -> Request<Outgoing> {
    let mut request = Request::new(body);
    *request.method_mut() = head.method().clone();
    *request.uri_mut() = head.uri().clone();
    *request.headers_mut() = head.headers().clone();
    if let Some(interim) = interim.cloned() {
        hyper::ext::on_informational(&mut request, move |response| {
            interim.put(response.status().as_u16(), response.headers());
        });
    }
    request
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::error::OriginFault;

    #[test]
    fn fields_of_the_clients_connection_stay_behind() {
        let mut fetch = Fetch::get("/a");
        for name in [
            "Connection",
            "transfer-encoding",
            "Host",
            "content-length",
            "Expect",
            "no field",
            "Content_Length",
            "transfer_encoding",
        ] {
            assert!(!fetch.pass(name, b"x"), "{name}");
        }
        assert!(!fetch.pass("x-broken", b"a\r\nb: c"));
        assert!(fetch.pass("Content-Type", b"text/plain"));
        let target = OriginUrl::parse("http://origin/base").unwrap();
        let request = head(&target, "host", &fetch).unwrap();
        assert_eq!(request.uri(), "/base/a");
        assert_eq!(request.headers()["content-type"], "text/plain");
        assert_eq!(request.headers()["host"], "host");
    }

    #[test]
    fn a_request_that_cannot_be_sent_is_the_clients_fault() {
        let url = OriginUrl::parse("http://origin").unwrap();
        for fetch in [
            Fetch::get("/a<b"),
            Fetch::get("/a b"),
            Fetch { known: Some(("if-none-match", "\"a\nb\"".to_owned())), ..Fetch::get("/") },
        ] {
            let error = head(&url, "origin", &fetch).unwrap_err();
            assert_eq!(error.fault(), OriginFault::Client, "{fetch:?}");
        }
        assert_eq!(head(&url, "a\nb", &Fetch::get("/")).unwrap_err().fault(), OriginFault::Client);
        let odd = Fetch { known: Some(("if-none-match", "\"\u{e9}\"".to_owned())), ..Fetch::get("/") };
        assert!(head(&url, "origin", &odd).is_ok());
    }
}
