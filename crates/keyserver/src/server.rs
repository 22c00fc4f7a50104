//! The running keyserver: start, reload, drain.

use std::fmt;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use arc_swap::{ArcSwap, ArcSwapOption};
use penstock_access_log::AccessLog;
use penstock_config::{KeyserverConfig, limits};
use penstock_sys::lock::Unpoisoned;
use penstock_tls::MutualServer;
use tokio::net::TcpStream;
use tokio::runtime::Builder;
use tokio::sync::watch;
use tokio::task::{JoinSet, LocalSet};
use tokio::time::{sleep, timeout};

use crate::clients::Clients;
use crate::connection::{Admission, Connection};
use crate::counters::Counters;
use crate::exposition;
use crate::follower::{Directories, Follower};
use crate::handshake_places::{HandshakePlace, HandshakePlaces};
use crate::pool::Pool;
use crate::shared::KeyserverState;
use crate::tokens::Tokens;

/// A running keyserver.
pub struct Keyserver {
    shared: Arc<KeyserverState>,
    address: SocketAddr,
    tls: Arc<ArcSwap<MutualServer>>,
    stages: watch::Sender<Stage>,
    control: Mutex<Control>,
}

struct Control {
    follower: Option<Follower>,
    thread: Option<JoinHandle<()>>,
    drain_deadline: Duration,
}

/// What the connections are told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Serving,
    /// Operations under way may take until then.
    Draining(Instant),
    Stopped,
}

/// Why a keyserver could not start, or a reload could not be applied.
#[derive(Debug)]
pub enum StartError {
    /// The listener could not be opened.
    Listen(SocketAddr, io::Error),
    /// A directory of keys could not be read.
    Directory(PathBuf, io::Error),
    /// The certificate cannot be used.
    Tls(String),
    /// The access log could not be opened.
    AccessLog(PathBuf, io::Error),
    /// A thread or its runtime could not be made.
    Thread(io::Error),
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Listen(address, error) => write!(f, "cannot listen on {address}: {error}"),
            Self::Directory(path, error) => write!(f, "cannot read the keys in {}: {error}", path.display()),
            Self::Tls(error) => write!(f, "the certificate cannot be used: {error}"),
            Self::AccessLog(path, error) => {
                write!(f, "cannot open the access log {}: {error}", path.display())
            }
            Self::Thread(error) => write!(f, "cannot start a thread: {error}"),
        }
    }
}

impl std::error::Error for StartError {}

impl Keyserver {
    /// Reads the keys, opens the listener and starts to serve.
    ///
    /// # Errors
    /// See [`StartError`]; nothing is left running or open.
    pub fn start(config: &KeyserverConfig) -> Result<Self, StartError> {
        let directories = directories(config)?;
        let tls = Arc::new(ArcSwap::from_pointee(mutual(config)?));
        let tokens = Arc::new(Tokens::start(&config.tokens, &Tokens::default()).map_err(StartError::Thread)?);
        tokens.wait();
        let (in_force, keyring) = (tokens.ids(), directories.keyring(&tokens));
        let threads = config.threads.get();
        let counters = Counters::default();
        let shared = Arc::new(KeyserverState {
            keyring: ArcSwap::from_pointee(keyring),
            tokens: ArcSwap::new(Arc::clone(&tokens)),
            clients: ArcSwap::from_pointee(Clients::new(
                &config.clients,
                &Clients::default(),
                Instant::now(),
            )),
            access_log: ArcSwapOption::from(open_log(config, &counters)?.map(Arc::new)),
            legacy_hashes: AtomicBool::new(config.legacy_hashes),
            counters,
            pool: Pool::start(threads, limits::KEYSERVER_OPERATIONS).map_err(StartError::Thread)?,
            threads,
            started: Instant::now(),
        });
        let listener =
            TcpListener::bind(config.address).map_err(|error| StartError::Listen(config.address, error))?;
        listener.set_nonblocking(true).map_err(StartError::Thread)?;
        let address = listener.local_addr().map_err(StartError::Thread)?;
        let (stages, stage) = watch::channel(Stage::Serving);
        let runtime =
            Builder::new_current_thread().enable_io().enable_time().build().map_err(StartError::Thread)?;
        let (served, accepting) = (Arc::clone(&shared), Arc::clone(&tls));
        let thread = thread::Builder::new()
            .name("keyserver".into())
            .spawn(move || LocalSet::new().block_on(&runtime, serve(listener, served, accepting, stage)))
            .map_err(StartError::Thread)?;
        let follower = Follower::start(directories, (tokens, in_force), Arc::clone(&shared))
            .map_err(StartError::Thread)?;
        let control =
            Control { follower: Some(follower), thread: Some(thread), drain_deadline: config.drain_deadline };
        Ok(Self { shared, address, tls, stages, control: Mutex::new(control) })
    }

