//! All workers together: start, reload, drain, stop.
mod bound;
mod fleet_orders;
mod hand_over;
mod orders;
mod sockets;
mod thread;

pub use hand_over::Inheritance;
pub use sockets::{InheritedSockets, ListenSocket};

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime};

use penstock_access_log::AccessLog;
use penstock_acme::Acme;
use penstock_config::{Config, Listener};
use penstock_content::{PeerStatus, catch_up};
use penstock_fleet::PurgeSink;
use penstock_sys::lock::Unpoisoned;
use penstock_tls::tickets::TicketKeyring;
use tokio::sync::mpsc::UnboundedSender;

use crate::background::Purger;
use crate::background::refresh::Refresher;
use crate::background::tickets::TicketRotation;
use crate::clients::ConnectionCount;
use crate::fleet;
use crate::fleet::Membership;
use crate::metrics::{Metrics, ReloadOutcome};
use crate::server::bound::{Bound, keep_or_open, open_everywhere};
use crate::server::orders::{open_storage, order_certificates};
use crate::server::sockets::GivenSockets;
use crate::server::thread::{Change, Command, Opened, spawn};
use crate::settings::{AppliedEverywhere, Before, PendingChange, Settings, StartError};
use crate::tls::{Follower, KtlsSupport, TlsState};
use crate::worker::{AllWorkers, CollectedParts, Collector, Purpose};

/// For how long a reload waits for workers that are busy.
const CHANGE_PATIENCE: Duration = Duration::from_secs(5);

/// A running server.
pub struct Server {
    metrics: Arc<Metrics>,
    collector: Arc<Collector>,
    tickets: TicketRotation,
    tls_state: TlsState,
    purger: Arc<Purger>,
    connections: Arc<ConnectionCount>,
    control: Mutex<Control>,
}

/// The state that changes while the server runs; only the control thread touches it.
struct Control {
    workers: Vec<UnboundedSender<Command>>,
    /// Taken by the caller that waits for them.
    threads: Vec<JoinHandle<()>>,
    given: GivenSockets,
    listeners: Vec<Bound>,
    access_log: Option<AccessLog>,
    settings: Arc<Settings>,
    ktls: KtlsSupport,
    /// Taken when the server has ended.
    refresher: Option<Refresher>,
    /// Follows the certificates' files for the settings in force.
    follower: Option<Follower>,
    /// Follows the list of the cluster's nodes.
    membership: Option<Membership>,
    /// Orders certificates; `None` if the configuration does not ask for it.
    orders: Option<Acme>,
}

impl Control {
    /// Gives a generation of settings to all workers.
    fn tell_workers(
        &self,
        settings: &Arc<Settings>,
        openings: Vec<Vec<Opened>>,
        closed: &[SocketAddr],
    ) -> AppliedEverywhere {
        let (pending, applied) = PendingChange::new();
        for (commands, opened) in self.workers.iter().zip(openings) {
            let (settings, closed) = (Arc::clone(settings), closed.to_vec());
            let change = Change { settings, opened, closed, pending: pending.clone() };
            // A worker that is gone has no connections to tell.
            drop(commands.send(Command::Change(change)));
        }
        applied
    }

    /// Leaves the sockets to the workers, which close them.
    fn release_sockets(&mut self) {
        for bound in &mut self.listeners {
            bound.sockets = Vec::new();
        }
    }
}

impl Server {
    /// Opens every listener in every worker and starts to serve.
    ///
    /// # Errors
    /// See [`StartError`]; nothing is left running or open.
    pub fn start(config: &Config) -> Result<Self, StartError> {
        Self::start_on(config, InheritedSockets::default())
    }

    /// The same, on inherited sockets where they have the address of a listener.
    ///
    /// # Errors
    /// See [`StartError`]; nothing is left running, or open here.
    pub fn start_on(config: &Config, sockets: InheritedSockets) -> Result<Self, StartError> {
        Self::succeed(config, Inheritance { sockets, ..Inheritance::default() })
    }

