//! Settings of the workers, prepared from a configuration.
mod pending_change;
mod start_error;

pub(crate) use pending_change::{AppliedEverywhere, PendingChange};
pub use start_error::StartError;

use std::hash::RandomState;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use penstock_access_log::Sink;
use penstock_config::{Acme, Config, CountedMetrics, Limits, SessionCache, StrikePlace, limits};
use penstock_content::{GivenTier, Peers, SiteTable, Store};
use penstock_egress::{KernelPlan, OutletLimits};
use penstock_http::HeadLimits;
use penstock_http2::Http2Limits;
use penstock_tls::early_data::EarlyDataPolicy;
use penstock_tls::session_store::{SessionStorage, SessionStore};
use penstock_tls::strikes::{StrikeLimits, StrikeRegister};
use penstock_tls::tickets::TicketKeyring;
use penstock_tls::{Acceptor, ChaCha20Switch, DefaultFor, OfferedCertificate};

use crate::access_log::Logging;
use crate::metrics::{Metrics, RateId, SiteId};
use crate::qlog::Qlog;
use crate::tls::{CertificateSet, ChallengeAnswers, RemoteKeys, TlsState};

/// One generation of settings. A reload makes a new one; connections use it from their next request on.
pub(crate) struct Settings {
    pub(crate) sites: SiteTable,
    /// What the sites are in the counters, by number.
    pub(crate) counted_sites: Vec<SiteId>,
    /// Bytes per second that renditions need, and what they are in the counters.
    pub(crate) counted_rates: Vec<(u64, RateId)>,
    /// What is counted, and how.
    pub(crate) metrics: CountedMetrics,
    /// The cache; `None` if no site has needed one since the start.
    pub(crate) store: Option<Arc<Store>>,
    /// Orders of certificates, whose challenges are answered; `None` if there are none.
    pub(crate) orders: Option<Arc<Acme>>,
    /// `None` if no listener uses TLS.
    pub(crate) acceptor: Option<Arc<Acceptor>>,
    /// The cluster; `None` if this server shares no objects with others.
    pub(crate) cluster: Option<ClusterSettings>,
    /// The certificates at the start, until a thread follows their files.
    pub(crate) certificate_set: Mutex<Option<CertificateSet>>,
    /// Private keys that are elsewhere; `None` if no certificate has one.
    pub(crate) remote_keys: Arc<RemoteKeys>,
    pub(crate) limits: Limits,
    pub(crate) head: HeadLimits,
    pub(crate) http2: Arc<Http2Limits>,
    pub(crate) outlet: OutletLimits,
    pub(crate) kernel: KernelPlan,
    /// Bytes of early data that are answered before the handshake is finished.
    pub(crate) early_data_bytes: usize,
    /// Detects replays of early data.
    strikes: Option<Arc<StrikeRegister<RandomState>>>,
    pub(crate) access_log: Option<Logging>,
    /// Logs of QUIC connections; `None` if no client is chosen.
    pub(crate) qlog: Option<Arc<Qlog>>,
}

/// The cluster of a generation of settings.
pub(crate) struct ClusterSettings {
    pub(crate) peers: Arc<Peers>,
    /// For the listener of other nodes; `None` without TLS.
    pub(crate) acceptor: Option<Arc<Acceptor>>,
}

/// What a generation of settings begins with.
pub(crate) enum Before<'s> {
    /// The first one of a server.
    Nothing,
    /// The first one of a server that succeeds another process, which gives its memory tier if it can.
    Process(Option<GivenTier>),
    /// A reload.
    Generation(&'s Settings),
}

impl<'s> Before<'s> {
    fn generation(&self) -> Option<&'s Settings> {
        match self {
            Self::Generation(settings) => Some(settings),
            Self::Nothing | Self::Process(_) => None,
        }
    }
}

