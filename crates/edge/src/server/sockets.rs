//! Listening sockets: one for each worker, opened here or given by another process.

use std::io;
use std::net::{SocketAddr, TcpListener, UdpSocket};

use penstock_config::Listener;
use penstock_config::limits;
use penstock_http3::IdKey;
use penstock_sys::socket::{listen, probe_free, share};
use penstock_sys::udp;

use crate::settings::StartError;

/// A socket that clients reach the server on.
#[derive(Debug)]
pub enum ListenSocket {
    /// A listening TCP socket.
    Tcp(TcpListener),
}

impl ListenSocket {
    fn address(&self) -> io::Result<SocketAddr> {
        match self {
            Self::Tcp(socket) => socket.local_addr(),
        }
    }
}

/// A UDP socket for each worker on the address of a listener that speaks HTTP/3, and the key of its tokens. The kernel gives each
/// datagram to the worker that its connection id names.
///
/// # Errors
/// See [`StartError::Listen`].
pub(crate) fn open_quic(
    address: SocketAddr,
    workers: usize,
    is_new: bool,
) -> Result<(Vec<UdpSocket>, IdKey), StartError> {
    if is_new {
        udp::probe_free(address).map_err(StartError::Listen)?;
    }
    let open = |_| udp::bind(address, limits::UDP_BUFFER_BYTES).map_err(StartError::Listen);
    let sockets = (0..workers).map(open).collect::<Result<Vec<UdpSocket>, StartError>>()?;
    if let Some(first) = sockets.first() {
        let count = u16::try_from(workers).unwrap_or(u16::MAX);
        udp::steer_by_connection_id(first, count).map_err(StartError::Thread)?;
    }
    Ok((sockets, IdKey::random()))
}

/// Sockets that another process has opened for this server, and keeps open itself: they serve the listeners with their
/// addresses, also after reloads.
#[derive(Debug, Default)]
pub(crate) struct GivenSockets(Vec<(SocketAddr, ListenSocket)>);

impl GivenSockets {
    /// # Errors
    /// A socket has no address, or no listener has its address.
    pub(crate) fn new<'l>(
        sockets: Vec<ListenSocket>,
        listeners: impl Iterator<Item = &'l Listener>,
    ) -> Result<Self, StartError> {
        let wanted: Vec<SocketAddr> = listeners.map(|listener| listener.address).collect();
        let mut given = Vec::with_capacity(sockets.len());
        for socket in sockets {
            let address = socket.address().map_err(StartError::Thread)?;
            if !wanted.contains(&address) {
                return Err(StartError::UnusedSocket(address));
            }
            given.push((address, socket));
        }
        Ok(Self(given))
    }

    fn at(&self, address: SocketAddr) -> Vec<&TcpListener> {
        let same = self.0.iter().filter(|(known, _)| *known == address);
        same.map(|(_, ListenSocket::Tcp(socket))| socket).collect()
    }

    /// A socket of a listener for each worker, and their address. Workers share a socket that was given. Otherwise each has
    /// its own, and `is_new` ones only if no other program has the port.
    ///
    /// # Errors
    /// See [`StartError::Listen`].
    pub(crate) fn open(
        &self,
        written: &Listener,
        workers: usize,
        is_new: bool,
    ) -> Result<(SocketAddr, Vec<TcpListener>), StartError> {
        let given = self.at(written.address);
        if given.is_empty() && is_new && written.address.port() != 0 {
            probe_free(written.address).map_err(StartError::Listen)?;
        }
        let mut address = written.address;
        let mut sockets = Vec::with_capacity(workers);
        for worker in 0..workers {
            let socket = match given.get(worker % given.len().max(1)) {
                Some(given) => share(given, &written.socket),
                None => listen(address, &written.socket),
            };
            let socket = socket.map_err(StartError::Listen)?;
            address = socket.local_addr().map_err(StartError::Thread)?;
            sockets.push(socket);
        }
        Ok((address, sockets))
    }
}
