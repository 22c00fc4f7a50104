//! Asking for bytes that are not in the cache: another node of the cluster, or the origin.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::join_all;
use http::header::{HeaderMap, HeaderName, HeaderValue};
use penstock_config::limits;
use penstock_http::caching::Lifetime;
use penstock_origin::http::{Fetch, Method, OriginError};
use tokio::time::{sleep, timeout};

use crate::context::Context;
use crate::origins::{LocalFuture, OriginBody, PeerObject};
use crate::peers::peer_fields as fields;
use crate::peers::{ALIVE, OutgoingEntry, Peer, PeerOutcome, Peers, Route, Step};
use crate::requester::{Hop, Requester};
use crate::site::{HttpSite, SentCmcd, Sharing, change_request};

/// Bytes of a refusal that are read, so that its connection can be used again.
const REFUSAL_BYTES: u64 = 4096;

/// What is asked for, and on whose behalf.
pub(crate) struct Wanted<'w> {
    /// Path and query of the object.
    pub(crate) target: &'w str,
    /// The first of the bytes.
    pub(crate) first_byte: u64,
    pub(crate) requester: Requester,
    /// CDN-Loop of the request that causes this one.
    pub(crate) loops: Option<&'w str>,
    /// What the origin is told of the player. Other nodes are not told it.
    pub(crate) cmcd: Option<&'w SentCmcd>,
}

/// Asks for bytes of an object: the nodes that may have it if the site shares its objects, then the origin.
///
/// # Errors
/// See [`OriginError`].
pub(crate) async fn ask<'o>(
    context: &'o Context,
    site: &HttpSite,
    wanted: &Wanted<'_>,
    fetch: &Fetch,
) -> Result<Box<dyn OriginBody + 'o>, OriginError> {
    let mut fetch = fetch.clone();
    site.loop_member.add_to(&mut fetch, wanted.loops);
    let Some(sharing) = &site.sharing else { return ask_origin(context, site, wanted, fetch).await };
    let route = site.route(wanted.target, wanted.first_byte);
    for step in sharing.peers.steps(route, wanted.requester, &sharing.shield, context.now()) {
        let Step::Peer(peer, hop) = step else { break };
        set_node(&fetch, true);
        // A shield may wait for the origin, and the node that asked it then does so itself.
        let origins = if hop == Hop::Owner && !sharing.shield.is_empty() { 2 } else { 1 };
        let wait = site.origin().longest_wait() * origins + 2 * milliseconds(limits::PEER_PROBE_MILLISECONDS);
        match (PeerRequest { context, sharing, peer, hop, route, wait }).ask(&fetch).await {
            Ok(body) => return Ok(body),
            Err(PeerRefusal::ByOrigin(error)) => return Err(error),
            Err(PeerRefusal::ByNode) => {}
        }
    }
    set_node(&fetch, false);
    ask_origin(context, site, wanted, fetch).await
}

/// Asks the origin, by the rules of this node.
async fn ask_origin<'o>(
    context: &'o Context,
    site: &HttpSite,
    wanted: &Wanted<'_>,
    mut fetch: Fetch,
) -> Result<Box<dyn OriginBody + 'o>, OriginError> {
    if let Some(cmcd) = wanted.cmcd {
        cmcd.add_to(&mut fetch);
    }
    // Nodes apply their own when they ask the origin.
    change_request(&site.request_rules, &mut fetch, |_, _| {});
    fetch.counters = Some(site.counters.clone());
    context.origins.fetch(site.origin(), &fetch).await
}

/// Notes whether the request is sent to another node next.
fn set_node(fetch: &Fetch, is_node: bool) {
    if let Some(trace) = &fetch.trace {
        trace.set_node(is_node);
    }
}

/// Has the other nodes forget an object, all at the same time. Those that do not answer within a second keep it.
pub(crate) async fn forget_on_peers(context: &Context, site: &HttpSite, target: &str) {
    let Some(sharing) = &site.sharing else { return };
    let mut fetch = Fetch { method: Method::POST, bare: true, ..Fetch::get(target) };
    set(&mut fetch.fields, fields::SITE, &sharing.identity);
    let (fetch, others) = (&fetch, sharing.peers.others());
    let told = others.iter().filter(|peer| peer.origin().is_up()).map(|peer| async move {
        let answered = async {
            if let Ok(mut body) = context.origins.fetch(peer.origin(), fetch).await {
                read_to_end(&mut *body).await;
            }
        };
        // A node that does not answer is found by its health check.
        drop(timeout(milliseconds(limits::PEER_PROBE_MILLISECONDS), answered).await);
    });
    join_all(told).await;
}