    /// The same, with all that another process hands over.
    ///
    /// # Errors
    /// See [`StartError`]; nothing is left running, or open here.
    pub fn succeed(config: &Config, inheritance: Inheritance) -> Result<Self, StartError> {
        let Inheritance { sockets, tier, ticket_keys } = inheritance;
        let before = if ticket_keys.is_some() { Before::Process(tier) } else { Before::Nothing };
        let mut given = GivenSockets::new(sockets, listeners_of(config).map(|(listener, _)| listener))?;
        penstock_sys::map::install_sigbus_handler().map_err(StartError::Thread)?;
        let workers = config.workers.get();
        let metrics = Metrics::new(workers);
        let fleet = fleet::join(config).map_err(StartError::Thread)?;
        let tickets = TicketRotation::start(&config.tls.tickets, ticket_keys, fleet.clone(), &metrics)?;
        let tls_state = TlsState::begin(Instant::now(), fleet);
        let collector = Collector::new(Arc::clone(&metrics), &tls_state);
        let access_log = open_access_log(config, &metrics)?;
        let mut ktls = KtlsSupport::default();
        collector.configure_pressure(config);
        let log = access_log.as_ref();
        let ring = tickets.ring();
        let settings = prepare(config, before, ring, &tls_state, log, &mut ktls, &collector)?;
        if let Some(costs) = ktls.costs() {
            collector.set_costs(costs);
        }
        let refresher = Refresher::start(config, &settings, &tls_state.staples, metrics.background());
        let refresher = refresher.map_err(StartError::Thread)?;
        let purger = Purger::new(&settings, &metrics);
        if let Some(fleet) = &tls_state.fleet {
            // What was purged while this process was not there must not be served.
            fleet.follow_purges(Arc::clone(&purger) as Arc<dyn PurgeSink>, fleet::START);
        }
        let membership = follow_nodes(&settings, &tls_state, fleet::START).map_err(StartError::Thread)?;
        if let (Some(store), Some(cluster)) = (&settings.store, &settings.cluster) {
            catch_up(store, &cluster.peers);
        }
        let common = AllWorkers::new(config, &tls_state, &collector).map_err(StartError::Thread)?;
        let mut openings: Vec<Vec<Opened>> = (0..workers).map(|_| Vec::new()).collect();
        let mut listeners = Vec::new();
        for configured in listeners_of(config) {
            listeners.push(open_everywhere(configured, &given, true, &metrics, &mut openings)?);
        }
        given.forget_predecessor();
        let cores = if config.affinity { thread::cores_to_pin_to() } else { Vec::new() };
        let (mut senders, mut threads) = (Vec::new(), Vec::new());
        // Connections to a listener that was not there before wait in its queue: nothing waits for the first settings.
        let (pending, _) = PendingChange::new();
        for (number, opened) in openings.into_iter().enumerate() {
            let core = cores.get(number % cores.len().max(1)).copied();
            let shard = metrics.shard(number);
            let change = Change {
                settings: Arc::clone(&settings),
                opened,
                closed: Vec::new(),
                pending: pending.clone(),
            };
            let spawned = spawn(number, core, shard, change, common.clone());
            let (commands, thread) = spawned.map_err(StartError::Thread)?;
            senders.push(commands);
            threads.push(thread);
        }
        show_parts(&collector, &metrics, &settings);
        let follower = follow_certificates(&settings, &metrics)?;
        let control = Control {
            workers: senders,
            threads,
            given,
            listeners,
            access_log,
            settings,
            ktls,
            refresher: Some(refresher),
            follower,
            membership,
            orders: order_certificates(config, None, &tls_state).map_err(StartError::Thread)?,
        };
        let connections = common.connections;
        Ok(Self { metrics, collector, tickets, tls_state, purger, connections, control: Mutex::new(control) })
    }

