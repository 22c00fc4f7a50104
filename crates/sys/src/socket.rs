//! Listening sockets with every option that a video edge tunes, set before `bind`.

use std::fmt;
use std::io;
use std::mem::offset_of;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::net::sockopt::set_tcp_quickack;
use socket2::{Domain, Protocol, SockRef, Socket, Type};

/// Which addresses a listener may be bound to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Binding {
    /// Those that an interface of this machine has.
    Present,
    /// Any, also one that an interface gets later (`IP_FREEBIND`).
    Free,
}

impl Binding {
    /// Sets the option; before bind(2).
    pub(crate) fn set(self, socket: &Socket, address: SocketAddr) -> Result<(), ListenError> {
        let set = match (self, address) {
            (Self::Present, _) => return Ok(()),
            (Self::Free, SocketAddr::V4(_)) => socket.set_freebind_v4(true),
            (Self::Free, SocketAddr::V6(_)) => socket.set_freebind_v6(true),
        };
        set.map_err(|source| ListenError { address, step: "freebind", source })
    }
}

/// Options of a listener; accepted sockets inherit those that concern a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListenOptions {
    /// Which addresses it may have.
    pub binding: Binding,
    /// `SO_SNDBUF` in bytes; `None` leaves it to the kernel's autotuning.
    pub send_buffer: Option<usize>,
    /// `SO_RCVBUF` in bytes; `None` leaves it to the kernel's autotuning.
    pub receive_buffer: Option<usize>,
    /// `TCP_NOTSENT_LOWAT` in bytes: how much unsent data counts as "not writable".
    pub unsent_low_water: Option<u32>,
    /// `TCP_CONGESTION`, such as `bbr`; `None` for the system's.
    pub congestion_control: Option<String>,
    /// `TCP_FASTOPEN` queue length; 0 is off.
    pub fast_open: u32,
    /// `TCP_DEFER_ACCEPT`: wake the server only once the client has sent something; zero is off.
    pub defer_accept: Duration,
    /// Length of the accept queue.
    pub backlog: u32,
}

/// Which step failed, and what the system said.
#[derive(Debug)]
pub struct ListenError {
    /// The address of the listener.
    pub address: SocketAddr,
    /// The option or operation that failed, named as in the configuration.
    pub step: &'static str,
    /// The error of the system.
    pub source: io::Error,
}

impl ListenError {
    /// What an operator can do about it.
    #[must_use]
    pub fn remedy(&self) -> Option<&'static str> {
        match self.source.kind() {
            io::ErrorKind::AddrInUse => {
                Some("another program has this port: stop it or choose another address")
            }
            io::ErrorKind::PermissionDenied => {
                Some("ports below 1024 need CAP_NET_BIND_SERVICE (AmbientCapabilities in a systemd unit)")
            }
            io::ErrorKind::AddrNotAvailable => Some(
                "no interface of this machine has this address: add it, or write freebind: true in its listener to start without it",
            ),
            _ if self.step == "congestion_control" => {
                Some("see net.ipv4.tcp_available_congestion_control, or load its module")
            }
            _ => None,
        }
    }
}

/// Without the remedy.
impl fmt::Display for ListenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot listen on {}: {}: {}", self.address, self.step, self.source)
    }
}

impl std::error::Error for ListenError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.source)
    }
}

/// Checks that no other program listens on `address`.
///
/// `SO_REUSEPORT` would let a second server of the same user share the port silently, and each would get a
/// part of the clients.
///
/// # Errors
/// As [`listen`].
pub fn probe_free(address: SocketAddr) -> Result<(), ListenError> {
    let fail = |step| move |source| ListenError { address, step, source };
    let socket = new_socket(address).map_err(fail("socket"))?;
    // An address without an interface is not taken; whether the listener may have it, its own bind(2) says.
    Binding::Free.set(&socket, address)?;
    socket.bind(&address.into()).map_err(fail("bind"))
}

