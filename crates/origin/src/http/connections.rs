//! The connections of one worker to origins: which target is asked, over which connection, and how often.

use std::cell::{Cell, RefCell};
use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use hyper::body::Incoming;
use hyper::client::conn::http1::SendRequest;
use hyper::{Request, Response};
use tokio::sync::{OwnedSemaphorePermit, oneshot};
use tokio::time::{sleep, timeout, timeout_at};

use super::answer::{Answer, Held};
use super::balance::Tried;
use super::body::{BodyWatch, Outgoing, RequestBody};
use super::dial::dial;
use super::fetch::{self, Fetch};
use super::target::{HttpOrigin, Target};
use super::{OriginError, is_gateway_error, redirect};

/// One target of one origin.
type Place = (u64, usize);

/// What requests are sent on.
pub(super) type Sender = SendRequest<Outgoing>;

/// A connection that waits for its next request.
struct Idle {
    sender: Sender,
    since: Instant,
}

/// The connections of one worker to one target.
struct Pool {
    origin: Arc<HttpOrigin>,
    idle: Vec<Idle>,
    /// Requests of this worker that wait for one.
    waiting: VecDeque<oneshot::Sender<Sender>>,
}

/// The connections of one worker to origins.
#[derive(Default)]
pub struct Connections {
    pools: RefCell<HashMap<Place, Pool>>,
    retries: Cell<u64>,
}

/// A connection while its response comes.
pub(super) struct Lent<'c> {
    sender: Sender,
    connections: &'c Connections,
    origin: Arc<HttpOrigin>,
    place: usize,
}

/// A request that one target did not answer.
struct Failed {
    error: OriginError,
    /// The body, if the target cannot have seen anything of the request.
    unsent: Option<Outgoing>,
    /// Whether a connection that had been used before was closed under the request.
    stale: bool,
}

impl Failed {
    fn unsent(error: OriginError, body: Outgoing) -> Self {
        Self { error, unsent: Some(body), stale: false }
    }
}

