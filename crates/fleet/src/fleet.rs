//! A member of a fleet.

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use aws_lc_rs::rand;
use penstock_cache::purge::PurgeOrder;
use penstock_metrics::FleetReading;
use penstock_sys::lock::Unpoisoned;
use penstock_sys::traffic::Secret;
use penstock_tls::circuit::{Circuit, CircuitLimits};
use penstock_tls::early_data::SharedStrikes;
use penstock_tls::session_store::SessionStore;
use penstock_tls::tickets::TicketPolicy;
use penstock_tls::tickets::directory::KeyFile;
use tokio::runtime::Handle;
use tokio::sync::{mpsc, oneshot};

use crate::census::Census;
use crate::connect::{ANSWERS, Meter, StoreAddress, StoreLogin};
use crate::duty::{Duty, FleetDuties, Milestones};
use crate::edges::{EdgeStatus, Edges};
use crate::files::SharedFiles;
use crate::link::Link;
use crate::nodes::{NodeEntry, NodeSharing, NodeSink};
use crate::position::{EntryId, Position};
use crate::purges::{PurgeProgress, PurgeSink, Purges};
use crate::revocations::Revocations;
use crate::revoked_ids::{RevokedIds, RevokedLimits, RevokedRecord};
use crate::seal::Sealer;
use crate::sessions::{FleetSessions, SealedSession, SessionWriter};
use crate::shared_tickets::SharedTickets;
use crate::state::StateDirectory;
use crate::strikes::FleetStrikes;

/// How long the fleet's own thread waits for an answer of the store.
const PATIENCE: Duration = Duration::from_millis(500);

/// Handshakes of all workers that wait for the store; the next ones do without it.
const OPERATIONS: usize = 1024;

/// Operations without an answer in time, one after the other, after which handshakes do without the store.
const FAILURES: u32 = 5;

/// Probes answered in time, one after the other, after which handshakes ask again.
const PROBES: u32 = 3;

/// Bytes of a file in the state directory.
const STATE_FILE_BYTES: u64 = 64 * 1024;

/// New sessions that wait to be written, so at most 8 MiB; more are not.
const SESSIONS_QUEUED: usize = 1024;

/// What an edge needs to know of its fleet.
#[derive(Clone)]
pub struct FleetOptions {
    /// Where the store is.
    pub address: StoreAddress,
    /// How the store lets this program in.
    pub login: StoreLogin,
    /// The secret that all edges of the fleet have. It also names the fleet within the store.
    pub secret: Secret,
    /// The name of this edge; no other edge of the fleet has it.
    pub name: String,
    /// A directory for what survives this process; `None` keeps nothing.
    pub state: Option<PathBuf>,
    /// How long a handshake waits for the store.
    pub deadline: Duration,
    /// With which policy session ticket keys are shared, see [`Fleet::share_tickets`].
    pub tickets: Option<TicketPolicy>,
    /// How long a session stays in the store.
    pub session_lifetime: Duration,
    /// How many revoked ids of tokens are kept, and for how long.
    pub revoked: RevokedLimits,
}

/// How far a purge or a revocation got.
#[derive(Clone, Debug)]
pub struct FleetReport {
    /// Whether it is in the store. Otherwise this edge writes it there once the store answers.
    pub is_published: bool,
    /// Each edge, and whether it has applied it; empty if the store does not answer.
    pub edges: Vec<(EdgeStatus, bool)>,
}

/// A member of a fleet, with a thread and a connection of its own. Dropping it leaves the fleet.
pub struct Fleet {
    parts: Arc<FleetDuties>,
    sealer: Arc<Sealer>,
    prefix: String,
    queue: mpsc::Sender<SealedSession>,
    runtime: Handle,
    /// Taken when it leaves.
    thread: Mutex<Option<(oneshot::Sender<()>, JoinHandle<()>)>>,
}

impl fmt::Debug for Fleet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fleet").field("prefix", &self.prefix).finish_non_exhaustive()
    }
}