/// Checks that `address` may be bound to: without `Binding::Free` an interface must have it. No port is opened.
///
/// # Errors
/// As [`listen`].
pub fn probe_present(address: SocketAddr, binding: Binding) -> Result<(), ListenError> {
    let fail = |step| move |source| ListenError { address, step, source };
    let socket = new_socket(address).map_err(fail("socket"))?;
    binding.set(&socket, address)?;
    // Any free port: another program may have that of the address.
    let mut any_port = address;
    any_port.set_port(0);
    socket.bind(&any_port.into()).map_err(fail("bind"))
}

/// Asks whether this process may choose an algorithm of TCP for its sockets. The kernel may load a module for it.
///
/// # Errors
/// What the system said: `ENOENT` if it has no such algorithm, `EPERM` if this user may not choose it.
pub fn probe_congestion_control(name: &str) -> io::Result<()> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::TCP))?;
    socket.set_tcp_congestion(name.as_bytes())
}

/// Opens a non-blocking listener that shares its port with the other workers' (`SO_REUSEPORT`).
///
/// TCP acknowledges the first bytes of its connections with the answer, or after 40 ms (`TCP_QUICKACK` 0): one packet less for
/// each connection.
///
/// # Errors
/// The step that failed; nothing is left open.
pub fn listen(address: SocketAddr, options: &ListenOptions) -> Result<TcpListener, ListenError> {
    let fail = |step| move |source| ListenError { address, step, source };
    let socket = new_socket(address).map_err(fail("socket"))?;
    socket.set_reuse_port(true).map_err(fail("SO_REUSEPORT"))?;
    set_options(&socket, address, options)?;
    options.binding.set(&socket, address)?;
    socket.bind(&address.into()).map_err(fail("bind"))?;
    begin(&socket, address, options)?;
    Ok(socket.into())
}

/// Sets these options of a listener that another process has opened.
///
/// # Errors
/// The step that failed; the options before it are set.
pub fn adopt(given: &TcpListener, options: &ListenOptions) -> Result<(), ListenError> {
    let unknown = SocketAddr::from(([0, 0, 0, 0], 0));
    let address = given.local_addr().unwrap_or(unknown);
    set_options(&SockRef::from(given), address, options)?;
    begin(&SockRef::from(given), address, options)
}

/// The most sockets that a parent process may give.
const GIVEN_MAX: i32 = 1024;

/// Takes the listeners that a service manager has opened for this process (`LISTEN_PID` and `LISTEN_FDS` of sd_listen_fds(3)).
/// Later calls get none.
///
/// # Errors
/// A descriptor that is not open, or no listening TCP socket.
pub fn given_listeners() -> io::Result<Vec<TcpListener>> {
    static ARE_TAKEN: AtomicBool = AtomicBool::new(false);
    let number = |name| std::env::var(name).ok().and_then(|text| text.parse::<u32>().ok());
    if number("LISTEN_PID") != Some(std::process::id()) || ARE_TAKEN.swap(true, Ordering::SeqCst) {
        return Ok(Vec::new());
    }
    let count = number("LISTEN_FDS").and_then(|count| i32::try_from(count).ok()).unwrap_or(0).min(GIVEN_MAX);
    (FIRST_GIVEN..FIRST_GIVEN + count).map(given_listener).collect()
}

/// The descriptor of the first socket (`SD_LISTEN_FDS_START`).
const FIRST_GIVEN: RawFd = 3;

fn given_listener(descriptor: RawFd) -> io::Result<TcpListener> {
    // SAFETY: F_SETFD changes a flag of the descriptor, and fails if it is not open.
    if unsafe { libc::fcntl(descriptor, libc::F_SETFD, libc::FD_CLOEXEC) } < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: it is open, and the service manager opened it for this process, which takes it once.
    let socket = Socket::from(unsafe { OwnedFd::from_raw_fd(descriptor) });
    let is_tcp = matches!(socket.local_addr()?.domain(), Domain::IPV4 | Domain::IPV6);
    if !is_tcp || socket.r#type()? != Type::STREAM || !socket.is_listener()? {
        let what = format!("descriptor {descriptor} is no listening TCP socket");
        return Err(io::Error::new(io::ErrorKind::InvalidInput, what));
    }
    socket.set_nonblocking(true)?;
    Ok(socket.into())
}

