//! The sockets of listeners: opened here, by a service manager, or by the server that this one succeeds.

use std::collections::BTreeMap;
use std::io;
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use penstock_config::{Listener, limits};
use penstock_sys::socket::{Binding, ListenError, adopt, listen, probe_free};
use penstock_sys::udp;

use crate::http3::{Passages, QuicPassage};
use crate::settings::StartError;

/// A socket that clients reach the server on. A clone is the same socket, which is closed with the last clone.
#[derive(Clone, Debug)]
pub enum ListenSocket {
    /// A listening TCP socket.
    Tcp(Arc<TcpListener>),
    /// A bound UDP socket, for QUIC.
    Udp(Arc<UdpSocket>),
}

/// What a listener is reached over. A TCP and a UDP socket may have the same address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Transport {
    Tcp,
    Udp,
}

impl ListenSocket {
    fn address(&self) -> io::Result<SocketAddr> {
        match self {
            Self::Tcp(socket) => socket.local_addr(),
            Self::Udp(socket) => socket.local_addr(),
        }
    }

    fn transport(&self) -> Transport {
        match self {
            Self::Tcp(_) => Transport::Tcp,
            Self::Udp(_) => Transport::Udp,
        }
    }

    fn is_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Tcp(one), Self::Tcp(other)) => Arc::ptr_eq(one, other),
            (Self::Udp(one), Self::Udp(other)) => Arc::ptr_eq(one, other),
            (Self::Tcp(_), Self::Udp(_)) | (Self::Udp(_), Self::Tcp(_)) => false,
        }
    }
}

impl From<TcpListener> for ListenSocket {
    fn from(socket: TcpListener) -> Self {
        Self::Tcp(Arc::new(socket))
    }
}

impl From<UdpSocket> for ListenSocket {
    fn from(socket: UdpSocket) -> Self {
        Self::Udp(Arc::new(socket))
    }
}

impl AsFd for ListenSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Tcp(socket) => socket.as_fd(),
            Self::Udp(socket) => socket.as_fd(),
        }
    }
}

/// Sockets that a server takes over instead of opening its own, for the listeners with their addresses. Each must be
/// non-blocking.
#[derive(Clone, Debug, Default)]
pub struct InheritedSockets {
    /// Opened by a service manager (`LISTEN_FDS`), which keeps them open too. They serve their listeners also after reloads
    /// that close and open these.
    pub of_manager: Vec<ListenSocket>,
    /// Of the server that this one succeeds, all of them. They belong to their listeners from now on; one that no listener
    /// needs is closed.
    pub of_predecessor: Vec<ListenSocket>,
    /// To the workers of that server, which has connections over QUIC.
    pub passages: Vec<QuicPassage>,
}

impl InheritedSockets {
    /// Adds the sockets of a predecessor's listener, each once.
    pub(crate) fn add_of_predecessor(&mut self, sockets: &[ListenSocket]) {
        for socket in sockets {
            let mut known = self.of_manager.iter().chain(&self.of_predecessor);
            if !known.any(|known| known.is_same(socket)) {
                self.of_predecessor.push(socket.clone());
            }
        }
    }
}

/// Inherited sockets by their addresses.
#[derive(Debug)]
pub(crate) struct GivenSockets {
    of_manager: Vec<(SocketAddr, ListenSocket)>,
    of_predecessor: Vec<(SocketAddr, ListenSocket)>,
    passages: BTreeMap<SocketAddr, Passages>,
}

/// The sockets of a listener.
#[derive(Debug)]
pub(crate) struct OpenedSockets {
    pub(crate) address: SocketAddr,
    /// For each worker at least one.
    pub(crate) of_workers: Vec<Vec<ListenSocket>>,
}

