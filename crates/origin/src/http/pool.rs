//! The open connections of one worker, by server.

use std::cell::RefCell;
use std::collections::{HashMap, VecDeque};
use std::net::SocketAddr;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use tokio::sync::{OwnedSemaphorePermit, oneshot};
use tokio::time::{sleep_until, timeout, timeout_at};

use super::error::OriginError;
use super::origin::HttpOrigin;
use super::server::{Server, ServerId};

/// A connection to a server that can be kept for further requests.
pub(super) trait Poolable: Sized {
    /// Opens a connection on behalf of a client. The permit is given back when it is closed.
    async fn open(
        origin: &HttpOrigin,
        server: &Server,
        client: Option<SocketAddr>,
        permit: OwnedSemaphorePermit,
    ) -> Result<Self, OriginError>;

    /// Waits until it can take a request; false if it has been closed.
    async fn ready(&mut self) -> bool;

    /// Whether it cannot carry another request: it has been closed, or bytes have come that no request asked for.
    fn is_closed(&mut self) -> bool;
}

/// A connection between two requests.
struct Rested<C> {
    connection: C,
    opened: Instant,
    /// How long it took to open it.
    connected_after: Duration,
}

/// A connection that waits for its next request.
struct Idle<C> {
    rested: Rested<C>,
    since: Instant,
}

/// The connections of one worker to one server.
struct Pool<C> {
    origin: Arc<HttpOrigin>,
    idle: Vec<Idle<C>>,
    /// Requests of this worker that wait for a connection.
    waiting: VecDeque<oneshot::Sender<Rested<C>>>,
}

/// The open connections of one worker, by server.
pub(super) struct Pools<C>(RefCell<HashMap<ServerId, Pool<C>>>);

/// A connection on loan from its pool while a response arrives.
pub(super) struct PooledConnection<C, P> {
    pub(super) connection: C,
    opened: Instant,
    pools: P,
    origin: Arc<HttpOrigin>,
    index: usize,
    /// Whether it has carried a request before.
    pub(super) used: bool,
    /// How long it took to open it.
    connected_after: Duration,
}

/// The result of waiting for a connection.
enum Grant<C> {
    Connection(Rested<C>),
    Permit(OwnedSemaphorePermit),
}

impl<C> Default for Pools<C> {
    fn default() -> Self {
        Self(RefCell::default())
    }
}

/// Takes an idle connection to a server, or opens one for `client`, or waits for either.
pub(super) async fn connection<C: Poolable, P: Deref<Target = Pools<C>>>(
    pools: P,
    origin: &Arc<HttpOrigin>,
    (index, server): (usize, &Server),
    client: Option<SocketAddr>,
) -> Result<PooledConnection<C, P>, OriginError> {
    let deadline = tokio::time::Instant::now() + origin.limits().connect;
    while let Some(mut idle) = pools.take_idle(origin, index) {
        // The end of its last response is read, but its own task may still have to notice that.
        if let Ok(true) = timeout_at(deadline, idle.connection.ready()).await {
            return Ok(lend(idle, true, pools, origin, index));
        }
    }
    let permit = loop {
        if let Ok(permit) = Arc::clone(&server.free).try_acquire_owned() {
            break permit;
        }
        match pools.wait(origin, index, server, deadline).await? {
            Grant::Permit(permit) => break permit,
            Grant::Connection(mut given) => {
                // Bytes may have come since it was given back.
                if !given.connection.is_closed() {
                    return Ok(lend(given, true, pools, origin, index));
                }
            }
        }
    };
    let began = Instant::now();
    match timeout(origin.limits().connect, C::open(origin, server, client, permit)).await {
        Ok(opened) => {
            let connected_after = began.elapsed();
            let opened = Rested { connection: opened?, opened: began + connected_after, connected_after };
            Ok(lend(opened, false, pools, origin, index))
        }
        Err(_) => {
            server.set_fault("it takes too long to connect".to_owned());
            Err(OriginError::Timeout)
        }
    }
}

fn lend<C, P>(
    rested: Rested<C>,
    used: bool,
    pools: P,
    origin: &Arc<HttpOrigin>,
    index: usize,
) -> PooledConnection<C, P> {
    let Rested { connection, opened, connected_after } = rested;
    PooledConnection { connection, opened, pools, origin: Arc::clone(origin), index, used, connected_after }
}

impl<C: Poolable> Pools<C> {
    /// Closes connections that have been idle for `idle`, those that are too old, and those that keep other workers from
    /// opening one.
    pub(super) fn close_idle(&self, now: Instant, idle: Duration) {
        self.0.borrow_mut().retain(|id, pool| {
            let age = pool.origin.limits().connection_age;
            let wanted = pool
                .origin
                .server(id.index)
                .is_none_or(|server| pool.waiting.is_empty() && server.waiting.load(Ordering::Relaxed) > 0);
            pool.idle.retain_mut(|one| {
                let is_kept =
                    now.saturating_duration_since(one.since) < idle && one.rested.is_young(now, age);
                !wanted && is_kept && !one.rested.connection.is_closed()
            });
            !(pool.idle.is_empty() && pool.waiting.is_empty())
        });
    }

