//! Connected sockets that the runtime watches only once something waits for them.
//!
//! A connection whose request has come when it is accepted, and whose response fits into the socket buffer, is served and
//! closed without a registration: two system calls, an allocation and an event less.

use std::cell::{Cell, OnceCell};
use std::fmt;
use std::io;
use std::mem::ManuallyDrop;
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};

use rustix::net::{SendFlags, SocketFlags};
use tokio::io::unix::AsyncFd;
use tokio::io::{Interest, Ready};

use crate::closing;

/// A connected TCP socket that does not block.
pub struct ConnectedSocket {
    /// Dropped before the descriptor that it watches.
    watched: OnceCell<AsyncFd<Watched>>,
    /// Whether the runtime has told anything of the socket. Before, it takes it for neither readable nor writable.
    is_known: Cell<bool>,
    /// False after a read found nothing more, until then.
    may_have_bytes: Cell<bool>,
    first_bytes: Cell<FirstBytes>,
    /// Taken when it is dropped.
    fd: ManuallyDrop<OwnedFd>,
}

/// What has become of the client's first bytes, whose acknowledgement the kernel delays ([`crate::socket::listen`]).
#[derive(Clone, Copy, PartialEq, Eq)]
enum FirstBytes {
    Missing,
    /// Received, and nothing was sent since.
    Received,
    /// An answer or an acknowledgement was sent.
    Answered,
}

struct Watched(RawFd);

impl AsRawFd for Watched {
    fn as_raw_fd(&self) -> RawFd {
        self.0
    }
}

impl ConnectedSocket {
    fn new(fd: OwnedFd) -> Self {
        Self {
            watched: OnceCell::new(),
            is_known: Cell::new(false),
            may_have_bytes: Cell::new(true),
            first_bytes: Cell::new(FirstBytes::Missing),
            fd: ManuallyDrop::new(fd),
        }
    }

    /// Accepts a connection, without waiting.
    ///
    /// # Errors
    /// As accept(2); `WouldBlock` if there is none.
    pub fn accept(listener: &impl AsFd) -> io::Result<(Self, SocketAddr)> {
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let (fd, address) = rustix::net::acceptfrom_with(listener, flags)?;
        let address = address.and_then(|address| SocketAddr::try_from(address).ok());
        let address = address.ok_or(io::ErrorKind::Unsupported)?;
        Ok((Self::new(fd), address))
    }

