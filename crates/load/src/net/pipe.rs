//! A socket with a large read buffer: BoringSSL alone takes two system calls per record.

use std::io::{self, Read, Write};

use tokio::net::TcpStream;

/// A socket and the bytes that were read ahead.
#[derive(Debug)]
pub(crate) struct ReadAhead {
    socket: TcpStream,
    buffer: Vec<u8>,
    start: usize,
    end: usize,
}

impl ReadAhead {
    /// Reads at most `buffer_bytes` at a time.
    pub(crate) fn new(socket: TcpStream, buffer_bytes: usize) -> Self {
        Self { socket, buffer: vec![0; buffer_bytes], start: 0, end: 0 }
    }

    /// The socket.
    pub(crate) fn socket(&self) -> &TcpStream {
        &self.socket
    }
}

impl Read for ReadAhead {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if self.start == self.end {
            self.start = 0;
            self.end = 0;
            self.end = self.socket.try_read(&mut self.buffer)?;
        }
        let count = into.len().min(self.end - self.start);
        into[..count].copy_from_slice(&self.buffer[self.start..self.start + count]);
        self.start += count;
        Ok(count)
    }
}

impl Write for ReadAhead {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.socket.try_write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
