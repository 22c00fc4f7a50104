//! Sending bytes of memory and of mapped files with one call.

use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::ptr;

use crate::file::{Truncated, Window};

/// Most pieces that one call sends: a batch of frames with their headers.
pub const PIECES_MAX: usize = 32;

/// Bytes to send.
#[derive(Clone, Copy)]
pub enum Piece<'a> {
    /// Bytes in memory, such as a response head.
    Memory(&'a [u8]),
    /// Bytes of a mapped file, which may shrink while the kernel copies them.
    Mapped(Window<'a>),
}

impl Piece<'_> {
    /// Number of bytes.
    pub fn len(&self) -> usize {
        match self {
            Self::Memory(bytes) => bytes.len(),
            Self::Mapped(window) => window.len(),
        }
    }

    /// Whether there are no bytes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Sends the first [`PIECES_MAX`] pieces in order, as a stream socket takes them, and returns the number of bytes taken. With
/// `more`, the last packet waits for bytes that follow (`MSG_MORE` of send(2)).
///
/// A socket that takes less than everything is full, or a mapped file has become shorter, which the next call tells.
///
/// # Errors
/// `WouldBlock` if the socket takes nothing, `UnexpectedEof` if the first bytes are those of a file that has become shorter,
/// or what the system said.
pub fn send_pieces(socket: impl AsFd, pieces: &[Piece<'_>], more: bool) -> io::Result<usize> {
    let mut vectors = [libc::iovec { iov_base: ptr::null_mut(), iov_len: 0 }; PIECES_MAX];
    let mut count = 0;
    for (vector, piece) in vectors.iter_mut().zip(pieces) {
        let start = match piece {
            Piece::Memory(bytes) => bytes.as_ptr(),
            Piece::Mapped(window) => window.as_ptr(),
        };
        // The call only reads; its structure has no other pointer.
        *vector = libc::iovec { iov_base: start.cast_mut().cast(), iov_len: piece.len() };
        count += 1;
    }
    // SAFETY: all zeros is a valid message: no address, no vectors, no control data.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = vectors.as_mut_ptr();
    message.msg_iovlen = count;
    let flags = if more { libc::MSG_NOSIGNAL | libc::MSG_MORE } else { libc::MSG_NOSIGNAL };
    // SAFETY: the message names `count` vectors, each of memory that `pieces` borrows. The kernel reads them only, and
    // returns `EFAULT` instead of a signal where a mapping has lost its file.
    let sent = unsafe { libc::sendmsg(socket.as_fd().as_raw_fd(), &raw const message, flags) };
    let has_lost_file = || {
        pieces.iter().any(|piece| match piece {
            Piece::Memory(_) => false,
            Piece::Mapped(window) => window.mapping().is_truncated(),
        })
    };
    match usize::try_from(sent) {
        // Another thread may have put zeros under the mapping meanwhile.
        Ok(_) if has_lost_file() => Err(Truncated.into()),
        Ok(sent) => Ok(sent),
        Err(_) => match io::Error::last_os_error() {
            error if error.raw_os_error() == Some(libc::EFAULT) => Err(Truncated.into()),
            error => Err(error),
        },
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};

    use super::*;
    use crate::file::OpenFile;

    fn pair() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        (client, listener.accept().unwrap().0)
    }

    fn file(content: &[u8]) -> (File, OpenFile) {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(content).unwrap();
        let open = OpenFile::from_fd(file.try_clone().unwrap().into()).unwrap();
        (file, open)
    }

    #[test]
    fn pieces_of_memory_and_of_files_arrive_in_order() {
        let (mut client, server) = pair();
        let (_file, open) = file(b"0123456789");
        let pieces = [
            Piece::Memory(b"head "),
            Piece::Mapped(open.window(2, 5).unwrap()),
            Piece::Memory(b""),
            Piece::Memory(b" end"),
        ];
        assert_eq!(send_pieces(&server, &pieces, false).unwrap(), 14);
        drop(server);
        let mut text = String::new();
        client.read_to_string(&mut text).unwrap();
        assert_eq!(text, "head 23456 end");
    }

    #[test]
    fn a_file_that_has_become_shorter_ends_the_bytes_and_raises_no_signal() {
        let (mut client, server) = pair();
        let (file, open) = file(&vec![7; 3 * 65_536]);
        let window = open.window(0, open.len()).unwrap();
        file.set_len(65_536).unwrap();
        let sent = send_pieces(&server, &[Piece::Mapped(window)], false).unwrap();
        assert!(sent <= 65_536, "{sent}");
        let rest = open.window(65_536, 10).unwrap();
        let error = send_pieces(&server, &[Piece::Mapped(rest)], false).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
        drop(server);
        let mut bytes = Vec::new();
        client.read_to_end(&mut bytes).unwrap();
        assert_eq!(bytes, vec![7; sent]);
    }

    #[test]
    fn a_full_socket_would_block() {
        let (_client, server) = pair();
        server.set_nonblocking(true).unwrap();
        let piece = vec![0; 1 << 20];
        let error = loop {
            match send_pieces(&server, &[Piece::Memory(&piece)], true) {
                Ok(sent) => assert!(sent > 0),
                Err(error) => break error,
            }
        };
        assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
    }
}