    /// Number of idle connections.
    pub(super) fn idle(&self) -> usize {
        self.0.borrow().values().map(|pool| pool.idle.len()).sum()
    }

    /// Waits until a connection of this worker is given back, or until one may be opened.
    async fn wait(
        &self,
        origin: &Arc<HttpOrigin>,
        index: usize,
        server: &Server,
        deadline: tokio::time::Instant,
    ) -> Result<Grant<C>, OriginError> {
        let _waiting = WaitingRequest::new(server, origin.limits().waiting).ok_or(OriginError::Busy)?;
        let given = self.queue(origin, index);
        tokio::select! {
            biased;
            Ok(given) = given => Ok(Grant::Connection(given)),
            Ok(permit) = Arc::clone(&server.free).acquire_owned() => Ok(Grant::Permit(permit)),
            () = sleep_until(deadline) => Err(OriginError::Busy),
        }
    }

    fn queue(&self, origin: &Arc<HttpOrigin>, index: usize) -> oneshot::Receiver<Rested<C>> {
        let (sender, given) = oneshot::channel();
        let mut pools = self.0.borrow_mut();
        let pool = pools.entry(origin.server_id(index)).or_insert_with(|| Pool::new(origin));
        // Requests that have waited too long are gone.
        pool.waiting.retain(|waiting| !waiting.is_closed());
        pool.waiting.push_back(sender);
        given
    }

    fn take_idle(&self, origin: &HttpOrigin, index: usize) -> Option<Rested<C>> {
        let (now, age) = (Instant::now(), origin.limits().connection_age);
        let mut pools = self.0.borrow_mut();
        let idle = &mut pools.get_mut(&origin.server_id(index))?.idle;
        while let Some(Idle { rested: mut one, .. }) = idle.pop() {
            if one.is_young(now, age) && !one.connection.is_closed() {
                return Some(one);
            }
        }
        None
    }
}

impl<C> Rested<C> {
    /// Whether it may take another request. An old connection leads to the address that the server's name had.
    fn is_young(&self, now: Instant, age: Duration) -> bool {
        now.saturating_duration_since(self.opened) < age
    }
}

impl<C> Pool<C> {
    fn new(origin: &Arc<HttpOrigin>) -> Self {
        Self { origin: Arc::clone(origin), idle: Vec::new(), waiting: VecDeque::new() }
    }
}

impl<C: Poolable, P: Deref<Target = Pools<C>>> PooledConnection<C, P> {
    /// Its server.
    pub(super) fn server(&self) -> ServerId {
        self.origin.server_id(self.index)
    }

    /// How long it took to open it for this request; `None` if it was open.
    pub(super) fn connect_time(&self) -> Option<Duration> {
        (!self.used).then_some(self.connected_after)
    }

    /// Gives the connection back after the end of a response, to the next request that waits or to the idle ones.
    pub(super) fn give_back(self) {
        let Self { connection, opened, connected_after, pools, origin, index, .. } = self;
        let mut rested = Rested { connection, opened, connected_after };
        let now = Instant::now();
        // A PROXY header has named the client of the connection: it is for no other one.
        let is_for_one = origin.settings.proxy_protocol;
        if is_for_one
            || !rested.is_young(now, origin.limits().connection_age)
            || rested.connection.is_closed()
        {
            return;
        }
        let Some(server) = origin.server(index) else { return };
        let mut pools = pools.0.borrow_mut();
        let pool = pools.entry(origin.server_id(index)).or_insert_with(|| Pool::new(&origin));
        while let Some(waiting) = pool.waiting.pop_front() {
            match waiting.send(rested) {
                Ok(()) => return,
                Err(back) => rested = back,
            }
        }
        // Requests of other workers wait: closing the connection lets one of them open its own.
        let wanted = server.waiting.load(Ordering::Relaxed) > 0;
        if !wanted && pool.idle.len() < origin.limits().idle_connections {
            pool.idle.push(Idle { rested, since: now });
        }
    }
}

/// Counts a request among those that wait for a connection.
struct WaitingRequest<'s>(&'s Server);

impl<'s> WaitingRequest<'s> {
    fn new(server: &'s Server, most: usize) -> Option<Self> {
        let waiting = Self(server);
        (server.waiting.fetch_add(1, Ordering::Relaxed) < most).then_some(waiting)
    }
}

impl Drop for WaitingRequest<'_> {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Ordering::Relaxed);
    }
}
