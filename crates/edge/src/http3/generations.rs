//! Datagrams of the connections that stay with the process before, while two processes share the UDP sockets.
//!
//! The predecessor makes a pair of sockets for each of its workers. An endpoint of the successor that does not know the
//! connection of a datagram sends it there, by the worker that its connection id names. The endpoint of the predecessor
//! gives it to its connection, or returns it. What is returned and unknown belongs to a new connection, or to none.

use std::collections::BTreeMap;
use std::io::{self, IoSlice};
use std::net::{IpAddr, Ipv6Addr, SocketAddr, SocketAddrV6};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixDatagram as StdSocket;
use std::sync::Arc;

use penstock_http3::{ConnectionId, NetworkPath};
use rustix::net::{
    AddressFamily, SendAncillaryBuffer, SendFlags, SocketFlags, SocketType, sendmsg, socketpair,
};
use tokio::net::UnixDatagram;

/// Bytes of an address: its family, IP address, port and scope.
const ADDRESS_BYTES: usize = 1 + 16 + 2 + 4;
const HEADER_BYTES: usize = 2 * ADDRESS_BYTES;
const DATAGRAM_BYTES_MAX: usize = 65_536;

/// The successor's end of the sockets of one worker.
#[derive(Clone, Debug)]
pub struct QuicPassage {
    /// The address of the listener.
    pub listener: SocketAddr,
    /// The number of the predecessor's worker.
    pub worker: u16,
    /// Passes whole messages (`SOCK_SEQPACKET`), without blocking.
    pub socket: Arc<OwnedFd>,
}

/// Makes the two ends: that of the predecessor, and that of its successor.
///
/// # Errors
/// When the system has no further descriptors.
pub(crate) fn pair(listener: SocketAddr, worker: u16) -> io::Result<(Passage, QuicPassage)> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let (own, socket) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
    Ok((Passage(Arc::new(own)), QuicPassage { listener, worker, socket: Arc::new(socket) }))
}

/// One end of the sockets of one worker.
#[derive(Clone, Debug)]
pub(crate) struct Passage(Arc<OwnedFd>);

/// The successor's ends for one listener, by the predecessor's workers, as long as these have connections. All its endpoints send on
/// all of them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Passages(Vec<Option<Passage>>);

/// Where a datagram has come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// The UDP socket.
    Client,
    /// The process that succeeds this one.
    Successor,
    /// This worker of the process before did not know it.
    Predecessor(u16),
}

impl Passages {
    /// Those of each listener.
    pub(crate) fn by_listener(mut given: Vec<QuicPassage>) -> BTreeMap<SocketAddr, Self> {
        given.sort_by_key(|passage| (passage.listener, passage.worker));
        let of_listeners = given.chunk_by(|one, next| one.listener == next.listener);
        let passages = of_listeners.map(|own| {
            let own_ends = own.iter().map(|passage| Some(Passage(Arc::clone(&passage.socket))));
            (own[0].listener, Self(own_ends.collect()))
        });
        passages.collect()
    }

    /// The ends that an endpoint reads, with the numbers of the predecessor's workers: the endpoints share them.
    pub(crate) fn read_by(&self, (worker, workers): (u16, u16)) -> impl Iterator<Item = (u16, Passage)> {
        let numbered = (0..).zip(self.0.iter());
        let own = numbered.filter(move |(of, _)| of % workers.max(1) == worker);
        own.filter_map(|(of, passage)| Some((of, passage.clone()?)))
    }

    /// Sends a datagram to the worker whose connection it may belong to, unless that was asked before. Returns whether it was sent, or
    /// lost because that worker reads nothing: QUIC sends it again.
    pub(crate) fn send(
        &mut self,
        id: &ConnectionId,
        asked: Source,
        datagram: &[u8],
        path: NetworkPath,
    ) -> bool {
        let Ok(workers @ 1..) = u16::try_from(self.0.len()) else { return false };
        let worker = id.worker(workers);
        if asked == Source::Predecessor(worker) {
            return false;
        }
        let sent = self.0[usize::from(worker)].as_ref().is_some_and(|to| to.send(datagram, path));
        if !sent {
            self.end(worker);
        }
        sent
    }

    /// A worker of the predecessor has no connection any more.
    pub(crate) fn end(&mut self, worker: u16) {
        if let Some(passage) = self.0.get_mut(usize::from(worker)) {
            *passage = None;
        }
    }
}

impl Passage {
    /// Sends a datagram; false if the other process has ended.
    pub(crate) fn send(&self, datagram: &[u8], path: NetworkPath) -> bool {
        let header = encode(path);
        let parts = [IoSlice::new(&header), IoSlice::new(datagram)];
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        let sent = sendmsg(&self.0, &parts, &mut SendAncillaryBuffer::default(), flags);
        !matches!(sent, Err(rustix::io::Errno::PIPE | rustix::io::Errno::CONNRESET))
    }

