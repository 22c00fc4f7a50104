//! The socket as BoringSSL sees it.

use std::cell::RefCell;
use std::io::{self, Read, Write};
use std::rc::Rc;

use tokio::io::Interest;
use tokio::net::TcpStream;

/// One read of the socket: a full record and the head of the next.
const SCRATCH_BYTES: usize = 32 * 1024;

thread_local! {
    // One per worker rather than one per connection: an idle connection holds no buffer.
    static SCRATCH: RefCell<Vec<u8>> = RefCell::new(vec![0; SCRATCH_BYTES]);
}

/// Feeds the library from the socket and, until sending is taken over, lets it write.
pub(crate) struct Wire {
    socket: Rc<TcpStream>,
    /// Bytes read from the socket that the library has not asked for yet; empty on an idle connection.
    received: Vec<u8>,
    /// How many of `received` the library has taken.
    taken: usize,
    at_end: bool,
    writing: Writing,
}

/// What becomes of what the library writes.
enum Writing {
    /// It goes to the socket.
    Through,
    /// It is kept, to be sent together with something else.
    Kept(Vec<u8>),
    /// It is dropped, and the library believes it sent: only then it tells which alert it wanted to send.
    Dropped,
}

impl Wire {
    /// `received` is what was read from the socket before the handshake.
    pub(crate) fn new(socket: Rc<TcpStream>, received: Vec<u8>) -> Self {
        Self { socket, received, taken: 0, at_end: false, writing: Writing::Through }
    }

    /// From here on what the library writes is kept.
    pub(crate) fn keep_writes(&mut self) {
        self.writing = Writing::Kept(Vec::new());
    }

    /// From here on whatever the library wants to write is dropped: its idea of the send keys is stale. Returns what
    /// was kept.
    pub(crate) fn close_write(&mut self) -> Vec<u8> {
        match std::mem::replace(&mut self.writing, Writing::Dropped) {
            Writing::Kept(bytes) => bytes,
            Writing::Through | Writing::Dropped => Vec::new(),
        }
    }

    /// Whether the peer has ended its side of the TCP connection.
    pub(crate) fn at_end(&self) -> bool {
        self.at_end
    }

    /// Whether bytes are waiting that need no further read of the socket.
    pub(crate) fn has_received(&self) -> bool {
        self.taken < self.received.len()
    }

    fn take(&mut self, into: &mut [u8]) -> usize {
        let rest = &self.received[self.taken..];
        let count = rest.len().min(into.len());
        into[..count].copy_from_slice(&rest[..count]);
        self.taken += count;
        if self.taken == self.received.len() {
            self.received = Vec::new();
            self.taken = 0;
        }
        count
    }
}

impl Read for Wire {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if self.has_received() {
            return Ok(self.take(into));
        }
        // The library asks for five bytes, then for the rest of the record: one system call serves both.
        SCRATCH.with_borrow_mut(|scratch| {
            let count = receive(&self.socket, scratch)?;
            if count == 0 {
                self.at_end = true;
                return Ok(0);
            }
            let now = count.min(into.len());
            into[..now].copy_from_slice(&scratch[..now]);
            if now < count {
                self.received = scratch[now..count].to_vec();
                self.taken = 0;
            }
            Ok(now)
        })
    }
}

/// Reads a socket without blocking, past the TLS library.
///
/// A short read also clears the readiness, which saves the read that would only have said "nothing more".
///
/// # Errors
/// `WouldBlock` if nothing has arrived, or what the system said.
pub fn receive(socket: &TcpStream, into: &mut [u8]) -> io::Result<usize> {
    let mut short = None;
    let result = socket.try_io(Interest::READABLE, || {
        let count = rustix::io::read(socket, &mut *into).map_err(io::Error::from)?;
        if count > 0 && count < into.len() {
            short = Some(count);
            return Err(io::ErrorKind::WouldBlock.into());
        }
        Ok(count)
    });
    match short {
        Some(count) => Ok(count),
        None => result,
    }
}

impl Write for Wire {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.writing {
            Writing::Through => self.socket.try_write(bytes),
            Writing::Kept(kept) => {
                kept.extend_from_slice(bytes);
                Ok(bytes.len())
            }
            Writing::Dropped => Ok(bytes.len()),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
