//! Asking an origin, as the content path sees it.
//!
//! The worker's [`Connections`] are one implementation. Unit tests script another, which answers, stalls and breaks off
//! as the test says.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::HeaderMap;
use penstock_http::Fields;
use penstock_http::caching::Lifetime;
use penstock_origin::http::{
    Connections, Fetch, HttpOrigin, OriginError, OriginResponse, RelayedResponse, RequestBody, ServerId,
    ServerOrder,
};

/// A future of the thread that made it.
pub type LocalFuture<'f, T> = Pin<Box<dyn Future<Output = T> + 'f>>;

/// The result of a request to an origin: its response, which uses the connections of `'o`.
pub type Fetched<'f, 'o> = LocalFuture<'f, Result<Box<dyn OriginBody + 'o>, OriginError>>;

/// Servers that can be asked for objects.
pub trait Origins {
    /// Asks one of `origin`'s servers, and waits for the head of its response.
    ///
    /// # Errors
    /// See [`OriginError`].
    fn fetch<'f, 'o: 'f>(&'o self, origin: &'f Arc<HttpOrigin>, fetch: &'f Fetch) -> Fetched<'f, 'o>;

    /// Forwards a request with its body, and waits for the head of the response. It is never repeated once bytes of
    /// `body` have been sent.
    ///
    /// # Errors
    /// See [`OriginError`].
    fn forward<'f, 'o: 'f>(
        &'o self,
        origin: &'f Arc<HttpOrigin>,
        fetch: &'f Fetch,
        body: RequestBody,
    ) -> Fetched<'f, 'o>;

    /// Asks the first server of an order, or else the next in turn, for a response to be relayed.
    ///
    /// # Errors
    /// See [`OriginError`].
    fn relay<'f>(
        &'f self,
        origin: &'f Arc<HttpOrigin>,
        fetch: &'f Fetch,
        order: Option<&'f ServerOrder<'f>>,
    ) -> LocalFuture<'f, Result<RelayedResponse, OriginError>>;
}

/// The fields of an origin's response for a client, without those of its connection (RFC 9110 §7.6.1) and those that
/// `is_dropped` names. The response was parsed, so no value can break its line.
pub(crate) fn passed_fields(fields: &HeaderMap, is_dropped: impl Fn(&str) -> bool) -> Fields {
    let named = |value: &[u8]| String::from_utf8_lossy(value).to_ascii_lowercase();
    let connection: Vec<String> =
        fields.get_all("connection").iter().map(|value| named(value.as_bytes())).collect();
    let of_connection =
        |name: &str| connection.iter().any(|list| list.split(',').any(|option| option.trim() == name));
    let mut passed = Fields::new();
    for (name, value) in fields {
        let name = name.as_str();
        if is_dropped(name) || of_connection(name) {
            continue;
        }
        passed.parsed_field(name.as_bytes(), [value.as_bytes(), b""]);
    }
    passed
}

/// What another node of the cluster says of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeerObject {
    /// How long the object is fresh; `None` if it is for one request only.
    pub lifetime: Option<Lifetime>,
    /// Whether that node owns it. Otherwise this one does, and asks a shield or the substitute that it takes over from.
    pub is_owner: bool,
}

/// A response of an origin, its body still on its way. Dropped before its end, its connection is closed.
pub trait OriginBody {
    /// Status code.
    fn status(&self) -> u16;

    /// The fields of its head.
    fn fields(&self) -> &HeaderMap;

    /// Length of the body in bytes, if the head announces it.
    fn length(&self) -> Option<u64>;

    /// Whether an end of the body proves that it is complete. A body that ends with its TCP connection may be cut short.
    fn proves_completeness(&self) -> bool;

    /// The next piece of the body; `None` at its end.
    ///
    /// # Errors
    /// See [`OriginError`]: the body is not complete.
    fn next(&mut self) -> LocalFuture<'_, Result<Option<Bytes>, OriginError>>;

    /// The longest time that the response may be fresh because of the redirections that led to it; `None` without a bound.
    fn freshness_limit(&self) -> Option<Duration> {
        None
    }

    /// The server of the origin that sent it, if that is known. See [`Fetch::preferred`].
    fn server(&self) -> Option<ServerId> {
        None
    }

    /// What another node of the cluster says of its object; `None` if the response comes from an origin.
    fn peer(&self) -> Option<PeerObject> {
        None
    }

    /// The one value of a field as text; `None` if there is none, several, or not in ASCII.
    fn field(&self, name: &str) -> Option<&str> {
        let mut values = self.fields().get_all(name).iter();
        let value = values.next()?.to_str().ok()?;
        values.next().is_none().then_some(value)
    }
}

impl Origins for Connections {
    fn fetch<'f, 'o: 'f>(&'o self, origin: &'f Arc<HttpOrigin>, fetch: &'f Fetch) -> Fetched<'f, 'o> {
        Box::pin(async move { Ok(boxed(Self::fetch(self, origin, fetch).await?)) })
    }

    fn forward<'f, 'o: 'f>(
        &'o self,
        origin: &'f Arc<HttpOrigin>,
        fetch: &'f Fetch,
        body: RequestBody,
    ) -> Fetched<'f, 'o> {
        Box::pin(async move { Ok(boxed(self.pass(origin, fetch, body).await?)) })
    }

    fn relay<'f>(
        &'f self,
        origin: &'f Arc<HttpOrigin>,
        fetch: &'f Fetch,
        order: Option<&'f ServerOrder<'f>>,
    ) -> LocalFuture<'f, Result<RelayedResponse, OriginError>> {
        Box::pin(Self::relay(self, origin, fetch, order))
    }
}

impl Origins for std::rc::Rc<Connections> {
    fn fetch<'f, 'o: 'f>(&'o self, origin: &'f Arc<HttpOrigin>, fetch: &'f Fetch) -> Fetched<'f, 'o> {
        Origins::fetch(&**self, origin, fetch)
    }

    fn forward<'f, 'o: 'f>(
        &'o self,
        origin: &'f Arc<HttpOrigin>,
        fetch: &'f Fetch,
        body: RequestBody,
    ) -> Fetched<'f, 'o> {
        Origins::forward(&**self, origin, fetch, body)
    }

    fn relay<'f>(
        &'f self,
        origin: &'f Arc<HttpOrigin>,
        fetch: &'f Fetch,
        order: Option<&'f ServerOrder<'f>>,
    ) -> LocalFuture<'f, Result<RelayedResponse, OriginError>> {
        Origins::relay(&**self, origin, fetch, order)
    }
}

fn boxed<'f>(answer: OriginResponse<'f>) -> Box<dyn OriginBody + 'f> {
    Box::new(answer)
}

impl OriginBody for OriginResponse<'_> {
    fn status(&self) -> u16 {
        OriginResponse::status(self)
    }

    fn fields(&self) -> &HeaderMap {
        OriginResponse::fields(self)
    }

    fn length(&self) -> Option<u64> {
        OriginResponse::length(self)
    }

    fn proves_completeness(&self) -> bool {
        OriginResponse::framing(self).proves_completeness()
    }

    fn freshness_limit(&self) -> Option<Duration> {
        OriginResponse::freshness_limit(self)
    }

    fn server(&self) -> Option<ServerId> {
        self.answered_by()
    }

    fn next(&mut self) -> LocalFuture<'_, Result<Option<Bytes>, OriginError>> {
        Box::pin(OriginResponse::next(self))
    }
}
