//! One request while it is answered, and the small responses that need no representation.

use std::net::SocketAddr;
use std::rc::Rc;

use penstock_egress::Part;
use penstock_http::{HeadWriter, Method, Request, Status};

use crate::context::Context;
use crate::requester::Requester;
use crate::response::{Body, Fields, Response};
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
    /// Whether it came as early data and may be a replay (RFC 8470).
    pub early: bool,
}

/// One request while it is answered.
pub(crate) struct Exchange<'e> {
    pub(crate) context: &'e Rc<Context>,
    /// The request without the token that signs it.
    pub(crate) request: &'e Request<'e>,
    pub(crate) client: ClientRequest<'e>,
    pub(crate) requester: Requester,
    /// `None` if no site answers for the host.
    pub(crate) site: Option<&'e Site>,
}

impl<'e> Exchange<'e> {
    pub(crate) fn new(context: &'e Rc<Context>, client: ClientRequest<'e>, site: Option<&'e Site>) -> Self {
        let requester = Requester::Client(client.address.ip());
        Self { context, request: client.head, client, requester, site }
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
    pub(crate) fn page_with(&self, status: Status, more: impl FnOnce(&mut HeadWriter<'_>)) -> Response {
        let mut fields = Fields::new();
        let mut head = fields.writer();
        if let (Status::MethodNotAllowed, Some(site)) = (status, self.site) {
            head.field("Allow", &site.allowed);
        }
        if matches!(status, Status::ServiceUnavailable | Status::TooManyRequests) {
            head.field("Retry-After", "1");
        }
        more(&mut head);
        self.site_fields(&mut head);
        head.field("Content-Type", "text/plain; charset=utf-8");
        let text = status.body_text().as_bytes();
        let body = if self.wants_body() {
            Body::Part(Part::Owned(text.to_vec()))
        } else {
            Body::Withheld(Some(text.len() as u64))
        };
        Response { status: status.code(), fields, body, has_date: false, cache_status: None }
    }

    /// Fields that the site adds to each of its responses.
    pub(crate) fn site_fields(&self, head: &mut HeadWriter<'_>) {
        let Some(site) = self.site else { return };
        if let Some(origin) = &site.cors {
            head.field("Access-Control-Allow-Origin", origin)
                .field("Access-Control-Expose-Headers", "Content-Length, Content-Range, Date, ETag");
        }
        if let (Some(policy), true) = (&site.hsts, self.client.secure) {
            head.field("Strict-Transport-Security", policy);
        }
    }

    /// The answer to OPTIONS.
    pub(crate) fn options(&self, site: &Site) -> Response {
        let mut fields = Fields::new();
        let mut head = fields.writer();
        head.field("Allow", &site.allowed);
        if site.cors.is_some() {
            head.field("Access-Control-Allow-Methods", &site.allowed)
                .field("Access-Control-Allow-Headers", "Range, If-Range, If-None-Match, If-Modified-Since")
                .field("Access-Control-Max-Age", "86400");
        }
        self.site_fields(&mut head);
        Response::without_content(Status::NoContent.code(), fields)
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