impl Settings {
    /// Prepares a configuration. `tickets` outlive it, so that a reload does not end resumption. Files and directories that
    /// a generation `before` has open are used again.
    ///
    /// # Errors
    /// See [`StartError`].
    pub(crate) fn prepare(
        config: &Config,
        before: Before<'_>,
        tickets: &Arc<TicketKeyring>,
        tls_state: &TlsState,
        access_log: Option<Sink>,
        kernel: KernelPlan,
        chacha20: Arc<ChaCha20Switch>,
    ) -> Result<Self, StartError> {
        let previous = before.generation();
        let strikes = strikes(config, previous);
        let wants_tls = config.listeners.iter().any(|listener| listener.tls);
        let known = previous.map(|settings| &*settings.remote_keys);
        let remote_keys = RemoteKeys::start(&config.tls, known).map_err(StartError::RemoteKeys)?;
        let mut certificate_set =
            CertificateSet::new(&config.tls, &remote_keys).map_err(StartError::SelfSigned)?;
        let orders = config.tls.acme.clone().map(Arc::new);
        let store = store(config, before)?;
        if let (Some(store), Some(cluster)) = (&store, &config.cluster) {
            store.limit_copies(cluster.copies_percent);
        }
        let known = previous.map(|settings| &settings.sites);
        let peers = config.cluster.as_ref().map(|cluster| {
            let known = previous.and_then(|settings| settings.cluster.as_ref());
            Peers::open(cluster, known.map(|known| &known.peers), Instant::now())
        });
        let sites = SiteTable::open(&config.sites, known, store.as_ref(), peers.as_ref());
        let switch = Arc::clone(&chacha20);
        let acceptor = if wants_tls {
            let (certificates, strikes) = (certificate_set.offered(), strikes.as_ref());
            let acceptor = acceptor(config, certificates, tickets, tls_state, chacha20, strikes)?;
            if let Some(orders) = &orders {
                let answers = Arc::new(ChallengeAnswers(Arc::clone(orders)));
                acceptor.answer_challenges(answers).map_err(StartError::Tls)?;
            }
            Some(Arc::new(acceptor))
        } else {
            None
        };
        let sites = sites.map_err(StartError::Site)?;
        let access_log = access_log.zip(config.log.access.as_ref());
        let access_log = access_log.map(|(sink, log)| Logging::new(sink, log, sites.names()));
        let known = previous.and_then(|settings| settings.qlog.as_ref());
        let qlog = config.log.qlog.as_ref().map(|qlog| Qlog::start(qlog, known));
        Ok(Self {
            sites,
            counted_sites: Vec::new(),
            counted_rates: Vec::new(),
            metrics: config.metrics.clone(),
            store,
            orders,
            acceptor,
            cluster: cluster(config, peers, tls_state, switch)?,
            certificate_set: Mutex::new(Some(certificate_set)),
            remote_keys: Arc::new(remote_keys),
            limits: config.limits,
            head: HeadLimits {
                head_bytes: config.limits.head_bytes,
                fields: config.limits.head_fields,
                target_bytes: config.limits.target_bytes,
            },
            http2: Arc::new(http2(&config.limits)),
            outlet: OutletLimits {
                batch_bytes_min: limits::BATCH_BYTES_MIN,
                batch_bytes_max: limits::BATCH_BYTES_MAX,
                plain_bytes_max: limits::PLAIN_BYTES_MAX,
                small_record_bytes: limits::SMALL_RECORD_BYTES,
                small_record_phase_bytes: limits::SMALL_RECORD_PHASE_BYTES,
                idle: Duration::from_secs(limits::OUTLET_IDLE_SECONDS),
                records_per_key: limits::RECORDS_PER_KEY,
            },
            kernel,
            early_data_bytes: config.tls.early_data.map_or(0, |early| early.max_bytes),
            strikes,
            access_log,
            qlog: qlog.transpose().map_err(StartError::Thread)?,
        })
    }

    /// The same, with the sites counted here.
    pub(crate) fn counted_in(mut self, metrics: &Metrics) -> Self {
        let rates = self.metrics.rates.iter();
        self.counted_rates = rates.filter_map(|rate| Some((*rate, metrics.rate(*rate)?))).collect();
        self.counted_sites = self.sites.names().map(|name| metrics.site(name)).collect();
        self
    }
}

/// Bounds of a connection of HTTP/2.
fn http2(configured: &Limits) -> Http2Limits {
    let bounded = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
    Http2Limits {
        streams: limits::HTTP2_STREAMS,
        stream_window: limits::HTTP2_STREAM_WINDOW_BYTES,
        connection_window: limits::HTTP2_CONNECTION_WINDOW_BYTES,
        // RFC 9113 §6.5.2 counts 32 bytes for each field beside name and value.
        header_list_bytes: bounded(configured.head_bytes + 32 * configured.head_fields),
        fields: bounded(configured.head_fields),
        target_bytes: bounded(configured.target_bytes),
        ..Http2Limits::default()
    }
}

/// The cache, opened once. It outlives reloads.
fn store(config: &Config, before: Before<'_>) -> Result<Option<Arc<Store>>, StartError> {
    if let Some(store) = before.generation().and_then(|settings| settings.store.as_ref()) {
        if let Some(successor) = store.successor() {
            return Ok(Some(successor));
        }
        if !store.is_configured_as(&config.cache) {
            tracing::warn!("the `cache` section has changed; that takes effect with the next start");
        }
        return Ok(Some(Arc::clone(store)));
    }
    if !config.uses_cache() {
        return Ok(None);
    }
    let opened = match before {
        Before::Process(Some(given)) => Store::open_given(&config.cache, given),
        Before::Process(None) | Before::Nothing | Before::Generation(_) => Store::open(&config.cache),
    };
    opened.map(Some).map_err(StartError::Cache)
}

/// The strike register. It outlives reloads; a new one treats early data of tickets from before its start as replays.
fn strikes(config: &Config, previous: Option<&Settings>) -> Option<Arc<StrikeRegister<RandomState>>> {
    config.tls.early_data.filter(|early| early.anti_replay)?;
    let kept = previous.and_then(|settings| settings.strikes.clone());
    Some(kept.unwrap_or_else(|| {
        let limits = StrikeLimits {
            strikes: limits::EARLY_DATA_STRIKES,
            slice_seconds: limits::EARLY_DATA_SLICE_SECONDS,
            shards: limits::EARLY_DATA_SHARDS,
        };
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Arc::new(StrikeRegister::new(limits, RandomState::new(), now.as_secs()))
    }))
}

