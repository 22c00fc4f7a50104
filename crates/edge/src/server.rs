//! All workers together: start, reload, drain, stop.

use std::collections::hash_map::RandomState;
use std::fmt;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime};

use penstock_cache::{DiskError, TierError};
use penstock_config::{Config, Listener, limits};
use penstock_origin::io_threads::{IoLimits, IoThreads};
use penstock_sys::socket::{ListenError, listen, probe_free};
use penstock_tls::tickets::{NoRandomness, TicketKeyring};
use tokio::sync::mpsc::UnboundedSender;

use crate::access_log::AccessLog;
use crate::cached::{PurgeFailure, PurgeOrder, Purged};
use crate::certificates::Follower;
use crate::keeper::Keeper;
use crate::metrics::{Observatory, Protocol, ReloadOutcome};
use crate::recent_clients::RecentClients;
use crate::remembered::Remembered;
use crate::sealing::{KernelLacks, Sealers};
use crate::settings::Settings;
use crate::thread::{Change, Command, Opened, spawn};
use crate::ticket_keeper::TicketKeeper;
use crate::worker::{Common, Listening};

/// A running server.
pub struct Server {
    observatory: Arc<Observatory>,
    tickets: TicketKeeper,
    remembered: Remembered,
    control: Mutex<Control>,
}

/// What changes while the server runs; only the control thread touches it.
struct Control {
    workers: Vec<UnboundedSender<Command>>,
    /// Taken by whoever waits for them.
    threads: Vec<JoinHandle<()>>,
    listeners: Vec<Bound>,
    access_log: Option<(PathBuf, AccessLog)>,
    settings: Arc<Settings>,
    sealers: Sealers,
    /// Taken when the server has ended.
    keeper: Option<Keeper>,
    /// Follows the certificates' files for the settings in force.
    follower: Option<Follower>,
}

/// A listener that is open in every worker.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Bound {
    written: Listener,
    /// Differs from the written address where that left the port to the system.
    address: SocketAddr,
}