/// How often a purge or a revocation looks whether other edges have applied it.
const CONFIRMATION_INTERVAL: Duration = Duration::from_millis(25);

impl Fleet {
    /// Reads the state of an earlier process, and starts to connect.
    ///
    /// # Errors
    /// When the system has no randomness or no space for a thread.
    pub fn start(options: FleetOptions) -> io::Result<Self> {
        let (parts, sealer, prefix) = parts(&options)?;
        parts.purges.restore();
        parts.revocations.restore();
        parts.tickets.restore();
        // Before the first round, which a start waits for.
        parts.tickets.set_policy(options.tickets);
        let (queue, queued) = mpsc::channel(SESSIONS_QUEUED);
        let duty = Duty {
            parts: Arc::clone(&parts),
            sessions: SessionWriter { queue: queued, lifetime: options.session_lifetime },
            address: options.address,
            login: options.login,
        };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build()?;
        let handle = runtime.handle().clone();
        let (stop, stopped) = oneshot::channel();
        let leaving = Arc::clone(&parts);
        let thread = std::thread::Builder::new().name("fleet".to_owned()).spawn(move || {
            runtime.block_on(async {
                let mut duty = pin!(duty.run());
                tokio::select! {
                    () = &mut duty => {}
                    _ = stopped => {}
                }
                tokio::select! {
                    () = &mut duty => {}
                    () = async { leaving.census.remove_own().await; leaving.edges.leave().await } => {}
                }
                leaving.link.disconnected();
            });
            // A DNS lookup must not delay the end of the program.
            runtime.shutdown_background();
        })?;
        Ok(Self { parts, sealer, prefix, queue, runtime: handle, thread: Mutex::new(Some((stop, thread))) })
    }

    /// A store of sessions that all edges share; `own` is the cache of this process.
    pub fn sessions(&self, own: Arc<dyn SessionStore>) -> Arc<dyn SessionStore> {
        Arc::new(FleetSessions {
            own,
            link: Arc::clone(&self.parts.link),
            sealer: Arc::clone(&self.sealer),
            queue: self.queue.clone(),
            prefix: self.prefix.clone(),
        })
    }

    /// Files that all edges share.
    pub fn files(&self) -> SharedFiles {
        SharedFiles {
            link: Arc::clone(&self.parts.link),
            sealer: Arc::clone(&self.sealer),
            prefix: self.prefix.clone(),
            own: self.parts.census.instance().to_owned(),
        }
    }

    /// How long a handshake waits for the store.
    pub fn deadline(&self) -> Duration {
        self.parts.link.deadline
    }

    /// Tells other edges which node of a cluster this one is, and a sink which nodes there are, from now on; `None` ends
    /// that. Waits for the first list, at most for `patience`.
    pub fn share_node(&self, sharing: Option<(NodeEntry, Arc<dyn NodeSink>)>, patience: Duration) {
        let milestones = &self.parts.milestones;
        let is_shared = sharing.is_some();
        self.parts.edges.nodes.set(sharing);
        if is_shared {
            let before = milestones.wait(Duration::ZERO, |_| true).node_lists;
            milestones.wait(patience, |reached| reached.node_lists > before || reached.unreachable);
        }
    }

    /// The strike register of the fleet.
    pub fn strikes(&self) -> Arc<dyn SharedStrikes> {
        Arc::clone(&self.parts.strikes) as Arc<dyn SharedStrikes>
    }

    /// Shares session ticket keys with this policy, which all edges should have; `None` does not.
    pub fn share_tickets(&self, policy: Option<TicketPolicy>) {
        self.parts.tickets.set_policy(policy);
    }

    /// The session ticket keys of the fleet, the newest first; none before the store has answered for the first time.
    pub fn ticket_files(&self) -> Vec<Arc<KeyFile>> {
        self.parts.tickets.files()
    }

    /// Waits until ticket keys were compared with the store, at most for `patience`.
    pub fn wait_for_tickets(&self, patience: Duration) {
        self.parts.milestones.wait(patience, |reached| reached.tickets || reached.unreachable);
    }