    /// Puts another configuration in force without dropping a connection. The number of workers and their cores
    /// stay as they were at the start. Blocks until each worker has it, or was too busy for five seconds: a connection that
    /// is made afterwards finds no settings of before.
    ///
    /// # Errors
    /// See [`StartError`]; the running configuration then stays as it was.
    pub fn reload(&self, config: &Config) -> Result<(), StartError> {
        let outcome = self.apply(config);
        let label = if outcome.is_ok() { ReloadOutcome::Applied } else { ReloadOutcome::Rejected };
        self.metrics.reloaded(label, SystemTime::now());
        outcome
    }

    /// Whether the cache waits for tiers of a process that drains.
    pub fn waits_for_tiers(&self) -> bool {
        self.control().settings.store.as_ref().is_some_and(|store| store.waits_for_any())
    }

    /// Puts the configured tiers in force once that process has ended, for the configuration in force. Returns whether
    /// they are now.
    ///
    /// # Errors
    /// See [`StartError`]; the cache then stays as it was.
    pub fn adopt_tiers(&self, config: &Config) -> Result<bool, StartError> {
        let Some(store) = self.control().settings.store.clone() else { return Ok(false) };
        if store.adopt_disks() {
            return Ok(true);
        }
        let is_due = store.has_successor();
        if is_due {
            self.apply(config)?;
        }
        Ok(is_due && !self.waits_for_tiers())
    }

    /// Counts a reload that failed before there was a configuration to apply.
    pub fn reload_failed(&self) {
        self.metrics.reloaded(ReloadOutcome::Rejected, SystemTime::now());
    }

    fn apply(&self, config: &Config) -> Result<(), StartError> {
        let mut guard = self.control();
        let control = &mut *guard;
        // Everything that can fail comes before the first thing that changes.
        let keeps_log = match (&control.access_log, &config.log.access) {
            (Some(log), Some(configured)) => log.is_at(&configured.path),
            (open, configured) => open.is_none() && configured.is_none(),
        };
        let new_log = if keeps_log { None } else { open_access_log(config, &self.metrics)? };
        let log = if keeps_log { control.access_log.as_ref() } else { new_log.as_ref() };
        let previous = Arc::clone(&control.settings);
        let (ring, tls_state) = (self.tickets.ring(), &self.tls_state);
        let (before, ktls) = (Before::Generation(&previous), &mut control.ktls);
        let settings = prepare(config, before, ring, tls_state, log, ktls, &self.collector)?;
        let follower = follow_certificates(&settings, &self.metrics)?;
        let mut openings: Vec<Vec<Opened>> = control.workers.iter().map(|_| Vec::new()).collect();
        let open =
            |configured: (&Listener, Purpose)| self.open_for_reload(configured, control, &mut openings);
        let (kept, added) = keep_or_open(&control.listeners, listeners_of(config), open)?;
        let peers = settings.cluster.as_ref().map(|cluster| &cluster.peers);
        let keeps_nodes =
            control.membership.as_ref().zip(peers).is_some_and(|(now, peers)| now.is_for(peers));
        let new_nodes = if keeps_nodes {
            None
        } else {
            follow_nodes(&settings, &self.tls_state, Duration::ZERO).map_err(StartError::Thread)?
        };
        let mut before: Vec<Option<Bound>> = control.listeners.drain(..).map(Some).collect();
        let kept = kept.into_iter().filter_map(|place| before[place].take());
        control.listeners = kept.chain(added).collect();
        let closed: Vec<SocketAddr> = before.into_iter().flatten().map(|bound| bound.address).collect();
        if let Some(refresher) = &control.refresher {
            refresher.change(config, &settings, &tls_state.staples);
        }
        let applied = control.tell_workers(&settings, openings, &closed);
        control.settings = settings;
        self.purger.change(&control.settings);
        self.collector.configure_pressure(config);
        self.tickets.configure(&config.tls.tickets);
        show_parts(&self.collector, &self.metrics, &control.settings);
        control.follower = follower;
        let orders = control.orders.take();
        control.orders = order_certificates(config, orders, tls_state).unwrap_or_else(|error| {
            tracing::error!("certificates are not ordered until the next reload: {error}");
            None
        });
        if !keeps_nodes {
            control.membership = new_nodes;
        }
        let replaced_log = if keeps_log {
            if let Some(log) = &control.access_log {
                log.reopen();
            }
            None
        } else {
            std::mem::replace(&mut control.access_log, new_log)
        };
        drop(guard);
        // Writes out its last lines, which may take a moment.
        drop(replaced_log);
        if !applied.wait(CHANGE_PATIENCE) {
            tracing::warn!(
                "a worker is busy and has not applied the configuration yet; it does so before it accepts again"
            );
        }
        Ok(())
    }