impl Connections {
    /// Asks one target, and others if that does not answer. To be called within a `LocalSet`.
    ///
    /// # Errors
    /// See [`OriginError`].
    pub async fn fetch(&self, origin: &Arc<HttpOrigin>, fetch: &Fetch) -> Result<Answer<'_>, OriginError> {
        let answer = self.any_target(origin, fetch, Outgoing::Nothing).await?;
        if origin.limits().redirects == 0 || !fetch.is_repeatable() {
            return Ok(answer);
        }
        redirect::follow(self, origin, fetch, answer).await
    }

    /// Asks for the same where a redirection leads, on a connection for this request only.
    pub(super) async fn at(
        &self,
        origin: &Arc<HttpOrigin>,
        place: &redirect::Place,
        fetch: &Fetch,
    ) -> Result<Answer<'_>, OriginError> {
        let limits = origin.limits();
        let target = Target::elsewhere(&place.server, &origin.settings);
        let fetch = Fetch { target: place.target.clone(), ..fetch.clone() };
        // It is asked by its own name, unless it is one of the servers that are asked by another.
        let host = if origin.has(&place.server) { origin.host(&target) } else { target.url.authority() };
        let head = fetch::head(&target.url, host, &fetch)?;
        let deadline = tokio::time::Instant::now() + limits.connect;
        let dialled = timeout_at(deadline, dial(origin, &target, None)).await;
        let mut sender = dialled.map_err(|_| OriginError::Timeout)??;
        let request = fetch::with_body(&head, Outgoing::Nothing);
        let sent = send(&mut sender, request, None, limits.first_byte).await;
        let response = sent.map_err(|failed| failed.error)?;
        Ok(Answer::new(response, Held::Own(sender), limits.between_bytes))
    }

    /// Passes a request with a body to one target. To another only if the first cannot have seen any of it: what is
    /// sent twice could be done twice (RFC 9110 §9.2.2). Pieces have to be put into the body while this waits.
    ///
    /// # Errors
    /// See [`OriginError`].
    pub async fn pass(
        &self,
        origin: &Arc<HttpOrigin>,
        fetch: &Fetch,
        body: RequestBody,
    ) -> Result<Answer<'_>, OriginError> {
        self.any_target(origin, fetch, Outgoing::Stream(body)).await
    }

    /// Closes connections that have been idle since before `now` less the time they are trusted, and those that keep
    /// other workers from opening one.
    pub fn close_idle(&self, now: Instant, idle: Duration) {
        self.pools.borrow_mut().retain(|(_, place), pool| {
            let wanted = pool
                .origin
                .target(*place)
                .is_none_or(|target| pool.waiting.is_empty() && target.waiting.load(Ordering::Relaxed) > 0);
            pool.idle.retain(|one| {
                !wanted && now.saturating_duration_since(one.since) < idle && !one.sender.is_closed()
            });
            !(pool.idle.is_empty() && pool.waiting.is_empty())
        });
    }

    /// How many connections wait.
    pub fn idle(&self) -> usize {
        self.pools.borrow().values().map(|pool| pool.idle.len()).sum()
    }

    /// How many requests were sent once more.
    pub fn retries(&self) -> u64 {
        self.retries.get()
    }

    async fn any_target(
        &self,
        origin: &Arc<HttpOrigin>,
        fetch: &Fetch,
        mut body: Outgoing,
    ) -> Result<Answer<'_>, OriginError> {
        let watch = match &body {
            Outgoing::Nothing => None,
            Outgoing::Stream(body) => Some(body.watch()),
        };
        let repeatable = fetch.is_repeatable() && watch.is_none();
        let mut retries = if repeatable { origin.limits().retries } else { 0 };
        let (mut tried, mut again) = (Tried::default(), false);
        let (mut declined, mut error) = (None, OriginError::Unreachable);
        loop {
            let now = Instant::now();
            let next = origin.choose(now, tried);
            // A connection that just ended says little about its target: without another it is asked once more.
            let next = next.or_else(|| origin.choose(now, Tried::default()).filter(|_| again));
            let Some(place) = next else { break };
            again = false;
            if tried != Tried::default() {
                self.retries.set(self.retries.get() + 1);
            }
            tried.add(place);
            match self.ask(origin, place, fetch, body, watch.as_ref()).await {
                Ok(answer) if !is_gateway_error(answer.status()) => {
                    origin.report(place, None);
                    return Ok(answer);
                }
                Ok(answer) => {
                    origin.report_status(place, answer.status());
                    if retries == 0 {
                        return Ok(answer);
                    }
                    declined = Some(answer);
                    body = Outgoing::Nothing;
                }
                Err(failed) => {
                    origin.report(place, Some(failed.error));
                    error = failed.error;
                    match failed.unsent {
                        Some(unsent) => {
                            body = unsent;
                            continue;
                        }
                        None if retries == 0 => break,
                        None => body = Outgoing::Nothing,
                    }
                    again = error == OriginError::CutShort;
                }
            }
            retries -= 1;
        }
        declined.ok_or(error)
    }

    async fn ask(
        &self,
        origin: &Arc<HttpOrigin>,
        place: usize,
        fetch: &Fetch,
        mut body: Outgoing,
        watch: Option<&BodyWatch>,
    ) -> Result<Answer<'_>, Failed> {
        let Some(target) = origin.target(place) else {
            return Err(Failed::unsent(OriginError::Unreachable, body));
        };
        let head = match head_for(origin, target, fetch) {
            Ok(head) => head,
            Err(error) => return Err(Failed { error, unsent: None, stale: false }),
        };
        let limits = origin.limits();
        loop {
            let (mut sender, used) = match self.connection(origin, place, target).await {
                Ok(connection) => connection,
                Err(error) => return Err(Failed::unsent(error, body)),
            };
            let request = fetch::with_body(&head, body);
            let failed = match send(&mut sender, request, watch, limits.first_byte).await {
                // A part of something that was asked for whole: it could be any.
                Ok(response) if response.status() == 206 && !fetch.asks_for_part() => {
                    target.set_fault("it answers 206 to what was asked for whole".to_owned());
                    return Err(Failed { error: OriginError::Malformed, unsent: None, stale: false });
                }
                Ok(response) if length_of_head(&response) > limits.head_bytes => {
                    target.set_fault("its head is too long".to_owned());
                    return Err(Failed { error: OriginError::Malformed, unsent: None, stale: false });
                }
                Ok(response) => {
                    let lent = Lent { sender, connections: self, origin: Arc::clone(origin), place };
                    return Ok(Answer::new(response, Held::Lent(lent), limits.between_bytes));
                }
                Err(failed) => failed,
            };
            // A connection that waited may have been closed by the other side meanwhile: then another is tried.
            body = match failed {
                Failed { unsent: Some(unsent), .. } if used => unsent,
                Failed { stale: true, .. } if used && watch.is_none() && fetch.is_repeatable() => {
                    Outgoing::Nothing
                }
                failed => {
                    target.set_fault(failed.error.to_string());
                    return Err(failed);
                }
            };
        }
    }

    /// A connection, and whether it has been used before.
    async fn connection(
        &self,
        origin: &Arc<HttpOrigin>,
        place: usize,
        target: &Target,
    ) -> Result<(Sender, bool), OriginError> {
        let deadline = tokio::time::Instant::now() + origin.limits().connect;
        while let Some(mut sender) = self.take_idle((origin.id, place)) {
            // It has read the end of its last response, which its own task may still be about to notice.
            if let Ok(Ok(())) = timeout_at(deadline, sender.ready()).await {
                return Ok((sender, true));
            }
        }
        let permit = match Arc::clone(&target.free).try_acquire_owned() {
            Ok(permit) => permit,
            Err(_) => match self.in_turn(origin, place, target).await? {
                Turn::Opened(sender) => return Ok((sender, true)),
                Turn::MayOpen(permit) => permit,
            },
        };
        let dialled = timeout(origin.limits().connect, dial(origin, target, Some(permit))).await;
        match dialled {
            Ok(sender) => Ok((sender?, false)),
            Err(_) => {
                target.set_fault("it takes too long to connect".to_owned());
                Err(OriginError::Timeout)
            }
        }
    }

    /// Waits for a connection of this worker to be given back, or for the right to open one.
    async fn in_turn(
        &self,
        origin: &Arc<HttpOrigin>,
        place: usize,
        target: &Target,
    ) -> Result<Turn, OriginError> {
        let _waiting = Waiting::new(target, origin.limits().waiting).ok_or(OriginError::Busy)?;
        let given = self.queue(origin, place);
        tokio::select! {
            biased;
            Ok(sender) = given => Ok(Turn::Opened(sender)),
            Ok(permit) = Arc::clone(&target.free).acquire_owned() => Ok(Turn::MayOpen(permit)),
            () = sleep(origin.limits().connect) => Err(OriginError::Busy),
        }
    }

    fn queue(&self, origin: &Arc<HttpOrigin>, place: usize) -> oneshot::Receiver<Sender> {
        let (sender, given) = oneshot::channel();
        let mut pools = self.pools.borrow_mut();
        let pool = pools.entry((origin.id, place)).or_insert_with(|| Pool::new(origin));
        // Those that have waited too long have gone.
        pool.waiting.retain(|waiting| !waiting.is_closed());
        pool.waiting.push_back(sender);
        given
    }

    fn take_idle(&self, place: Place) -> Option<Sender> {
        let mut pools = self.pools.borrow_mut();
        let idle = &mut pools.get_mut(&place)?.idle;
        while let Some(one) = idle.pop() {
            if !one.sender.is_closed() {
                return Some(one.sender);
            }
        }
        None
    }
}

