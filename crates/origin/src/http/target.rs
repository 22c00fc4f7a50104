//! An origin: the servers that have the same content, what is known of each, and the bounds of asking them.

use std::fmt;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use penstock_http::OriginUrl;
use penstock_tls::{Authorities, Outbound};
use tokio::sync::Semaphore;

use super::OriginError;
use super::balance::{Balance, Change, HealthLimits, Tried};
use super::checks::Checks;
use super::s3::{S3Bucket, Signer};

/// The bounds of talking to origins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OriginLimits {
    /// From the first packet to a connection that requests can be sent on, TLS included.
    pub connect: Duration,
    /// From the request, or the last piece of its body, to the head of the response.
    pub first_byte: Duration,
    /// Between two pieces of a body.
    pub between_bytes: Duration,
    /// Bytes of a response head.
    pub head_bytes: usize,
    /// Bytes that one read of a connection may bring; more than a head may have.
    pub read_bytes: usize,
    /// Fields of a response head.
    pub head_fields: usize,
    /// Idle connections that one worker keeps to one target.
    pub idle_connections: usize,
    /// Connections to one target, of all workers together.
    pub connections: usize,
    /// Requests that wait for one of them, of all workers together.
    pub waiting: usize,
    /// How often a request that failed is sent once more, if that is safe.
    pub retries: u32,
    /// How many redirections are followed; of zero they are answers like others.
    pub redirects: u32,
    /// TLS sessions kept of one target.
    pub sessions: usize,
    /// When targets are out, and in again.
    pub health: HealthLimits,
}

/// What an origin is made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OriginSettings {
    /// Its servers with their weights; at least one, at most [`Tried::TARGETS_MAX`].
    pub targets: Vec<(OriginUrl, u32)>,
    /// The name it is asked by: in Host, and in TLS. Without one each target is asked by its own.
    pub host: Option<String>,
    /// Whose signatures on its certificates are believed; needed for `https`.
    pub authorities: Option<Authorities>,
    /// The bucket that it is, if it is one of an S3-compatible store; `targets` then is its one server.
    pub s3: Option<S3Bucket>,
    /// How its targets are checked; `None` if only requests tell.
    pub checks: Option<Checks>,
    /// Its bounds.
    pub limits: OriginLimits,
}

/// Servers that have the same content. Shared by all workers.
pub struct HttpOrigin {
    pub(super) id: u64,
    pub(super) settings: OriginSettings,
    targets: Vec<Target>,
    signer: Option<Signer>,
    balance: Mutex<Balance>,
    /// When each target is to be checked next.
    due: Mutex<Vec<Instant>>,
}

/// One server of an origin.
pub(super) struct Target {
    pub(super) url: OriginUrl,
    /// How it is spoken to; `None` without TLS, or if TLS cannot be set up for that name.
    pub(super) tls: Option<Outbound>,
    /// One for each connection that may still be opened.
    pub(super) free: Arc<Semaphore>,
    pub(super) waiting: AtomicUsize,
    /// Why it failed last, for the log.
    fault: Mutex<String>,
}

/// What is to be seen of a target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TargetSeen {
    /// Its URL.
    pub url: String,
    /// Whether it is in.
    pub up: bool,
    /// Open connections.
    pub connections: usize,
    /// Requests that wait for one.
    pub waiting: usize,
}

