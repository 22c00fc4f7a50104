//! Ports that a process which is ending still has.

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::thread;
use std::time::{Duration, Instant};

use penstock_sys::socket::probe_free;

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
