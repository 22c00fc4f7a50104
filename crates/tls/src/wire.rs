//! The socket as BoringSSL sees it.

use std::cell::RefCell;
use std::io::{self, Read, Write};
use std::rc::Rc;

use penstock_sys::ConnectedSocket;
use tokio::io::Interest;

/// One read of the socket: a full record and the head of the next.
const SCRATCH_BYTES: usize = 32 * 1024;

thread_local! {
    // One buffer per worker: an idle connection holds none.
    static SCRATCH: RefCell<Vec<u8>> = RefCell::new(vec![0; SCRATCH_BYTES]);
}

/// Connects the library to the socket. It reads from there; what it writes is collected, to be sent by the handshake.
pub(crate) struct Wire {
    socket: Rc<ConnectedSocket>,
    /// Bytes read from the socket that the library has not asked for yet; empty on an idle connection.
    received: Vec<u8>,
    /// How many of `received` the library has taken.
    taken: usize,
    at_end: bool,
    /// What the library has written. `None` once its send keys are stale: bytes are dropped then, but reported as written,
    /// so that the library reports its alerts.
    written: Option<Vec<u8>>,
}

impl Wire {
    /// `received` is what was read from the socket before the handshake.
    pub(crate) fn new(socket: Rc<ConnectedSocket>, received: Vec<u8>) -> Self {
        Self { socket, received, taken: 0, at_end: false, written: Some(Vec::new()) }
    }

    /// What the library has written since the last call.
    pub(crate) fn take_written(&mut self) -> Vec<u8> {
        self.written.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// Drops what the library writes from now on, because its send keys are stale. Returns what it has written.
    pub(crate) fn close_write(&mut self) -> Vec<u8> {
        self.written.take().unwrap_or_default()
    }

    /// Whether the peer has ended its side of the TCP connection.
    pub(crate) fn at_end(&self) -> bool {
        self.at_end
    }

    /// Whether bytes are waiting that need no further read of the socket.
    pub(crate) fn has_received(&self) -> bool {
        self.taken < self.received.len()
    }

    /// Whether the socket may have bytes, by what the system has announced and reads have found. Costs no system call.
    pub(crate) fn may_be_readable(&self) -> bool {
        self.socket.try_io(Interest::READABLE, || Ok(())).is_ok()
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
            let count = self.socket.try_receive(scratch)?;
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

impl Write for Wire {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if let Some(written) = &mut self.written {
            written.extend_from_slice(bytes);
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