impl HttpOrigin {
    /// An origin whose targets are all in.
    pub fn new(settings: OriginSettings) -> Arc<Self> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let id = NEXT.fetch_add(1, Ordering::Relaxed);
        let weights = settings.targets.iter().map(|(_, weight)| *weight);
        let balance = Mutex::new(Balance::new(weights, settings.limits.health));
        let targets = settings.targets.iter().map(|(url, _)| Target::new(url, &settings)).collect();
        let signer = settings.s3.as_ref().and_then(Signer::new);
        let due = Mutex::new(vec![Instant::now(); settings.targets.len()]);
        Arc::new(Self { id, settings, targets, signer, balance, due })
    }

    /// Whether it was made of these very settings.
    pub fn is_of(&self, settings: &OriginSettings) -> bool {
        self.settings == *settings
    }

    /// Its targets as they are now.
    pub fn seen(&self) -> Vec<TargetSeen> {
        let balance = self.balance();
        let connections = self.settings.limits.connections;
        let seen = |(place, target): (usize, &Target)| TargetSeen {
            url: target.url.to_string(),
            up: balance.is_up(place),
            connections: connections.saturating_sub(target.free.available_permits()),
            waiting: target.waiting.load(Ordering::Relaxed),
        };
        self.targets.iter().enumerate().map(seen).collect()
    }

    pub(super) fn limits(&self) -> &OriginLimits {
        &self.settings.limits
    }

    /// What signs requests to it; `None` where none are signed.
    pub(super) fn signer(&self) -> Option<&Signer> {
        self.signer.as_ref()
    }

    pub(super) fn target(&self, place: usize) -> Option<&Target> {
        self.targets.get(place)
    }

    /// The value of Host for a target.
    pub(super) fn host<'a>(&'a self, target: &'a Target) -> &'a str {
        self.settings.host.as_deref().unwrap_or_else(|| target.url.authority())
    }

    /// Whether this is one of its servers.
    pub(super) fn has(&self, url: &OriginUrl) -> bool {
        self.targets.iter().any(|target| is_same_server(&target.url, url))
    }

    pub(super) fn choose(&self, now: Instant, tried: Tried) -> Option<usize> {
        self.balance().choose(now, tried)
    }

    /// A request has ended; the error says why it failed.
    pub(super) fn report(&self, place: usize, error: Option<OriginError>) {
        if error.is_some_and(|error| !error.is_of_target()) {
            return;
        }
        let change = self.balance().report(place, error.is_none(), Instant::now());
        self.tell(place, change);
    }

    /// The target answered that it cannot answer now.
    pub(super) fn report_status(&self, place: usize, status: u16) {
        if let Some(target) = self.target(place) {
            target.set_fault(format!("it answers {status}"));
        }
        let change = self.balance().report(place, false, Instant::now());
        self.tell(place, change);
    }

    /// A check has ended; with what was wrong.
    pub(super) fn report_check(&self, place: usize, wrong: Option<String>) {
        let good = wrong.is_none();
        if let Some((target, wrong)) = self.target(place).zip(wrong) {
            target.set_fault(wrong);
        }
        let change = self.balance().report_check(place, good, Instant::now());
        self.tell(place, change);
    }

    /// The targets that are to be checked now; whoever is told has to do it.
    pub(super) fn due_checks(&self, now: Instant, interval: Duration) -> Vec<usize> {
        let mut due = Vec::new();
        for (place, next) in lock(&self.due).iter_mut().enumerate().filter(|(_, next)| **next <= now) {
            *next = now + interval;
            due.push(place);
        }
        due
    }

    /// Says once what has become of a target.
    fn tell(&self, place: usize, change: Option<Change>) {
        let Some((target, change)) = self.target(place).zip(change) else { return };
        match change {
            Change::Up => tracing::info!("origin {} answers again", target.url),
            Change::Down => tracing::warn!("origin {} is out: {}", target.url, *lock(&target.fault)),
        }
    }

    fn balance(&self) -> MutexGuard<'_, Balance> {
        lock(&self.balance)
    }
}

impl fmt::Debug for HttpOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpOrigin").field("settings", &self.settings).finish_non_exhaustive()
    }
}

impl Target {
    fn new(url: &OriginUrl, settings: &OriginSettings) -> Self {
        // By name the certificate is asked for and checked, without the port that Host may have.
        let name = match &settings.host {
            Some(host) => host.rsplit_once(':').map_or(host.as_str(), |(name, _)| name),
            None => url.host(),
        };
        let authorities = settings.authorities.as_ref().filter(|_| url.is_secure());
        let tls = authorities
            .and_then(|authorities| Outbound::new(authorities, name, settings.limits.sessions).ok());
        Self {
            url: url.clone(),
            tls,
            free: Arc::new(Semaphore::new(settings.limits.connections)),
            waiting: AtomicUsize::new(0),
            fault: Mutex::default(),
        }
    }

    /// Why it failed last.
    pub(super) fn fault(&self) -> String {
        lock(&self.fault).clone()
    }

    /// A server that a redirection leads to.
    pub(super) fn elsewhere(url: &OriginUrl, settings: &OriginSettings) -> Self {
        let known = settings.targets.iter().any(|(target, _)| is_same_server(target, url));
        let host = settings.host.clone().filter(|_| known);
        Self::new(url, &OriginSettings { host, ..settings.clone() })
    }

    pub(super) fn set_fault(&self, fault: String) {
        *lock(&self.fault) = fault;
    }
}

fn is_same_server(one: &OriginUrl, other: &OriginUrl) -> bool {
    one.at_root() == other.at_root()
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
