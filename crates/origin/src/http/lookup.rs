//! Looking up the addresses of a server's name in the resolver of the system.

use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use penstock_sys::lock::Unpoisoned;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::spawn_blocking;

/// How long a dial joins a lookup under way. A later dial begins another one, if that is allowed: packets of the first may
/// have been lost.
const JOINABLE: Duration = Duration::from_secs(1);

/// The addresses of a name; `None` until the lookup is over.
type LookupResult = Option<Result<Vec<SocketAddr>, Arc<io::Error>>>;

/// The lookups of one name, of all workers. The system cannot cancel a lookup (`getaddrinfo`): it holds a thread and its permit
/// until it returns, also if no dial waits for it any more. No result is used for dials that come later.
pub(super) struct NameLookups {
    permits: Arc<Semaphore>,
    newest: Mutex<Option<NewestLookup>>,
}

struct NewestLookup {
    began: Instant,
    result: watch::Receiver<LookupResult>,
}

impl NameLookups {
    /// At most `most` lookups are under way at a time.
    pub(super) fn new(most: usize) -> Self {
        Self { permits: Arc::new(Semaphore::new(most)), newest: Mutex::default() }
    }

    /// The addresses of a host, in the order of the system. An IP address is returned without a lookup.
    ///
    /// # Errors
    /// Those of the resolver.
    pub(super) async fn resolve(&self, host: &str, port: u16) -> Result<Vec<SocketAddr>, Arc<io::Error>> {
        if let Ok(address) = host.parse::<IpAddr>() {
            return Ok(vec![SocketAddr::new(address, port)]);
        }
        let name = host.to_owned();
        let mut addresses =
            self.look_up(move || (name.as_str(), 0).to_socket_addrs().map(Iterator::collect)).await?;
        for address in &mut addresses {
            address.set_port(port);
        }
        Ok(addresses)
    }

    /// Waits for the lookup that is under way, or for a new one.
    async fn look_up(
        &self,
        resolver: impl FnOnce() -> io::Result<Vec<SocketAddr>> + Send + 'static,
    ) -> Result<Vec<SocketAddr>, Arc<io::Error>> {
        let mut result = self.join_or_begin(resolver)?;
        let found = match result.wait_for(Option::is_some).await {
            Ok(found) => found.clone(),
            Err(_) => None,
        };
        found.unwrap_or_else(|| Err(Arc::new(io::Error::other("the lookup of its name was abandoned"))))
    }

    fn join_or_begin(
        &self,
        resolver: impl FnOnce() -> io::Result<Vec<SocketAddr>> + Send + 'static,
    ) -> io::Result<watch::Receiver<LookupResult>> {
        let mut newest = self.newest.lock().unpoisoned();
        let permit = match (&*newest, Arc::clone(&self.permits).try_acquire_owned()) {
            (Some(newest), Ok(_)) if newest.is_joinable() => return Ok(newest.result.clone()),
            (_, Ok(permit)) => permit,
            // It is under way, too: it gives its permit back before its result.
            (Some(newest), Err(_)) => return Ok(newest.result.clone()),
            (None, Err(_)) => return Err(io::ErrorKind::ResourceBusy.into()),
        };
        let result = begin(permit, resolver);
        *newest = Some(NewestLookup { began: Instant::now(), result: result.clone() });
        Ok(result)
    }
}

impl NewestLookup {
    fn is_joinable(&self) -> bool {
        let is_under_way = self.result.has_changed().is_ok() && self.result.borrow().is_none();
        is_under_way && self.began.elapsed() < JOINABLE
    }
}

/// Starts a lookup on a thread of the runtime's pool.
fn begin(
    permit: OwnedSemaphorePermit,
    resolver: impl FnOnce() -> io::Result<Vec<SocketAddr>> + Send + 'static,
) -> watch::Receiver<LookupResult> {
    let (sender, result) = watch::channel(None);
    drop(spawn_blocking(move || {
        let found = resolver().map_err(Arc::new);
        drop(permit);
        sender.send_replace(Some(found));
    }));
    result
}

#[cfg(test)]
mod tests;
