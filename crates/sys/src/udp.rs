//! UDP sockets for QUIC: many datagrams in each system call, and one socket for each worker.
//!
//! The workers' sockets share an address (`SO_REUSEPORT`). [`steer_by_connection_id`] has the kernel give each datagram to the
//! worker that its connection id names. [`Inlet`] receives several datagrams at once (recvmmsg(2), `UDP_GRO`), and
//! [`send_train`] sends several at once (`UDP_SEGMENT`).

mod address;
mod control;
mod steer;

use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::ptr;

use socket2::{Domain, Protocol, Socket, Type};

use address::{RawAddress, read_address};
use control::{Control, Received, read_control};

use crate::socket::{Binding, ListenError};

pub use steer::steer_by_connection_id;

/// Most datagrams of one train (`UDP_MAX_SEGMENTS` of Linux before 6.9).
pub const TRAIN_DATAGRAMS_MAX: usize = 64;

/// Most bytes of one train: what fits into one IPv4 packet behind its headers.
pub const TRAIN_BYTES_MAX: usize = 65_507;

/// Messages that one call receives.
const MESSAGES: usize = 8;

/// Bytes of one message: a train that the kernel has put together.
const MESSAGE_BYTES: usize = 65_536;

/// Opens a non-blocking UDP socket that shares its port with the other workers' (`SO_REUSEPORT`). `buffer_bytes` is asked for
/// both directions; the system may give less.
///
/// # Errors
/// The step that failed; nothing is left open.
pub fn bind(address: SocketAddr, binding: Binding, buffer_bytes: usize) -> Result<UdpSocket, ListenError> {
    let fail = |step| move |source| ListenError { address, step, source };
    let domain = Domain::for_address(address);
    let socket = Socket::new(domain, Type::DGRAM.nonblocking(), Some(Protocol::UDP));
    let socket = socket.map_err(fail("socket"))?;
    if address.is_ipv6() {
        socket.set_only_v6(true).map_err(fail("IPV6_V6ONLY"))?;
    }
    socket.set_reuse_port(true).map_err(fail("SO_REUSEPORT"))?;
    // Both are hints: net.core.rmem_max and net.core.wmem_max bound them.
    let _bounded = socket.set_recv_buffer_size(buffer_bytes);
    let _bounded = socket.set_send_buffer_size(buffer_bytes);
    if address.ip().is_unspecified() {
        // An answer has to come from the address that the client has sent to.
        let (level, name) = match address {
            SocketAddr::V4(_) => (libc::IPPROTO_IP, libc::IP_PKTINFO),
            SocketAddr::V6(_) => (libc::IPPROTO_IPV6, libc::IPV6_RECVPKTINFO),
        };
        set_option(&socket, level, name, 1).map_err(fail("IP_PKTINFO"))?;
    }
    prepare(&socket, address).map_err(fail("IP_MTU_DISCOVER"))?;
    binding.set(&socket, address)?;
    socket.bind(&address.into()).map_err(fail("bind"))?;
    Ok(socket.into())
}

/// Opens a non-blocking UDP socket with a port of its own, connected to `server`.
///
/// # Errors
/// What the system said.
pub fn connect(server: SocketAddr, buffer_bytes: usize) -> io::Result<UdpSocket> {
    let socket = Socket::new(Domain::for_address(server), Type::DGRAM.nonblocking(), Some(Protocol::UDP))?;
    let _bounded = socket.set_recv_buffer_size(buffer_bytes);
    prepare(&socket, server)?;
    socket.connect(&server.into())?;
    Ok(socket.into())
}

/// Sets what sockets of QUIC have in common.
fn prepare(socket: &Socket, address: SocketAddr) -> io::Result<()> {
    // QUIC must not be fragmented (RFC 9000 §14); path MTU discovery is that of QUIC.
    let (level, name, probe) = match address {
        SocketAddr::V4(_) => (libc::IPPROTO_IP, libc::IP_MTU_DISCOVER, libc::IP_PMTUDISC_PROBE),
        SocketAddr::V6(_) => (libc::IPPROTO_IPV6, libc::IPV6_MTU_DISCOVER, libc::IPV6_PMTUDISC_PROBE),
    };
    set_option(socket, level, name, probe)?;
    // Linux before 5.0 has no GRO for UDP: each datagram is a message of its own then.
    let _unsupported = set_option(socket, libc::SOL_UDP, libc::UDP_GRO, 1);
    Ok(())
}

/// Whether the kernel splits trains, tried over loopback.
///
/// # Errors
/// What the system said to a socket.
pub fn splits_trains() -> io::Result<bool> {
    let [to, from] = [(); 2].map(|()| UdpSocket::bind((std::net::Ipv4Addr::LOCALHOST, 0)));
    let (to, from) = (to?, from?);
    to.set_nonblocking(true)?;
    // An old kernel does not know what it is told, and sends one datagram.
    let is_split = send_train(&from, &[0; 20], 10, to.local_addr()?, None).is_ok();
    Ok(is_split && matches!(to.recv(&mut [0; 20]), Ok(10)))
}

/// Checks that no other program has the UDP port of `address`.
///
/// # Errors
/// As [`bind`].
pub fn probe_free(address: SocketAddr) -> Result<(), ListenError> {
    let fail = |step| move |source| ListenError { address, step, source };
    let domain = Domain::for_address(address);
    let socket = Socket::new(domain, Type::DGRAM, Some(Protocol::UDP)).map_err(fail("socket"))?;
    if address.is_ipv6() {
        socket.set_only_v6(true).map_err(fail("IPV6_V6ONLY"))?;
    }
    Binding::Free.set(&socket, address)?;
    socket.bind(&address.into()).map_err(fail("bind"))
}

