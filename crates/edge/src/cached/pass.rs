//! What is passed on to an origin and answered as it comes: an object that nobody else ever finds.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Instant, SystemTime};

use penstock_cache::Object;
use penstock_http::Status;
use penstock_origin::http::{Answer as OriginAnswer, Fetch, OriginError, RequestBody};
use tokio::sync::oneshot;

use super::answer::Reply;
use super::flow::{Asking, Carriage, Flow, flow};
use super::live::Reading;
use super::manifest::Arriving;
use super::outcome::Outcome;
use super::{Asked, Description, HttpSite, Store};
use crate::respond::{Answer, Exchange};
use crate::site::Site;
use crate::task;
use crate::worker::Worker;

/// A request on its way to an origin. What has begun goes on if the client leaves.
pub(crate) struct Passing(oneshot::Receiver<Coming>);

/// What came back.
pub(crate) struct Passed(Option<Coming>);

/// The answer, and its body if it has one.
type Coming = (Arc<Object<Description>>, Option<Flow>);

/// What a task needs to know.
struct Task {
    worker: Rc<Worker>,
    store: Store,
    site: Arc<HttpSite>,
    asked: Asked,
    /// The host that the client asked, for what an answer invalidates.
    host: String,
}

impl Passing {
    pub(crate) fn start(
        worker: &Rc<Worker>,
        store: &Store,
        site: &Arc<HttpSite>,
        host: &str,
        fetch: Fetch,
        body: RequestBody,
    ) -> Self {
        let (reply, answer) = oneshot::channel();
        let (path, query) = match fetch.target.split_once('?') {
            Some((path, query)) => (path, Some(query)),
            None => (fetch.target.as_str(), None),
        };
        let moment = store.purges.stamp(SystemTime::now());
        let asked = site.asked_for(site.target(path, query), fetch.early, moment);
        let task = Task {
            worker: Rc::clone(worker),
            store: store.clone(),
            site: Arc::clone(site),
            asked,
            host: host.to_owned(),
        };
        task::begin(async move { task.run(&fetch, body, reply).await });
        Self(answer)
    }

    /// Waits for the head of the answer.
    pub(crate) async fn answer(&mut self) -> Passed {
        Passed((&mut self.0).await.ok())
    }
}

/// Hands on what came back.
pub(crate) async fn respond_passed(
    exchange: &Exchange<'_>,
    site: &Site,
    store: &Store,
    passed: Passed,
) -> Answer {
    let Some((object, flow)) = passed.0 else { return exchange.page(Some(site), Status::BadGateway) };
    exchange.worker.shard.cached(Outcome::Through.label());
    let outcome = Outcome::Through;
    let (outdated, flow) = (Cell::new(false), Cell::new(flow));
    let reply = Reply { exchange, site, store, object, outcome, outdated, flow };
    Answer { outcome: Some(outcome), ..reply.as_it_came().await }
}

impl Task {
    async fn run(self, fetch: &Fetch, body: RequestBody, reply: oneshot::Sender<Coming>) {
        let shard = &self.worker.shard;
        let answer = match self.worker.origins.pass(&self.site.origin, fetch, body).await {
            Ok(answer) => answer,
            Err(error) => {
                shard.origin(error.label());
                drop(reply.send((self.failure(error), None)));
                return;
            }
        };
        shard.origin("answered");
        if matches!(answer.status(), 200..400) {
            self.invalidate(&answer);
        }
        let now = (Instant::now(), SystemTime::now());
        let length = answer.length();
        let (mut description, _) = Description::read(&answer, &self.asked, &self.site, Reading::Other, now);
        description.be_passed(answer.status());
        let tier = Arc::clone(&self.store.tier);
        let object = Object::new(&self.asked.key, description, length, tier);
        let (inlet, flow) = flow();
        drop(reply.send((Arc::clone(&object), Some(flow))));
        let carriage = Carriage { worker: &self.worker, object: &object, inlet, asking: Asking::Effect };
        if let Err(reason) = carriage.carry(Arriving::unread(answer)).await {
            shard.origin(reason);
            object.description().set_fault(reason);
        }
    }

    /// What the answer says has changed: the target, and what it names on the same origin (RFC 9111 §4.4).
    fn invalidate(&self, answer: &OriginAnswer<'_>) {
        self.store.index.forget(&self.asked.key, &self.store.tier);
        for name in ["location", "content-location"] {
            let Some(target) = answer.field(name).and_then(|url| self.on_the_same_origin(url)) else {
                continue;
            };
            let (path, query) = match target.split_once('?') {
                Some((path, query)) => (path, Some(query)),
                None => (target, None),
            };
            let asked = self.site.asked_for(self.site.target(path, query), false, self.asked.moment);
            self.store.index.forget(&asked.key, &self.store.tier);
        }
    }

    /// Path and query of a URL, if it is the site's own.
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

    fn failure(&self, error: OriginError) -> Arc<Object<Description>> {
        let status = match error {
            OriginError::Timeout => 504,
            OriginError::Busy => 503,
            _ => 502,
        };
        let now = (Instant::now(), SystemTime::now());
        let description = Description::failure(status, error.label(), &self.asked, &self.site, now);
        Object::new(&self.asked.key, description, Some(0), Arc::clone(&self.store.tier))
    }
}
