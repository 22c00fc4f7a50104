//! Requests that are forwarded to an origin with their body, such as POST. Their responses are not cached.

use std::borrow::Cow;
use std::rc::Rc;
use std::sync::Arc;

use futures_util::future::join_all;
use penstock_cache::Object;
use penstock_http::uri::normalise_target;
use penstock_http::{Method, Request, Status};
use penstock_origin::http::{Fetch, OriginError, RequestBody};
use tokio::sync::oneshot;

use crate::cache_status::CacheStatus;
use crate::cached::LookupResult;
use crate::context::Context;
use crate::fault::origin_status;
use crate::fill::RelayedBody;
use crate::object::ObjectMetadata;
use crate::origin::{OriginResponse, Relay, Repeatable, client_request, forget_on_peers, name_client, relay};
use crate::origins::OriginBody;
use crate::peers::passed_through;
use crate::pipeline::relayed::{RelayedHead, fault_page, respond_with};
use crate::pipeline::respond::forwarded;
use crate::requester::Requester;
use crate::response::{ClientRequest, Exchange, Response};
use crate::site::{Bare, BodyKind, CacheRequest, HttpSite, RequestFields, admit, split_target};
use crate::site_table::{Site, SiteOrigin, SiteTable};
use crate::store::Store;
use crate::task;

/// A request that is to be forwarded, and its site.
pub struct Forward<'r> {
    site: Arc<Site>,
    bare: Bare<'r>,
}

/// A forwarded request. Once begun, it goes on if the client leaves.
pub struct PendingResponse {
    response: oneshot::Receiver<ForwardResult>,
}

/// The head of the origin's response to a forwarded request; `None` if its task ended without one.
pub struct ForwardedResponse(Option<ForwardResult>);

/// What came of a forwarded request.
enum ForwardResult {
    /// The response of a site with a cache, which it does not enter.
    Passed(LookupResult),
    /// The response of a site without cache.
    Relayed(Box<(RelayedHead, RelayedBody)>),
    /// No response of a site without cache.
    Failed(OriginError),
}

impl<'r> Forward<'r> {
    /// The forwarding of a request; `None` if the request is answered like any other.
    pub fn admit(context: &Context, sites: &SiteTable, request: &'r Request<'r>) -> Option<Self> {
        let Method::Other(method) = request.method() else { return None };
        let site = sites.find(request.host())?;
        if !site.methods.iter().any(|known| known == method) || request.url_path().is_err() {
            return None;
        }
        let (SiteOrigin::Http(..) | SiteOrigin::Relayed(_)) = &site.origin else { return None };
        let bare = match &site.signed_urls {
            Some(rules) => {
                let bare = admit(rules, request, context.clock.wall()).ok()?;
                context.metrics.signed_url("accepted");
                bare
            }
            None => Bare { path: request.raw_path(), query: request.query().map(Cow::Borrowed) },
        };
        Some(Self { site: Arc::clone(site), bare })
    }

    /// The response to early data that the site refuses, and to a request that has passed through the site before.
    pub fn refusal(&self, context: &Rc<Context>, client: ClientRequest<'_>) -> Option<Response> {
        let status = match self.http() {
            _ if client.early && self.site.refuses_early => Status::TooEarly,
            Some(http) if http.loop_member.has_passed(client.head) => Status::LoopDetected,
            _ => return None,
        };
        Some(Exchange::new(context, client, Some(&self.site)).page(status))
    }

    fn http(&self) -> Option<&HttpSite> {
        match &self.site.origin {
            SiteOrigin::Http(http, _) | SiteOrigin::Relayed(http) => Some(http),
            SiteOrigin::Directory(_) => None,
        }
    }

    /// Sends the request to the origin. `None` if its method is no method.
    pub fn start(
        &self,
        context: &Rc<Context>,
        client: ClientRequest<'_>,
        body: RequestBody,
    ) -> Option<PendingResponse> {
        let fetch = self.fetch(client)?;
        let (reply, response) = oneshot::channel();
        let context = Rc::clone(context);
        match &self.site.origin {
            SiteOrigin::Directory(_) => return None,
            SiteOrigin::Relayed(http) => {
                let site = Arc::clone(http);
                task::spawn(async move { forward_uncached(&context, &site, &fetch, body, reply).await });
            }
            SiteOrigin::Http(http, store) => {
                let (path, query) = split_target(&fetch.target);
                let moment = store.stamp(context.clock.wall());
                let request = http.request_for(http.target(path, query), fetch.early, moment).into_owned();
                let forwarding = Forwarding {
                    context,
                    store: Arc::clone(store),
                    site: Arc::clone(http),
                    request,
                    fields: http.forwarded_fields(client.head),
                    host: client.head.host().to_owned(),
                    requester: Requester::Client(client.address.ip()),
                };
                task::spawn(async move { forwarding.run(&fetch, body, reply).await });
            }
        }
        Some(PendingResponse { response })
    }

    /// The response for the client.
    pub async fn respond(
        &self,
        context: &Rc<Context>,
        client: ClientRequest<'_>,
        head: ForwardedResponse,
    ) -> Response {
        let exchange = Exchange::new(context, client, Some(&self.site));
        match head.0 {
            Some(ForwardResult::Passed(found)) => forwarded(&exchange, &self.site, found).await,
            Some(ForwardResult::Relayed(relayed)) => {
                let (head, body) = *relayed;
                respond_with(&exchange, &self.site, &head, body).await
            }
            Some(ForwardResult::Failed(error)) => fault_page(&exchange, error),
            None => exchange.page(Status::BadGateway),
        }
    }

