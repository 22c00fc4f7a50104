//! The clients of a keyserver: what each may sign with, and its share.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use penstock_config::KeyserverClient;
use penstock_sys::lock::Unpoisoned;

use crate::counters::ClientCounters;
use crate::keyring::Key;

/// A client in one generation of the configuration.
#[derive(Debug)]
pub(crate) struct Client {
    rules: KeyserverClient,
    state: Arc<ClientState>,
}

/// What outlives a reload.
#[derive(Debug)]
struct ClientState {
    counters: ClientCounters,
    connections: AtomicUsize,
    under_way: AtomicUsize,
    bucket: Mutex<Bucket>,
}

/// All clients in one generation of the configuration, by name.
#[derive(Debug, Default)]
pub(crate) struct Clients(HashMap<String, Arc<Client>>);

/// Why a client gets no signature now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Excess {
    /// As many operations as it may have are under way.
    Operations,
    /// It has made more operations than its rate allows.
    Rate,
}

impl Clients {
    /// Counts of clients that `previous` has go on.
    pub(crate) fn new(configured: &[KeyserverClient], previous: &Self, now: Instant) -> Self {
        let client = |rules: &KeyserverClient| {
            let state = previous.0.get(&rules.name).map_or_else(
                || {
                    Arc::new(ClientState {
                        counters: ClientCounters::default(),
                        connections: AtomicUsize::new(0),
                        under_way: AtomicUsize::new(0),
                        bucket: Mutex::new(Bucket { tokens: f64::from(rules.rate), filled: now }),
                    })
                },
                |known| Arc::clone(&known.state),
            );
            (rules.name.clone(), Arc::new(Client { rules: rules.clone(), state }))
        };
        Self(configured.iter().map(client).collect())
    }

    pub(crate) fn get(&self, name: &str) -> Option<&Arc<Client>> {
        self.0.get(name)
    }

    /// In order of their names.
    pub(crate) fn all(&self) -> Vec<&Arc<Client>> {
        let mut all: Vec<_> = self.0.values().collect();
        all.sort_unstable_by(|one, other| one.name().cmp(other.name()));
        all
    }
}

impl Client {
    pub(crate) fn name(&self) -> &str {
        &self.rules.name
    }

    pub(crate) fn counters(&self) -> &ClientCounters {
        &self.state.counters
    }

    pub(crate) fn under_way(&self) -> usize {
        self.state.under_way.load(Relaxed)
    }

    pub(crate) fn connections(&self) -> usize {
        self.state.connections.load(Relaxed)
    }

    /// Operations that it may have under way.
    pub(crate) fn operations_max(&self) -> usize {
        self.rules.operations
    }

    /// Whether it may sign with this key.
    pub(crate) fn may_use(&self, key: &Key) -> bool {
        let allowed = |keys: &std::collections::BTreeSet<String>| {
            keys.contains(&key.name) || keys.contains(&key.id.to_string())
        };
        self.rules.keys.as_ref().is_none_or(allowed)
    }

    /// Counts a connection; `None` if it has as many as it may have.
    pub(crate) fn enter_connection(self: &Arc<Self>) -> Option<ConnectionPlace> {
        let place = ConnectionPlace(Arc::clone(&self.state));
        (self.state.connections.fetch_add(1, Relaxed) < self.rules.connections).then_some(place)
    }

    /// Counts an operation until the place is dropped.
    pub(crate) fn enter_operation(&self, now: Instant) -> Result<OperationPlace, Excess> {
        let place = OperationPlace(Arc::clone(&self.state));
        if self.state.under_way.fetch_add(1, Relaxed) >= self.rules.operations {
            return Err(Excess::Operations);
        }
        let mut bucket = self.state.bucket.lock().unpoisoned();
        if self.rules.rate > 0 && !bucket.take(f64::from(self.rules.rate), now) {
            return Err(Excess::Rate);
        }
        Ok(place)
    }
}

/// A connection of a client.
#[derive(Debug)]
pub(crate) struct ConnectionPlace(Arc<ClientState>);

impl Drop for ConnectionPlace {
    fn drop(&mut self) {
        self.0.connections.fetch_sub(1, Relaxed);
    }
}

/// An operation of a client.
#[derive(Debug)]
pub(crate) struct OperationPlace(Arc<ClientState>);

impl Drop for OperationPlace {
    fn drop(&mut self) {
        self.0.under_way.fetch_sub(1, Relaxed);
    }
}

/// Allows a rate, and as much at once as it allows in a second.
#[derive(Debug)]
struct Bucket {
    tokens: f64,
    filled: Instant,
}

impl Bucket {
    fn take(&mut self, rate: f64, now: Instant) -> bool {
        let gained = now.saturating_duration_since(self.filled).as_secs_f64() * rate;
        self.tokens = (self.tokens + gained).min(rate.max(1.0));
        self.filled = now;
        let has_one = self.tokens >= 1.0;
        if has_one {
            self.tokens -= 1.0;
        }
        has_one
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn rules(operations: usize, rate: u32) -> KeyserverClient {
        KeyserverClient { name: "edge".into(), keys: None, operations, rate, connections: 1 }
    }

    #[test]
    fn operations_and_connections_are_bounded_and_outlive_a_reload() {
        let now = Instant::now();
        let clients = Clients::new(&[rules(2, 0)], &Clients::default(), now);
        let client = clients.get("edge").unwrap();
        let connection = client.enter_connection().unwrap();
        assert!(client.enter_connection().is_none());
        let first = client.enter_operation(now).unwrap();
        let _second = client.enter_operation(now).unwrap();
        assert_eq!(client.enter_operation(now).unwrap_err(), Excess::Operations);
        let clients = Clients::new(&[rules(2, 0)], &clients, now);
        let client = clients.get("edge").unwrap();
        assert!(client.enter_connection().is_none());
        assert_eq!(client.enter_operation(now).unwrap_err(), Excess::Operations);
        drop((first, connection));
        assert!(client.enter_operation(now).is_ok() && client.enter_connection().is_some());
        assert!(clients.get("other").is_none());
    }

    #[test]
    fn a_rate_allows_that_many_in_each_second() {
        let now = Instant::now();
        let clients = Clients::new(&[rules(10, 5)], &Clients::default(), now);
        let client = clients.get("edge").unwrap();
        let allowed = |at: Instant| (0..20).filter(|_| client.enter_operation(at).is_ok()).count();
        assert_eq!(allowed(now), 5);
        assert_eq!(allowed(now + Duration::from_millis(400)), 2);
        assert_eq!(allowed(now + Duration::from_secs(60)), 5, "what was not used is not kept");
    }
}
