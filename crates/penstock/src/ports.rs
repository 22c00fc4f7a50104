//! Addresses that a server listens on: those that no interface has, and ports that a process which is ending still has.

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::thread;
use std::time::{Duration, Instant};

use penstock_config::{Config, Fault};
use penstock_sys::socket::{Binding, ListenError, probe_free, probe_present};

/// How long a start waits: longer than a killed process takes to give back its memory, or a usual `lame_duck` lasts.
const IN_USE_LIMIT: Duration = Duration::from_secs(10);
const IN_USE_RETRY: Duration = Duration::from_millis(50);

/// Blocks until no other process listens on these addresses, for [`IN_USE_LIMIT`] at most.
pub(crate) fn wait_while_in_use(addresses: impl IntoIterator<Item = SocketAddr>) {
    let deadline = Instant::now() + IN_USE_LIMIT;
    for address in addresses.into_iter().filter(|address| address.port() != 0) {
        let is_in_use =
            || probe_free(address).is_err_and(|error| error.source.kind() == ErrorKind::AddrInUse);
        if !is_in_use() {
            continue;
        }
        tracing::info!("{address} is in use; waiting up to {IN_USE_LIMIT:?} for it");
        while Instant::now() < deadline && is_in_use() {
            thread::sleep(IN_USE_RETRY);
        }
    }
}

/// Every address that the configuration listens on.
pub(crate) fn addresses(config: &Config) -> impl Iterator<Item = SocketAddr> {
    bindings(config).map(|(address, _)| address)
}

fn bindings(config: &Config) -> impl Iterator<Item = (SocketAddr, Binding)> {
    let admin = config.admin.iter().filter_map(|admin| admin.address.tcp());
    let nodes = config.cluster.iter().map(|cluster| &cluster.listener);
    let listeners = nodes.chain(&config.listeners);
    admin
        .map(|address| (address, Binding::Present))
        .chain(listeners.map(|one| (one.address, one.socket.binding)))
}

/// Addresses that this machine lacks: their listeners could not be opened.
pub(crate) fn absent(config: &Config) -> Vec<Fault> {
    let errors = bindings(config).filter_map(|(address, binding)| probe_present(address, binding).err());
    errors.map(|error| fault(config, &error)).collect()
}

/// Describes a listener that cannot be opened, at the line of its address.
pub(crate) fn fault(config: &Config, error: &ListenError) -> Fault {
    // Only listeners of clients have `freebind`.
    let has_key = config.listeners.iter().any(|listener| listener.address == error.address);
    let instead = match error.source.kind() {
        ErrorKind::AddrNotAvailable if !has_key => {
            "no interface of this machine has this address: add it, or write another one"
        }
        _ => error.remedy().unwrap_or_default(),
    };
    Fault { instead: instead.to_owned(), ..config.fault_at(Some(error.address), error.to_string()) }
}
