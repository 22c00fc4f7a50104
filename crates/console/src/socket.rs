//! The socket of the admin listener: TCP, or a Unix socket that the permissions of a file protect.

use std::fmt;
use std::io;
use std::net::TcpListener;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixListener;
use std::pin::Pin;

use rustix::net::sockopt::set_socket_send_buffer_size;
use tokio::io::{AsyncRead, AsyncWrite};

/// A listening socket.
#[derive(Debug)]
pub enum AdminSocket {
    /// On an IP address and a port.
    Tcp(TcpListener),
    /// On a path.
    Unix(UnixListener),
}

impl From<TcpListener> for AdminSocket {
    fn from(socket: TcpListener) -> Self {
        Self::Tcp(socket)
    }
}

impl AdminSocket {
    /// Another descriptor of the same socket.
    ///
    /// # Errors
    /// When the system has no further descriptor.
    pub fn try_clone(&self) -> io::Result<Self> {
        match self {
            Self::Tcp(socket) => socket.try_clone().map(Self::Tcp),
            Self::Unix(socket) => socket.try_clone().map(Self::Unix),
        }
    }

    /// Where it listens: `127.0.0.1:9600`, or `unix:/run/penstock/admin.sock`.
    ///
    /// # Errors
    /// What the system says.
    pub fn name(&self) -> io::Result<String> {
        match self {
            Self::Tcp(socket) => socket.local_addr().map(|address| address.to_string()),
            Self::Unix(socket) => {
                let address = socket.local_addr()?;
                Ok(format!("unix:{}", address.as_pathname().unwrap_or_else(|| "".as_ref()).display()))
            }
        }
    }

    /// The same for a runtime, within which this is called.
    pub(crate) fn listen(self) -> io::Result<Listener> {
        match self {
            Self::Tcp(socket) => {
                socket.set_nonblocking(true)?;
                tokio::net::TcpListener::from_std(socket).map(Listener::Tcp)
            }
            Self::Unix(socket) => {
                socket.set_nonblocking(true)?;
                tokio::net::UnixListener::from_std(socket).map(Listener::Unix)
            }
        }
    }
}

impl AsFd for AdminSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Tcp(socket) => socket.as_fd(),
            Self::Unix(socket) => socket.as_fd(),
        }
    }
}

/// A socket in a runtime.
pub(crate) enum Listener {
    Tcp(tokio::net::TcpListener),
    Unix(tokio::net::UnixListener),
}

/// A connection of either kind.
pub(crate) trait Stream: AsyncRead + AsyncWrite + Send {}

impl<S: AsyncRead + AsyncWrite + Send> Stream for S {}

impl Listener {
    /// The next connection, for which the kernel holds so many bytes.
    pub(crate) async fn accept(&self, send_buffer: usize) -> io::Result<Pin<Box<dyn Stream>>> {
        match self {
            Self::Tcp(listener) => {
                let (stream, _) = listener.accept().await?;
                limit(&stream, send_buffer);
                Ok(Box::pin(stream))
            }
            Self::Unix(listener) => {
                let (stream, _) = listener.accept().await?;
                limit(&stream, send_buffer);
                Ok(Box::pin(stream))
            }
        }
    }
}

fn limit(stream: &impl AsFd, send_buffer: usize) {
    if let Err(error) = set_socket_send_buffer_size(stream, send_buffer) {
        tracing::debug!(%error, "the kernel chooses the send buffer");
    }
}

impl fmt::Debug for Listener {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Listener")
    }
}