    /// A listener on a port that is open already (with other options, or on other interfaces) shares it until the
    /// old one closes. Whether another program has the port too cannot be checked then.
    fn open_for_reload(
        &self,
        configured: (&Listener, Purpose),
        control: &Control,
        openings: &mut [Vec<Opened>],
    ) -> Result<Bound, StartError> {
        let port = configured.0.address.port();
        let is_new = control.listeners.iter().all(|bound| bound.address.port() != port);
        open_everywhere(configured, &control.given, is_new, &self.metrics, openings)
    }

    /// Opens the access log again, after another program has renamed it.
    pub fn reopen_logs(&self) {
        if let Some(log) = &self.control().access_log {
            log.reopen();
        }
    }

    /// Ends each connection after its next response, while the listeners still accept: a client that sends a request on an
    /// idle connection gets its response, and learns that it was the last one there.
    pub fn lame_duck(&self) {
        self.retire();
        self.control().tell(|| Command::LameDuck);
    }

    /// Tells the fleet that another process may have the name of this one from now on.
    fn retire(&self) {
        if let Some(fleet) = &self.tls_state.fleet {
            fleet.retire();
        }
    }

    /// Open connections of all listeners.
    pub fn open_connections(&self) -> usize {
        self.connections.open()
    }

    /// The sockets of all listeners, for a server that succeeds this one: both accept from them, until this one drains.
    pub fn sockets(&self) -> InheritedSockets {
        let control = self.control();
        let of_manager = control.given.of_manager().cloned().collect();
        let mut sockets = InheritedSockets { of_manager, ..InheritedSockets::default() };
        for bound in &control.listeners {
            sockets.add_of_predecessor(&bound.sockets);
        }
        sockets
    }

    /// Closes the listeners, ends idle connections, and lets running responses finish within the drain deadline.
    ///
    /// A connection without a request yet gets its first response if the request comes within
    /// [`DRAIN_FIRST_REQUEST_SECONDS`](penstock_config::limits::DRAIN_FIRST_REQUEST_SECONDS) from its handshake on.
    pub fn drain(&self) {
        let mut control = self.control();
        // A successor finds free ports only after this.
        if let Some(store) = &control.settings.store {
            store.announce_end();
        }
        self.retire();
        // A successor orders.
        control.orders = None;
        let deadline = Instant::now() + control.settings.limits.drain_deadline;
        control.release_sockets();
        control.tell(|| Command::Drain { deadline });
    }

    /// Ends everything now.
    pub fn stop(&self) {
        let mut control = self.control();
        control.release_sockets();
        control.tell(|| Command::Stop);
    }

    /// Blocks until every worker has ended, then writes out the access log. Call it after [`Self::drain`] or
    /// [`Self::stop`].
    pub fn wait(&self) {
        // Not held while waiting: an operator who has lost patience calls `stop` meanwhile.
        let threads: Vec<_> = std::mem::take(&mut self.control().threads);
        for thread in threads {
            if thread.join().is_err() {
                tracing::error!("a worker panicked; its connections were lost");
            }
        }
        let mut control = self.control();
        let ended = (control.access_log.take(), control.refresher.take());
        if let Some(store) = &control.settings.store {
            store.leave();
        }
        if let Some(fleet) = &self.tls_state.fleet {
            fleet.leave();
        }
        drop(control);
        drop(ended);
    }

    /// Where clients can connect, with the ports that the system chose.
    pub fn addresses(&self) -> Vec<SocketAddr> {
        let control = self.control();
        let clients = control.listeners.iter().filter(|bound| bound.purpose == Purpose::Clients);
        clients.map(|bound| bound.address).collect()
    }

