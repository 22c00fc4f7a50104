//! The addresses of a server's name, as long as they hold.

mod known;

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use penstock_sys::lock::Unpoisoned;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use self::known::{Known, Usable};
use crate::dns::{self, AddressRecords};

/// How long a dial joins a lookup under way. A later dial begins another one, if that is allowed: packets of the first may
/// have been lost.
const JOINABLE: Duration = Duration::from_secs(1);

/// How long a dial waits for a lookup that is under way if there are addresses of an earlier one.
const PATIENCE: Duration = Duration::from_millis(500);

/// The addresses of a name, or why there are none.
type Found = Result<Arc<[IpAddr]>, Arc<io::Error>>;

/// The lookups of one name, of all workers. The system cannot cancel a lookup (`getaddrinfo`): it holds a thread and its permit
/// until it returns, also if no dial waits for it any more.
pub(super) struct NameLookups {
    permits: Arc<Semaphore>,
    /// The servers of DNS; empty for those of the system.
    servers: Arc<[SocketAddr]>,
    newest: Mutex<Option<NewestLookup>>,
    known: Arc<Mutex<Known>>,
    /// Dials so far: each begins with another address.
    dials: AtomicUsize,
}

struct NewestLookup {
    began: Instant,
    /// `None` until the lookup is over.
    result: watch::Receiver<Option<Found>>,
}

impl NameLookups {
    /// At most `most` lookups are under way at a time.
    pub(super) fn new(most: usize, servers: &Arc<[SocketAddr]>) -> Self {
        Self {
            permits: Arc::new(Semaphore::new(most)),
            servers: Arc::clone(servers),
            newest: Mutex::default(),
            known: Arc::default(),
            dials: AtomicUsize::new(0),
        }
    }

    /// The addresses of a host, of which each call has another one first. An IP address is returned without a lookup.
    ///
    /// # Errors
    /// Those of the lookup.
    pub(super) async fn resolve(&self, host: &str, port: u16) -> Result<Vec<SocketAddr>, Arc<io::Error>> {
        if let Ok(address) = host.parse::<IpAddr>() {
            return Ok(vec![SocketAddr::new(address, port)]);
        }
        let (name, servers) = (host.to_owned(), Arc::clone(&self.servers));
        let found = self.find(move || dns::resolve(&name, &servers)).await?;
        let mut addresses: Vec<_> = found.iter().map(|address| SocketAddr::new(*address, port)).collect();
        // The first family has a route, if one has.
        let family = addresses.first().map(SocketAddr::is_ipv4);
        let first = addresses.partition_point(|address| Some(address.is_ipv4()) == family);
        addresses[..first].rotate_left(self.dials.fetch_add(1, Ordering::Relaxed) % first.max(1));
        Ok(addresses)
    }

    /// What is known and holds, or what a lookup finds.
    async fn find(&self, resolver: impl FnOnce() -> io::Result<AddressRecords> + Send + 'static) -> Found {
        let usable = self.known.lock().unpoisoned().usable(Instant::now());
        let stale = match usable {
            Usable::Fresh(addresses) => return Ok(addresses),
            Usable::Stale(addresses) => addresses,
            Usable::Failed(error) => return Err(error),
            Usable::Unknown => return self.look_up(resolver).await,
        };
        let waited = self.under_way_for();
        match timeout(PATIENCE.saturating_sub(waited), self.look_up(resolver)).await {
            Ok(Ok(addresses)) => Ok(addresses),
            Ok(Err(error)) if error.kind() == io::ErrorKind::NotFound => Err(error),
            Ok(Err(_)) | Err(_) => Ok(stale),
        }
    }

    /// For how long the newest lookup has been under way.
    fn under_way_for(&self) -> Duration {
        let newest = self.newest.lock().unpoisoned();
        let newest = newest.as_ref().filter(|newest| newest.is_under_way());
        newest.map_or(Duration::ZERO, |newest| newest.began.elapsed())
    }

    /// Waits for the lookup that is under way, or for a new one.
    async fn look_up(&self, resolver: impl FnOnce() -> io::Result<AddressRecords> + Send + 'static) -> Found {
        let mut result = self.join_or_begin(resolver)?;
        let found = match result.wait_for(Option::is_some).await {
            Ok(found) => found.clone(),
            Err(_) => None,
        };
        found.unwrap_or_else(|| Err(Arc::new(io::Error::other("the lookup of its name was abandoned"))))
    }

    fn join_or_begin(
        &self,
        resolver: impl FnOnce() -> io::Result<AddressRecords> + Send + 'static,
    ) -> io::Result<watch::Receiver<Option<Found>>> {
        let mut newest = self.newest.lock().unpoisoned();
        let permit = match (&*newest, Arc::clone(&self.permits).try_acquire_owned()) {
            (Some(newest), Ok(_)) if newest.is_joinable() => return Ok(newest.result.clone()),
            (_, Ok(permit)) => permit,
            // It is under way, too: it gives its permit back before its result.
            (Some(newest), Err(_)) => return Ok(newest.result.clone()),
            (None, Err(_)) => return Err(io::ErrorKind::ResourceBusy.into()),
        };
        let result = self.begin(permit, resolver);
        *newest = Some(NewestLookup { began: Instant::now(), result: result.clone() });
        Ok(result)
    }

    /// Starts a lookup on a thread of the runtime's pool.
    fn begin(
        &self,
        permit: OwnedSemaphorePermit,
        resolver: impl FnOnce() -> io::Result<AddressRecords> + Send + 'static,
    ) -> watch::Receiver<Option<Found>> {
        let (sender, result) = watch::channel(None);
        let known = Arc::clone(&self.known);
        drop(spawn_blocking(move || {
            let found = resolver().map_err(Arc::new);
            let found = known.lock().unpoisoned().take_in(found, Instant::now());
            drop(permit);
            sender.send_replace(Some(found));
        }));
        result
    }
}

impl NewestLookup {
    fn is_under_way(&self) -> bool {
        self.result.has_changed().is_ok() && self.result.borrow().is_none()
    }

    fn is_joinable(&self) -> bool {
        self.is_under_way() && self.began.elapsed() < JOINABLE
    }
}

#[cfg(test)]
mod tests;
