//! Looking an object up, and fetching it on a miss: what is asked for, with what, and for which waiters.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use penstock_cache::{Object, ObjectClaim};
use penstock_metrics::PrefetchKind;
use penstock_origin::http::InterimHeads;
use tokio::sync::oneshot;

use crate::cache_status::CacheStatus;
use crate::context::Context;
use crate::object::ObjectMetadata;
use crate::origin::BodyReceiver;
use crate::requester::Requester;
use crate::served::Cause;
use crate::site::{CacheRequest, HttpSite, OwnWords, SentCmcd, is_same_variant, selecting};
use crate::store::Store;

/// One object to look up, and what is needed to fetch it. It outlives the client's request.
#[derive(Clone)]
pub(crate) struct Lookup {
    pub(crate) context: Rc<Context>,
    pub(crate) store: Arc<Store>,
    pub(crate) site: Arc<HttpSite>,
    pub(crate) request: CacheRequest<'static>,
    /// The request to send to the origin instead, if it is to hold its response back.
    pub(crate) held: Option<HeldRequest>,
    /// The sender of the request that the fetches are for.
    pub(crate) requester: Requester,
    /// CDN-Loop of that request (RFC 8586).
    pub(crate) loops: Option<Arc<str>>,
    /// What the origin is told of the player.
    pub(crate) cmcd: Option<Arc<SentCmcd>>,
    /// From where the object is known, if no client has asked for it yet.
    pub(crate) in_advance: Option<PrefetchKind>,
    /// Whether the client wants the whole object, rather than a range or the head.
    pub(crate) wants_all: bool,
    /// The client's place for interim responses, if it takes them.
    pub(crate) interim: Option<InterimHeads>,
    /// The client's request, for the requests to origins that it causes.
    pub(crate) cause: Cause,
}

/// A blocking playlist reload (RFC 8216bis §6.2.5.2), as the origin is asked for it.
#[derive(Clone, Debug)]
pub(crate) struct HeldRequest {
    /// Path, query and delivery directives.
    pub(crate) target: String,
    /// The longest time that the origin may hold its response back.
    pub(crate) longest: Duration,
}

/// The object that answers a request.
pub(crate) struct LookupResult {
    pub(crate) object: Arc<Object<ObjectMetadata>>,
    pub(crate) status: CacheStatus,
    /// The body, if it is for this request only.
    pub(crate) receiver: Option<BodyReceiver>,
}

impl LookupResult {
    /// An object whose body is in the cache.
    pub(crate) fn shared(object: Arc<Object<ObjectMetadata>>, status: CacheStatus) -> Self {
        Self { object, status, receiver: None }
    }
}

impl Lookup {
    /// The same lookup of another object.
    pub(crate) fn of(&self, request: CacheRequest<'static>, held: Option<HeldRequest>) -> Self {
        Self { request, held, ..self.clone() }
    }

    /// What the requests to the origin say of the client, if the response varies by the fields `names`.
    pub(crate) fn own_words(&self, names: &[String]) -> Option<OwnWords> {
        let mut by = self.store.variants.names(&self.request);
        by.extend_from_slice(names);
        let fields = selecting(&self.request.fields, &by, false);
        let (early, loops) = (self.request.early, self.own_loops());
        (early || loops.is_some() || !fields.is_empty()).then_some(OwnWords { early, loops, fields })
    }

    /// CDN-Loop of the client. What another node says of itself there is not its client's.
    fn own_loops(&self) -> Option<Arc<str>> {
        let is_of_nodes = |loops: &str| match (&self.site.sharing, self.requester) {
            (Some(sharing), Requester::Peer(_)) => sharing.peers.are_members(loops),
            (_, Requester::Client(_) | Requester::Peer(_)) => false,
        };
        self.loops.clone().filter(|loops| !is_of_nodes(loops))
    }

    /// Whether an object answers this client, by the words that it may be about.
    pub(crate) fn may_take(&self, object: &Object<ObjectMetadata>) -> bool {
        object.metadata().own_words().is_none_or(|OwnWords { early, loops, fields }| {
            let names: Vec<String> = fields.iter().map(|(name, _)| name.clone()).collect();
            (*early, loops) == (self.request.early, &self.own_loops())
                && is_same_variant(fields, &self.request.fields, &names)
        })
    }

    /// Leaves the words of the client that sent `request` out of further requests to the origin, so that the answer is for all
    /// that wait.
    pub(crate) fn ask_plainly(&mut self, request: &CacheRequest<'_>) {
        self.loops = None;
        let names = self.store.variants.names(request);
        self.request.fields = selecting(&request.fields, &names, true).into();
    }
}

/// Claim on a key: the holder fetches the object. If it is dropped without a result, the next request may claim the key.
pub(crate) struct FetchClaim {
    /// `None` if the fetch is for one request only.
    pub(crate) claim: Option<ObjectClaim<ObjectMetadata>>,
    pub(crate) reply: oneshot::Sender<LookupResult>,
}

impl FetchClaim {
    /// Whether other requests may wait for the same object.
    pub(crate) fn is_shared(&self) -> bool {
        self.claim.is_some()
    }

    /// Whether the object was not invalidated since the fetch began.
    pub(crate) fn is_current(&self) -> bool {
        self.claim.as_ref().is_none_or(ObjectClaim::is_current)
    }

    /// Gives the object to all waiters, and keeps it for later requests.
    pub(crate) fn keep(self, object: &Arc<Object<ObjectMetadata>>, status: CacheStatus) {
        if let Some(claim) = self.claim {
            claim.keep(object);
        }
        reply(self.reply, object, status, None);
    }

    /// Gives the object to all waiters, and to no later request.
    pub(crate) fn share(self, object: &Arc<Object<ObjectMetadata>>, status: CacheStatus) {
        if let Some(claim) = self.claim {
            claim.share(object);
        }
        reply(self.reply, object, status, None);
    }

    /// Gives the object to the request that began the fetch. The other waiters may select another variant, and look
    /// again.
    pub(crate) fn give_to_first(self, object: &Arc<Object<ObjectMetadata>>, status: CacheStatus) {
        drop(self.claim);
        reply(self.reply, object, status, None);
    }

    /// Gives the object with its body to the request that began the fetch. The other waiters look again.
    pub(crate) fn give_body_to_first(
        self,
        object: &Arc<Object<ObjectMetadata>>,
        status: CacheStatus,
        receiver: BodyReceiver,
    ) {
        drop(self.claim);
        reply(self.reply, object, status, Some(receiver));
    }

    /// Gives the object to the request that began the fetch, with its body unless that comes through the cache. Each
    /// other waiter has to fetch for itself; if the response may be about the words of that one client, they look again.
    pub(crate) fn give_unshared(self, object: &Arc<Object<ObjectMetadata>>, receiver: Option<BodyReceiver>) {
        match self.claim {
            Some(claim) if object.metadata().own_words().is_none() => claim.make_private(),
            claim => drop(claim),
        }
        reply(self.reply, object, CacheStatus::Uncacheable, receiver);
    }
}

fn reply(
    to: oneshot::Sender<LookupResult>,
    object: &Arc<Object<ObjectMetadata>>,
    status: CacheStatus,
    receiver: Option<BodyReceiver>,
) {
    // The client may have left.
    drop(to.send(LookupResult { object: Arc::clone(object), status, receiver }));
}
