//! The thread of one worker: its core, its runtime, and what it is told to do.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Instant;

use penstock_sys::close_together;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::oneshot;
use tokio::task::{JoinHandle as TaskHandle, LocalSet, spawn_local};
use tokio::time::timeout_at;

use crate::accept::accept;
use crate::clients::AcceptQueue;
use crate::http3::{self, Endpoint, Passage, Passages};
use crate::metrics::{Shard, work_goes_on, work_pauses};
use crate::server::sockets::ListenSocket;
use crate::settings::{PendingChange, Settings};
use crate::worker::{AllWorkers, Listening, Worker, report};

/// A command to a worker. The channel is unbounded, but only an operator's signals fill it.
pub(crate) enum Command {
    Change(Change),
    /// Goes on accepting, and ends each connection after its next response.
    LameDuck,
    /// A successor shares the UDP socket of the listener.
    ShareQuic {
        listener: SocketAddr,
        passage: Passage,
    },
    /// Ends each connection after its next response, without accepting: a successor has the listeners.
    LeaveListeners,
    /// Serves as before [`Self::LeaveListeners`]; a change follows that opens the listeners.
    TakeBack,
    /// Ends once the last connection has, or at the deadline.
    Drain {
        deadline: Instant,
    },
    Stop,
}

/// A generation of settings and what it means for the listeners.
pub(crate) struct Change {
    pub(crate) settings: Arc<Settings>,
    pub(crate) opened: Vec<Opened>,
    pub(crate) closed: Vec<SocketAddr>,
    pub(crate) pending: PendingChange,
}

/// A listener to accept on.
pub(crate) struct Opened {
    pub(crate) address: SocketAddr,
    pub(crate) socket: ListenSocket,
    pub(crate) listening: Listening,
    /// Of a UDP socket that a process before has connections on.
    pub(crate) predecessor: Passages,
}

/// The cores that workers are pinned to: those this process may use. None if a CPU quota (cgroups) leaves it the time of fewer
/// cores than that: other processes with a quota would be pinned to the same first ones.
pub(crate) fn cores_to_pin_to() -> Vec<usize> {
    let Ok(set) = sched_getaffinity(None) else { return Vec::new() };
    let cores: Vec<usize> = (0..CpuSet::MAX_CPU).filter(|&core| set.is_set(core)).collect();
    let has_quota = std::thread::available_parallelism().is_ok_and(|count| count.get() < cores.len());
    if has_quota { Vec::new() } else { cores }
}

/// Starts a worker.
///
/// # Errors
/// When the system has no space for another thread or event queue.
pub(crate) fn spawn(
    number: usize,
    core: Option<usize>,
    shard: Arc<Shard>,
    first: Change,
    common: AllWorkers,
) -> io::Result<(UnboundedSender<Command>, JoinHandle<()>)> {
    let (sender, commands) = unbounded_channel();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .enable_time()
        .on_thread_park(work_pauses)
        .on_thread_unpark(work_goes_on)
        .build()?;
    let thread = std::thread::Builder::new().name(format!("worker-{number}")).spawn(move || {
        if let Some(core) = core {
            pin(number, core);
        }
        shard.enter_thread();
        let tasks = LocalSet::new();
        runtime.block_on(tasks.run_until(run(number, shard, first, common, commands)));
        drop(tasks);
        // Its pool only looks up names, and lookups cannot be cancelled: the process does not wait for them.
        runtime.shutdown_background();
    })?;
    Ok((sender, thread))
}

fn pin(number: usize, core: usize) {
    let mut set = CpuSet::new();
    set.set(core);
    if let Err(error) = sched_setaffinity(None, &set) {
        tracing::warn!(worker = number, core, %error, "cannot pin the worker to its core; it runs unpinned");
    }
}

async fn run(
    number: usize,
    shard: Arc<Shard>,
    first: Change,
    common: AllWorkers,
    mut commands: UnboundedReceiver<Command>,
) {
    let worker = Rc::new(Worker::new(number, shard, Arc::clone(&first.settings), &common));
    let mut listeners = Listeners::default();
    listeners.change(&worker, first, &common);
    spawn_local(close_together());
    spawn_local(report(Rc::clone(&worker), common.clone()));
    let rounds = Rc::clone(&worker);
    spawn_local(async move { rounds.signing_limiter.run_rounds().await });
    let evicting = Rc::clone(&worker);
    spawn_local(async move { evicting.evict_for_others().await });
    let deadline = loop {
        match commands.recv().await {
            Some(Command::Change(change)) => listeners.change(&worker, change, &common),
            Some(Command::LameDuck) => worker.begin_lame_duck(),
            Some(Command::ShareQuic { listener, passage }) => listeners.share_quic(listener, passage),
            Some(Command::LeaveListeners) => {
                worker.begin_succession();
                listeners.close_all().await;
            }
            Some(Command::TakeBack) => worker.end_succession(),
            Some(Command::Drain { deadline }) => break deadline,
            Some(Command::Stop) | None => break Instant::now(),
        }
    };
    worker.begin_drain();
    listeners.close_all().await;
    tokio::select! {
        _ = timeout_at(deadline.into(), worker.until_empty()) => {}
        () = stop_command(&mut commands) => {}
    }
    worker.abort_responses().await;
}