/// Sets the options that connections inherit.
fn set_options(socket: &Socket, address: SocketAddr, options: &ListenOptions) -> Result<(), ListenError> {
    let fail = |step| move |source| ListenError { address, step, source };
    if let Some(bytes) = options.send_buffer {
        socket.set_send_buffer_size(bytes).map_err(fail("send_buffer"))?;
    }
    if let Some(bytes) = options.receive_buffer {
        socket.set_recv_buffer_size(bytes).map_err(fail("receive_buffer"))?;
    }
    if let Some(bytes) = options.unsent_low_water {
        socket.set_tcp_notsent_lowat(bytes).map_err(fail("unsent_low_water"))?;
    }
    if let Some(name) = &options.congestion_control {
        socket.set_tcp_congestion(name.as_bytes()).map_err(fail("congestion_control"))?;
    }
    // Heads and bodies leave in full batches already; Nagle would only hold back their tails.
    socket.set_tcp_nodelay(true).map_err(fail("TCP_NODELAY"))?;
    if !options.defer_accept.is_zero() {
        let seconds = i32::try_from(options.defer_accept.as_secs().max(1)).unwrap_or(i32::MAX);
        set_tcp_option(socket, libc::TCP_DEFER_ACCEPT, seconds).map_err(fail("defer_accept"))?;
    }
    Ok(())
}

fn begin(socket: &Socket, address: SocketAddr, options: &ListenOptions) -> Result<(), ListenError> {
    let fail = |step| move |source| ListenError { address, step, source };
    let backlog = i32::try_from(options.backlog).unwrap_or(i32::MAX);
    socket.listen(backlog).map_err(fail("listen"))?;
    // listen(2) resets it. Where it fails, the first bytes are acknowledged at once, as usual.
    let _delayed = set_tcp_quickack(socket, false);
    if options.fast_open > 0 {
        let queue = i32::try_from(options.fast_open).unwrap_or(i32::MAX);
        set_tcp_option(socket, libc::TCP_FASTOPEN, queue).map_err(fail("fast_open"))?;
    }
    Ok(())
}

fn new_socket(address: SocketAddr) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM.nonblocking(), Some(Protocol::TCP))?;
    // A restart must not wait for the old connections' TIME_WAIT.
    socket.set_reuse_address(true)?;
    if address.is_ipv6() {
        // `[::]:443` and `0.0.0.0:443` are two listeners, whatever net.ipv6.bindv6only says.
        socket.set_only_v6(true)?;
    }
    Ok(socket)
}

/// Bytes of a TCP connection that the peer has not acknowledged, unsent ones included (`SIOCOUTQ` of tcp(7)).
///
/// # Errors
/// What the system said.
pub fn unacknowledged(socket: impl AsFd) -> io::Result<u64> {
    let mut bytes: libc::c_int = 0;
    // SAFETY: the descriptor is open, and the pointer is valid for the `int` that this request writes.
    let result = unsafe { libc::ioctl(socket.as_fd().as_raw_fd(), libc::TIOCOUTQ, &raw mut bytes) };
    if result == 0 { Ok(u64::try_from(bytes).unwrap_or(0)) } else { Err(io::Error::last_os_error()) }
}

/// Whether the congestion control of a socket paces: bbr, in each of its versions.
///
/// # Errors
/// What the system said.
pub fn paces(socket: impl AsFd) -> io::Result<bool> {
    Ok(SockRef::from(&socket).tcp_congestion()?.starts_with(b"bbr"))
}

/// Sets `TCP_NOTSENT_LOWAT` of a connection in bytes; 0 is the system's.
///
/// # Errors
/// What the system said.
pub fn set_unsent_low_water(socket: impl AsFd, bytes: u32) -> io::Result<()> {
    SockRef::from(&socket).set_tcp_notsent_lowat(bytes)
}

/// How TCP paces a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pacing {
    /// In bytes per second (`tcpi_pacing_rate`). A connection that is not paced has one as well.
    pub rate: u64,
    /// The largest segment of the path in bytes (`tcpi_snd_mss`).
    pub segment_bytes: u32,
}

