//! Ports of the tests, of TCP and UDP, outside of the range from which the system chooses ports of outgoing connections.

use std::fs;
use std::io::ErrorKind;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, UdpSocket};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr as UnixAddress, UnixListener};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// How long a reserved port may be in use.
const IN_USE_MAX: Duration = Duration::from_secs(10);
/// The lowest port in use by tests.
const FIRST: u32 = 10_000;

/// An address on the loopback that no other test uses while this lives, in this process or another one.
///
/// The reservation is an abstract Unix socket of the port's name: it ends with the process, however that ends.
#[derive(Debug)]
pub struct ReservedAddress {
    address: SocketAddr,
    _reservation: UnixListener,
}

impl ReservedAddress {
    /// Reserves an address on which nothing listens.
    ///
    /// # Panics
    /// If there is none.
    #[must_use]
    pub fn reserve() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let count = first_port_of_the_system().saturating_sub(FIRST).max(1000);
        // Processes that start together begin at different places.
        let start = std::process::id().wrapping_mul(97);
        let free = (0..count).find_map(|_| {
            let place = start.wrapping_add(NEXT.fetch_add(1, Ordering::Relaxed)) % count;
            Self::try_reserve(u16::try_from(FIRST + place).ok()?)
        });
        free.expect("a free port")
    }

    fn try_reserve(port: u16) -> Option<Self> {
        let name = UnixAddress::from_abstract_name(format!("penstock-test-port-{port}")).ok()?;
        let reservation = UnixListener::bind_addr(&name).ok()?;
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        TcpListener::bind((Ipv4Addr::UNSPECIFIED, port)).ok()?;
        UdpSocket::bind((Ipv4Addr::UNSPECIFIED, port)).ok()?;
        Some(Self { address, _reservation: reservation })
    }

    /// The address.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Listens on it. The socket that found the port free is also in a process that another thread starts just then, until that
    /// runs its program; so a port in use is tried again for a while.
    ///
    /// # Panics
    /// If another program is listening on the port.
    #[must_use]
    pub fn listen(&self) -> TcpListener {
        let deadline = Instant::now() + IN_USE_MAX;
        loop {
            match TcpListener::bind(self.address) {
                Err(error) if error.kind() == ErrorKind::AddrInUse && Instant::now() < deadline => {
                    thread::sleep(Duration::from_millis(10));
                }
                bound => return bound.expect("the reserved port is free"),
            }
        }
    }
}

impl std::fmt::Display for ReservedAddress {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.address.fmt(out)
    }
}

/// An address on which nothing listens, reserved until this process ends.
///
/// # Panics
/// If there is none.
#[must_use]
pub fn unused_address() -> SocketAddr {
    static KEPT: Mutex<Vec<ReservedAddress>> = Mutex::new(Vec::new());
    let reserved = ReservedAddress::reserve();
    let address = reserved.address();
    KEPT.lock().unwrap().push(reserved);
    address
}

fn first_port_of_the_system() -> u32 {
    let range = fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").unwrap_or_default();
    range.split_whitespace().next().and_then(|first| first.parse().ok()).unwrap_or(32_768)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::net::TcpStream;

    use super::*;

    #[test]
    fn reserved_addresses_differ_and_lie_below_the_range_of_the_system() {
        let reserved: Vec<_> = (0..50).map(|_| ReservedAddress::reserve()).collect();
        let ports: BTreeSet<u16> = reserved.iter().map(|one| one.address().port()).collect();
        assert_eq!(ports.len(), 50);
        assert!(ports.iter().all(|&port| u32::from(port) < first_port_of_the_system()));
        assert!(TcpStream::connect(reserved[0].address()).is_err(), "nothing is listening");
        let listener = reserved[0].listen();
        TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    }

    #[test]
    fn a_reserved_port_is_not_given_again_until_it_is_dropped() {
        let reserved = ReservedAddress::reserve();
        let port = reserved.address().port();
        assert!(ReservedAddress::try_reserve(port).is_none());
        drop(reserved);
        assert!(ReservedAddress::try_reserve(port).is_some());
    }
}
