//! One request while it is answered, and the small responses that need no representation.

use std::cell::{Cell, OnceCell};
use std::fmt::Write as _;
use std::net::SocketAddr;
use std::rc::Rc;

use penstock_config::RequestIds;
use penstock_config::template::Variable;
use penstock_egress::Part;
use penstock_http::{Fields, HttpVersion, Method, Request, Status};
use penstock_origin::http::{InterimHead, InterimHeads, UpstreamTrace};

use crate::context::Context;
use crate::request_id::RequestId;
use crate::requester::Requester;
use crate::response::Response;
use crate::served::{Cause, Served, Tier};
use crate::site_table::Site;

/// A client's request and what the content path knows of its client.
#[derive(Clone, Copy, Debug)]
pub struct ClientRequest<'r> {
    /// The head as it was sent.
    pub head: &'r Request<'r>,
    /// The client's address; behind a balancer, the one that the balancer names.
    pub address: SocketAddr,
    /// Whether it came over TLS.
    pub secure: bool,
    /// The name in the client's certificate; `None` if it has shown none.
    pub certificate: Option<&'r str>,
    /// Whether it came as early data and may be a replay (RFC 8470).
    pub early: bool,
}

/// What a player will ask for next.
#[derive(Debug)]
pub(crate) enum NextObject {
    /// Nothing that has to be fetched ahead: its buffer is full.
    Nothing,
    /// An object of the same route.
    Object {
        /// Path and query, as an origin is asked for them.
        target: String,
        /// The first byte, and the last one unless it is that of the object; `None` for all of it.
        range: Option<(u64, Option<u64>)>,
    },
}

/// One request while it is answered.
pub(crate) struct Exchange<'e> {
    pub(crate) context: &'e Rc<Context>,
    /// The request without the token that signs it.
    pub(crate) request: &'e Request<'e>,
    pub(crate) client: &'e ClientRequest<'e>,
    pub(crate) requester: Requester,
    /// `None` if no site answers for the host.
    pub(crate) site: Option<&'e Site>,
    /// What the player will ask for next; `None` if it is not known, or of no interest.
    pub(crate) next: Option<Box<NextObject>>,
    /// Interim responses for the client; made with the first request to an origin.
    interim: OnceCell<InterimHeads>,
    /// The name of the request; made with its first use.
    id: OnceCell<RequestId>,
    /// Fields of the response that the token of the request has earned.
    pub(crate) given: OnceCell<Box<GivenFields>>,
    /// Where the first bytes of the response come from; `None` until that is known.
    pub(crate) tier: Cell<Option<Tier>>,
    /// The request to an origin for this one; made with the first.
    upstream: OnceCell<UpstreamTrace>,
}

/// Names and values. Few requests have any, so an exchange has the place for a pointer alone.
#[derive(Debug)]
pub(crate) struct GivenFields(pub(crate) Vec<(String, String)>);

impl<'e> Exchange<'e> {
    pub(crate) fn new(
        context: &'e Rc<Context>,
        client: &'e ClientRequest<'e>,
        site: Option<&'e Site>,
    ) -> Self {
        let requester = Requester::Client(client.address.ip());
        Self {
            context,
            request: client.head,
            client,
            requester,
            site,
            next: None,
            interim: OnceCell::new(),
            id: OnceCell::new(),
            given: OnceCell::new(),
            tier: Cell::new(None),
            upstream: OnceCell::new(),
        }
    }

    /// Where the request to an origin for this one is noted.
    pub(crate) fn upstream(&self) -> UpstreamTrace {
        self.upstream.get_or_init(UpstreamTrace::default).clone()
    }

    /// What a request to an origin through the cache takes over from this one.
    pub(crate) fn cause(&self) -> Cause {
        let id = self.told_id().or_else(|| match self.requester {
            // Of the client that the other node asks for.
            Requester::Peer(_) => RequestId::given(self.client.head).map(|id| id.to_string()),
            Requester::Client(_) => None,
        });
        Cause::new(self.client.head, id.as_deref(), self.upstream())
    }

    /// The name of the request.
    fn id(&self) -> &RequestId {
        self.id.get_or_init(|| {
            let keeps = self.site.is_some_and(|site| site.request_id == RequestIds::Preserve);
            keeps.then(|| RequestId::given(self.client.head)).flatten().unwrap_or_else(RequestId::new)
        })
    }

