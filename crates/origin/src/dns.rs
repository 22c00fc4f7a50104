//! Names: the servers of DNS are asked here, not by the C library, which tells no times.

mod client;
mod hosts;
mod message;

use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs as _};
use std::time::Duration;

pub use client::{Question, system_servers};
#[cfg(any(test, feature = "fuzz"))]
#[doc(hidden)]
pub use message::fuzz_dns_answer;
pub use message::{AddressRecords, DnsAnswer, Kind, ServerRecord, servers};

/// How long what says nothing about times holds: `/etc/hosts`, and the system's resolver.
const UNTIMED: Duration = Duration::from_secs(5);

/// Addresses of a name that are used at most.
const ADDRESSES_MAX: usize = 64;

/// The addresses of a host name: from `/etc/hosts`, else from DNS, which is asked at these servers, or at those of
/// /etc/resolv.conf if there are none. What those do not know is asked of the system (`getaddrinfo`), which knows more kinds of
/// names. Blocks for some seconds at most, unless the system takes longer.
///
/// # Errors
/// [`io::ErrorKind::NotFound`]: the name has no addresses. Others: no server gave an answer.
pub(crate) fn resolve(name: &str, servers: &[SocketAddr]) -> io::Result<AddressRecords> {
    let known = hosts::addresses(name, ADDRESSES_MAX);
    if !known.is_empty() {
        return Ok(AddressRecords { addresses: known, ttl: UNTIMED });
    }
    if !servers.is_empty() {
        return look_up(name, servers);
    }
    let servers = system_servers();
    match look_up(name, &servers) {
        Err(error) if servers.is_empty() || error.kind() == io::ErrorKind::NotFound => of_system(name),
        found => found,
    }
}

/// The addresses as the system has them: with its search domains, and from other sources than DNS.
fn of_system(name: &str) -> io::Result<AddressRecords> {
    let mut addresses: Vec<IpAddr> = Vec::new();
    for address in (name, 0).to_socket_addrs()?.take(ADDRESSES_MAX) {
        if !addresses.contains(&address.ip()) {
            addresses.push(address.ip());
        }
    }
    Ok(AddressRecords { addresses, ttl: UNTIMED })
}

/// Asks for both families at the same time. One that has addresses is enough.
fn look_up(name: &str, servers: &[SocketAddr]) -> io::Result<AddressRecords> {
    let ask = |kind| {
        let read = |query: &[u8], answer: &[u8]| message::addresses(query, answer, ADDRESSES_MAX);
        Question { name, kind }.ask(servers, read)
    };
    let (v6, v4) = std::thread::scope(|scope| {
        let v6 = std::thread::Builder::new().spawn_scoped(scope, || ask(Kind::Aaaa));
        let v4 = ask(Kind::A);
        let v6 = v6.and_then(|thread| thread.join().unwrap_or_else(|_| Err(io::ErrorKind::Other.into())));
        (v6, v4)
    });
    let found: Vec<&AddressRecords> = [&v6, &v4].into_iter().flatten().collect();
    let mut addresses: Vec<IpAddr> = found.iter().flat_map(|found| &found.addresses).copied().collect();
    if addresses.is_empty() {
        v4.and(v6)?;
        return Err(io::Error::new(io::ErrorKind::NotFound, "its name has no address"));
    }
    // A family without a route comes last.
    addresses.sort_by_key(|address| !client::has_route(*address));
    let with_addresses = found.iter().filter(|found| !found.addresses.is_empty());
    let ttl = with_addresses.map(|found| found.ttl).min().unwrap_or(UNTIMED);
    Ok(AddressRecords { addresses, ttl })
}