    /// The request for the origin. It has the whole query: query rules are for cache keys.
    fn fetch(&self, client: ClientRequest<'_>) -> Option<Fetch> {
        let http = self.http()?;
        let request = client.head;
        let target = match &self.bare.query {
            Some(query) => format!("{}?{query}", self.bare.path),
            None => self.bare.path.to_owned(),
        };
        let token = self.site.signed_urls.as_ref().and_then(|rules| rules.cookie.as_deref());
        let mut fetch = client_request(request, target, client.early, token)?;
        (fetch.host, fetch.client) = (http.host_for(request), Some(client.address));
        http.loop_member.add_to(&mut fetch, passed_through(request).as_deref());
        name_client(&mut fetch, self.site.forwarded, request.host(), client.address.ip(), client.secure);
        Some(fetch)
    }
}

impl PendingResponse {
    /// Waits for the head of the response.
    pub async fn head(&mut self) -> ForwardedResponse {
        ForwardedResponse((&mut self.response).await.ok())
    }
}

/// Forwards a request of a site without cache.
async fn forward_uncached(
    context: &Context,
    site: &HttpSite,
    fetch: &Fetch,
    body: RequestBody,
    reply: oneshot::Sender<ForwardResult>,
) {
    let metrics = &context.metrics;
    let answer = match context.origins.forward(site.origin(), fetch, body).await {
        Ok(answer) => answer,
        Err(error) => {
            metrics.origin(error.label());
            drop(reply.send(ForwardResult::Failed(error)));
            return;
        }
    };
    metrics.origin("answered");
    let (sender, receiver) = relay();
    let (status, announced) = (answer.status(), answer.length());
    let head = RelayedHead { status, fields: answer.fields().clone(), announced };
    let body = RelayedBody::of_task(receiver, announced);
    drop(reply.send(ForwardResult::Relayed(Box::new((head, body)))));
    if let Err(fault) = sender.send_once(context, answer, site.max_unannounced).await {
        metrics.origin(fault.label());
    }
}

/// A forwarded request as a task.
struct Forwarding {
    context: Rc<Context>,
    store: Arc<Store>,
    site: Arc<HttpSite>,
    request: CacheRequest<'static>,
    /// The fields of the request by which a stored response could vary.
    fields: RequestFields,
    /// The host that the client asked, for the URLs that the response invalidates.
    host: String,
    requester: Requester,
}

impl Forwarding {
    async fn run(self, fetch: &Fetch, body: RequestBody, reply: oneshot::Sender<ForwardResult>) {
        let found = |object, receiver| {
            ForwardResult::Passed(LookupResult { object, status: CacheStatus::Bypass, receiver })
        };
        let metrics = &self.context.metrics;
        let answer = match self.context.origins.forward(self.site.origin(), fetch, body).await {
            Ok(answer) => answer,
            Err(error) => {
                metrics.origin(error.label());
                drop(reply.send(found(self.failure(error), None)));
                return;
            }
        };
        metrics.origin("answered");
        if matches!(answer.status(), 200..400) {
            self.invalidate(&*answer).await;
        }
        let now = self.context.moment();
        let length = answer.length();
        let (mut metadata, _) =
            ObjectMetadata::read(&*answer, &self.request, &self.site, BodyKind::Other, now);
        metadata.set_forwarded(answer.status());
        let tier = Arc::clone(&self.store.tier);
        let object = Object::new(&self.request.key, metadata, length, tier);
        let (sender, receiver) = relay();
        drop(reply.send(found(Arc::clone(&object), Some(receiver))));
        let (requester, repeatable) = (self.requester, Repeatable::No);
        let relay = Relay { context: &self.context, object: &object, requester, sender, repeatable };
        if let Err(fault) = relay.run(OriginResponse::unread(answer)).await {
            metrics.origin(fault.label());
        }
    }

    /// Forgets what the response says has changed: the target, and URLs of the same origin that it names (RFC 9111 §4.4).
    /// If other nodes share the objects, they forget them too, so that this node does not fetch them from there.
    async fn invalidate(&self, answer: &dyn OriginBody) {
        let named = ["location", "content-location"].into_iter().filter_map(|name| {
            let target = normalise_target(self.on_the_same_origin(answer.field(name)?)?);
            let (path, query) = split_target(&target);
            Some(self.site.target(path, query).into_owned())
        });
        let targets: Vec<String> = [self.request.target.to_string()].into_iter().chain(named).collect();
        join_all(targets.iter().map(|target| self.forget(target))).await;
    }

    async fn forget(&self, target: &str) {
        // Here last: another node could give it back.
        forget_on_peers(&self.context, &self.site, target).await;
        self.store.invalidate(&self.site, target, &self.fields, self.context.clock.wall());
    }

    /// Path and query of a URL of this site.
    fn on_the_same_origin<'u>(&self, url: &'u str) -> Option<&'u str> {
        let url = url.split('#').next()?;
        if url.starts_with('/') && !url.starts_with("//") {
            return Some(url);
        }
        let rest = url.strip_prefix("https://").or_else(|| url.strip_prefix("http://"))?;
        let (authority, target) = rest.split_at(rest.find('/')?);
        let host = authority.rsplit_once(':').map_or(authority, |(host, _)| host);
        host.eq_ignore_ascii_case(&self.host).then_some(target)
    }

    fn failure(&self, error: OriginError) -> Arc<Object<ObjectMetadata>> {
        let (status, now) = (origin_status(error).code(), self.context.moment());
        let metadata = ObjectMetadata::failure(status, error.into(), &self.request, &self.site, now);
        Object::new(&self.request.key, metadata, Some(0), Arc::clone(&self.store.tier))
    }
}