    /// Runs one system call that does not block.
    ///
    /// # Errors
    /// Those of `call`. `WouldBlock` also if the socket is known not to be ready: [`Self::readable`] or [`Self::writable`]
    /// waits until it is.
    pub fn try_io<R>(&self, interest: Interest, call: impl FnOnce() -> io::Result<R>) -> io::Result<R> {
        if interest.is_writable() {
            self.first_bytes.set(FirstBytes::Answered);
        }
        if let Some(watched) = self.watched.get().filter(|_| self.is_known.get()) {
            return watched.try_io(interest, |_| call());
        }
        if !interest.is_readable() {
            return call();
        }
        if !self.may_have_bytes.get() {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let result = call();
        let is_empty = matches!(&result, Err(error) if error.kind() == io::ErrorKind::WouldBlock);
        self.may_have_bytes.set(!is_empty);
        result
    }

    /// Receives bytes without waiting; returns how many, 0 at the end.
    ///
    /// A short read also clears the readiness, which saves a read that would return `WouldBlock`.
    ///
    /// # Errors
    /// As read(2), and as [`Self::try_io`].
    pub fn try_receive(&self, into: &mut [u8]) -> io::Result<usize> {
        let mut short = None;
        let result = self.try_io(Interest::READABLE, || {
            let count = rustix::io::read(&*self.fd, &mut *into)?;
            if count > 0 && count < into.len() {
                short = Some(count);
                return Err(io::ErrorKind::WouldBlock.into());
            }
            Ok(count)
        });
        let result = short.map_or(result, Ok);
        if self.first_bytes.get() == FirstBytes::Missing && matches!(result, Ok(1..)) {
            self.first_bytes.set(FirstBytes::Received);
        }
        result
    }

    /// Sends bytes without waiting; returns how many.
    ///
    /// # Errors
    /// As send(2), and as [`Self::try_io`].
    pub fn try_send(&self, bytes: &[u8]) -> io::Result<usize> {
        self.try_io(Interest::WRITABLE, || Ok(rustix::net::send(&*self.fd, bytes, SendFlags::NOSIGNAL)?))
    }

    /// Waits until the socket is readable, has ended or has failed.
    ///
    /// First bytes that wait for more before they can be answered are acknowledged now: a client that has Nagle's algorithm
    /// on sends the rest only after that.
    ///
    /// # Errors
    /// The runtime cannot watch the socket.
    pub async fn readable(&self) -> io::Result<()> {
        self.acknowledge_first_bytes();
        self.ready(Interest::READABLE).await.map(drop)
    }

    /// The same, or until it is writable.
    ///
    /// # Errors
    /// The runtime cannot watch the socket.
    pub async fn readable_or_writable(&self) -> io::Result<()> {
        self.acknowledge_first_bytes();
        self.ready(Interest::READABLE | Interest::WRITABLE).await.map(drop)
    }

    fn acknowledge_first_bytes(&self) {
        if self.first_bytes.get() == FirstBytes::Received {
            self.first_bytes.set(FirstBytes::Answered);
            // Where it fails, the kernel acknowledges them 40 ms after they came.
            let _acknowledged = rustix::net::sockopt::set_tcp_quickack(&*self.fd, true);
        }
    }

    /// Waits until the socket is writable or has failed.
    ///
    /// # Errors
    /// The runtime cannot watch the socket.
    pub async fn writable(&self) -> io::Result<()> {
        self.ready(Interest::WRITABLE).await.map(drop)
    }

    /// Waits until the socket is ready.
    ///
    /// # Errors
    /// The runtime cannot watch the socket.
    pub async fn ready(&self, interest: Interest) -> io::Result<Ready> {
        // The guard keeps the readiness when it is dropped.
        let ready = self.watched()?.ready(interest).await?.ready();
        self.is_known.set(true);
        Ok(ready)
    }

    /// Address of the other side.
    ///
    /// # Errors
    /// As getpeername(2).
    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        let address = rustix::net::getpeername(&*self.fd)?;
        let address = address.and_then(|address| SocketAddr::try_from(address).ok());
        address.ok_or_else(|| io::ErrorKind::NotConnected.into())
    }

    /// Address of this side.
    ///
    /// # Errors
    /// As getsockname(2).
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        let address = rustix::net::getsockname(&*self.fd)?;
        SocketAddr::try_from(address).map_err(|_| io::ErrorKind::Unsupported.into())
    }

    fn watched(&self) -> io::Result<&AsyncFd<Watched>> {
        if let Some(watched) = self.watched.get() {
            return Ok(watched);
        }
        let watched = Watched(self.fd.as_raw_fd());
        // SAFETY: `Watched` always gives the same descriptor. It stays open for as long as the registration lives: `self` owns
        // both, and drops the registration first.
        let watched = unsafe { AsyncFd::register(watched) }.map_err(io::Error::from)?;
        Ok(self.watched.get_or_init(|| watched))
    }
}

impl From<TcpStream> for ConnectedSocket {
    /// The socket must not block.
    fn from(stream: TcpStream) -> Self {
        Self::new(stream.into())
    }
}

impl Drop for ConnectedSocket {
    fn drop(&mut self) {
        drop(self.watched.take());
        // SAFETY: the field is not used after this, the only place that takes it.
        let fd = unsafe { ManuallyDrop::take(&mut self.fd) };
        match self.first_bytes.get() {
            FirstBytes::Answered => closing::close(fd),
            FirstBytes::Missing | FirstBytes::Received => drop(fd),
        }
    }
}

impl AsFd for ConnectedSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl AsRawFd for ConnectedSocket {
    fn as_raw_fd(&self) -> RawFd {
        self.fd.as_raw_fd()
    }
}