    /// Puts another configuration in force. Address and threads stay as they were at the start; open connections stay,
    /// and what their clients may do follows the new configuration.
    ///
    /// # Errors
    /// See [`StartError`]; the running configuration then stays as it was.
    pub fn reload(&self, config: &KeyserverConfig) -> Result<(), StartError> {
        let mut control = self.control();
        let directories = directories(config)?;
        let tls = mutual(config)?;
        let open = self.shared.access_log.load_full();
        let is_same = match (open.as_ref(), &config.access_log) {
            (Some(log), Some(path)) => log.is_at(path),
            (open, configured) => open.is_none() && configured.is_none(),
        };
        let log = if is_same { open } else { open_log(config, &self.shared.counters)?.map(Arc::new) };
        let tokens = Tokens::start(&config.tokens, &self.shared.tokens.load()).map_err(StartError::Thread)?;
        let tokens = Arc::new(tokens);
        tokens.wait();
        let (in_force, keyring) = (tokens.ids(), directories.keyring(&tokens));
        let shared = Arc::clone(&self.shared);
        let follower = Follower::start(directories, (Arc::clone(&tokens), in_force), shared)
            .map_err(StartError::Thread)?;
        // The old follower ends before the new keys are in force, so that it does not bring the old ones back.
        drop(control.follower.replace(follower));
        self.shared.keyring.store(Arc::new(keyring));
        self.shared.tokens.store(tokens);
        let clients = Clients::new(&config.clients, &self.shared.clients.load(), Instant::now());
        self.shared.clients.store(Arc::new(clients));
        self.shared.legacy_hashes.store(config.legacy_hashes, Relaxed);
        self.shared.access_log.store(log);
        self.tls.store(Arc::new(tls));
        control.drain_deadline = config.drain_deadline;
        self.reopen_logs();
        Ok(())
    }

    /// Opens the access log again, after another program has renamed it.
    pub fn reopen_logs(&self) {
        if let Some(log) = &*self.shared.access_log.load() {
            log.reopen();
        }
    }

    /// Closes the listener, answers operations under way within the deadline, and closes all connections. Returns how long
    /// that may take.
    pub fn drain(&self) -> Duration {
        let longest = self.control().drain_deadline;
        let deadline = Instant::now() + longest;
        self.stages.send_if_modified(|stage| {
            let begins = *stage == Stage::Serving;
            if begins {
                *stage = Stage::Draining(deadline);
            }
            begins
        });
        longest
    }

    /// Ends everything now.
    pub fn stop(&self) {
        self.stages.send_replace(Stage::Stopped);
    }

    /// Blocks until all connections have ended, then writes out the access log. Call it after [`Self::drain`] or
    /// [`Self::stop`].
    pub fn wait(&self) {
        let thread = self.control().thread.take();
        if let Some(thread) = thread
            && thread.join().is_err()
        {
            tracing::error!("the thread of the connections panicked");
        }
        drop(self.control().follower.take());
        drop(self.shared.access_log.swap(None));
    }

    /// Where clients connect, with the port that the system chose.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Number of private keys.
    pub fn keys(&self) -> usize {
        self.shared.keyring.load().len()
    }

    /// The metrics in the Prometheus text format, version 0.0.4.
    pub fn metrics(&self) -> String {
        exposition::render(&self.shared)
    }

    /// The state for `/status.json`.
    pub fn status(&self) -> serde_json::Value {
        exposition::status(&self.shared)
    }

    fn control(&self) -> MutexGuard<'_, Control> {
        self.control.lock().unpoisoned()
    }
}

impl fmt::Debug for Keyserver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Keyserver").field("address", &self.address).finish_non_exhaustive()
    }
}

fn directories(config: &KeyserverConfig) -> Result<Directories, StartError> {
    Directories::read(&config.directories).map_err(|(path, error)| StartError::Directory(path, error))
}

fn mutual(config: &KeyserverConfig) -> Result<MutualServer, StartError> {
    MutualServer::new(&config.certificate, &config.client_certificates)
        .map_err(|error| StartError::Tls(error.to_string()))
}