/// How TCP paces a connection, by `TCP_INFO`.
///
/// # Errors
/// What the system said; `Unsupported` from a kernel older than Linux 3.15, which has no such field.
pub fn pacing(socket: impl AsFd) -> io::Result<Pacing> {
    let (info, length) = tcp_info(socket)?;
    if length < offset_of!(TcpInfo, max_pacing_rate) {
        return Err(io::ErrorKind::Unsupported.into());
    }
    Ok(Pacing { rate: info.pacing_rate, segment_bytes: info.segment_bytes })
}

/// How the network carries what a connection sends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Carriage {
    /// The smoothed round-trip time.
    pub round_trip: Duration,
    /// Bytes per second at which the peer received, as measured last; zero before the first measurement. A server that had less
    /// to send than the path takes makes it too small.
    pub delivery_rate: u64,
    /// Bytes of data sent since the connection was made, those sent again included.
    pub sent: u64,
    /// Bytes of data sent again.
    pub sent_again: u64,
}

/// How the network carries what a TCP connection sends, by `TCP_INFO`.
///
/// # Errors
/// What the system said; `Unsupported` from a kernel older than Linux 4.19, which has no such fields.
pub fn carriage(socket: impl AsFd) -> io::Result<Carriage> {
    let (info, length) = tcp_info(socket)?;
    if length < size_of::<TcpInfo>() {
        return Err(io::ErrorKind::Unsupported.into());
    }
    Ok(Carriage {
        round_trip: Duration::from_micros(info.round_trip_microseconds.into()),
        delivery_rate: info.delivery_rate,
        sent: info.sent,
        sent_again: info.sent_again,
    })
}

/// The beginning of `struct tcp_info` of linux/tcp.h.
#[derive(Default)]
#[repr(C)]
struct TcpInfo {
    /// Eight fields of an octet and two of 32 bits.
    before: [u32; 4],
    segment_bytes: u32,
    behind_segment: [u32; 12],
    round_trip_microseconds: u32,
    behind_round_trip: [u32; 8],
    pacing_rate: u64,
    max_pacing_rate: u64,
    /// Two of 64 bits and six of 32.
    behind_pacing: [u64; 5],
    delivery_rate: u64,
    /// Three of 64 bits and two of 32.
    behind_rate: [u64; 4],
    sent: u64,
    sent_again: u64,
}

const _: () = assert!(
    offset_of!(TcpInfo, round_trip_microseconds) == 68
        && offset_of!(TcpInfo, pacing_rate) == 104
        && offset_of!(TcpInfo, delivery_rate) == 160
        && offset_of!(TcpInfo, sent_again) == 208,
    "the layout of linux/tcp.h"
);

/// `TCP_INFO`, and how many of its bytes the kernel knows.
fn tcp_info(socket: impl AsFd) -> io::Result<(TcpInfo, usize)> {
    let mut info = TcpInfo::default();
    let mut length = libc::socklen_t::try_from(size_of::<TcpInfo>()).unwrap_or(0);
    // SAFETY: the descriptor is open, `info` has `length` bytes, of which all values are valid, and both pointers are valid.
    let result = unsafe {
        libc::getsockopt(
            socket.as_fd().as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            (&raw mut info).cast::<libc::c_void>(),
            &raw mut length,
        )
    };
    if result != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok((info, length as usize))
}