    /// The name of the request, if it has been used.
    pub(crate) fn take_id(&mut self) -> Option<RequestId> {
        self.id.take()
    }

    /// The value of `X-Request-Id` for the origin and in the response; `None` if the site leaves the field as it is.
    pub(crate) fn told_id(&self) -> Option<String> {
        let is_told = self.site.is_some_and(|site| site.request_id != RequestIds::Off);
        is_told.then(|| self.id().to_string())
    }

    /// Where the response came from.
    pub(crate) fn served(&self) -> Served {
        Served { tier: self.tier.get(), upstream: self.upstream.get().cloned() }
    }

    /// Appends the value that a variable has for this request. The path is the one that the client asks for.
    pub(crate) fn write_variable(&self, variable: &Variable, out: &mut String) {
        match variable {
            Variable::Client => {
                let _infallible = write!(out, "{}", self.client.address.ip().to_canonical());
            }
            Variable::Host => out.push_str(self.client.head.host()),
            Variable::Path => out.push_str(self.client.head.raw_path()),
            Variable::RequestId => {
                let _infallible = write!(out, "{}", self.id());
            }
            Variable::Capture(_) | Variable::Query | Variable::CacheStatus => {}
        }
    }

    /// Where interim responses to this request go; `None` if it is of another node, or in HTTP/1.0, which has none.
    pub(crate) fn interim(&self) -> Option<InterimHeads> {
        let takes_them = matches!(self.requester, Requester::Client(_))
            && !matches!(self.client.head.version(), HttpVersion::Http10);
        takes_them.then(|| self.interim.get_or_init(InterimHeads::default).clone())
    }

    /// The next interim response, if there is one already.
    pub(crate) fn take_interim(&self) -> Option<InterimHead> {
        self.interim.get()?.take()
    }

    /// Waits for the next interim response; without end if no origin is asked.
    pub(crate) async fn next_interim(&self) -> InterimHead {
        match self.interim.get() {
            Some(interim) => interim.next().await,
            None => std::future::pending().await,
        }
    }

    /// Whether a response has content for this request.
    pub(crate) fn wants_body(&self) -> bool {
        self.request.method() != Method::Head
    }

    /// A page that says no more than its status.
    pub(crate) fn page(&self, status: Status) -> Response {
        self.page_with(status, |_| {})
    }

    /// The same with more fields.
    pub(crate) fn page_with(&self, status: Status, more: impl FnOnce(&mut Fields)) -> Response {
        self.page_of(status, 1, more)
    }

    /// A page that names the time after which another request may succeed, in seconds (RFC 9110 §10.2.3).
    pub(crate) fn page_until(&self, status: Status, retry_after: u64) -> Response {
        self.page_of(status, retry_after, |_| {})
    }

    fn page_of(&self, status: Status, retry_after: u64, more: impl FnOnce(&mut Fields)) -> Response {
        let pages = self.site.iter().flat_map(|site| &site.error_pages);
        let mut page = match pages.into_iter().find(|page| page.statuses.contains(&status.code())) {
            Some(own) => Response::page_of(status, &own.content_type, Part::Shared(own.body.clone())),
            None => Response::page(status),
        };
        let fields = &mut page.head.fields;
        if let (Status::MethodNotAllowed, Some(site)) = (status, self.site) {
            fields.field("Allow", &site.allowed);
        }
        if matches!(status, Status::ServiceUnavailable | Status::TooManyRequests) {
            fields.field("Retry-After", retry_after.to_string());
        }
        more(fields);
        if !self.wants_body() {
            page.withhold_body();
        }
        page
    }

    /// The answer to OPTIONS.
    pub(crate) fn options(&self, site: &Site) -> Response {
        let mut response = Response::no_content();
        response.head.fields.field("Allow", &site.allowed);
        response
    }

    /// The redirect from a directory's name to the directory.
    pub(crate) fn redirect_to_directory(&self) -> Response {
        let sent = self.client.head;
        // As it was sent, so that a token is kept.
        let query = sent.query().map(|query| format!("?{query}")).unwrap_or_default();
        // One slash in front: `//host/` would name another host.
        let location = format!("/{}/{query}", sent.raw_path().trim_matches('/'));
        self.page_with(Status::MovedPermanently, |head| {
            head.field("Location", location);
        })
    }
}
