//! Requests that are forwarded to an origin with their body, such as POST. Their responses are not cached.

use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;

use futures_util::future::join_all;
use penstock_cache::Object;
use penstock_http::uri::normalise_target;
use penstock_http::{BodyFraming, Rejection, Status};
use penstock_origin::http::{Fetch, OriginError, RequestBody as OriginRequestBody, request_body};
use tokio::sync::oneshot;

use crate::cache_status::CacheStatus;
use crate::cached::LookupResult;
use crate::context::Context;
use crate::fault::origin_status;
use crate::fill::RelayedBody;
use crate::object::ObjectMetadata;
use crate::origin::{FetchedResponse, Relay, Repeatable, forget_on_peers, relay};
use crate::origins::OriginBody;
use crate::pipeline::relayed::{RelayedHead, client_fetch, fault_page, respond_with};
use crate::pipeline::request_body::RequestBody;
use crate::requester::Requester;
use crate::response::{Exchange, ObjectRepresentation, Representation, Response};
use crate::served::Tier;
use crate::site::{BodyKind, CacheRequest, HttpSite, RequestFields, split_target};
use crate::site_table::Site;
use crate::store::Store;
use crate::task;

/// What came of a forwarded request.
enum ForwardResult {
    /// The response of a site with a cache, which it does not enter.
    Passed(LookupResult),
    /// The response of a site without cache.
    Relayed(Box<(RelayedHead, RelayedBody)>),
    /// No response of a site without cache.
    Failed(OriginError),
}

/// The method of a request is no method (RFC 9110 §9.1).
const NO_METHOD: Rejection = Rejection { status: Status::BadRequest, reason: "method", close: true };

/// Forwards a request with its body. Once begun, it goes on if the client leaves.
///
/// # Errors
/// The body is malformed, too long or incomplete, or the client has left.
pub(super) async fn forward(
    exchange: &Exchange<'_>,
    site: &Site,
    http: &Arc<HttpSite>,
    store: Option<&Arc<Store>>,
    body: &mut impl RequestBody,
) -> Result<Response, Rejection> {
    // A body that announces too great a length is refused before its first byte is sent on.
    body.admit()?;
    let request = exchange.request;
    let (sender, pieces) = request_body(match request.body() {
        BodyFraming::None => Some(0),
        BodyFraming::Length(length) => Some(length),
        BodyFraming::Chunked => None,
    });
    let fetch = client_fetch(exchange, site, http).ok_or(NO_METHOD)?;
    let mut result = start(exchange, http, store, fetch, pieces);
    if request.expect_continue() {
        body.send_continue().await;
    }
    // The response may begin before all of the body has come. The rest is sent on until the response ends.
    body.begin(sender);
    let (result, mut is_whole) = tokio::select! {
        biased;
        result = &mut result => (result, false),
        sent = body.send() => {
            sent?;
            tokio::select! {
                biased;
                result = &mut result => (result, true),
                gone = body.departed() => return Err(gone),
            }
        }
    };
    let mut responding = pin!(respond(exchange, store, result.ok()));
    let response = tokio::select! {
        biased;
        response = &mut responding => response,
        sent = body.send(), if !is_whole => {
            sent?;
            is_whole = true;
            responding.await
        }
    };
    if !is_whole {
        body.go_on();
    }
    Ok(response)
}

/// The response for the client; `None` if the task of the request has ended without a result.
async fn respond(
    exchange: &Exchange<'_>,
    store: Option<&Arc<Store>>,
    result: Option<ForwardResult>,
) -> Response {
    match (result, store) {
        (Some(ForwardResult::Passed(found)), Some(store)) => passed(exchange, store, found).await,
        (Some(ForwardResult::Relayed(relayed)), _) => {
            let (head, body) = *relayed;
            exchange.tier.set(Some(Tier::Origin));
            respond_with(exchange, &head, body).await
        }
        (Some(ForwardResult::Failed(error)), _) => fault_page(exchange, error),
        (Some(ForwardResult::Passed(_)), None) | (None, _) => exchange.page(Status::BadGateway),
    }
}

/// Sends the request to the origin, in a task of its own.
fn start(
    exchange: &Exchange<'_>,
    http: &Arc<HttpSite>,
    store: Option<&Arc<Store>>,
    fetch: Fetch,
    body: OriginRequestBody,
) -> oneshot::Receiver<ForwardResult> {
    let (reply, response) = oneshot::channel();
    let (context, site) = (Rc::clone(exchange.context), Arc::clone(http));
    let Some(store) = store else {
        task::spawn_filling(async move { forward_uncached(&context, &site, &fetch, body, reply).await });
        return response;
    };
    let (path, query) = split_target(&fetch.target);
    let stamp = store.stamp(context.clock.wall());
    let request = http.request_for(http.target(path, query), fetch.early, stamp).into_owned();
    let forwarding = Forwarding {
        context,
        store: Arc::clone(store),
        site,
        request,
        fields: http.forwarded_fields(exchange.client.head),
        host: exchange.client.head.host().to_owned(),
        requester: exchange.requester,
    };
    task::spawn_filling(async move { forwarding.run(&fetch, body, reply).await });
    response
}

