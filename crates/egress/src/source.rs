//! A body that arrives on another socket, such as an origin's without TLS.
//!
//! Where the kernel sends, the bytes go through a pipe and never enter this program. Where we seal, they are read.

use std::fmt;
use std::io;
use std::rc::Rc;

use rustix::fd::OwnedFd;
use rustix::pipe::{PipeFlags, SpliceFlags};
use tokio::io::Interest;
use tokio::net::TcpStream;

use crate::outlet::SendError;

/// Room asked for in a pipe; a kernel that grants less only makes more steps of it.
const PIPE_BYTES: usize = 256 * 1024;

/// The next bytes of a socket, which go out unchanged.
pub struct Source {
    socket: Rc<TcpStream>,
    len: u64,
    pipe: Option<Pipe>,
}

/// Bytes between the two sockets, still in the kernel.
struct Pipe {
    into: OwnedFd,
    out_of: OwnedFd,
    filled: usize,
}

impl Source {
    /// The next `len` bytes that arrive on `socket`. Whoever reads from it in the meantime takes them away.
    pub fn new(socket: Rc<TcpStream>, len: u64) -> Self {
        Self { socket, len, pipe: None }
    }

    /// The socket, to wait until it is readable.
    pub fn socket(&self) -> &Rc<TcpStream> {
        &self.socket
    }

    pub(crate) fn len(&self) -> u64 {
        self.len
    }

    /// Sees to it that the pipe has bytes, at most `left`; false if the socket has none at the moment.
    pub(crate) fn fill_pipe(&mut self, left: u64) -> Result<bool, SendError> {
        let pipe = match &mut self.pipe {
            Some(pipe) => pipe,
            empty => empty.insert(Pipe::open()?),
        };
        if pipe.filled > 0 {
            return Ok(true);
        }
        let wanted = usize::try_from(left).map_or(PIPE_BYTES, |left| left.min(PIPE_BYTES));
        let flags = SpliceFlags::NONBLOCK | SpliceFlags::MOVE;
        let result = self.socket.try_io(Interest::READABLE, || {
            Ok(rustix::pipe::splice(&*self.socket, None, &pipe.into, None, wanted, flags)?)
        });
        match arrived(result)? {
            Some(count) => {
                pipe.filled = count;
                Ok(true)
            }
            None => Ok(false),
        }
    }

    /// Moves bytes from the pipe to `to`. At least one, or an error.
    pub(crate) fn empty_pipe(&mut self, to: &TcpStream) -> io::Result<usize> {
        let Some(pipe) = &mut self.pipe else { return Err(io::ErrorKind::WouldBlock.into()) };
        // Not SPLICE_F_MORE: nobody knows when the next bytes will come, and a record left open would hold
        // these back for as long.
        let flags = SpliceFlags::NONBLOCK | SpliceFlags::MOVE;
        let count = to.try_io(Interest::WRITABLE, || {
            match rustix::pipe::splice(&pipe.out_of, None, to, None, pipe.filled, flags)? {
                0 => Err(io::ErrorKind::WouldBlock.into()),
                count => Ok(count),
            }
        })?;
        pipe.filled = pipe.filled.saturating_sub(count);
        Ok(count)
    }

    /// Reads into `into`, which is not empty; `None` if the socket has nothing at the moment.
    pub(crate) fn read(&self, into: &mut [u8]) -> Result<Option<usize>, SendError> {
        arrived(self.socket.try_io(Interest::READABLE, || Ok(rustix::io::read(&*self.socket, into)?)))
    }
}

impl fmt::Debug for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Source").field("len", &self.len).finish_non_exhaustive()
    }
}

impl Pipe {
    fn open() -> io::Result<Self> {
        let (out_of, into) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
        // Refused to a user with many pipes; the usual 64 KiB then do.
        let _granted = rustix::pipe::fcntl_setpipe_size(&into, PIPE_BYTES);
        Ok(Self { into, out_of, filled: 0 })
    }
}

/// An end or an error of the source is not the client's: for it the body is cut short.
fn arrived(result: io::Result<usize>) -> Result<Option<usize>, SendError> {
    match result {
        Ok(0) => Err(SendError::Truncated),
        Ok(count) => Ok(Some(count)),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
        Err(_) => Err(SendError::Truncated),
    }
}