/// Why a node gave no object.
enum PeerRefusal {
    /// The next node, or the origin, may have it.
    ByNode,
    /// The origin failed the node, and would fail others.
    ByOrigin(OriginError),
}

/// A request to another node.
struct PeerRequest<'r, 'o> {
    context: &'o Context,
    sharing: &'r Sharing,
    peer: Arc<Peer>,
    hop: Hop,
    route: Route,
    /// How long a node may take that waits for the origin.
    wait: Duration,
}

impl<'o> PeerRequest<'_, 'o> {
    async fn ask(self, fetch: &Fetch) -> Result<Box<dyn OriginBody + 'o>, PeerRefusal> {
        let (context, peer) = (self.context, &self.peer);
        // A node that is asked for what it has, or as a shield, never waits for this one.
        let asking = match self.hop {
            Hop::Owner => Some(self.sharing.peers.ask_others(self.route).ok_or(PeerRefusal::ByNode)?),
            Hop::Shield | Hop::OnlyIfCached => None,
        };
        let mut fetch = Fetch { bare: true, ..fetch.clone() };
        set(&mut fetch.fields, fields::SITE, &self.sharing.identity);
        set(&mut fetch.fields, fields::HOP, self.hop.label());
        let began = context.now();
        let coming = context.origins.fetch(peer.origin(), &fetch);
        let answer = match self.hop {
            Hop::OnlyIfCached => timeout(milliseconds(limits::PEER_PROBE_MILLISECONDS), coming)
                .await
                .map_err(|_| PeerSilence::Dead),
            Hop::Owner | Hop::Shield => while_alive(context, peer, Some(self.wait), coming).await,
        };
        let body = match answer {
            Ok(Ok(body)) => body,
            Ok(Err(error)) => {
                peer.count(PeerOutcome::Failed);
                if matches!(error, OriginError::Unreachable | OriginError::Timeout) {
                    peer.take_out(&peer.last_fault());
                }
                return Err(PeerRefusal::ByNode);
            }
            Err(PeerSilence::Dead) => {
                peer.count(PeerOutcome::Failed);
                peer.take_out("it does not answer");
                return Err(PeerRefusal::ByNode);
            }
            Err(PeerSilence::Stalled) => {
                peer.count(PeerOutcome::Stalled);
                return Err(PeerRefusal::ByNode);
            }
        };
        peer.latency.record(context.now().saturating_duration_since(began));
        if let Some(load) = body.field(fields::LOAD).and_then(fields::load) {
            peer.set_load(load);
        }
        self.judge(body, asking).await
    }

    async fn judge(
        self,
        mut body: Box<dyn OriginBody + 'o>,
        asking: Option<OutgoingEntry>,
    ) -> Result<Box<dyn OriginBody + 'o>, PeerRefusal> {
        let lifetime = match body.field(fields::FRESHNESS) {
            Some(fields::NOT_STORED) => Some(None),
            Some(text) => fields::lifetime(text).map(Some),
            None => None,
        };
        let (peer, route, hop) = (self.peer, self.route, self.hop);
        let Some(lifetime) = lifetime else {
            let fault = body.field(fields::FAULT).and_then(OriginError::named);
            read_to_end(&mut *body).await;
            let Some(error) = fault else {
                peer.count(PeerOutcome::Refused);
                return Err(PeerRefusal::ByNode);
            };
            peer.count(PeerOutcome::OriginFailed);
            // The node may be cut off from the origin while this one is not.
            return Err(match error {
                OriginError::Unreachable => PeerRefusal::ByNode,
                error => PeerRefusal::ByOrigin(error),
            });
        };
        peer.count(PeerOutcome::Answered);
        let peers = Arc::clone(&self.sharing.peers);
        Ok(Box::new(PeerBody {
            body,
            context: self.context,
            peers,
            peer,
            route,
            lifetime,
            hop,
            _asking: asking,
        }))
    }
}

