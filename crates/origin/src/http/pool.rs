//! The open connections of one worker, by server.

use std::cell::RefCell;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use tokio::sync::{OwnedSemaphorePermit, oneshot};
use tokio::time::{sleep, timeout, timeout_at};

use super::dial::{Sender, dial};
use super::error::OriginError;
use super::origin::HttpOrigin;
use super::server::{Server, ServerId};

/// A connection that waits for its next request.
struct Idle {
    sender: Sender,
    since: Instant,
}

/// The connections of one worker to one server.
struct Pool {
    origin: Arc<HttpOrigin>,
    idle: Vec<Idle>,
    /// Requests of this worker that wait for a connection.
    waiting: VecDeque<oneshot::Sender<Sender>>,
}

/// The open connections of one worker, by server.
#[derive(Default)]
pub(super) struct Pools(RefCell<HashMap<ServerId, Pool>>);

/// A connection on loan from its pool while a response arrives.
pub(super) struct PooledConnection<'c> {
    pub(super) sender: Sender,
    pools: &'c Pools,
    origin: Arc<HttpOrigin>,
    index: usize,
    /// Whether it has carried a request before.
    pub(super) used: bool,
}

/// The result of waiting for a connection.
enum Grant {
    Connection(Sender),
    Permit(OwnedSemaphorePermit),
}

impl Pools {
    /// Takes an idle connection to a server, or opens one, or waits for either.
    pub(super) async fn connection(
        &self,
        origin: &Arc<HttpOrigin>,
        index: usize,
        server: &Server,
    ) -> Result<PooledConnection<'_>, OriginError> {
        let lend =
            |sender, used| PooledConnection { sender, pools: self, origin: Arc::clone(origin), index, used };
        let deadline = tokio::time::Instant::now() + origin.limits().connect;
        while let Some(mut sender) = self.take_idle(origin.server_id(index)) {
            // The end of its last response is read, but its own task may still have to notice that.
            if let Ok(Ok(())) = timeout_at(deadline, sender.requests.ready()).await {
                return Ok(lend(sender, true));
            }
        }
        let permit = match Arc::clone(&server.free).try_acquire_owned() {
            Ok(permit) => permit,
            Err(_) => match self.wait(origin, index, server).await? {
                Grant::Connection(sender) => return Ok(lend(sender, true)),
                Grant::Permit(permit) => permit,
            },
        };
        match timeout(origin.limits().connect, dial(origin, server, Some(permit))).await {
            Ok(sender) => Ok(lend(sender?, false)),
            Err(_) => {
                server.set_fault("it takes too long to connect".to_owned());
                Err(OriginError::Timeout)
            }
        }
    }

    /// Closes connections that have been idle for `idle`, and those that keep other workers from opening one.
    pub(super) fn close_idle(&self, now: Instant, idle: Duration) {
        self.0.borrow_mut().retain(|id, pool| {
            let wanted = pool
                .origin
                .server(id.index)
                .is_none_or(|server| pool.waiting.is_empty() && server.waiting.load(Ordering::Relaxed) > 0);
            pool.idle.retain(|one| {
                !wanted && now.saturating_duration_since(one.since) < idle && !one.sender.is_closed()
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
    ) -> Result<Grant, OriginError> {
        let _waiting = WaitingRequest::new(server, origin.limits().waiting).ok_or(OriginError::Busy)?;
        let given = self.queue(origin, index);
        tokio::select! {
            biased;
            Ok(sender) = given => Ok(Grant::Connection(sender)),
            Ok(permit) = Arc::clone(&server.free).acquire_owned() => Ok(Grant::Permit(permit)),
            () = sleep(origin.limits().connect) => Err(OriginError::Busy),
        }
    }

    fn queue(&self, origin: &Arc<HttpOrigin>, index: usize) -> oneshot::Receiver<Sender> {
        let (sender, given) = oneshot::channel();
        let mut pools = self.0.borrow_mut();
        let pool = pools.entry(origin.server_id(index)).or_insert_with(|| Pool::new(origin));
        // Requests that have waited too long are gone.
        pool.waiting.retain(|waiting| !waiting.is_closed());
        pool.waiting.push_back(sender);
        given
    }

    fn take_idle(&self, id: ServerId) -> Option<Sender> {
        let mut pools = self.0.borrow_mut();
        let idle = &mut pools.get_mut(&id)?.idle;
        while let Some(one) = idle.pop() {
            if !one.sender.is_closed() {
                return Some(one.sender);
            }
        }
        None
    }
}

impl Pool {
    fn new(origin: &Arc<HttpOrigin>) -> Self {
        Self { origin: Arc::clone(origin), idle: Vec::new(), waiting: VecDeque::new() }
    }
}

impl PooledConnection<'_> {
    /// Place of its server among those of the origin.
    pub(super) fn server_index(&self) -> usize {
        self.index
    }

    /// Gives the connection back after the end of a response, to the next request that waits or to the idle ones.
    pub(super) fn give_back(self) {
        let Self { mut sender, pools, origin, index, .. } = self;
        if sender.is_closed() {
            return;
        }
        let Some(server) = origin.server(index) else { return };
        let mut pools = pools.0.borrow_mut();
        let pool = pools.entry(origin.server_id(index)).or_insert_with(|| Pool::new(&origin));
        while let Some(waiting) = pool.waiting.pop_front() {
            match waiting.send(sender) {
                Ok(()) => return,
                Err(back) => sender = back,
            }
        }
        // Requests of other workers wait: closing the connection lets one of them open its own.
        let wanted = server.waiting.load(Ordering::Relaxed) > 0;
        if !wanted && pool.idle.len() < origin.limits().idle_connections {
            pool.idle.push(Idle { sender, since: Instant::now() });
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
