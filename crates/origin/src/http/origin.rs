//! An origin: servers with the same content, and the health of each.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use hyper::header::HeaderMap;
use penstock_http::OriginUrl;
use penstock_metrics::{ANSWERED, OriginRequestsReading};
use penstock_sys::lock::Unpoisoned;

use super::balance::{Balance, HealthChange, ServerOrder, TriedServers};
use super::error::{OriginError, OriginFault};
use super::fetch::Fetch;
use super::lookup::NameLookups;
use super::s3::Signer;
use super::server::{Server, ServerId, SiteCounters};
use super::settings::{BalanceBy, OriginLimits, OriginSettings};

/// Servers with the same content. Shared by all workers.
pub struct HttpOrigin {
    id: u64,
    pub(super) settings: OriginSettings,
    servers: Vec<Server>,
    /// Lookups of each of the hosts beside them to which redirections are followed.
    redirect_lookups: Vec<Arc<NameLookups>>,
    signer: Option<Signer>,
    balance: Mutex<Balance>,
    /// The counters of each site that asks it, by name.
    sites: Mutex<BTreeMap<String, SiteCounters>>,
    /// When each server is checked next.
    due: Mutex<Vec<Instant>>,
}

/// State of a server, for metrics.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerStatus {
    /// Its URL.
    pub url: String,
    /// Whether it is in.
    pub up: bool,
    /// Open connections.
    pub connections: usize,
    /// Requests that wait for one.
    pub waiting: usize,
    /// Requests that it has answered, other than with a status that says that it cannot.
    pub answered: u64,
    /// Requests that it has failed.
    pub failed: u64,
    /// Time from a request to the head of its response, of the answered ones added up.
    pub time: Duration,
    /// Why it failed last; empty if it did not.
    pub fault: String,
}