impl GivenSockets {
    /// # Errors
    /// A socket has no address, or no listener has the address of a service manager's socket.
    pub(crate) fn new<'l>(
        sockets: InheritedSockets,
        listeners: impl Iterator<Item = &'l Listener>,
    ) -> Result<Self, StartError> {
        let wanted: Vec<SocketAddr> = listeners.map(|listener| listener.address).collect();
        let of_manager = with_addresses(sockets.of_manager)?;
        if let Some((address, _)) = of_manager.iter().find(|(address, _)| !wanted.contains(address)) {
            return Err(StartError::UnusedSocket(*address));
        }
        let of_predecessor = with_addresses(sockets.of_predecessor)?;
        Ok(Self { of_manager, of_predecessor, passages: Passages::by_listener(sockets.passages) })
    }

    /// The sockets of the service manager.
    pub(crate) fn of_manager(&self) -> impl Iterator<Item = &ListenSocket> {
        self.of_manager.iter().map(|(_, socket)| socket)
    }

    /// Forgets the predecessor's sockets: those of listeners belong to them.
    pub(crate) fn forget_predecessor(&mut self) {
        self.of_predecessor = Vec::new();
        self.passages = BTreeMap::new();
    }

    /// To the process before, which has connections of this listener.
    pub(crate) fn passages(&self, listener: SocketAddr) -> Passages {
        self.passages.get(&listener).cloned().unwrap_or_default()
    }

    fn at(&self, address: SocketAddr, transport: Transport) -> Vec<&ListenSocket> {
        let given = self.of_manager.iter().chain(&self.of_predecessor);
        let same = given.filter(|(known, socket)| *known == address && socket.transport() == transport);
        same.map(|(_, socket)| socket).collect()
    }

    /// Opens the TCP sockets of a listener. `is_new` ones are opened only if no other program has the port.
    ///
    /// # Errors
    /// See [`StartError::Listen`].
    pub(crate) fn open_tcp(
        &self,
        configured: &Listener,
        workers: usize,
        is_new: bool,
    ) -> Result<OpenedSockets, StartError> {
        let options = &configured.socket;
        let is_given = !self.at(configured.address, Transport::Tcp).is_empty();
        if !is_given && is_new && configured.address.port() != 0 {
            probe_free(configured.address).map_err(StartError::Listen)?;
        }
        let reuse = |socket: &ListenSocket| match socket {
            ListenSocket::Tcp(socket) => adopt(socket, options),
            ListenSocket::Udp(_) => Ok(()),
        };
        let open = |address| listen(address, options).map(ListenSocket::from);
        self.open((configured.address, Transport::Tcp), workers, reuse, open)
    }

    /// Opens the UDP sockets of a listener that speaks HTTP/3. The kernel gives each datagram to the worker that its connection id
    /// names. `is_new` ones are opened only if no other program has the port.
    ///
    /// # Errors
    /// See [`StartError::Listen`].
    pub(crate) fn open_udp(
        &self,
        address: SocketAddr,
        binding: Binding,
        workers: usize,
        is_new: bool,
    ) -> Result<Vec<Vec<ListenSocket>>, StartError> {
        if self.at(address, Transport::Udp).is_empty() && is_new {
            udp::probe_free(address).map_err(StartError::Listen)?;
        }
        let open = |address| udp::bind(address, binding, limits::UDP_BUFFER_BYTES).map(ListenSocket::from);
        let mut opened = self.open((address, Transport::Udp), workers, |_| Ok(()), open)?;
        // The kernel counts the sockets in the order in which they were bound: the workers beyond those of a predecessor get sockets
        // of their own behind its.
        let given = self.at(address, Transport::Udp).len();
        for sockets in opened.of_workers.iter_mut().skip(given).filter(|_| given > 0) {
            *sockets = vec![open(opened.address).map_err(StartError::Listen)?];
        }
        let sockets = opened.of_workers.first().map_or(&[][..], Vec::as_slice);
        steer(sockets, workers).map_err(StartError::Thread)?;
        Ok(opened.of_workers)
    }

    /// Sockets of one address for all workers. Inherited sockets are all used, however many there are: connections may wait in
    /// the queue of each. Workers share them if they are more. Without any, `open` makes one for each worker; the
    /// address of the first is that of the others.
    ///
    /// # Errors
    /// See [`StartError::Listen`].
    pub(crate) fn open(
        &self,
        (address, transport): (SocketAddr, Transport),
        workers: usize,
        reuse: impl Fn(&ListenSocket) -> Result<(), ListenError>,
        open: impl Fn(SocketAddr) -> Result<ListenSocket, ListenError>,
    ) -> Result<OpenedSockets, StartError> {
        let given = self.at(address, transport);
        let mut opened = OpenedSockets { address, of_workers: vec![Vec::new(); workers] };
        if given.is_empty() {
            for sockets in &mut opened.of_workers {
                let socket = open(opened.address).map_err(StartError::Listen)?;
                opened.address = socket.address().map_err(StartError::Thread)?;
                sockets.push(socket);
            }
            return Ok(opened);
        }
        for socket in &given {
            reuse(socket).map_err(StartError::Listen)?;
        }
        for number in 0..given.len().max(workers) {
            opened.of_workers[number % workers].push(given[number % given.len()].clone());
        }
        Ok(opened)
    }
}