fn acceptor(
    config: &Config,
    certificates: Vec<OfferedCertificate>,
    tickets: &Arc<TicketKeyring>,
    tls_state: &TlsState,
    chacha20: Arc<ChaCha20Switch>,
    strikes: Option<&Arc<StrikeRegister<RandomState>>>,
) -> Result<Acceptor, StartError> {
    let key_log = key_log(config)?;
    let own = Arc::clone(&tls_state.sessions) as Arc<dyn SessionStore>;
    let session_storage = match (config.tls.session_cache, &tls_state.fleet) {
        (SessionCache::None, _) => None,
        (SessionCache::Fleet, Some(fleet)) => {
            Some(SessionStorage { store: fleet.sessions(own), lookup_deadline: fleet.deadline() })
        }
        (SessionCache::Internal, _) | (SessionCache::Fleet, None) => Some(SessionStorage {
            store: own,
            lookup_deadline: Duration::from_millis(limits::SESSION_LOOKUP_DEADLINE_MILLISECONDS),
        }),
    };
    Acceptor::new(penstock_tls::AcceptorSettings {
        certificates,
        prepared_certificates: limits::PREPARED_CERTIFICATES,
        oldest: config.tls.oldest,
        legacy: config.tls.legacy,
        newest: config.tls.newest,
        groups: config.tls.groups.clone(),
        asks_for_best_group: config.tls.asks_for_best_group,
        ja4: config.log.ja4 && config.log.access.is_some() || config.metrics.clients.needs_ja4(),
        suites: config.tls.suites.clone(),
        chacha20,
        tickets: Some(Arc::clone(tickets)),
        session_storage,
        early_data: config.tls.early_data.map(|early| early_data(early.register, strikes, tls_state)),
        compressions: config.tls.certificate_compression.clone(),
        compressed_bytes_max: limits::COMPRESSED_CERTIFICATE_BYTES,
        client_hello_bytes_max: limits::CLIENT_HELLO_BYTES,
        session_lifetime: config.tls.tickets.policy.lifetime(),
        staples: Arc::clone(&tls_state.staples),
        client_certificates: config.tls.client_certificates.clone(),
        key_log,
    })
    .map_err(StartError::Tls)
}

/// The cluster with the acceptor of its listener. Nothing is resumed there: connections are kept, and a node has to show its
/// certificate on each.
fn cluster(
    config: &Config,
    peers: Option<Arc<Peers>>,
    tls_state: &TlsState,
    chacha20: Arc<ChaCha20Switch>,
) -> Result<Option<ClusterSettings>, StartError> {
    let Some(peers) = peers else { return Ok(None) };
    let tls = config.cluster.as_ref().and_then(|cluster| cluster.tls.as_ref());
    let acceptor = tls.map(|tls| {
        Acceptor::new(penstock_tls::AcceptorSettings {
            certificates: vec![OfferedCertificate::loaded(&tls.certificate, DefaultFor::Unknown)],
            prepared_certificates: limits::PREPARED_CERTIFICATES,
            oldest: config.tls.oldest,
            legacy: None,
            newest: config.tls.newest,
            groups: config.tls.groups.clone(),
            asks_for_best_group: false,
            ja4: false,
            suites: config.tls.suites.clone(),
            chacha20,
            tickets: None,
            session_storage: None,
            early_data: None,
            compressions: Vec::new(),
            compressed_bytes_max: limits::COMPRESSED_CERTIFICATE_BYTES,
            client_hello_bytes_max: limits::CLIENT_HELLO_BYTES,
            session_lifetime: config.tls.tickets.policy.lifetime(),
            staples: Arc::clone(&tls_state.staples),
            client_certificates: Some(tls.clients.clone()),
            key_log: None,
        })
    });
    let acceptor = acceptor.transpose().map_err(StartError::Tls)?.map(Arc::new);
    Ok(Some(ClusterSettings { peers, acceptor }))
}

fn key_log(config: &Config) -> Result<Option<Arc<penstock_tls::KeyLog>>, StartError> {
    let Some(path) = &config.tls.key_log else { return Ok(None) };
    let opened = penstock_tls::KeyLog::open(path);
    let opened = opened.map_err(|source| StartError::KeyLog { path: path.clone(), source })?;
    Ok(Some(Arc::new(opened)))
}

fn early_data(
    place: StrikePlace,
    strikes: Option<&Arc<StrikeRegister<RandomState>>>,
    tls_state: &TlsState,
) -> EarlyDataPolicy {
    match (place, strikes, &tls_state.fleet) {
        (_, None, _) => EarlyDataPolicy::AcceptReplays,
        (StrikePlace::Fleet, Some(_), Some(fleet)) => EarlyDataPolicy::Shared(fleet.strikes()),
        (_, Some(strikes), _) => EarlyDataPolicy::Register(Arc::clone(strikes)),
    }
}

const _: () = assert!(
    limits::HEAD_FIELDS_MAX <= HeadLimits::FIELDS_CEILING as u64,
    "the parser's table holds them all"
);
