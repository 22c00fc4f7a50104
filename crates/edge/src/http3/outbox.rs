//! Datagrams on their way to the socket: trains of datagrams of one length for one client, each sent by one system call.

use std::cell::{Cell, RefCell};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use penstock_config::limits;
use penstock_http3::{MAX_DATAGRAM_BYTES, NetworkPath, ServerConnection};
use penstock_sys::udp::{TRAIN_BYTES_MAX, TRAIN_DATAGRAMS_MAX, send_train};
use tokio::io::Interest;
use tokio::net::UdpSocket;

use crate::metrics::{Work, doing};

/// What is due within this time leaves together.
const PACE: Duration = Duration::from_millis(limits::HTTP3_PACE_MILLISECONDS);

/// The socket of one worker, and what its connections send with.
#[derive(Debug)]
pub(super) struct Outbox {
    socket: UdpSocket,
    /// Whether the socket is bound to every address: each datagram then names the address that it comes from.
    names_source: bool,
    /// Whether the interface, or the kernel in its place, splits trains.
    splits: Cell<bool>,
    /// Where trains are put together: as long as the longest.
    train: RefCell<Vec<u8>>,
}

/// A train that the socket did not take.
#[derive(Debug)]
pub(super) struct Unsent {
    bytes: Vec<u8>,
    datagram_bytes: usize,
    path: NetworkPath,
}

/// How far a connection has sent what it has.
#[derive(Debug, Default)]
pub(super) struct Flushed {
    /// Bytes of datagrams given to the socket.
    pub(super) bytes: usize,
    /// What the socket did not take; the connection sends nothing else before it.
    pub(super) unsent: Option<Unsent>,
    /// When the pace of the connection lets it go on.
    pub(super) due: Option<Instant>,
}

impl Outbox {
    pub(super) fn new(socket: UdpSocket, names_source: bool) -> Self {
        let train = RefCell::new(vec![0; TRAIN_BYTES_MAX]);
        Self { socket, names_source, splits: Cell::new(true), train }
    }

    pub(super) fn socket(&self) -> &UdpSocket {
        &self.socket
    }

    /// Sends one datagram that belongs to no connection. One that the socket does not take is dropped.
    pub(super) fn send_alone(&self, datagram: &[u8], path: NetworkPath) {
        drop(self.send(datagram, datagram.len(), path));
    }

    /// Sends a train that the socket did not take before.
    pub(super) fn send_again(&self, unsent: Unsent) -> Flushed {
        self.offer(&unsent.bytes, unsent.datagram_bytes, unsent.path)
    }

    /// Sends what a connection has, as far as the socket takes it, up to about `most` bytes.
    pub(super) fn flush(&self, connection: &mut ServerConnection, most: usize) -> Flushed {
        let mut flushed = Flushed::default();
        let now = Instant::now();
        let mut train = self.train.borrow_mut();
        // The datagram that did not fit to the train before it. It is at the front now.
        let mut begun: Option<(usize, NetworkPath)> = None;
        let mut has_more = true;
        while has_more && flushed.unsent.is_none() && flushed.bytes < most {
            let first = match begun.take() {
                Some(first) => Some(first),
                None => {
                    flushed.due = connection.due(now, PACE);
                    if flushed.due.is_some() {
                        break;
                    }
                    packet(connection, &mut train)
                }
            };
            let Some((datagram_bytes, path)) = first else { break };
            let mut count = 1;
            let mut end = datagram_bytes;
            while count < TRAIN_DATAGRAMS_MAX
                && end + MAX_DATAGRAM_BYTES <= TRAIN_BYTES_MAX
                && connection.due(now, PACE).is_none()
            {
                let Some((length, to)) = packet(connection, &mut train[end..]) else {
                    has_more = false;
                    break;
                };
                if length > datagram_bytes || to != path {
                    begun = Some((length, to));
                    break;
                }
                (count, end) = (count + 1, end + length);
                if length < datagram_bytes {
                    break;
                }
            }
            let offered = self.offer(&train[..end], datagram_bytes, path);
            flushed.bytes += offered.bytes;
            flushed.unsent = offered.unsent;
            if let Some((length, _)) = begun {
                train.copy_within(end..end + length, 0);
            }
        }
        // If the socket is full it is lost, and QUIC sends its content again.
        if let Some((length, to)) = begun.filter(|_| flushed.unsent.is_none()) {
            let last = self.offer(&train[..length], length, to);
            flushed.bytes += last.bytes;
            flushed.unsent = last.unsent;
        }
        flushed
    }

    fn offer(&self, bytes: &[u8], datagram_bytes: usize, path: NetworkPath) -> Flushed {
        match self.send(bytes, datagram_bytes, path) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                let unsent = Some(Unsent { bytes: bytes.to_vec(), datagram_bytes, path });
                Flushed { unsent, ..Flushed::default() }
            }
            // Others concern this client alone, such as a network that is out of reach: QUIC takes the packets for lost.
            Ok(()) | Err(_) => Flushed { bytes: bytes.len(), ..Flushed::default() },
        }
    }

    fn send(&self, bytes: &[u8], datagram_bytes: usize, path: NetworkPath) -> io::Result<()> {
        doing(Work::Sending, || self.send_from(bytes, datagram_bytes, path))
    }

    fn send_from(&self, bytes: &[u8], datagram_bytes: usize, path: NetworkPath) -> io::Result<()> {
        let from = self.names_source.then(|| path.local.ip()).filter(|from| !from.is_unspecified());
        if self.splits.get() || bytes.len() <= datagram_bytes {
            match self.send_now(bytes, datagram_bytes, path.client, from) {
                Err(error) if bytes.len() > datagram_bytes && cannot_split(&error) => self.splits.set(false),
                result => return result,
            }
        }
        for datagram in bytes.chunks(datagram_bytes) {
            self.send_now(datagram, datagram.len(), path.client, from)?;
        }
        Ok(())
    }

    fn send_now(
        &self,
        bytes: &[u8],
        datagram_bytes: usize,
        to: SocketAddr,
        from: Option<IpAddr>,
    ) -> io::Result<()> {
        let send = || send_train(&self.socket, bytes, datagram_bytes, to, from);
        self.socket.try_io(Interest::WRITABLE, send)
    }
}

/// Whether the interface has no checksums in hardware, without which the kernel splits nothing.
fn cannot_split(error: &io::Error) -> bool {
    let errno = rustix::io::Errno::from_io_error(error);
    matches!(errno, Some(rustix::io::Errno::IO | rustix::io::Errno::INVAL | rustix::io::Errno::OPNOTSUPP))
}

/// Writes the next datagram of a connection.
fn packet(connection: &mut ServerConnection, out: &mut [u8]) -> Option<(usize, NetworkPath)> {
    let longest = out.len().min(MAX_DATAGRAM_BYTES);
    doing(Work::Sealing, || connection.packet(&mut out[..longest]))
}
