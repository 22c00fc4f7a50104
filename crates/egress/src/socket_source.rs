//! A body that arrives on another socket, such as an origin's without TLS.
//!
//! A kernel that sends takes the bytes through a pipe, and they never enter this program. Sealing in user space reads
//! them. A source has a pipe only while bytes of it are in one: the pipes of a worker are few, and without a free one the
//! bytes are copied.

use std::cell::RefCell;
use std::fmt;
use std::io;
use std::rc::Rc;

use penstock_sys::ConnectedSocket;
use rustix::fd::OwnedFd;
use rustix::net::{RecvFlags, SendFlags};
use rustix::pipe::{PipeFlags, SpliceFlags};
use tokio::io::Interest;
use tokio::net::TcpStream;

use crate::send_error::SendError;

/// Capacity asked for in a pipe, in bytes; with less the transmission only takes more steps.
const PIPE_BYTES: usize = 256 * 1024;

/// A smaller pipe costs more than copying. Users with many pipes get such.
const PIPE_BYTES_MIN: usize = 64 * 1024;

/// Pipes of one worker, idle and in use: two descriptors each, and 256 KiB at most in each that is in use.
pub const PIPES_PER_WORKER: usize = 64;

/// Bytes copied in one step without a pipe.
const COPY_BYTES: usize = 64 * 1024;

thread_local! {
    static PIPES: RefCell<Pipes> = const { RefCell::new(Pipes { idle: Vec::new(), open: 0 }) };
    static COPY: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// The pipes of this worker.
struct Pipes {
    idle: Vec<Pipe>,
    open: usize,
}

/// The next bytes of a socket, which go out unchanged.
pub struct SocketSource {
    socket: Rc<TcpStream>,
    len: u64,
    pipe: Option<FilledPipe>,
}

/// A pipe of this worker.
struct Pipe {
    into: OwnedFd,
    out_of: OwnedFd,
}

/// A pipe with bytes between the two sockets, still in the kernel.
struct FilledPipe {
    pipe: Option<Pipe>,
    bytes: usize,
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

    /// Moves at most `left` bytes to `to`, without a copy if a pipe is free; `None` if the source has none at the moment.
    ///
    /// # Errors
    /// `WouldBlock` within [`SendError::Io`] if `to` takes none.
    pub(crate) fn move_to(&mut self, to: &ConnectedSocket, left: u64) -> Result<Option<usize>, SendError> {
        let mut filled = match self.pipe.take() {
            Some(filled) => filled,
            None => match FilledPipe::take() {
                Some(empty) => empty,
                None => return self.copy_to(to, left),
            },
        };
        if filled.bytes == 0 && !filled.fill(&self.socket, left)? {
            return Ok(None);
        }
        let moved = filled.empty_into(to);
        if filled.bytes > 0 {
            self.pipe = Some(filled);
        }
        Ok(Some(moved?))
    }

    /// Copies bytes that have come to `to`. What `to` does not take stays in the socket of the source.
    fn copy_to(&self, to: &ConnectedSocket, left: u64) -> Result<Option<usize>, SendError> {
        COPY.with_borrow_mut(|buffer| {
            buffer.resize(COPY_BYTES, 0);
            let wanted = at_most(left, COPY_BYTES);
            let peeked = self.socket.try_io(Interest::READABLE, || {
                let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT;
                Ok(rustix::net::recv(&*self.socket, &mut buffer[..wanted], flags)?.0)
            });
            let Some(available) = arrived(peeked)? else { return Ok(None) };
            let sent = to.try_io(Interest::WRITABLE, || {
                Ok(rustix::net::send(to, &buffer[..available], SendFlags::NOSIGNAL)?)
            })?;
            let mut taken = 0;
            while taken < sent {
                // They are there: they were peeked.
                let read = rustix::io::read(&*self.socket, &mut buffer[..sent - taken]);
                taken += arrived(read.map_err(io::Error::from))?.ok_or(SendError::Truncated)?;
            }
            Ok(Some(sent))
        })
    }

    /// Reads into `into`, which is not empty; `None` if the socket has nothing at the moment.
    pub(crate) fn read(&self, into: &mut [u8]) -> Result<Option<usize>, SendError> {
        let mut short = None;
        let read = self.socket.try_io(Interest::READABLE, || {
            let count = rustix::io::read(&*self.socket, &mut *into)?;
            // A short count also clears the readiness, which saves the call that would only say "empty".
            if count > 0 && count < into.len() {
                short = Some(count);
                return Err(io::ErrorKind::WouldBlock.into());
            }
            Ok(count)
        });
        arrived(short.map_or(read, Ok))
    }
}

impl fmt::Debug for SocketSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SocketSource").field("len", &self.len).finish_non_exhaustive()
    }
}

impl FilledPipe {
    /// An empty pipe; `None` if this worker has no more.
    fn take() -> Option<Self> {
        PIPES.with_borrow_mut(|pipes| {
            if let Some(pipe) = pipes.idle.pop() {
                return Some(Self { pipe: Some(pipe), bytes: 0 });
            }
            if pipes.open >= PIPES_PER_WORKER {
                return None;
            }
            let pipe = Pipe::open().ok()?;
            pipes.open += 1;
            Some(Self { pipe: Some(pipe), bytes: 0 })
        })
    }

