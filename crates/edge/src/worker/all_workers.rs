//! What all workers share.

use std::collections::hash_map::RandomState;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use penstock_config::{Config, HttpOrigin, Origin, limits};
use penstock_content::{CompressedManifests, IsRevoked, Networks};
use penstock_egress::PIPES_PER_WORKER;
use penstock_fleet::Fleet;
use penstock_http3::IdKey;
use penstock_origin::io_threads::{IoLimits, IoThreads};
use penstock_sys::CLOSING_SOCKETS_MAX;
use rustix::process::{Resource, getrlimit};

use crate::clients::{ConnectionCount, RecentClients};
use crate::metrics::GivenUp;
use crate::tls::TlsState;
use crate::worker::collect::Collector;

/// State that all workers share.
#[derive(Clone)]
pub(crate) struct AllWorkers {
    pub(crate) io: Arc<IoThreads>,
    pub(crate) given_up: Arc<GivenUp>,
    pub(crate) compressed: Arc<CompressedManifests>,
    pub(crate) recent_clients: Arc<RecentClients<RandomState>>,
    pub(crate) forwarded: Arc<Networks>,
    pub(crate) waits: Arc<Networks>,
    pub(crate) fetches: Arc<Networks>,
    pub(crate) connected: Arc<Networks>,
    pub(crate) connections: Arc<ConnectionCount>,
    pub(crate) workers: usize,
    pub(crate) tls_state: TlsState,
    pub(crate) collector: Arc<Collector>,
    /// Origin of the workers' monotonic time.
    pub(crate) start: Instant,
    /// For connection ids of QUIC.
    pub(crate) id_key: IdKey,
    /// Revoked ids of tokens; `None` without a fleet.
    pub(crate) is_revoked: Option<IsRevoked>,
}

impl AllWorkers {
    /// Empty state, and the I/O threads.
    ///
    /// # Errors
    /// The system has no space for the threads.
    pub(crate) fn new(config: &Config, tls_state: &TlsState, collector: &Arc<Collector>) -> io::Result<Self> {
        let workers = config.workers.get();
        let io = IoThreads::start(IoLimits {
            threads: limits::IO_THREADS,
            queued: limits::IO_QUEUE,
            queued_later: limits::READ_AHEAD_QUEUE,
        })?;
        Ok(Self {
            io: Arc::new(io),
            given_up: Arc::clone(collector.metrics().given_up()),
            compressed: Arc::default(),
            recent_clients: Arc::new(RecentClients::new(
                limits::RECENT_CLIENTS,
                Duration::from_secs(limits::RECENT_CLIENT_SECONDS),
                RandomState::new(),
                Instant::now(),
            )),
            forwarded: Arc::default(),
            waits: Arc::default(),
            fetches: Arc::default(),
            connected: Arc::default(),
            connections: Arc::new(ConnectionCount::new(
                workers,
                getrlimit(Resource::Nofile).current,
                descriptors_of_others(config),
            )),
            workers,
            tls_state: tls_state.clone(),
            collector: Arc::clone(collector),
            start: Instant::now(),
            id_key: IdKey::random(),
            is_revoked: tls_state.fleet.as_deref().map(is_revoked),
        })
    }
}

/// What the edges of a fleet have revoked.
fn is_revoked(fleet: &Fleet) -> IsRevoked {
    let revoked = fleet.revoked();
    Arc::new(move |id: &str| revoked.contains(id))
}

/// Descriptors of the pipes of one worker, which a site that relays opens.
fn pipe_descriptors(config: &Config) -> usize {
    if config.relays() { 2 * PIPES_PER_WORKER } else { 0 }
}

/// Descriptors that are not connections of clients: open files, pipes, sockets that wait to be closed, and connections to
/// origins.
pub fn descriptors_of_others(config: &Config) -> usize {
    let of_worker = config.limits.open_files + pipe_descriptors(config) + CLOSING_SOCKETS_MAX;
    let mut origins: Vec<&HttpOrigin> = Vec::new();
    for settings in config.settings() {
        // Routes share the origin of their site.
        if let Origin::Http(http) = &settings.origin
            && origins.last() != Some(&&**http)
        {
            origins.push(http);
        }
    }
    let connections = origins.iter().map(|http| http.connections.saturating_mul(http.targets.len()));
    connections.fold(of_worker.saturating_mul(config.workers.get()), usize::saturating_add)
}