/// Waits for the command to stop; pends forever if the channel is closed.
async fn stop_command(commands: &mut UnboundedReceiver<Command>) {
    loop {
        match commands.recv().await {
            Some(Command::Stop) => return,
            Some(
                Command::Change(_)
                | Command::LameDuck
                | Command::ShareQuic { .. }
                | Command::LeaveListeners
                | Command::TakeBack
                | Command::Drain { .. },
            ) => {}
            None => std::future::pending().await,
        }
    }
}

/// The accept loops and endpoints of QUIC of one worker.
#[derive(Default)]
struct Listeners {
    tcp: BTreeMap<SocketAddr, Vec<Accepting>>,
    quic: BTreeMap<SocketAddr, Vec<OpenEndpoint>>,
}

/// An endpoint of QUIC. Dropping it lets its connections end.
struct OpenEndpoint(Rc<Endpoint>);

impl Drop for OpenEndpoint {
    fn drop(&mut self) {
        self.0.close();
    }
}

struct Accepting {
    /// Sending or dropping it closes the listener, after those in its queue have been taken in.
    close: oneshot::Sender<PendingChange>,
    task: TaskHandle<()>,
}

impl Listeners {
    fn change(&mut self, worker: &Rc<Worker>, change: Change, common: &AllWorkers) {
        worker.set_settings(change.settings, common.workers);
        let mut kept: Vec<(SocketAddr, OpenEndpoint)> = Vec::new();
        for address in change.closed {
            for Accepting { close, .. } in self.tcp.remove(&address).into_iter().flatten() {
                // An accept loop that is gone accepts no more.
                drop(close.send(change.pending.clone()));
            }
            kept.extend(self.quic.remove(&address).into_iter().flatten().map(|endpoint| (address, endpoint)));
        }
        for Opened { address, socket, listening, predecessor } in change.opened {
            match socket {
                ListenSocket::Tcp(socket) => match AcceptQueue::new(socket) {
                    Ok(queue) => {
                        let (close, closing) = oneshot::channel();
                        let task = spawn_local(accept(Rc::clone(worker), queue, listening, closing));
                        self.tcp.entry(address).or_default().push(Accepting { close, task });
                    }
                    Err(error) => tracing::error!(%address, %error, "cannot watch a listener; it is closed"),
                },
                ListenSocket::Udp(socket) => {
                    // A new listener on the same address goes on with the socket and the connections of the old one.
                    // The new socket is behind the old ones in the order in which the kernel counts them.
                    let same = kept.iter().position(|(closed, _)| *closed == address);
                    let endpoint = match same.map(|at| kept.swap_remove(at).1) {
                        Some(endpoint) => {
                            endpoint.0.set_listening(listening);
                            endpoint
                        }
                        None => {
                            let key = common.id_key.clone();
                            match http3::endpoint(worker, &socket, listening, key, predecessor) {
                                Ok(endpoint) => {
                                    spawn_local(Rc::clone(&endpoint).receive());
                                    OpenEndpoint(endpoint)
                                }
                                Err(error) => {
                                    tracing::error!(%address, %error, "cannot watch a UDP socket; it is closed");
                                    continue;
                                }
                            }
                        }
                    };
                    self.quic.entry(address).or_default().push(endpoint);
                }
            }
        }
    }

    /// The kernel gives datagrams to the first sockets of a worker alone.
    fn share_quic(&self, listener: SocketAddr, passage: Passage) {
        if let Some(OpenEndpoint(endpoint)) = self.quic.get(&listener).and_then(|open| open.first()) {
            endpoint.read_successor(passage);
        }
    }

    async fn close_all(&mut self) {
        self.quic.clear();
        for Accepting { close, task } in std::mem::take(&mut self.tcp).into_values().flatten() {
            drop(close);
            if task.await.is_err() {
                tracing::error!("an accept loop panicked");
            }
        }
    }
}
