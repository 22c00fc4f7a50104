//! From a request to its object: known, being found out, or ours to find out.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

use penstock_cache::{LookUp, Object, ObjectFill, Resolved};
use penstock_config::limits;
use penstock_http::Status;
use tokio::sync::oneshot;
use tokio::time::timeout;

use super::blocking::Held;
use super::description::Quality;
use super::flow::Flow;
pub(super) use super::outcome::Outcome;
use super::{Asked, Description, HttpSite, Store};
use crate::task;
use crate::worker::Worker;

/// The object that answers a request.
pub(super) struct Found {
    pub(super) object: Arc<Object<Description>>,
    pub(super) outcome: Outcome,
    /// Its body, if that comes for this request alone.
    pub(super) flow: Option<Flow>,
}

impl Found {
    /// One whose bytes are read from the cache.
    pub(super) fn shared(object: Arc<Object<Description>>, outcome: Outcome) -> Self {
        Self { object, outcome, flow: None }
    }
}

/// One object to be found, and with what.
#[derive(Clone)]
pub(super) struct Search {
    pub(super) worker: Rc<Worker>,
    pub(super) store: Store,
    pub(super) site: Arc<HttpSite>,
    pub(super) asked: Asked,
    /// What the origin is asked for instead, if it is to hold its answer back.
    pub(super) held: Option<Held>,
    /// Whether nobody has asked for it yet.
    pub(super) in_advance: bool,
    /// Whether who asks wants the whole object, and not a range of it or its head.
    pub(super) wants_all: bool,
}

impl Search {
    /// Finds the object.
    ///
    /// # Errors
    /// What to answer instead: everybody who tried to find out gave up, or too many wait already.
    pub(super) async fn find(&self) -> Result<Found, Status> {
        let (index, key) = (&self.store.index, &self.asked.key);
        let mut outcome = Outcome::Hit;
        // What it differs by may have become known, also while this waited.
        // Twice: an attempt may end with something that was purged meanwhile.
        for _ in 0..2 * limits::ORIGIN_ATTEMPTS {
            if let Some(asked) = self.store.variants.other(&self.asked, &self.site.name) {
                return Box::pin(Self { asked, ..self.clone() }.find()).await;
            }
            let (pending, stale) = match index.look_up(key) {
                LookUp::Missing(claim) => return self.fetch(Some(claim), None).await,
                LookUp::Pending(pending) => {
                    outcome = Outcome::Collapsed;
                    (pending, None)
                }
                LookUp::Known(object) if self.store.is_purged(&object) => continue,
                LookUp::Known(object) => match object.description().quality(Instant::now()) {
                    Quality::Fresh => return Ok(Found::shared(object, outcome)),
                    Quality::Stale => {
                        if let LookUp::Missing(claim) = index.renew(key, &object) {
                            // Nobody waits for what it brings.
                            drop(self.start(Some(claim), Some(Arc::clone(&object))));
                        }
                        return Ok(Found::shared(object, Outcome::Stale));
                    }
                    Quality::Old => match index.renew(key, &object) {
                        LookUp::Missing(claim) => {
                            let coming = self.fetch(Some(claim), Some(Arc::clone(&object)));
                            return unless_slow(Some(&object), coming).await.unwrap_or_else(Ok);
                        }
                        LookUp::Pending(pending) => {
                            outcome = Outcome::Revalidated;
                            (pending, Some(object))
                        }
                        // Somebody has just renewed it.
                        LookUp::Known(object) => return Ok(Found::shared(object, outcome)),
                    },
                },
            };
            if self.is_crowd(pending.waiters()) {
                // Straight through would be a request to the origin for each of them.
                return stale.map_or(Err(Status::ServiceUnavailable), |object| {
                    Ok(Found::shared(object, Outcome::Stale))
                });
            }
            let resolved = match unless_slow(stale.as_ref(), pending.resolved()).await {
                Ok(resolved) => resolved,
                Err(stale) => return Ok(stale),
            };
            match resolved {
                Some(Resolved::Shared(object)) if self.store.is_purged(&object) => {}
                Some(Resolved::Shared(object)) => return Ok(Found::shared(object, outcome)),
                Some(Resolved::Alone) => return self.fetch(None, None).await,
                // Whoever tried gave up: now we may be the one.
                None => {}
            }
        }
        Err(Status::BadGateway)
    }

    /// Whether so many are too many to wait for one fetch.
    pub(super) fn is_crowd(&self, waiters: usize) -> bool {
        waiters > self.worker.settings().limits.waiters_per_fill
    }

    /// Starts a fetch that outlives this request, and waits for its head.
    pub(super) async fn fetch(
        &self,
        claim: Option<ObjectFill<Description>>,
        stale: Option<Arc<Object<Description>>>,
    ) -> Result<Found, Status> {
        self.start(claim, stale).await.map_err(|_| Status::BadGateway)
    }

    /// Fetches what nobody has asked for yet.
    pub(super) async fn fetch_for_nobody(self, claim: ObjectFill<Description>) {
        let (reply, _) = oneshot::channel();
        self.fetch_object(Announce { claim: Some(claim), reply }, None).await;
    }

    fn start(
        &self,
        claim: Option<ObjectFill<Description>>,
        stale: Option<Arc<Object<Description>>>,
    ) -> oneshot::Receiver<Found> {
        let (reply, answer) = oneshot::channel();
        let search = self.clone();
        task::begin(async move { search.fetch_object(Announce { claim, reply }, stale).await });
        answer
    }
}

/// Waits for something newer than `stale`, but not longer than it is patient; the error is then the stale one.
async fn unless_slow<T>(
    stale: Option<&Arc<Object<Description>>>,
    coming: impl Future<Output = T>,
) -> Result<T, Found> {
    let Some(object) = stale else { return Ok(coming.await) };
    let Some(patience) = object.description().patience(Instant::now()) else { return Ok(coming.await) };
    let stale = |_| Found::shared(Arc::clone(object), Outcome::Stale);
    timeout(patience, coming).await.map_err(stale)
}

/// Whoever waits to hear what an object is.
pub(super) struct Announce {
    claim: Option<ObjectFill<Description>>,
    reply: oneshot::Sender<Found>,
}

impl Announce {
    /// Whether it speaks for everybody who asks for the object.
    pub(super) fn is_for_all(&self) -> bool {
        self.claim.is_some()
    }

    /// For all who wait, and for all who come later.
    pub(super) fn keep(self, object: &Arc<Object<Description>>, outcome: Outcome) {
        if let Some(claim) = self.claim {
            claim.keep(object);
        }
        // The request it began with may be gone.
        drop(self.reply.send(Found::shared(Arc::clone(object), outcome)));
    }

    /// For all who wait.
    pub(super) fn share(self, object: &Arc<Object<Description>>, outcome: Outcome) {
        if let Some(claim) = self.claim {
            claim.share(object);
        }
        drop(self.reply.send(Found::shared(Arc::clone(object), outcome)));
    }

    /// For the request it began with: those who wait may want another variant, and look again.
    pub(super) fn elsewhere(self, object: &Arc<Object<Description>>, outcome: Outcome) {
        drop(self.claim);
        drop(self.reply.send(Found::shared(Arc::clone(object), outcome)));
    }

    /// For the request it began with, and its body with it unless that comes through the cache.
    pub(super) fn alone(self, object: &Arc<Object<Description>>, flow: Option<Flow>) {
        if let Some(claim) = self.claim {
            claim.alone();
        }
        drop(self.reply.send(Found { object: Arc::clone(object), outcome: Outcome::Passed, flow }));
    }
}