impl fmt::Debug for ConnectedSocket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConnectedSocket").field("fd", &self.fd).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::future::Future;
    use std::io::Write;
    use std::net::{Shutdown, TcpListener};

    use super::*;

    fn run(test: impl Future<Output = ()>) {
        tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(test);
    }

    fn pair() -> (TcpStream, ConnectedSocket) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (socket, address) = ConnectedSocket::accept(&listener).unwrap();
        assert_eq!(address, client.local_addr().unwrap());
        assert_eq!(
            (socket.peer_addr().unwrap(), socket.local_addr().unwrap()),
            (address, client.peer_addr().unwrap())
        );
        (client, socket)
    }

    /// Reads what has come.
    fn read(socket: &ConnectedSocket) -> Option<usize> {
        match socket.try_receive(&mut [0; 100]) {
            Ok(count) => Some(count),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => None,
            Err(error) => panic!("{error}"),
        }
    }

    async fn wait_in_vain(socket: &ConnectedSocket) {
        tokio::select! {
            biased;
            _ = socket.readable() => panic!("nothing has come"),
            () = std::future::ready(()) => {}
        }
    }

    #[test]
    fn a_request_and_a_response_need_no_runtime() {
        let (mut client, socket) = pair();
        client.write_all(b"request").unwrap();
        assert_eq!(read(&socket), Some(7));
        assert_eq!(socket.try_send(b"response").unwrap(), 8);
        assert!(socket.watched.get().is_none());
    }

    #[test]
    fn what_comes_after_the_last_read_is_found_by_waiting() {
        run(async {
            let (mut client, socket) = pair();
            assert_eq!(read(&socket), None);
            client.write_all(b"first").unwrap();
            assert_eq!(read(&socket), None, "a call would be for nothing most of the time");
            for bytes in ["first", "and more"] {
                socket.readable().await.unwrap();
                assert_eq!(read(&socket), Some(bytes.len()));
                assert_eq!(read(&socket), None);
                client.write_all(b"and more").unwrap();
            }
        });
    }

    #[test]
    fn first_bytes_are_acknowledged_with_the_answer_or_when_more_is_waited_for() {
        let acknowledges_at_once =
            |socket: &ConnectedSocket| rustix::net::sockopt::tcp_quickack(socket).unwrap();
        for is_answered in [true, false] {
            run(async {
                let listener = TcpListener::bind("127.0.0.1:0").unwrap();
                rustix::net::sockopt::set_tcp_quickack(&listener, false).unwrap();
                let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
                let (socket, _) = ConnectedSocket::accept(&listener).unwrap();
                wait_in_vain(&socket).await;
                assert!(!acknowledges_at_once(&socket), "nothing has come");
                client.write_all(b"part of a request").unwrap();
                socket.readable().await.unwrap();
                assert_eq!(read(&socket), Some(17));
                if is_answered {
                    socket.try_send(b"answer").unwrap();
                }
                assert!(!acknowledges_at_once(&socket));
                wait_in_vain(&socket).await;
                assert_eq!(acknowledges_at_once(&socket), !is_answered);
            });
        }
    }

    #[test]
    fn a_wait_that_is_given_up_at_once_keeps_nothing_from_being_sent() {
        run(async {
            let (mut client, socket) = pair();
            wait_in_vain(&socket).await;
            assert!(socket.watched.get().is_some());
            assert_eq!(socket.try_send(b"alert").unwrap(), 5);
            client.write_all(b"first").unwrap();
            assert_eq!(read(&socket), Some(5));
            client.write_all(b"second").unwrap();
            socket.readable().await.unwrap();
            assert_eq!(read(&socket), Some(6));
        });
    }

    #[test]
    fn an_end_and_a_reset_are_noticed_also_if_they_came_before_the_first_wait() {
        run(async {
            let (client, socket) = pair();
            client.shutdown(Shutdown::Write).unwrap();
            let ready = socket.ready(Interest::READABLE).await.unwrap();
            assert!(ready.is_read_closed());
            rustix::net::sockopt::set_socket_linger(&client, Some(std::time::Duration::ZERO)).unwrap();
            drop(client);
            assert!(socket.ready(Interest::ERROR).await.unwrap().is_error());
        });
    }

    #[test]
    fn a_full_socket_is_written_to_again_when_the_client_has_read() {
        run(async {
            let (client, socket) = pair();
            let piece = vec![7; 1 << 20];
            let mut sent = 0;
            while let Ok(count) = socket.try_send(&piece) {
                sent += count;
            }
            let reading = std::thread::spawn(move || io::copy(&mut &client, &mut io::sink()).unwrap());
            socket.writable().await.unwrap();
            sent += socket.try_send(&piece).unwrap();
            drop(socket);
            assert_eq!(reading.join().unwrap(), sent as u64);
        });
    }
}