enum Turn {
    Opened(Sender),
    MayOpen(OwnedSemaphorePermit),
}

impl Pool {
    fn new(origin: &Arc<HttpOrigin>) -> Self {
        Self { origin: Arc::clone(origin), idle: Vec::new(), waiting: VecDeque::new() }
    }
}

impl Lent<'_> {
    /// The place of its target.
    pub(super) fn place(&self) -> usize {
        self.place
    }

    /// The response has ended: the connection is for whoever wants it next.
    pub(super) fn give_back(self) {
        let Self { mut sender, connections, origin, place } = self;
        if sender.is_closed() {
            return;
        }
        let Some(target) = origin.target(place) else { return };
        let mut pools = connections.pools.borrow_mut();
        let pool = pools.entry((origin.id, place)).or_insert_with(|| Pool::new(&origin));
        while let Some(waiting) = pool.waiting.pop_front() {
            match waiting.send(sender) {
                Ok(()) => return,
                Err(back) => sender = back,
            }
        }
        // Requests of other workers wait: closing it lets one of them open its own.
        let wanted = target.waiting.load(Ordering::Relaxed) > 0;
        if !wanted && pool.idle.len() < origin.limits().idle_connections {
            pool.idle.push(Idle { sender, since: Instant::now() });
        }
    }
}