fn open_log(config: &KeyserverConfig, counters: &Counters) -> Result<Option<AccessLog>, StartError> {
    let open = |path: &PathBuf| {
        AccessLog::open(path, Arc::clone(&counters.access_log))
            .map_err(|error| StartError::AccessLog(path.clone(), error))
    };
    config.access_log.as_ref().map(open).transpose()
}

/// Accepts connections until the keyserver drains, and waits for their end.
async fn serve(
    listener: TcpListener,
    shared: Arc<KeyserverState>,
    tls: Arc<ArcSwap<MutualServer>>,
    mut stage: watch::Receiver<Stage>,
) {
    let (draining, drained) = watch::channel(false);
    let places = HandshakePlaces::new(limits::KEYSERVER_HANDSHAKES, limits::KEYSERVER_HANDSHAKES_PER_NETWORK);
    let mut connections = JoinSet::new();
    let accepting = async {
        let listener = match tokio::net::TcpListener::from_std(listener) {
            Ok(listener) => listener,
            Err(error) => return tracing::error!("cannot accept connections: {error}"),
        };
        loop {
            tokio::select! {
                accepted = listener.accept() => match accepted {
                    Ok((socket, peer)) => {
                        let place = places.enter(peer.ip());
                        let (shared, rules, drained) = (Arc::clone(&shared), Arc::clone(&tls), drained.clone());
                        connections.spawn_local(async move {
                            let by = rules.load_full();
                            if let Some((stream, name)) = handshake(&shared, &by, socket, peer, place).await {
                                let until = MutualServer::certificate_end(&stream);
                                run(shared, stream, name, peer, (drained, Admission { by, rules, until })).await;
                            }
                        });
                    }
                    Err(error) => {
                        tracing::warn!("cannot accept a connection: {error}");
                        sleep(Duration::from_millis(limits::ADMIN_ACCEPT_RETRY_MILLISECONDS)).await;
                    }
                },
                Some(_) = connections.join_next() => {}
            }
        }
    };
    tokio::select! {
        () = accepting => {}
        _ = stage.wait_for(|stage| *stage != Stage::Serving) => {}
    }
    draining.send_replace(true);
    let Stage::Draining(deadline) = *stage.borrow_and_update() else { return };
    let ended = async { while connections.join_next().await.is_some() {} };
    tokio::select! {
        () = ended => {}
        () = tokio::time::sleep_until(deadline.into()) => {}
        _ = stage.wait_for(|stage| *stage == Stage::Stopped) => {}
    }
}

/// The TLS handshake, for as long as it has its place; `None` if it failed, which is counted.
async fn handshake(
    shared: &KeyserverState,
    tls: &MutualServer,
    socket: TcpStream,
    peer: SocketAddr,
    mut place: HandshakePlace,
) -> Option<(penstock_tls::OutboundStream, String)> {
    // Answers are one packet each: nothing to gain from waiting.
    drop(socket.set_nodelay(true));
    let deadline = Duration::from_secs(limits::KEYSERVER_HANDSHAKE_SECONDS);
    let ended = tokio::select! {
        biased;
        ended = timeout(deadline, tls.accept(socket)) => ended,
        () = place.lost() => {
            shared.counters.network_full.fetch_add(1, Relaxed);
            tracing::debug!("{peer} is closed: its network has the most handshakes, and a newer one needs a place");
            return None;
        }
    };
    let reason = match ended {
        Ok(Ok(accepted)) => return Some(accepted),
        Ok(Err(error)) => error.to_string(),
        Err(_) => "it took too long".to_owned(),
    };
    shared.counters.handshake_failures.fetch_add(1, Relaxed);
    tracing::debug!("handshake of {peer} failed: {reason}");
    None
}

async fn run(
    shared: Arc<KeyserverState>,
    stream: penstock_tls::OutboundStream,
    name: String,
    peer: SocketAddr,
    (draining, admission): (watch::Receiver<bool>, Admission),
) {
    let client = shared.clients.load().get(&name).cloned();
    let Some(client) = client else {
        shared.counters.strangers.fetch_add(1, Relaxed);
        tracing::debug!("{peer} has a certificate of `{}`, which is no client", name.escape_debug());
        return;
    };
    let Some(_place) = client.enter_connection() else {
        shared.counters.refused.fetch_add(1, Relaxed);
        tracing::debug!("{name} at {peer} has too many connections");
        return;
    };
    shared.counters.connections.fetch_add(1, Relaxed);
    // Operations above its limit are answered as well, and pings.
    let answers_max = client.operations_max().saturating_mul(2).max(64);
    Connection { shared, name, peer, draining, admission }.serve(stream, answers_max).await;
}