    /// The nodes of the cluster; none without a cluster.
    pub fn nodes(&self) -> Vec<PeerStatus> {
        let settings = Arc::clone(&self.control().settings);
        settings.cluster.as_ref().map_or_else(Vec::new, |cluster| cluster.peers.status())
    }

    /// The counters of all workers.
    pub fn metrics(&self) -> &Arc<Metrics> {
        &self.metrics
    }

    /// Collects the state of the server's parts for metrics.
    pub fn collector(&self) -> &Arc<Collector> {
        &self.collector
    }

    fn control(&self) -> MutexGuard<'_, Control> {
        self.control.lock().unpoisoned()
    }
}

fn prepare(
    config: &Config,
    before: Before<'_>,
    tickets: &Arc<TicketKeyring>,
    tls_state: &TlsState,
    access_log: Option<&AccessLog>,
    ktls: &mut KtlsSupport,
    collector: &Collector,
) -> Result<Arc<Settings>, StartError> {
    open_storage(config)?;
    let sink = access_log.map(AccessLog::sink);
    let kernel = ktls.plan(config).map_err(StartError::Kernel)?;
    let chacha20 = collector.chacha20().switch();
    let settings = Settings::prepare(config, before, tickets, tls_state, sink, kernel, chacha20)?;
    Ok(Arc::new(settings.counted_in(collector.metrics())))
}

fn open_access_log(config: &Config, metrics: &Metrics) -> Result<Option<AccessLog>, StartError> {
    let open = |log: &penstock_config::AccessLog| {
        AccessLog::open(&log.path, metrics.access_log())
            .map_err(|source| StartError::AccessLog { path: log.path.clone(), source })
    };
    config.log.access.as_ref().map(open).transpose()
}

/// The listeners of a configuration: for clients, and for other nodes of the cluster.
fn listeners_of(config: &Config) -> impl Iterator<Item = (&Listener, Purpose)> {
    let clients = config.listeners.iter().map(|listener| (listener, Purpose::Clients));
    clients.chain(config.cluster.iter().map(|cluster| (&cluster.listener, Purpose::Peers)))
}

/// Follows the files of certificates for new connections; `None` without a TLS listener.
fn follow_certificates(settings: &Settings, metrics: &Arc<Metrics>) -> Result<Option<Follower>, StartError> {
    let certificates = settings.certificate_set.lock().unpoisoned().take();
    let Some(certificates) = certificates else { return Ok(None) };
    certificates.show(metrics);
    let Some(acceptor) = &settings.acceptor else { return Ok(None) };
    Follower::start(certificates, Arc::clone(acceptor), Arc::clone(metrics))
        .map(Some)
        .map_err(StartError::Thread)
}

/// Follows the list of the cluster's nodes, if that comes from elsewhere. Waits at most for `patience` for the first one.
fn follow_nodes(
    settings: &Settings,
    tls_state: &TlsState,
    patience: Duration,
) -> io::Result<Option<Membership>> {
    let fleet = tls_state.fleet.as_ref();
    let membership = match &settings.cluster {
        Some(cluster) => Membership::follow(&cluster.peers, fleet, patience)?,
        None => None,
    };
    if let (None, Some(fleet)) = (&membership, fleet) {
        fleet.share_node(None, Duration::ZERO);
    }
    Ok(membership)
}

fn show_parts(collector: &Collector, metrics: &Metrics, settings: &Settings) {
    collector.set_parts(CollectedParts {
        origins: settings
            .sites
            .origins_by_site()
            .map(|(site, origin)| (site.into(), Arc::clone(origin)))
            .collect(),
        peers: settings.cluster.as_ref().map(|cluster| Arc::clone(&cluster.peers)),
        cache: settings.store.clone(),
        remote_keys: Arc::clone(&settings.remote_keys),
    });
    if let Some(store) = &settings.store {
        metrics.set_prefetches(Arc::clone(store.prefetches()));
    }
}