    /// Takes at most `left` bytes from a socket; false if it has none at the moment.
    fn fill(&mut self, from: &TcpStream, left: u64) -> Result<bool, SendError> {
        let Some(pipe) = &self.pipe else { return Err(SendError::Internal) };
        let flags = SpliceFlags::NONBLOCK | SpliceFlags::MOVE;
        let wanted = at_most(left, PIPE_BYTES);
        let result = from.try_io(Interest::READABLE, || {
            Ok(rustix::pipe::splice(from, None, &pipe.into, None, wanted, flags)?)
        });
        let Some(count) = arrived(result)? else { return Ok(false) };
        self.bytes = count;
        Ok(true)
    }

    /// Moves bytes to a socket: at least one, or an error.
    fn empty_into(&mut self, to: &ConnectedSocket) -> io::Result<usize> {
        let Some(pipe) = &self.pipe else { return Err(io::ErrorKind::WouldBlock.into()) };
        // Not SPLICE_F_MORE: the next bytes may come late, and a record left open would hold these back for as long.
        let flags = SpliceFlags::NONBLOCK | SpliceFlags::MOVE;
        let count = to.try_io(Interest::WRITABLE, || {
            match rustix::pipe::splice(&pipe.out_of, None, to, None, self.bytes, flags)? {
                0 => Err(io::ErrorKind::WouldBlock.into()),
                count => Ok(count),
            }
        })?;
        self.bytes = self.bytes.saturating_sub(count);
        Ok(count)
    }
}

impl Drop for FilledPipe {
    /// Keeps an empty pipe for the next source. One with bytes of a response that broke off is closed with them.
    fn drop(&mut self) {
        let pipe = self.pipe.take();
        // Without its thread-local the thread ends, and the pipe with it.
        let _kept = PIPES.try_with(|pipes| {
            let mut pipes = pipes.borrow_mut();
            match pipe.filter(|_| self.bytes == 0) {
                Some(pipe) => pipes.idle.push(pipe),
                None => pipes.open -= 1,
            }
        });
    }
}

impl Pipe {
    fn open() -> io::Result<Self> {
        let (out_of, into) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
        // Refused to a user with many pipes.
        let granted = match rustix::pipe::fcntl_setpipe_size(&into, PIPE_BYTES) {
            Ok(granted) => granted,
            Err(_) => rustix::pipe::fcntl_getpipe_size(&into)?,
        };
        if granted < PIPE_BYTES_MIN {
            Err(io::ErrorKind::QuotaExceeded.into())
        } else {
            Ok(Self { into, out_of })
        }
    }
}

fn at_most(bytes: u64, most: usize) -> usize {
    usize::try_from(bytes).map_or(most, |bytes| bytes.min(most))
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

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream as StdStream};

    use super::*;

    /// Both ends of a connection: the far one blocks.
    fn pair() -> (StdStream, StdStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let far = StdStream::connect(listener.local_addr().unwrap()).unwrap();
        let near = listener.accept().unwrap().0;
        near.set_nonblocking(true).unwrap();
        (near, far)
    }

    fn watched(source: StdStream) -> Rc<TcpStream> {
        Rc::new(TcpStream::from_std(source).unwrap())
    }

    /// Moves `body` from one connection to another, whose reader begins once it is full.
    async fn relay(body: Vec<u8>) -> Vec<u8> {
        let ((from, mut server), (to, client)) = (pair(), pair());
        let (from, to) = (watched(from), ConnectedSocket::from(to));
        let length = body.len();
        let sending = std::thread::spawn(move || server.write_all(&body).unwrap());
        let mut source = SocketSource::new(from, length as u64);
        let (mut left, mut client, mut reading) = (length as u64, Some(client), None);
        while left > 0 {
            match source.move_to(&to, left) {
                Ok(Some(count)) => left -= count as u64,
                Ok(None) => source.socket().readable().await.unwrap(),
                Err(SendError::Io(error)) if error.kind() == io::ErrorKind::WouldBlock => {
                    if let Some(mut client) = client.take() {
                        reading = Some(std::thread::spawn(move || {
                            let mut received = vec![0; length];
                            client.read_exact(&mut received).unwrap();
                            received
                        }));
                    }
                    to.writable().await.unwrap();
                }
                Err(error) => panic!("{error}"),
            }
        }
        sending.join().unwrap();
        reading.expect("more than the buffers of a socket hold").join().unwrap()
    }

    #[tokio::test]
    async fn bytes_arrive_with_a_pipe_and_without_a_free_one() {
        let body: Vec<u8> = (0..20_000_003_u32).map(|number| u8::try_from(number % 251).unwrap()).collect();
        assert!(relay(body.clone()).await == body);
        let idle = PIPES.with_borrow(|pipes| (pipes.idle.len(), pipes.open));
        assert_eq!(idle, (1, 1), "an empty pipe is kept for the next source");
        let taken: Vec<_> = std::iter::from_fn(FilledPipe::take).collect();
        assert_eq!(taken.len(), PIPES_PER_WORKER);
        assert!(relay(body.clone()).await == body);
        drop(taken);
        assert_eq!(PIPES.with_borrow(|pipes| pipes.idle.len()), PIPES_PER_WORKER);
    }

    #[tokio::test]
    async fn a_pipe_with_bytes_of_a_response_that_broke_off_is_closed() {
        let ((from, mut server), (_to, _client)) = (pair(), pair());
        server.write_all(b"some").unwrap();
        let from = watched(from);
        from.readable().await.unwrap();
        let mut filled = FilledPipe::take().unwrap();
        assert!(filled.fill(&from, 4).unwrap());
        drop(filled);
        assert_eq!(PIPES.with_borrow(|pipes| (pipes.idle.len(), pipes.open)), (0, 0));
    }
}