fn set_option(
    socket: &impl AsFd,
    level: libc::c_int,
    name: libc::c_int,
    value: libc::c_int,
) -> io::Result<()> {
    let length = libc::socklen_t::try_from(size_of::<libc::c_int>()).unwrap_or(0);
    let fd = socket.as_fd().as_raw_fd();
    // SAFETY: the descriptor is open, and the pointer is valid for `length` bytes.
    let result = unsafe { libc::setsockopt(fd, level, name, (&raw const value).cast(), length) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Datagrams that came from one client in a row.
#[derive(Debug)]
pub struct Arrival<'a> {
    /// The client.
    pub from: SocketAddr,
    /// The address that the client has sent to; `None` if the socket is bound to one address.
    pub to: Option<IpAddr>,
    /// Bytes of each datagram; the last one may be shorter. At least 1.
    pub datagram_bytes: usize,
    /// The datagrams, one behind the other.
    pub bytes: &'a mut [u8],
}

/// Where datagrams are received: one for each worker.
pub struct Inlet {
    slab: Vec<u8>,
}

impl Default for Inlet {
    fn default() -> Self {
        Self { slab: vec![0; MESSAGES * MESSAGE_BYTES] }
    }
}

impl std::fmt::Debug for Inlet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Inlet").finish_non_exhaustive()
    }
}

impl Inlet {
    /// Receives what has come, without waiting, and gives it to `take`. Returns the number of messages; at most
    /// [`Self::MESSAGES`].
    ///
    /// # Errors
    /// `WouldBlock` if nothing has come, or what the system said.
    pub fn receive(&mut self, socket: impl AsFd, mut take: impl FnMut(Arrival<'_>)) -> io::Result<usize> {
        let mut names = [RawAddress::default(); MESSAGES];
        let mut controls = [Control::default(); MESSAGES];
        let mut vectors = [libc::iovec { iov_base: ptr::null_mut(), iov_len: 0 }; MESSAGES];
        // SAFETY: all zeros is a valid header: no address, no vectors, no control data.
        let mut headers: [libc::mmsghdr; MESSAGES] = unsafe { std::mem::zeroed() };
        let buffers = self.slab.chunks_exact_mut(MESSAGE_BYTES).zip(&mut vectors);
        let places = names.iter_mut().zip(&mut controls).zip(buffers);
        for (header, ((name, control), (buffer, vector))) in headers.iter_mut().zip(places) {
            *vector = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
            header.msg_hdr.msg_name = ptr::from_mut(name).cast();
            header.msg_hdr.msg_namelen = RawAddress::LENGTH;
            header.msg_hdr.msg_iov = vector;
            header.msg_hdr.msg_iovlen = 1;
            header.msg_hdr.msg_control = ptr::from_mut(control).cast();
            header.msg_hdr.msg_controllen = size_of::<Control>();
        }
        let fd = socket.as_fd().as_raw_fd();
        let count = receive_many(fd, &mut headers)?;
        let messages =
            self.slab.chunks_exact_mut(MESSAGE_BYTES).zip(&headers).zip(names.iter().zip(&controls));
        for ((buffer, header), (name, control)) in messages.take(count) {
            let length = (header.msg_len as usize).min(buffer.len());
            let Some(from) = read_address(name) else { continue };
            if length == 0 || header.msg_hdr.msg_flags & libc::MSG_TRUNC != 0 {
                continue;
            }
            let Received { to, datagram_bytes } = read_control(control, header.msg_hdr.msg_controllen);
            let datagram_bytes = datagram_bytes.filter(|bytes| *bytes > 0).unwrap_or(length);
            take(Arrival { from, to, datagram_bytes, bytes: &mut buffer[..length] });
        }
        Ok(count)
    }

    /// Messages that one call receives at most.
    pub const MESSAGES: usize = MESSAGES;
}

fn receive_many(fd: RawFd, headers: &mut [libc::mmsghdr]) -> io::Result<usize> {
    let space = libc::c_uint::try_from(headers.len()).unwrap_or(0);
    // SAFETY: each header names memory of this call's caller with its length, which the kernel writes and nothing else uses.
    let count =
        unsafe { libc::recvmmsg(fd, headers.as_mut_ptr(), space, libc::MSG_DONTWAIT, ptr::null_mut()) };
    usize::try_from(count).map_err(|_| io::Error::last_os_error())
}

/// Sends datagrams to one client, without waiting: each has `datagram_bytes`, the last one may be shorter. At most
/// [`TRAIN_DATAGRAMS_MAX`] and [`TRAIN_BYTES_MAX`]. They come from `from`, if that is given.
///
/// # Errors
/// `WouldBlock` if the socket is full, `EIO` if the interface cannot split a train, or what the system said. Nothing was sent
/// then.
pub fn send_train(
    socket: impl AsFd,
    bytes: &[u8],
    datagram_bytes: usize,
    to: SocketAddr,
    from: Option<IpAddr>,
) -> io::Result<()> {
    let mut name = RawAddress::of(to);
    let split = (bytes.len() > datagram_bytes).then_some(datagram_bytes);
    let (mut control, control_bytes) = Control::of(split, from);
    let mut vector = libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
    // SAFETY: all zeros is a valid message: no address, no vectors, no control data.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_name = (&raw mut name).cast();
    message.msg_namelen = name.length();
    message.msg_iov = &raw mut vector;
    message.msg_iovlen = 1;
    if control_bytes > 0 {
        message.msg_control = (&raw mut control).cast();
        message.msg_controllen = control_bytes;
    }
    let fd = socket.as_fd().as_raw_fd();
    // SAFETY: address, vector, bytes and control data live until the call returns, and the kernel only reads them.
    let sent = unsafe { libc::sendmsg(fd, &raw const message, libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL) };
    if sent < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

#[cfg(test)]
mod tests;
