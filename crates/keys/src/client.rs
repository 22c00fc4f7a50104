//! The client of keyservers: one connection to each, with many operations under way.
//!
//! A thread of its own has the connections of a group of servers. An operation goes to the server with the fewest under
//! way, and once to another if that one fails. The signature is verified before it is returned, so that a server that
//! answers wrong is found out here.

mod link;
mod operation;
mod refusals;
mod settings;
mod shared;

use std::fmt;
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::thread;
use std::time::Instant;

use penstock_metrics::SignerStatus;
use penstock_tls::Outbound;
use penstock_tls::remote_key::{LaterSignature, RemoteKey, RemoteKeyError, SignRequest};
use tokio::runtime::Builder;
use tokio::sync::{mpsc, oneshot};
use tokio::task::{LocalSet, spawn_local};

use self::link::Link;
use self::operation::{Operation, OperationGuard};
use self::shared::ClientState;
use crate::counters::{SignerCounters, SignerCounts};

pub use self::settings::{KeyserverAddress, KeyserverGroup, KeyserverLimits};

/// Signs with the keys of a group of keyservers. Dropping it closes the connections.
pub struct Keyservers {
    operations: mpsc::UnboundedSender<Operation>,
    shared: Arc<ClientState>,
    limits: KeyserverLimits,
}

impl Keyservers {
    /// Starts the thread, which connects at once. Its operations are added to `counts`.
    ///
    /// # Errors
    /// The error of the system or the library.
    pub fn start(group: &KeyserverGroup, counts: &SignerCounts) -> io::Result<Arc<Self>> {
        let mut clients = Vec::new();
        for server in &group.servers {
            let client = Outbound::mutual(&group.authorities, &server.host, &group.certificate)
                .map_err(|error| io::Error::other(error.to_string()))?;
            clients.push((server.clone(), client));
        }
        let (failures, pause) = (group.limits.circuit_failures, group.limits.circuit_open);
        let names: Vec<String> = group.servers.iter().map(ToString::to_string).collect();
        let counters = |name: &String| SignerCounters::new(counts.keyserver(name), failures, pause);
        let shared = Arc::new(ClientState {
            servers: names.iter().map(counters).collect(),
            names,
            under_way: AtomicUsize::new(0),
            fallbacks: counts.fallbacks_of_signer(),
        });
        let (operations, queue) = mpsc::unbounded_channel();
        let runtime = Builder::new_current_thread().enable_io().enable_time().build()?;
        let (served, limits) = (Arc::clone(&shared), group.limits);
        thread::Builder::new().name("keyservers".into()).spawn(move || {
            LocalSet::new().block_on(&runtime, serve(clients, queue, served, limits));
            // A resolver that still waits must not keep the thread.
            runtime.shutdown_background();
        })?;
        Ok(Arc::new(Self { operations, shared, limits }))
    }

    /// The state of each server.
    pub fn status(&self) -> Vec<SignerStatus> {
        let servers = self.shared.names.iter().zip(&self.shared.servers);
        servers.map(|(name, counters)| counters.status(name)).collect()
    }

    /// Operations under way.
    pub fn under_way(&self) -> usize {
        self.shared.under_way.load(Relaxed)
    }
}

impl RemoteKey for Keyservers {
    fn sign(&self, request: SignRequest) -> LaterSignature {
        let Some(place) = OperationGuard::enter(&self.shared, self.limits.operations) else {
            self.shared.not_sent();
            return Box::pin(async { Err(RemoteKeyError::Overloaded) });
        };
        let (answer, later) = oneshot::channel();
        let deadline = Instant::now() + self.limits.deadline;
        let operation = Operation { request, deadline, answer, _place: place };
        // The receiver is gone only if the thread has panicked: then the answer is gone as well.
        drop(self.operations.send(operation));
        Box::pin(async { later.await.unwrap_or(Err(RemoteKeyError::Unavailable)) })
    }

    fn used_fallback(&self, error: RemoteKeyError) {
        self.shared.fallbacks.used(&format!("keyserver {}", self.shared.names.join(", ")), error);
    }
}

impl fmt::Debug for Keyservers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Keyservers").field("servers", &self.shared.names).finish_non_exhaustive()
    }
}

/// Runs operations until [`Keyservers`] is dropped.
async fn serve(
    clients: Vec<(KeyserverAddress, Outbound)>,
    mut operations: mpsc::UnboundedReceiver<Operation>,
    shared: Arc<ClientState>,
    limits: KeyserverLimits,
) {
    let links = clients.into_iter().enumerate();
    let links: Rc<[Rc<Link>]> = links
        .map(|(index, (address, client))| Rc::new(Link::new(index, address, client, &shared, limits)))
        .collect();
    let maintained: Vec<_> =
        links.iter().map(Rc::clone).map(|link| spawn_local(async move { link.maintain().await })).collect();
    while let Some(operation) = operations.recv().await {
        spawn_local(operation.perform(Rc::clone(&links)));
    }
    maintained.iter().for_each(|task| task.abort());
}