/// A place among the requests that wait for a connection.
struct Waiting<'t>(&'t Target);

impl<'t> Waiting<'t> {
    fn new(target: &'t Target, most: usize) -> Option<Self> {
        let waiting = Self(target);
        (target.waiting.fetch_add(1, Ordering::Relaxed) < most).then_some(waiting)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Sends a request and waits for the head of its response: so long after the request, or the last piece of its body.
async fn send(
    sender: &mut Sender,
    request: Request<Outgoing>,
    watch: Option<&BodyWatch>,
    first_byte: Duration,
) -> Result<Response<Incoming>, Failed> {
    let mut since = Instant::now();
    let mut sending = pin!(sender.try_send_request(request));
    let sent = loop {
        match timeout_at((since + first_byte).into(), &mut sending).await {
            Ok(sent) => break sent,
            Err(_) => match watch.and_then(BodyWatch::moved).filter(|moved| *moved > since) {
                Some(moved) => since = moved,
                None => return Err(Failed { error: OriginError::Timeout, unsent: None, stale: false }),
            },
        }
    };
    sent.map_err(|mut failed| {
        let unsent = failed.take_message().map(Request::into_body);
        let error = failed.error();
        let stale = error.is_canceled() || error.is_closed() || error.is_incomplete_message();
        Failed { error: meaning_of(error), unsent, stale }
    })
}

/// About as many bytes as the head of a response took.
fn length_of_head(response: &Response<Incoming>) -> usize {
    const LINE_AROUND: usize = ": \r\n".len();
    response.headers().iter().map(|(name, value)| name.as_str().len() + value.len() + LINE_AROUND).sum()
}

/// The head of a request to a target, signed where that is needed.
fn head_for(origin: &HttpOrigin, target: &Target, fetch: &Fetch) -> Result<Request<()>, OriginError> {
    if let Some(signer) = origin.signer() {
        let (fetch, host) = signer.sign(fetch)?;
        return fetch::head(&target.url.at_root(), &host, &fetch);
    }
    let host = fetch.host.as_deref().unwrap_or_else(|| origin.host(target));
    fetch::head(&target.url, host, fetch)
}

fn meaning_of(error: &hyper::Error) -> OriginError {
    if error.is_timeout() {
        OriginError::Timeout
    } else if error.is_parse() || error.is_parse_too_large() {
        OriginError::Malformed
    } else if error.is_user() || error.is_body_write_aborted() {
        OriginError::Abandoned
    } else {
        OriginError::CutShort
    }
}

impl fmt::Debug for Connections {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connections").field("idle", &self.idle()).finish()
    }
}
