//! The private keys of a configuration that are elsewhere.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use penstock_config::{KeyserverAccess, RemoteKeyPlace, Tls, limits};
use penstock_keys::{
    KeyserverAddress, KeyserverGroup, KeyserverLimits, Keyservers, OPERATION_RESULTS, ServerStatus,
};
use penstock_tls::remote_key::RemoteKey;

use crate::metrics::{KeyserverReading, RemoteKeysReading};

/// The groups of keyservers of a configuration, each with its connections.
#[derive(Debug, Default)]
pub(crate) struct RemoteKeys {
    groups: Vec<(Arc<KeyserverAccess>, Arc<Keyservers>)>,
}

impl RemoteKeys {
    /// Connects to the keyservers of a configuration. Groups that `previous` has stay connected.
    ///
    /// # Errors
    /// The error of the system.
    pub(crate) fn start(tls: &Tls, previous: Option<&Self>) -> io::Result<Self> {
        let mut keys = Self::default();
        for place in tls.certificates.iter().filter_map(|one| one.remote.as_ref()) {
            let RemoteKeyPlace::Keyserver(access) = place;
            if keys.group(access).is_some() {
                continue;
            }
            if keys.groups.len() >= limits::KEYSERVER_GROUPS_MAX {
                let most = limits::KEYSERVER_GROUPS_MAX;
                return Err(io::Error::other(format!("there are more than {most} groups of keyservers")));
            }
            let group = match previous.and_then(|previous| previous.group(access)) {
                Some(group) => Arc::clone(group),
                None => Keyservers::start(&group_of(access))?,
            };
            keys.groups.push((Arc::clone(access), group));
        }
        Ok(keys)
    }

    /// What signs for a key at this place.
    pub(crate) fn at(&self, place: &RemoteKeyPlace) -> Option<Arc<dyn RemoteKey>> {
        let RemoteKeyPlace::Keyserver(access) = place;
        self.group(access).map(|group| Arc::clone(group) as Arc<dyn RemoteKey>)
    }

    /// The state of each server. One of several groups is up if it is up for all of them.
    pub(crate) fn reading(&self) -> RemoteKeysReading {
        let groups = self.groups.iter().map(|(_, group)| group);
        let mut keyservers: BTreeMap<String, KeyserverReading> = BTreeMap::new();
        for seen in groups.clone().flat_map(|group| group.status()).map(reading_of) {
            match keyservers.get_mut(&seen.address) {
                Some(server) => add(server, &seen),
                None => drop(keyservers.insert(seen.address.clone(), seen)),
            }
        }
        RemoteKeysReading {
            fallbacks: groups.clone().map(|group| group.fallbacks()).sum(),
            under_way: groups.map(|group| group.under_way() as u64).sum(),
            keyservers: keyservers.into_values().collect(),
        }
    }

    fn group(&self, access: &KeyserverAccess) -> Option<&Arc<Keyservers>> {
        self.groups.iter().find(|(known, _)| known.is_same(access)).map(|(_, group)| group)
    }
}

fn reading_of(status: ServerStatus) -> KeyserverReading {
    KeyserverReading {
        address: status.address,
        up: status.up,
        circuit_open: status.circuit_open,
        under_way: status.under_way,
        operations: status.results,
        operation_time: status.time,
        connections: status.connections,
    }
}

/// Adds what another group has seen of the same server.
fn add(server: &mut KeyserverReading, seen: &KeyserverReading) {
    server.up &= seen.up;
    server.circuit_open |= seen.circuit_open;
    server.under_way += seen.under_way;
    server.operations.iter_mut().zip(seen.operations).for_each(|(count, more)| *count += more);
    server.operation_time += seen.operation_time;
    server.connections += seen.connections;
}

const _: () = assert!(
    OPERATION_RESULTS.len() == KeyserverReading::RESULTS.len(),
    "the labels are those of the counters"
);

fn group_of(access: &KeyserverAccess) -> KeyserverGroup {
    let address = |(host, port): &(String, u16)| KeyserverAddress { host: host.clone(), port: *port };
    KeyserverGroup {
        servers: access.servers.iter().map(address).collect(),
        authorities: access.authorities.clone(),
        certificate: Arc::clone(&access.certificate),
        limits: KeyserverLimits {
            deadline: access.deadline,
            operations: limits::KEYSERVER_OPERATIONS,
            connect: Duration::from_secs(limits::KEYSERVER_CONNECT_SECONDS),
            ping: Duration::from_secs(limits::KEYSERVER_PING_SECONDS),
            reconnect_min: Duration::from_millis(limits::KEYSERVER_RECONNECT_MILLISECONDS_MIN),
            reconnect_max: Duration::from_millis(limits::KEYSERVER_RECONNECT_MILLISECONDS_MAX),
            circuit_failures: limits::KEYSERVER_CIRCUIT_FAILURES,
            circuit_open: Duration::from_secs(limits::KEYSERVER_CIRCUIT_SECONDS),
        },
    }
}
