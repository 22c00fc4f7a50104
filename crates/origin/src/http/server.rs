//! One server of an origin: its address, its TLS, and how many connections it may still get.

use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Mutex};

use penstock_http::OriginUrl;
use penstock_metrics::OriginCounters;
use penstock_sys::lock::Unpoisoned;
use penstock_tls::Outbound;
use tokio::sync::Semaphore;

use super::lookup::NameLookups;
use super::settings::OriginSettings;

/// A server of one [`HttpOrigin`](super::HttpOrigin), until a reload makes another origin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ServerId {
    /// Number of the origin.
    pub(super) origin: u64,
    /// Place of the server among those of the origin.
    pub(super) index: usize,
}

impl ServerId {
    /// Place of the server among those of the origin.
    pub fn index(self) -> usize {
        self.index
    }
}

/// The counters of one site for each server of an origin. Those of the server itself count for all sites.
#[derive(Clone, Debug)]
pub struct SiteCounters(Arc<[OriginCounters]>);

impl SiteCounters {
    /// Counters for so many servers.
    pub(super) fn new(servers: usize) -> Self {
        Self((0..servers).map(|_| OriginCounters::default()).collect())
    }

    /// The counters for the server at a place among those of the origin.
    pub(super) fn of(&self, index: usize) -> Option<&OriginCounters> {
        self.0.get(index)
    }

    /// Whether a site or a request has them as well.
    pub(super) fn is_shared(&self) -> bool {
        Arc::strong_count(&self.0) > 1
    }
}

/// One server of an origin.
pub(super) struct Server {
    pub(super) url: OriginUrl,
    /// `None` without TLS, or if TLS cannot be set up for that name.
    pub(super) tls: Option<Outbound>,
    /// Lookups of the name in its URL.
    pub(super) lookups: Arc<NameLookups>,
    /// One permit for each connection that may still be opened.
    pub(super) free: Arc<Semaphore>,
    pub(super) waiting: AtomicUsize,
    /// Requests to it that are under way, up to the end of their responses.
    pub(super) active: AtomicUsize,
    pub(super) counters: OriginCounters,
    /// Why it failed last, for the log.
    fault: Mutex<String>,
    /// What the last health check brought, until it is taken.
    note: Mutex<String>,
}

impl Server {
    pub(super) fn new(url: &OriginUrl, settings: &OriginSettings) -> Self {
        // The certificate is asked for and checked by this name, without the port that Host may have.
        let name = match &settings.host {
            Some(host) => host.rsplit_once(':').map_or(host.as_str(), |(name, _)| name),
            None => url.host(),
        };
        let authorities = settings.authorities.as_ref().filter(|_| url.is_secure());
        let (sessions, identity) = (settings.limits.sessions, settings.identity.as_ref());
        let tls =
            authorities.and_then(|authorities| Outbound::new(authorities, name, sessions, identity).ok());
        Self {
            url: url.clone(),
            tls,
            lookups: Arc::new(NameLookups::new(settings.limits.lookups, &settings.resolvers)),
            free: Arc::new(Semaphore::new(settings.limits.connections)),
            waiting: AtomicUsize::new(0),
            active: AtomicUsize::new(0),
            counters: OriginCounters::default(),
            fault: Mutex::default(),
            note: Mutex::default(),
        }
    }

    /// A server that a redirection leads to; `lookups` are those of its host.
    pub(super) fn of_redirect(
        url: &OriginUrl,
        settings: &OriginSettings,
        lookups: Option<&Arc<NameLookups>>,
    ) -> Self {
        let known = settings.servers.iter().any(|server| server.url.is_same_server(url));
        let host = settings.host.clone().filter(|_| known);
        let server = Self::new(url, &OriginSettings { host, ..settings.clone() });
        match lookups {
            Some(lookups) => Self { lookups: Arc::clone(lookups), ..server },
            None => server,
        }
    }

    /// Why it failed last.
    pub(super) fn fault(&self) -> String {
        self.fault.lock().unpoisoned().clone()
    }

    pub(super) fn set_fault(&self, fault: String) {
        *self.fault.lock().unpoisoned() = fault;
    }

    /// Takes what the last health check brought; empty if that was nothing.
    pub(super) fn take_note(&self) -> String {
        std::mem::take(&mut self.note.lock().unpoisoned())
    }

    pub(super) fn set_note(&self, note: &str) {
        *self.note.lock().unpoisoned() = note.to_owned();
    }
}