impl HttpOrigin {
    /// An origin whose servers are all in.
    pub fn new(settings: OriginSettings) -> Arc<Self> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let id = NEXT.fetch_add(1, Ordering::Relaxed);
        let shares = settings.servers.iter().map(|server| (server.weight, server.is_backup));
        let balance = Mutex::new(Balance::new(shares, settings.limits.health));
        let servers = settings.servers.iter().map(|server| Server::new(&server.url, &settings)).collect();
        let lookups = |_: &String| Arc::new(NameLookups::new(settings.limits.lookups, &settings.resolvers));
        let redirect_lookups = settings.redirect_hosts.iter().map(lookups).collect();
        let signer = settings.s3.as_ref().and_then(Signer::new);
        let due = Mutex::new(vec![Instant::now(); settings.servers.len()]);
        let sites = Mutex::default();
        Arc::new(Self { id, settings, servers, redirect_lookups, signer, balance, sites, due })
    }

    /// Whether it was made of these settings.
    pub fn is_of(&self, settings: &OriginSettings) -> bool {
        self.settings == *settings
    }

    /// Whether the query of a target is never sent, so that it must not be part of a key: true of buckets.
    pub fn ignores_query(&self) -> bool {
        self.settings.s3.is_some()
    }

    /// The counters of a site, which a request to this origin names. They stay as long as the site has them: a reload that changes
    /// neither keeps them.
    pub fn counters_of(&self, site: &str) -> SiteCounters {
        let mut sites = self.sites.lock().unpoisoned();
        sites.retain(|name, counters| name == site || counters.is_shared());
        let new = || SiteCounters::new(self.servers.len());
        sites.entry(site.to_owned()).or_insert_with(new).clone()
    }

    /// The present state of its servers.
    pub fn server_status(&self) -> Vec<ServerStatus> {
        let balance = self.balance();
        let connections = self.settings.limits.connections;
        let status = |(index, server): (usize, &Server)| {
            let (answered, failed, time) = server.counters.totals();
            ServerStatus {
                url: server.url.to_string(),
                up: balance.is_up(index),
                connections: connections.saturating_sub(server.free.available_permits()),
                waiting: server.waiting.load(Ordering::Relaxed),
                answered,
                failed,
                time,
                fault: server.fault(),
            }
        };
        self.servers.iter().enumerate().map(status).collect()
    }

    /// Whether one of its servers is in.
    pub fn is_up(&self) -> bool {
        let balance = self.balance();
        (0..self.servers.len()).any(|index| balance.is_up(index))
    }

    /// Takes a server out at once, for this reason: it is known not to answer.
    pub fn take_out(&self, index: usize, fault: &str) {
        if let Some(server) = self.server(index) {
            server.set_fault(fault.to_owned());
        }
        let change = self.balance().take_out(index, Instant::now());
        self.log_change(index, change);
    }

    /// Why a server failed last; empty if it never did.
    pub fn last_fault(&self, index: usize) -> String {
        self.server(index).map(Server::fault).unwrap_or_default()
    }

    /// Takes the field that the last health check of a server brought; empty if there was none, or it was taken.
    pub fn take_note(&self, index: usize) -> String {
        self.server(index).map(Server::take_note).unwrap_or_default()
    }

    /// The longest time from a request to the head of its response or an error, with all attempts.
    pub fn longest_wait(&self) -> Duration {
        let limits = self.limits();
        // A connection may be waited for, then opened.
        (2 * limits.connect + limits.first_byte) * (1 + limits.retries + limits.redirects)
    }

    pub(super) fn limits(&self) -> &OriginLimits {
        &self.settings.limits
    }

    /// Signs requests; `None` unless the origin is a bucket.
    pub(super) fn signer(&self) -> Option<&Signer> {
        self.signer.as_ref()
    }

    /// The server at a place among those of the origin.
    pub fn server_id(&self, index: usize) -> ServerId {
        ServerId { origin: self.id, index }
    }

    pub(super) fn server(&self, index: usize) -> Option<&Server> {
        self.servers.get(index)
    }

    /// The value of Host for a server.
    pub(super) fn host<'a>(&'a self, server: &'a Server) -> &'a str {
        self.settings.host.as_deref().unwrap_or_else(|| server.url.authority())
    }

    /// Whether this is one of its servers.
    pub(super) fn has(&self, url: &OriginUrl) -> bool {
        self.servers.iter().any(|server| server.url.is_same_server(url))
    }

    /// Whether redirections to this server are followed: to one of its own, to the same host by TLS where both ports are
    /// those of their schemes, and to a listed one. Another port of a host is another service, which may trust the host.
    pub(super) fn follows_to(&self, url: &OriginUrl) -> bool {
        let is_upgrade = |server: &Server| {
            let own = &server.url;
            let ports = (own.is_secure(), own.port(), url.is_secure(), url.port());
            let is_socket = own.socket().is_some();
            !is_socket && ports == (false, 80, true, 443) && own.host().eq_ignore_ascii_case(url.host())
        };
        self.has(url) || self.servers.iter().any(is_upgrade) || self.listed_lookups(url).is_some()
    }

    /// Removes the fields of a response that the configuration hides.
    pub(super) fn hide(&self, fields: &mut HeaderMap) {
        for name in &self.settings.hidden_fields {
            fields.remove(name);
        }
    }

    /// The lookups of the listed host that a URL names.
    fn listed_lookups(&self, url: &OriginUrl) -> Option<&Arc<NameLookups>> {
        let mut listed = self.settings.redirect_hosts.iter().zip(&self.redirect_lookups);
        let is_named = |entry: &str| match entry.rsplit_once(':') {
            Some((host, port)) => host.eq_ignore_ascii_case(url.host()) && port.parse() == Ok(url.port()),
            None => entry.eq_ignore_ascii_case(url.host()),
        };
        listed.find(|(entry, _)| is_named(entry)).map(|(_, lookups)| lookups)
    }

    /// The lookups of a host to which redirections are followed.
    pub(super) fn lookups_of(&self, url: &OriginUrl) -> Option<&Arc<NameLookups>> {
        let own = self.servers.iter().find(|server| server.url.host().eq_ignore_ascii_case(url.host()));
        own.map(|server| &server.lookups).or_else(|| self.listed_lookups(url))
    }

    pub(super) fn choose(&self, now: Instant, tried: TriedServers) -> Option<usize> {
        match self.settings.balance {
            BalanceBy::Turns => self.balance().choose(now, tried),
            BalanceBy::LeastRequests => {
                let active = |server: &Server| server.active.load(Ordering::Relaxed) as u64;
                let active: Vec<u64> = self.servers.iter().map(active).collect();
                self.balance().choose_least(&active, now, tried)
            }
        }
    }

    /// The same, with a preference for one server.
    pub(super) fn choose_preferring(
        &self,
        preferred: Option<ServerId>,
        now: Instant,
        tried: TriedServers,
    ) -> Option<usize> {
        let own = preferred.filter(|server| server.origin == self.id);
        own.and_then(|server| self.balance().choose_this(server.index, now, tried))
            .or_else(|| self.choose(now, tried))
    }

    /// Whether a server is in.
    pub(super) fn has_in(&self, index: usize) -> bool {
        self.balance().is_up(index)
    }

    /// The same by an order of preference.
    pub(super) fn choose_by(
        &self,
        order: &ServerOrder<'_>,
        now: Instant,
        tried: TriedServers,
    ) -> Option<usize> {
        let loads: Vec<Option<u64>> = {
            let balance = self.balance();
            let active = |server: &Server| server.active.load(Ordering::Relaxed) as u64;
            let load = |(index, server)| balance.may_be_asked(index, now).then(|| active(server));
            self.servers.iter().enumerate().map(load).collect()
        };
        let order = order(&loads);
        self.balance().choose_first(&order, now, tried)
    }

    /// Counts a response.
    pub(super) fn report_response(&self, index: usize, fetch: &Fetch) {
        self.count(index, fetch, ANSWERED);
        self.report(index, true);
    }

    /// Counts an error that the server gave to a request; `is_unsent`: it has seen nothing of the request.
    pub(super) fn report_failure(&self, index: usize, fetch: &Fetch, is_unsent: bool, error: OriginError) {
        self.count(index, fetch, error.label());
        match is_unsent {
            _ if !is_of_server(error) => {}
            false => self.report_path(index, &fetch.target),
            true => self.report(index, false),
        }
    }

    fn count(&self, index: usize, fetch: &Fetch, outcome: &'static str) {
        let server = self.server(index).map(|server| &server.counters);
        let site = fetch.counters.as_ref().and_then(|counters| counters.of(index));
        server.into_iter().chain(site).for_each(|counters| counters.outcome(outcome));
    }

    /// Requests of this site to its servers.
    pub fn requests(&self, site: &str) -> Vec<OriginRequestsReading> {
        let counters = self.sites.lock().unpoisoned().get(site).cloned();
        let of_server = |(index, server): (usize, &Server)| {
            Some(counters.as_ref()?.of(index)?.reading(site, &server.url.to_string()))
        };
        self.servers.iter().enumerate().filter_map(of_server).collect()
    }

    fn report(&self, index: usize, good: bool) {
        let change = self.balance().report(index, good, Instant::now());
        self.log_change(index, change);
    }

    /// Counts a response that says that the server cannot answer now.
    pub(super) fn report_refusal(&self, index: usize, fetch: &Fetch, status: u16) {
        self.count(index, fetch, "refused");
        if let Some(server) = self.server(index) {
            server.set_fault(format!("it answers {status}"));
        }
        self.report_path(index, &fetch.target);
    }

    fn report_path(&self, index: usize, target: &str) {
        let path = target.split_once('?').map_or(target, |(path, _)| path);
        let change = self.balance().report_path(index, path, Instant::now());
        self.log_change(index, change);
    }

    /// Counts the outcome of a health check; `fault` says why it failed.
    pub(super) fn report_check(&self, index: usize, fault: Option<String>) {
        let good = fault.is_none();
        if let Some((server, fault)) = self.server(index).zip(fault) {
            server.set_fault(fault);
        }
        let change = self.balance().report_check(index, good, Instant::now());
        self.log_change(index, change);
    }

    /// Claims the health checks that are due: the caller has to make them.
    pub(super) fn claim_due_checks(&self, now: Instant, interval: Duration) -> Vec<usize> {
        let mut due = Vec::new();
        for (index, next) in lock(&self.due).iter_mut().enumerate().filter(|(_, next)| **next <= now) {
            *next = now + interval;
            due.push(index);
        }
        due
    }

    /// Logs a change of health once.
    fn log_change(&self, index: usize, change: Option<HealthChange>) {
        let Some((server, change)) = self.server(index).zip(change) else { return };
        match change {
            HealthChange::Up => tracing::info!("origin {} answers again", server.url),
            HealthChange::Down => tracing::warn!("origin {} is out: {}", server.url, server.fault()),
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

/// Whether an error counts against the health of the server.
fn is_of_server(error: OriginError) -> bool {
    error.fault() == OriginFault::Server
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unpoisoned()
}