    /// Applies the purges of other edges to `sink` from now on. Waits until those that were missed are applied, and revoked
    /// ids of tokens are known, at most for `patience`; returns whether that is so.
    pub fn follow_purges(&self, sink: Arc<dyn PurgeSink>, patience: Duration) -> bool {
        if self.parts.purges.sink.set(sink).is_err() {
            return true;
        }
        self.parts.milestones.wait(patience, |reached| reached.streams || reached.unreachable).streams
    }

    /// The revoked ids of tokens that this edge knows.
    pub fn revoked(&self) -> Arc<RevokedIds> {
        Arc::clone(&self.parts.revocations.known)
    }

    /// Has every edge apply a purge that this one has applied. Waits up to `patience` for the edges that are present.
    /// Called on a thread that may block.
    pub fn purge(&self, order: &PurgeOrder, patience: Duration) -> FleetReport {
        let (parts, order) = (Arc::clone(&self.parts), order.clone());
        self.carry_out(async move {
            let published = parts.purges.publish(&order).await;
            let has_applied = |edge: &EdgeStatus, position: &Position| {
                edge.purges.is_some_and(|purges| purges.includes(position))
            };
            report(&parts.edges, published, has_applied, patience).await
        })
    }

    /// Refuses the tokens with these ids on every edge, until `end` in seconds since 1970. They are refused here when this
    /// returns. Waits up to `patience` for the edges that are present. Called on a thread that may block.
    pub fn revoke(&self, ids: &[String], end: u64, patience: Duration) -> FleetReport {
        let records: Vec<_> = ids.iter().map(|id| RevokedRecord::new(id, end)).collect();
        self.parts.revocations.add_own(&records);
        let parts = Arc::clone(&self.parts);
        self.carry_out(async move {
            let published = parts.revocations.publish(&records).await;
            let has_read = |edge: &EdgeStatus, last: &EntryId| edge.revoked.is_some_and(|read| read >= *last);
            report(&parts.edges, published, has_read, patience).await
        })
    }

    /// Runs an order on the fleet's thread. That thread may end meanwhile, and with it the timers that the order waits for.
    fn carry_out(&self, order: impl Future<Output = FleetReport> + Send + 'static) -> FleetReport {
        let (sender, report) = std::sync::mpsc::channel();
        self.runtime.spawn(async move { drop(sender.send(order.await)) });
        report.recv().unwrap_or(FleetReport { is_published: false, edges: Vec::new() })
    }

    /// Gives the name of this edge to a successor: two processes have it while this one drains.
    pub fn retire(&self) {
        self.parts.census.leave();
    }

    /// The same for a successor that serves already: it says from now on that the edge is there, and what it has applied.
    pub fn hand_over(&self) {
        self.retire();
        self.parts.edges.has_successor.store(true, Relaxed);
    }

    /// The successor has failed: this process says again that the edge is there.
    pub fn take_back(&self) {
        self.parts.census.come_back();
        self.parts.edges.has_successor.store(false, Relaxed);
    }

    /// Leaves the fleet: this edge is no longer missed. Nothing is shared afterwards.
    pub fn leave(&self) {
        let Some((stop, thread)) = self.thread.lock().unpoisoned().take() else {
            return;
        };
        drop(stop);
        if thread.join().is_err() {
            tracing::error!("the fleet's thread panicked; nothing was shared any more");
        }
    }

    /// The state for metrics.
    pub fn reading(&self) -> FleetReading {
        let link = &self.parts.link;
        let progress = self.parts.purges.progress();
        FleetReading {
            is_up: link.is_connected(),
            is_circuit_open: link.circuit.is_open(),
            latency: Duration::from_micros(link.latency.load(Relaxed)),
            under_way: link.under_way() as u64,
            losses: link.losses.read(),
            operations: link.counters.read(),
            purges_applied: progress.applied,
            purges_waiting: progress.waiting() as u64,
            purges_missed: progress.missed,
            revoked_ids: self.parts.revocations.known.len() as u64,
            revoked_waiting: self.parts.revocations.known.unwritten_len() as u64,
            revoked_dropped: self.parts.revocations.known.dropped(),
            strangers: self.parts.census.strangers(),
            namesakes: self.parts.census.namesakes(),
            members: self.parts.census.members(),
            fingerprint: self.parts.census.fingerprint().to_owned(),
            edges: self.parts.edges.readings(),
        }
    }
}

