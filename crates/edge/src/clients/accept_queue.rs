//! The queue of connections that a listening socket has established and that wait to be accepted.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;

use penstock_sys::ConnectedSocket;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tokio::io::unix::AsyncFd;

/// A listening socket, and what is known about its queue.
///
/// The runtime tells once that connections have come, not how many. An `accept4` that finds none takes ten times as long
/// as `poll`, because the kernel makes the socket before it looks. So `poll` is asked for the end of the queue, except while
/// connections come in crowds: then one failed `accept4` for all of them is cheaper.
pub(crate) struct AcceptQueue {
    listener: AsyncFd<Arc<TcpListener>>,
    /// Connections accepted since the queue was last found empty.
    in_a_row: usize,
    /// Whether there were several the time before.
    in_crowds: bool,
}

impl AcceptQueue {
    /// The queue of a non-blocking listener.
    ///
    /// # Errors
    /// The runtime cannot watch it.
    pub(crate) fn new(listener: Arc<TcpListener>) -> io::Result<Self> {
        #[expect(
            deprecated,
            reason = "unsound only for types that give another descriptor each time; this is its own"
        )]
        let listener = AsyncFd::new(listener)?;
        Ok(Self { listener, in_a_row: 0, in_crowds: false })
    }

    /// Waits for the next connection. Dropping the future loses none.
    ///
    /// # Errors
    /// As accept(2). The next call tries again.
    pub(crate) async fn accept(&mut self) -> io::Result<(ConnectedSocket, SocketAddr)> {
        loop {
            let mut ready = self.listener.readable().await?;
            let accepted = match accept_now(ready.get_inner()) {
                // Without a descriptor an empty queue fails like a full one.
                Err(error) if is_empty(ready.get_inner()) => {
                    ready.clear_ready();
                    return Err(error);
                }
                accepted => accepted?,
            };
            self.in_a_row += usize::from(accepted.is_some());
            if accepted.is_none() || (!self.in_crowds && is_empty(ready.get_inner())) {
                // Only what the runtime has told before: a connection that comes now is told again.
                ready.clear_ready();
                self.in_crowds = std::mem::take(&mut self.in_a_row) > 1;
            }
            if let Some(accepted) = accepted {
                return Ok(accepted);
            }
        }
    }

    /// Accepts a connection, without waiting; `None` if there is none.
    ///
    /// # Errors
    /// As accept(2).
    pub(crate) fn try_accept(&self) -> io::Result<Option<(ConnectedSocket, SocketAddr)>> {
        accept_now(self.listener.get_ref())
    }
}

fn accept_now(listener: &TcpListener) -> io::Result<Option<(ConnectedSocket, SocketAddr)>> {
    match ConnectedSocket::accept(listener) {
        Ok(accepted) => Ok(Some(accepted)),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
        Err(error) => Err(error),
    }
}

/// Whether no connection waits.
fn is_empty(listener: &TcpListener) -> bool {
    let mut polled = [PollFd::new(listener, PollFlags::IN)];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut polled, Some(&now)).is_ok() && polled[0].revents().is_empty()
}

#[cfg(test)]
mod tests {
    use std::net::TcpStream as Client;

    use super::*;

    /// Accepts connections that come `together` at a time.
    async fn accept_all(together: &[usize]) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap();
        let mut queue = AcceptQueue::new(Arc::new(listener)).unwrap();
        for &count in together {
            let clients: Vec<Client> = (0..count).map(|_| Client::connect(address).unwrap()).collect();
            for client in &clients {
                let (socket, peer) = queue.accept().await.unwrap();
                assert_eq!(peer, client.local_addr().unwrap());
                assert_eq!(socket.peer_addr().unwrap(), peer);
            }
            assert!(queue.try_accept().unwrap().is_none());
        }
    }

    #[test]
    fn single_connections_and_crowds_are_all_accepted() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(accept_all(&[1, 1, 5, 1, 1, 2, 9, 9, 1, 3, 1]));
    }
}