/// Why a server could not start, or a reload could not be applied.
#[derive(Debug)]
pub enum StartError {
    /// A listener could not be opened.
    Listen(ListenError),
    /// The directory of a site could not be opened.
    Site(penstock_sys::root::RootError),
    /// The cache could not be opened.
    Cache(TierError),
    /// The disk tier of the cache could not be opened.
    Disk(DiskError),
    /// The TLS settings cannot be used together.
    Tls(penstock_tls::ContextError),
    /// The kernel was to seal and cannot.
    Kernel(KernelLacks),
    /// The key log could not be opened.
    KeyLog {
        /// The file named in the configuration.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The access log could not be opened.
    AccessLog {
        /// The file named in the configuration.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A thread or its runtime could not be made.
    Thread(io::Error),
    /// No session ticket key could be made.
    Randomness(NoRandomness),
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Listen(error) => error.fmt(f),
            Self::Site(error) => write!(f, "cannot open the directory of a site: {error}"),
            Self::Cache(error) => error.fmt(f),
            Self::Disk(error) => error.fmt(f),
            Self::Tls(error) => error.fmt(f),
            Self::Kernel(lacks) => lacks.fmt(f),
            Self::KeyLog { path, source } => {
                write!(f, "cannot open the TLS key log {}: {source}", path.display())
            }
            Self::AccessLog { path, source } => {
                write!(f, "cannot open the access log {}: {source}", path.display())
            }
            Self::Thread(error) => write!(f, "cannot start a thread: {error}"),
            Self::Randomness(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for StartError {}

impl Server {
    /// Opens every listener in every worker and starts to serve.
    ///
    /// # Errors
    /// See [`StartError`]; nothing is left running or open.
    pub fn start(config: &Config) -> Result<Self, StartError> {
        penstock_sys::map::install_sigbus_handler().map_err(StartError::Thread)?;
        let workers = config.workers.get();
        let observatory = Observatory::new(workers);
        let tickets = TicketKeeper::start(&config.tls.tickets, &observatory)?;
        let remembered = Remembered::begin(Instant::now());
        observatory.set_sessions(Arc::clone(&remembered.sessions));
        let access_log = open_access_log(config, &observatory)?;
        let mut sealers = Sealers::default();
        observatory.chacha20().configure(config.tls.chacha20);
        let log = access_log.as_ref();
        let ring = tickets.ring();
        let settings = prepare(config, None, ring, &remembered, log, &mut sealers, &observatory)?;
        if let Some(costs) = sealers.costs() {
            observatory.set_costs(costs);
        }
        let keeper = Keeper::start(config, &settings, &remembered.staples, observatory.keeper());
        let keeper = keeper.map_err(StartError::Thread)?;
        observatory.keeper().set_staples(Arc::clone(&remembered.staples));
        let io = IoThreads::start(IoLimits {
            threads: limits::IO_THREADS,
            queued: limits::IO_QUEUE,
            queued_later: limits::READ_AHEAD_QUEUE,
        });
        let common = Common {
            io: Arc::new(io.map_err(StartError::Thread)?),
            compressed: Arc::default(),
            recent_clients: Arc::new(RecentClients::new(
                limits::RECENT_CLIENTS,
                Duration::from_secs(limits::RECENT_CLIENT_SECONDS),
                RandomState::new(),
                Instant::now(),
            )),
            workers,
            remembered: remembered.clone(),
            observatory: Arc::clone(&observatory),
            start: Instant::now(),
        };

        let mut openings: Vec<Vec<Opened>> = (0..workers).map(|_| Vec::new()).collect();
        let mut listeners = Vec::new();
        for written in &config.listeners {
            listeners.push(open_everywhere(written, &observatory, &mut openings)?);
        }
        let cores = if config.affinity { crate::thread::usable_cores() } else { Vec::new() };
        let (mut senders, mut threads) = (Vec::new(), Vec::new());
        for (number, opened) in openings.into_iter().enumerate() {
            let core = cores.get(number % cores.len().max(1)).copied();
            let shard = observatory.shard(number);
            let change = Change { settings: Arc::clone(&settings), opened, closed: Vec::new() };
            let spawned = spawn(number, core, shard, change, common.clone());
            let (commands, thread) = spawned.map_err(StartError::Thread)?;
            senders.push(commands);
            threads.push(thread);
        }
        show_tier(&observatory, &settings);
        let follower = follow_certificates(&settings, &observatory)?;
        let control = Control {
            workers: senders,
            threads,
            listeners,
            access_log,
            settings,
            sealers,
            keeper: Some(keeper),
            follower,
        };
        Ok(Self { observatory, tickets, remembered, control: Mutex::new(control) })
    }

    /// Puts another configuration in force without dropping a connection. The number of workers and their cores
    /// stay as they were at the start.
    ///
    /// # Errors
    /// See [`StartError`]; the running configuration then stays as it was.
    pub fn reload(&self, config: &Config) -> Result<(), StartError> {
        let outcome = self.apply(config);
        let label = if outcome.is_ok() { ReloadOutcome::Applied } else { ReloadOutcome::Rejected };
        self.observatory.reloaded(label, SystemTime::now());
        outcome
    }

    /// Counts a reload that failed before there was a configuration to apply.
    pub fn reload_failed(&self) {
        self.observatory.reloaded(ReloadOutcome::Rejected, SystemTime::now());
    }

    fn apply(&self, config: &Config) -> Result<(), StartError> {
        let mut guard = self.control();
        let control = &mut *guard;
        // Everything that can fail comes before the first thing that changes.
        let keeps_log = match (&control.access_log, &config.log.access) {
            (Some((open, _)), Some(wanted)) => open == wanted,
            (None, None) => true,
            (Some(_), None) | (None, Some(_)) => false,
        };
        let new_log = if keeps_log { None } else { open_access_log(config, &self.observatory)? };
        let log = if keeps_log { control.access_log.as_ref() } else { new_log.as_ref() };
        let previous = Arc::clone(&control.settings);
        let (ring, remembered) = (self.tickets.ring(), &self.remembered);
        let (previous, sealers) = (Some(&*previous), &mut control.sealers);
        let settings = prepare(config, previous, ring, remembered, log, sealers, &self.observatory)?;
        let follower = follow_certificates(&settings, &self.observatory)?;
        let mut openings: Vec<Vec<Opened>> = control.workers.iter().map(|_| Vec::new()).collect();
        let (mut kept, mut added): (Vec<Bound>, Vec<Bound>) = (Vec::new(), Vec::new());
        for written in &config.listeners {
            // Several may be written alike, when the system chooses their ports.
            let same = |bound: &&Bound| bound.written == *written && !kept.contains(bound);
            match control.listeners.iter().find(same) {
                Some(bound) => kept.push(bound.clone()),
                None => added.push(self.open_for_reload(written, &control.listeners, &mut openings)?),
            }
        }
        let closed: Vec<SocketAddr> = control
            .listeners
            .iter()
            .filter(|bound| !kept.contains(bound))
            .map(|bound| bound.address)
            .collect();
        kept.extend(added);
        control.listeners = kept;
        if let Some(keeper) = &control.keeper {
            keeper.change(config, &settings, &remembered.staples);
        }
        for (commands, opened) in control.workers.iter().zip(openings) {
            let change = Change { settings: Arc::clone(&settings), opened, closed: closed.clone() };
            // A worker that is gone has no connections to tell.
            drop(commands.send(Command::Change(change)));
        }
        control.settings = settings;
        self.observatory.chacha20().configure(config.tls.chacha20);
        self.tickets.configure(&config.tls.tickets);
        show_tier(&self.observatory, &control.settings);
        control.follower = follower;
        let replaced_log = if keeps_log {
            if let Some((_, log)) = &control.access_log {
                log.reopen();
            }
            None
        } else {
            std::mem::replace(&mut control.access_log, new_log)
        };
        drop(guard);
        // Writes out its last lines, which may take a moment.
        drop(replaced_log);
        Ok(())
    }

    /// A listener on a port that is open already (with other options, or on other interfaces) shares it until the
    /// old one closes. Whether strangers are there as well cannot be told then.
    fn open_for_reload(
        &self,
        written: &Listener,
        open: &[Bound],
        openings: &mut [Vec<Opened>],
    ) -> Result<Bound, StartError> {
        if open.iter().any(|bound| bound.address.port() == written.address.port()) {
            return open_shared(written, &self.observatory, openings);
        }
        open_everywhere(written, &self.observatory, openings)
    }

    /// Stops accepting, ends idle connections, and lets running responses finish within the drain deadline.
    pub fn drain(&self) {
        let control = self.control();
        let deadline = Instant::now() + control.settings.limits.drain_deadline;
        for commands in &control.workers {
            drop(commands.send(Command::Drain { deadline }));
        }
    }

    /// Ends everything now.
    pub fn stop(&self) {
        for commands in &self.control().workers {
            drop(commands.send(Command::Stop));
        }
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
        let ended = (control.access_log.take(), control.keeper.take());
        if let Some(store) = &control.settings.store {
            store.leave();
        }
        drop(control);
        drop(ended);
    }

    /// Where clients can connect, with the ports that the system chose.
    pub fn addresses(&self) -> Vec<SocketAddr> {
        self.control().listeners.iter().map(|bound| bound.address).collect()
    }

    /// Purges what is cached. Blocks until that is written down.
    ///
    /// # Errors
    /// See [`PurgeFailure`].
    pub fn purge(&self, order: &PurgeOrder) -> Result<Purged, PurgeFailure> {
        let settings = Arc::clone(&self.control().settings);
        let Some(store) = &settings.store else { return Ok(Purged { objects: 0 }) };
        let outcome = store.purge(order, &settings.sites);
        self.observatory.purged(order, outcome.as_ref().map_or(0, |purged| purged.objects));
        outcome
    }

    /// The counters of all workers.
    pub fn observatory(&self) -> &Arc<Observatory> {
        &self.observatory
    }

    fn control(&self) -> MutexGuard<'_, Control> {
        self.control.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn prepare(
    config: &Config,
    previous: Option<&Settings>,
    tickets: &Arc<TicketKeyring>,
    remembered: &Remembered,
    access_log: Option<&(PathBuf, AccessLog)>,
    sealers: &mut Sealers,
    observatory: &Observatory,
) -> Result<Arc<Settings>, StartError> {
    let sink = access_log.map(|(_, log)| log.sink());
    let kernel = sealers.plan(config).map_err(StartError::Kernel)?;
    let chacha20 = observatory.chacha20().switch();
    Settings::prepare(config, previous, tickets, remembered, sink, kernel, chacha20).map(Arc::new)
}

fn open_access_log(
    config: &Config,
    observatory: &Observatory,
) -> Result<Option<(PathBuf, AccessLog)>, StartError> {
    let open = |path: &Path| {
        let log = AccessLog::open(path, observatory.access_log())
            .map_err(|source| StartError::AccessLog { path: path.to_owned(), source })?;
        Ok((path.to_owned(), log))
    };
    config.log.access.as_deref().map(open).transpose()
}

/// Opens a listener in every worker after making sure that no other program has its port.
fn open_everywhere(
    written: &Listener,
    observatory: &Observatory,
    openings: &mut [Vec<Opened>],
) -> Result<Bound, StartError> {
    if written.address.port() != 0 {
        probe_free(written.address).map_err(StartError::Listen)?;
    }
    open_shared(written, observatory, openings)
}

fn open_shared(
    written: &Listener,
    observatory: &Observatory,
    openings: &mut [Vec<Opened>],
) -> Result<Bound, StartError> {
    let mut address = written.address;
    let mut sockets: Vec<TcpListener> = Vec::with_capacity(openings.len());
    for _ in 0..openings.len() {
        let socket = listen(address, &written.socket).map_err(StartError::Listen)?;
        address = socket.local_addr().map_err(StartError::Thread)?;
        sockets.push(socket);
    }
    let protocol = if written.tls { Protocol::Https } else { Protocol::Http };
    let id = observatory.listener(&address.to_string(), protocol);
    let listening = Listening { id, tls: written.tls, proxy_protocol: written.proxy_protocol };
    for (opened, socket) in openings.iter_mut().zip(sockets) {
        opened.push(Opened { address, socket, listening });
    }
    Ok(Bound { written: written.clone(), address })
}

/// Shows new clients what lies in the certificates' files from now on; `None` where nobody speaks TLS.
fn follow_certificates(
    settings: &Settings,
    observatory: &Arc<Observatory>,
) -> Result<Option<Follower>, StartError> {
    let holdings = settings.holdings.lock().unwrap_or_else(PoisonError::into_inner).take();
    let Some(holdings) = holdings else { return Ok(None) };
    holdings.show(observatory);
    let Some(acceptor) = &settings.acceptor else { return Ok(None) };
    Follower::start(holdings, Arc::clone(acceptor), Arc::clone(observatory))
        .map(Some)
        .map_err(StartError::Thread)
}

fn show_tier(observatory: &Observatory, settings: &Settings) {
    observatory.set_origins(settings.sites.origins());
    if let Some(store) = &settings.store {
        observatory.set_tier(Arc::clone(&store.tier));
        observatory.set_purges(Arc::clone(&store.purges));
        observatory.set_prefetches(Arc::clone(&store.prefetches));
    }
}