/// Has the kernel give each datagram to the worker that its connection id names, if there is a UDP socket.
pub(crate) fn steer(sockets: &[ListenSocket], workers: usize) -> io::Result<()> {
    let Some(socket) = sockets.iter().find(|socket| socket.transport() == Transport::Udp) else {
        return Ok(());
    };
    udp::steer_by_connection_id(socket, u16::try_from(workers).unwrap_or(u16::MAX))
}

fn with_addresses(sockets: Vec<ListenSocket>) -> Result<Vec<(SocketAddr, ListenSocket)>, StartError> {
    let with_address = |socket: ListenSocket| socket.address().map(|address| (address, socket));
    sockets.into_iter().map(with_address).collect::<io::Result<_>>().map_err(StartError::Thread)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn inherited(tcp: usize, udp: usize) -> (SocketAddr, GivenSockets) {
        let first = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = first.local_addr().unwrap();
        let mut of_predecessor: Vec<ListenSocket> =
            (0..tcp).map(|_| first.try_clone().unwrap().into()).collect();
        if udp > 0 {
            let first = UdpSocket::bind(address).unwrap();
            of_predecessor.extend((0..udp).map(|_| ListenSocket::from(first.try_clone().unwrap())));
        }
        let sockets = InheritedSockets { of_predecessor, ..InheritedSockets::default() };
        (address, GivenSockets::new(sockets, std::iter::empty()).unwrap())
    }

    fn opened(given: &GivenSockets, at: (SocketAddr, Transport), workers: usize) -> Vec<usize> {
        let open = |address| panic!("{address} is inherited");
        let sockets = given.open(at, workers, |_| Ok(()), open).unwrap();
        assert_eq!(sockets.address, at.0);
        assert!(sockets.of_workers.iter().flatten().all(|socket| socket.transport() == at.1));
        let mut distinct: Vec<&ListenSocket> = Vec::new();
        for socket in sockets.of_workers.iter().flatten() {
            if !distinct.iter().any(|known| known.is_same(socket)) {
                distinct.push(socket);
            }
        }
        assert_eq!(distinct.len(), given.at(at.0, at.1).len(), "each inherited socket is used");
        sockets.of_workers.iter().map(Vec::len).collect()
    }

    #[test]
    fn each_inherited_socket_has_a_worker_and_each_worker_a_socket() {
        let (address, given) = inherited(3, 2);
        for (workers, expected) in [(1, &[3][..]), (2, &[2, 1]), (3, &[1, 1, 1]), (4, &[1, 1, 1, 1])] {
            assert_eq!(opened(&given, (address, Transport::Tcp), workers), expected);
        }
        assert_eq!(opened(&given, (address, Transport::Udp), 2), [1, 1], "not those of TCP");
    }

    #[test]
    fn a_socket_that_is_given_on_is_given_once() {
        let (_, given) = inherited(2, 1);
        let sockets: Vec<ListenSocket> =
            given.of_predecessor.iter().map(|(_, socket)| socket.clone()).collect();
        let of_manager = vec![sockets[0].clone()];
        let mut next = InheritedSockets { of_manager, ..InheritedSockets::default() };
        next.add_of_predecessor(&sockets);
        next.add_of_predecessor(&sockets[1..]);
        assert_eq!((next.of_manager.len(), next.of_predecessor.len()), (1, 2));
    }
}