fn set(fields: &mut HeaderMap, name: &'static str, value: &str) {
    if let Ok(value) = HeaderValue::from_str(value) {
        fields.insert(HeaderName::from_static(name), value);
    }
}

fn milliseconds(number: u64) -> Duration {
    Duration::from_millis(number)
}

/// Reads a small body, so that its connection can be used again.
async fn read_to_end(body: &mut dyn OriginBody) {
    if body.length().is_some_and(|length| length <= REFUSAL_BYTES) {
        while let Ok(Some(_)) = body.next().await {}
    }
}

/// Why a node is not waited for any longer.
enum PeerSilence {
    /// It does not say that it is alive.
    Dead,
    /// It says so, and answers nothing.
    Stalled,
}

/// Waits for a node as long as it is alive, and at most for `wait` if there is one. A node that answers nothing for longer
/// than it usually takes is asked whether it is alive: it may wait for the origin. If it takes longer than the origin may, and
/// has answered no other request meanwhile, it is out for a while, and all who wait for it go on within a second.
async fn while_alive<T>(
    context: &Context,
    peer: &Peer,
    wait: Option<Duration>,
    coming: impl Future<Output = T>,
) -> Result<T, PeerSilence> {
    let mut coming = std::pin::pin!(coming);
    let (deadline, answers) = (wait.map(|wait| context.now() + wait), peer.answers());
    let mut patience = peer.patience();
    loop {
        let left = deadline.map_or(patience, |deadline| deadline.saturating_duration_since(context.now()));
        tokio::select! {
            biased;
            answer = &mut coming => return Ok(answer),
            () = sleep(patience.min(left)) => {}
        }
        if let Some(deadline) = deadline {
            let is_late = context.now() >= deadline;
            if is_late && peer.answers() == answers {
                peer.note_stalled(context.now());
            }
            if is_late || peer.is_stalled() {
                return Err(PeerSilence::Stalled);
            }
        }
        tokio::select! {
            biased;
            answer = &mut coming => return Ok(answer),
            alive = is_alive(context, peer) => if !alive { return Err(PeerSilence::Dead) },
        }
        patience = milliseconds(limits::PEER_CHECK_MILLISECONDS);
    }
}

async fn is_alive(context: &Context, peer: &Peer) -> bool {
    let fetch = Fetch { bare: true, ..Fetch::get(ALIVE) };
    let asked = async {
        match context.origins.fetch(peer.origin(), &fetch).await {
            Ok(mut body) => {
                read_to_end(&mut *body).await;
                true
            }
            // All connections are in use: it answers.
            Err(error) => error == OriginError::Busy,
        }
    };
    timeout(milliseconds(limits::PEER_PROBE_MILLISECONDS), asked).await.unwrap_or(false)
}

/// The response of another node.
struct PeerBody<'o> {
    body: Box<dyn OriginBody + 'o>,
    context: &'o Context,
    peers: Arc<Peers>,
    peer: Arc<Peer>,
    route: Route,
    lifetime: Option<Lifetime>,
    hop: Hop,
    _asking: Option<OutgoingEntry>,
}

impl OriginBody for PeerBody<'_> {
    fn status(&self) -> u16 {
        self.body.status()
    }

    fn fields(&self) -> &HeaderMap {
        self.body.fields()
    }

    fn length(&self) -> Option<u64> {
        self.body.length()
    }

    fn proves_completeness(&self) -> bool {
        self.body.proves_completeness()
    }

    fn peer(&self) -> Option<PeerObject> {
        Some(PeerObject { lifetime: self.lifetime, is_owner: self.hop == Hop::Owner })
    }

    fn next(&mut self) -> LocalFuture<'_, Result<Option<Bytes>, OriginError>> {
        Box::pin(async move {
            // A body that comes too slowly ends by itself.
            match while_alive(self.context, &self.peer, None, self.body.next()).await {
                Ok(Err(error)) => {
                    if error == OriginError::TooSlow || is_alive(self.context, &self.peer).await {
                        self.peers.note_incomplete(self.route, self.context.now());
                    } else {
                        self.peer.take_out("it stopped within a response");
                    }
                    Err(error)
                }
                Ok(piece) => piece,
                Err(PeerSilence::Dead | PeerSilence::Stalled) => {
                    self.peer.take_out("it stopped within a response");
                    Err(OriginError::Timeout)
                }
            }
        })
    }
}