/// Waits up to `patience` until the edges that are present have applied what was published.
async fn report<P>(
    edges: &Edges,
    published: Option<P>,
    has_applied: impl Fn(&EdgeStatus, &P) -> bool,
    patience: Duration,
) -> FleetReport {
    let Some(published) = published else { return FleetReport { is_published: false, edges: Vec::new() } };
    let began = Instant::now();
    loop {
        let edges = edges.read().await.unwrap_or_default();
        let applied = |edge: &EdgeStatus| has_applied(edge, &published);
        let is_waiting = edges.iter().any(|edge| edge.is_present && !applied(edge));
        if !is_waiting || began.elapsed() >= patience {
            let edges = edges.into_iter().map(|edge| (edge.clone(), applied(&edge))).collect();
            return FleetReport { is_published: true, edges };
        }
        tokio::time::sleep(CONFIRMATION_INTERVAL).await;
    }
}

impl Drop for Fleet {
    fn drop(&mut self) {
        self.leave();
    }
}

/// The parts of a member, the sealer, and what begins the names of everything that it stores.
pub(crate) fn parts(options: &FleetOptions) -> io::Result<(Arc<FleetDuties>, Arc<Sealer>, String)> {
    let sealer = Sealer::new(&options.secret).ok_or_else(|| io::Error::other("the TLS library failed"))?;
    let sealer = Arc::new(sealer);
    let prefix = format!("penstock:{}:", &sealer.pseudonym("fleet", &[])[..8]);
    let circuit = Circuit::new(CircuitLimits { failures: FAILURES, successes: PROBES, pause: None });
    let meter = Meter::new(ANSWERS);
    let link = Arc::new(Link::new(circuit, options.deadline, PATIENCE, OPERATIONS, meter));
    let state = StateDirectory::new(options.state.clone(), STATE_FILE_BYTES);
    let mut instance = [0; 16];
    rand::fill(&mut instance).map_err(|_| io::Error::other("the system has no randomness"))?;
    let fingerprint = prefix.trim_start_matches("penstock:").trim_end_matches(':');
    let parts = FleetDuties {
        census: Census::new(&link, &options.name, fingerprint, instance),
        purges: Arc::new(Purges {
            link: Arc::clone(&link),
            sealer: Arc::clone(&sealer),
            prefix: prefix.clone(),
            state: state.clone(),
            instance,
            sink: OnceLock::new(),
            progress: Mutex::new(PurgeProgress::new()),
            writing: tokio::sync::Mutex::default(),
        }),
        revocations: Arc::new(Revocations::new(
            &link,
            &sealer,
            &prefix,
            options.revoked,
            options.state.clone(),
        )),
        tickets: Arc::new(SharedTickets {
            link: Arc::clone(&link),
            sealer: Arc::clone(&sealer),
            prefix: prefix.clone(),
            state,
            known: Mutex::default(),
        }),
        strikes: Arc::new(FleetStrikes {
            link: Arc::clone(&link),
            sealer: Arc::clone(&sealer),
            prefix: prefix.clone(),
            store_keeps: AtomicBool::new(false),
            is_said: AtomicBool::new(false),
        }),
        edges: Arc::new(Edges {
            link: Arc::clone(&link),
            sealer: Arc::clone(&sealer),
            prefix: prefix.clone(),
            name: options.name.clone(),
            nodes: NodeSharing::default(),
            has_successor: AtomicBool::new(false),
            seen: Mutex::default(),
        }),
        link,
        milestones: Milestones::default(),
    };
    Ok((Arc::new(parts), sealer, prefix))
}
