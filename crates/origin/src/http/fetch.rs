//! What is asked of an origin.

pub use hyper::Method;
use hyper::Request;
use hyper::header::{self, HeaderMap, HeaderName, HeaderValue};
use penstock_http::OriginUrl;

use super::OriginError;
use super::body::Outgoing;

/// What is asked of an origin.
#[derive(Clone, Debug)]
pub struct Fetch {
    /// GET, unless something is passed through.
    pub method: Method,
    /// Path and query, as they stand in the request line.
    pub target: String,
    /// Value of Host; that of the origin if `None`.
    pub host: Option<String>,
    /// Whether it may be asked because of a replay, which the origin is told (RFC 8470 §5.1).
    pub early: bool,
    /// First and last byte wanted; all of it if `None`.
    pub range: Option<(u64, u64)>,
    /// A condition, such as If-None-Match with validators of what is there already.
    pub known: Option<(&'static str, String)>,
    /// Further fields; see [`Self::pass`].
    pub fields: HeaderMap,
}

/// Fields of a request that belong to one connection (RFC 9110 §7.6.1), or that are written here.
const NOT_PASSED_ON: [HeaderName; 14] = [
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
    /// A GET for all of that path and query.
    pub fn get(target: impl Into<String>) -> Self {
        Self {
            method: Method::GET,
            target: target.into(),
            host: None,
            early: false,
            range: None,
            known: None,
            fields: HeaderMap::new(),
        }
    }

    /// Passes on a field of a client's request. Those of its connection, and those that are written for each
    /// connection anew (Host, Content-Length, Via…), are left out, and so is what is no field. Returns whether it goes
    /// with the request. A field that the client's Connection names is for the caller to leave out.
    pub fn pass(&mut self, name: &str, value: &[u8]) -> bool {
        let (Ok(name), Ok(value)) = (HeaderName::try_from(name), HeaderValue::from_bytes(value)) else {
            return false;
        };
        let passed = !NOT_PASSED_ON.contains(&name);
        if passed {
            self.fields.append(name, value);
        }
        passed
    }

    /// Whether a part may be the answer.
    pub(super) fn asks_for_part(&self) -> bool {
        self.range.is_some() || self.fields.contains_key(header::RANGE)
    }

    /// Whether asking twice does no more than asking once (RFC 9110 §9.2.2), as far as we rely on it.
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
    if let Some((first, last)) = fetch.range {
        request = request.header(header::RANGE, format!("bytes={first}-{last}"));
    }
    if let Some((name, value)) = &fetch.known {
        let value = HeaderValue::from_str(value).map_err(|_| OriginError::Malformed)?;
        request = request.header(*name, value);
    }
    for (name, value) in &fetch.fields {
        request = request.header(name, value);
    }
    if !fetch.fields.contains_key(header::USER_AGENT) {
        request = request.header(header::USER_AGENT, "penstock");
    }
    // Who does not say what it can read is sent anything (RFC 9110 §12.5.3).
    if !fetch.fields.contains_key(header::ACCEPT_ENCODING) {
        request = request.header(header::ACCEPT_ENCODING, "identity");
    }
    // Only a target that hyper cannot read gets here; the client's request was parsed before.
    request.body(()).map_err(|_| OriginError::Malformed)
}

/// The same with what follows it.
pub(super) fn with_body(head: &Request<()>, body: Outgoing) -> Request<Outgoing> {
    let mut request = Request::new(body);
    *request.method_mut() = head.method().clone();
    *request.uri_mut() = head.uri().clone();
    *request.headers_mut() = head.headers().clone();
    request
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_of_the_clients_connection_stay_behind() {
        let mut fetch = Fetch::get("/a");
        for name in ["Connection", "transfer-encoding", "Host", "content-length", "Expect", "no field"] {
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
}