fn set_tcp_option(socket: &Socket, name: libc::c_int, value: libc::c_int) -> io::Result<()> {
    let length = libc::socklen_t::try_from(size_of::<libc::c_int>()).unwrap_or(0);
    // SAFETY: the descriptor is open, and the pointer is valid for `length` bytes.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::IPPROTO_TCP,
            name,
            (&raw const value).cast::<libc::c_void>(),
            length,
        )
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain() -> ListenOptions {
        ListenOptions {
            binding: Binding::Present,
            send_buffer: None,
            receive_buffer: None,
            unsent_low_water: None,
            congestion_control: None,
            fast_open: 0,
            defer_accept: Duration::ZERO,
            backlog: 16,
        }
    }

    fn loopback() -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], 0))
    }

    #[test]
    fn accepted_sockets_inherit_the_options_of_their_listener() {
        let options = ListenOptions {
            send_buffer: Some(256 * 1024),
            unsent_low_water: Some(128 * 1024),
            congestion_control: Some("reno".into()),
            fast_open: 16,
            defer_accept: Duration::from_secs(1),
            ..plain()
        };
        let listener = listen(loopback(), &options).unwrap();
        listener.set_nonblocking(false).unwrap();
        let address = listener.local_addr().unwrap();
        let client = std::thread::spawn(move || {
            use std::io::Write;
            let mut stream = std::net::TcpStream::connect(address).unwrap();
            stream.write_all(b"x").unwrap();
            stream
        });
        let (accepted, _) = listener.accept().unwrap();
        let socket = SockRef::from(&accepted);
        assert!(socket.send_buffer_size().unwrap() >= 256 * 1024);
        assert_eq!(socket.tcp_notsent_lowat().unwrap(), 128 * 1024);
        assert!(socket.tcp_congestion().unwrap().starts_with(b"reno"));
        assert!(socket.tcp_nodelay().unwrap());
        assert!(!socket.tcp_quickack().unwrap(), "the answer acknowledges the first bytes");
        drop(client.join().unwrap());
    }

    #[test]
    fn bytes_that_the_peer_does_not_take_are_unacknowledged() {
        use std::io::{Read, Write};
        let listener = TcpListener::bind(loopback()).unwrap();
        let mut client = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut accepted, _) = listener.accept().unwrap();
        assert_eq!(unacknowledged(&accepted).unwrap(), 0);
        accepted.set_nonblocking(true).unwrap();
        let piece = vec![0; 65536];
        let mut sent = 0;
        while let Ok(count) = accepted.write(&piece) {
            sent += count as u64;
        }
        let held = unacknowledged(&accepted).unwrap();
        assert!(held > 0 && held < sent, "{held} of {sent}");
        client.read_exact(&mut vec![0; usize::try_from(sent).unwrap()]).unwrap();
        // The last acknowledgement is on its way.
        while unacknowledged(&accepted).unwrap() > 0 {
            std::thread::yield_now();
        }
    }

    #[test]
    fn a_connection_has_a_pacing_rate_and_another_low_water() {
        use std::io::{Read, Write};
        let options = ListenOptions { congestion_control: Some("reno".into()), ..plain() };
        let listener = listen(loopback(), &options).unwrap();
        assert!(!paces(&listener).unwrap());
        listener.set_nonblocking(false).unwrap();
        let mut client = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut accepted, _) = listener.accept().unwrap();
        accepted.write_all(&vec![0; 100_000]).unwrap();
        client.read_exact(&mut vec![0; 100_000]).unwrap();
        // Loopback is fast, and no machine sends a terabyte each second.
        let pacing = pacing(&accepted).unwrap();
        assert!((1_000_000..1 << 40).contains(&pacing.rate), "{pacing:?}");
        assert!((16 * 1024..=65_535).contains(&pacing.segment_bytes), "of loopback: {pacing:?}");
        set_unsent_low_water(&accepted, 32 * 1024).unwrap();
        assert_eq!(SockRef::from(&accepted).tcp_notsent_lowat().unwrap(), 32 * 1024);
    }

    #[test]
    fn workers_share_a_port_and_strangers_are_noticed() {
        let first = listen(loopback(), &plain()).unwrap();
        let address = first.local_addr().unwrap();
        let second = listen(address, &plain()).unwrap();
        assert_eq!(second.local_addr().unwrap(), address);
        let error = probe_free(address).unwrap_err();
        assert!(error.remedy().unwrap().contains("another program has this port"), "{error}");
    }

    #[test]
    fn an_unknown_congestion_control_names_its_key() {
        let options = ListenOptions { congestion_control: Some("warp".into()), ..plain() };
        let error = listen(loopback(), &options).unwrap_err();
        assert_eq!(error.step, "congestion_control");
        assert!(error.remedy().unwrap().contains("tcp_available_congestion_control"));
    }

    #[test]
    fn ipv6_and_ipv4_wildcards_coexist() {
        let six = listen("[::1]:0".parse().unwrap(), &plain()).unwrap();
        let port = six.local_addr().unwrap().port();
        listen(SocketAddr::from(([127, 0, 0, 1], port)), &plain()).unwrap();
    }
}