/// Forwards a request of a site without cache.
async fn forward_uncached(
    context: &Context,
    site: &HttpSite,
    fetch: &Fetch,
    body: OriginRequestBody,
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
    async fn run(self, fetch: &Fetch, body: OriginRequestBody, reply: oneshot::Sender<ForwardResult>) {
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
        // OPTIONS changes nothing (RFC 9110 §9.2.1).
        if matches!(answer.status(), 200..400) && fetch.method != http::Method::OPTIONS {
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
        if let Err(fault) = relay.run(FetchedResponse::unread(answer)).await {
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

/// The response of an origin to a forwarded request, as it came.
async fn passed(exchange: &Exchange<'_>, store: &Arc<Store>, found: LookupResult) -> Response {
    let LookupResult { object, status, receiver } = found;
    exchange.context.metrics.cached(status.label());
    let object = ObjectRepresentation::new(exchange, store, object, status, receiver);
    let mut response = match object.failure(exchange) {
        Some(page) => page,
        None => {
            let code = object.status();
            let whole = Representation::Object(object).whole(exchange, code).await;
            whole.unwrap_or_else(|_| exchange.page(Status::BadGateway))
        }
    };
    response.cache_status = Some(status);
    response
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pipeline::facts::{Facts, LEFT, RecordedBody};
    use crate::site_table::SiteOrigin;
    use crate::tests::fixture::{OriginAnswer, read, run};
    use crate::tests::scripted::Reply;

    fn facts() -> [Facts; 2] {
        let methods = || vec!["POST".to_owned()];
        [Facts::cached(|site| site.methods = methods()), Facts::relayed(|site| site.methods = methods())]
    }

    async fn forwarded(
        facts: &Facts,
        fields: &str,
        body: &mut RecordedBody,
    ) -> Result<OriginAnswer, Rejection> {
        let store =
            Some(&facts.fixture.store).filter(|_| matches!(&facts.site().origin, SiteOrigin::Http(..)));
        let http = facts.site().http().unwrap();
        let response = facts
            .ask("POST /x", fields, async |asked| forward(asked, facts.site(), http, store, body).await)
            .await?;
        Ok(read(&facts.fixture.context, response).await)
    }

    #[test]
    fn a_body_is_admitted_asked_for_and_sent_in_this_order() {
        run(async {
            for facts in facts() {
                facts.fixture.origin.reply(Reply::new(201).with(&[("x-a", "1")]).bytes(b"made"));
                let fields = "Content-Length: 3\r\nExpect: 100-continue\r\n";
                let mut body = RecordedBody::default();
                let answer = forwarded(&facts, fields, &mut body).await.unwrap();
                assert_eq!(
                    (answer.status, answer.field("x-a").as_str(), &*answer.body),
                    (201, "1", &b"made"[..])
                );
                assert_eq!(body.calls, ["admit", "send_continue", "begin", "send"]);
            }
        });
    }

    #[test]
    fn a_body_that_is_refused_reaches_no_origin() {
        run(async {
            for facts in facts() {
                let mut body = RecordedBody { rejection: Some(LEFT), ..RecordedBody::default() };
                assert_eq!(forwarded(&facts, "Content-Length: 3\r\n", &mut body).await.err(), Some(LEFT));
                assert_eq!((body.calls, facts.fixture.origin.requests()), (vec!["admit"], 0));
            }
        });
    }

    #[test]
    fn an_origin_that_does_not_answer_is_a_page_with_its_fault() {
        run(async {
            for facts in facts() {
                facts.fixture.origin.reply(Reply::failure(OriginError::Unreachable));
                let answer = forwarded(&facts, "", &mut RecordedBody::default()).await.unwrap();
                assert_eq!(answer.status, 502);
                let status = answer.field("cache-status");
                assert!(
                    status.ends_with(&format!("detail={}", OriginError::Unreachable.label())),
                    "{status}"
                );
            }
        });
    }

    #[test]
    fn a_task_that_ends_without_a_result_is_a_502() {
        run(async {
            for facts in facts() {
                let store = &facts.fixture.store;
                let ended = facts.ask("POST /x", "", async |asked| respond(asked, Some(store), None).await);
                assert_eq!(ended.await.head.status, 502);
            }
        });
    }
}
