//! A body that arrives on another socket, such as an origin's without TLS.
//!
//! A kernel that sends takes the bytes through a pipe, and they never enter this program. Sealing in user space reads
//! them.

use std::fmt;
use std::io;
use std::rc::Rc;

use rustix::fd::OwnedFd;
use rustix::pipe::{PipeFlags, SpliceFlags};
use tokio::io::Interest;
use tokio::net::TcpStream;

use crate::send_error::SendError;

/// Capacity asked for in a pipe; with less the transmission only takes more steps.
const PIPE_BYTES: usize = 256 * 1024;

/// The next bytes of a socket, which go out unchanged.
pub struct SocketSource {
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

impl SocketSource {
    /// The next `len` bytes that arrive on `socket`. No other task may read from it meanwhile.
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

    /// Fills an empty pipe with at most `left` bytes; false if the socket has none at the moment.
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
        // Not SPLICE_F_MORE: the next bytes may come late, and a record left open would hold these back for as long.
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

impl fmt::Debug for SocketSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SocketSource").field("len", &self.len).finish_non_exhaustive()
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