    /// Reads datagrams for `take` until the other process has ended.
    pub(crate) async fn read(&self, mut take: impl FnMut(&mut [u8], NetworkPath)) {
        // Its calls fit sockets of whole messages; those of this type end.
        let own = self.0.try_clone().map(StdSocket::from).and_then(UnixDatagram::from_std);
        let Ok(socket) = own else { return };
        let mut buffer = vec![0; HEADER_BYTES + DATAGRAM_BYTES_MAX];
        while let Ok(length @ 1..) = socket.recv(&mut buffer).await {
            let (header, datagram) = buffer[..length].split_at_mut(HEADER_BYTES.min(length));
            if let Some(path) = decode(header) {
                take(datagram, path);
            }
        }
    }
}

fn encode(path: NetworkPath) -> [u8; HEADER_BYTES] {
    let mut bytes = [0; HEADER_BYTES];
    for (address, place) in [path.local, path.client].iter().zip(bytes.chunks_exact_mut(ADDRESS_BYTES)) {
        let (family, ip, scope) = match address {
            SocketAddr::V4(address) => (4, address.ip().to_ipv6_mapped(), 0),
            SocketAddr::V6(address) => (6, *address.ip(), address.scope_id()),
        };
        place[0] = family;
        place[1..17].copy_from_slice(&ip.octets());
        place[17..19].copy_from_slice(&address.port().to_be_bytes());
        place[19..].copy_from_slice(&scope.to_be_bytes());
    }
    bytes
}

fn decode(bytes: &[u8]) -> Option<NetworkPath> {
    let (local, client) = bytes.split_at_checked(ADDRESS_BYTES)?;
    Some(NetworkPath { local: decode_address(local)?, client: decode_address(client)? })
}

fn decode_address(bytes: &[u8]) -> Option<SocketAddr> {
    let (&family, rest) = bytes.split_first()?;
    let (ip, rest) = rest.split_first_chunk::<16>()?;
    let (port, rest) = rest.split_first_chunk()?;
    let (scope, _) = rest.split_first_chunk()?;
    let (ip, port) = (Ipv6Addr::from(*ip), u16::from_be_bytes(*port));
    Some(match family {
        4 => SocketAddr::new(IpAddr::V4(ip.to_ipv4_mapped()?), port),
        _ => SocketAddr::V6(SocketAddrV6::new(ip, port, 0, u32::from_be_bytes(*scope))),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(local: &str, client: &str) -> NetworkPath {
        NetworkPath { local: local.parse().unwrap(), client: client.parse().unwrap() }
    }

    #[test]
    fn a_path_is_the_same_in_the_other_process() {
        for path in [
            path("192.0.2.1:443", "198.51.100.7:50000"),
            path("[2001:db8::1]:443", "[2001:db8::2]:1"),
            path("[fe80::1%3]:443", "[fe80::2%3]:65535"),
        ] {
            assert_eq!(decode(&encode(path)), Some(path));
        }
        assert_eq!(decode(&[4; HEADER_BYTES - 1]), None);
        assert_eq!(decode(&[4; HEADER_BYTES]), None, "no IPv4 address");
    }

    #[test]
    fn a_datagram_reaches_the_worker_of_its_id_once_and_no_process_that_has_ended() {
        let listener = "192.0.2.1:443".parse().unwrap();
        let (kept, given): (Vec<_>, Vec<_>) =
            (0..3).rev().map(|worker| pair(listener, worker).unwrap()).unzip();
        let other = pair("192.0.2.2:443".parse().unwrap(), 0).unwrap().1;
        let mut passages = Passages::by_listener(given.into_iter().chain([other]).collect());
        assert_eq!(passages.len(), 2);
        let mut passages = passages.remove(&listener).unwrap();
        assert_eq!(passages.read_by((1, 2)).map(|(worker, _)| worker).collect::<Vec<_>>(), [1]);
        assert_eq!(passages.read_by((0, 2)).map(|(worker, _)| worker).collect::<Vec<_>>(), [0, 2]);

        let id = ConnectionId::random(1, 3);
        let path = path("192.0.2.1:443", "198.51.100.7:50000");
        assert!(passages.send(&id, Source::Client, b"datagram", path));
        assert!(!passages.send(&id, Source::Predecessor(1), b"datagram", path));
        assert!(passages.send(&id, Source::Predecessor(0), b"again", path));
        let mut read = Vec::new();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().unwrap();
        // The ends of workers 2, 1 and 0.
        let own = kept[1].clone();
        drop(passages);
        runtime.block_on(own.read(|datagram, from| read.push((datagram.to_vec(), from))));
        assert_eq!(read, [(b"datagram".to_vec(), path), (b"again".to_vec(), path)]);
        assert!(!own.send(b"datagram", path), "the other process has ended");
    }
}
