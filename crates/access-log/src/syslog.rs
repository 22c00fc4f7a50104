//! Lines as datagrams of syslog, to a socket of this machine such as `/dev/log`.

use std::io::{self, Write};
use std::os::unix::fs::FileTypeExt as _;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::{fs, process};

/// Severity "informational" of the facility "local7" (RFC 5424 §6.2.1), as nginx has it.
const PRIORITY: u8 = 23 * 8 + 6;

/// Whether this is the path of a socket. A stream of the process that is one is no such path.
pub(crate) fn is_socket(path: &Path) -> bool {
    !is_stream(path) && fs::metadata(path).is_ok_and(|found| found.file_type().is_socket())
}

/// Whether this names a stream of the process.
fn is_stream(path: &Path) -> bool {
    ["/dev/stdout", "/dev/stderr", "/dev/fd", "/proc"].iter().any(|stream| path.starts_with(stream))
}

/// A connected socket. Each line is a datagram; the time is left to the receiver.
#[derive(Debug)]
pub(crate) struct SyslogSocket {
    socket: UnixDatagram,
    path: PathBuf,
    datagram: Vec<u8>,
}

impl SyslogSocket {
    /// # Errors
    /// The error of the system: no program receives there, or not datagrams.
    pub(crate) fn connect(path: &Path) -> io::Result<Self> {
        let socket = UnixDatagram::unbound()?;
        socket.connect(path)?;
        Ok(Self { socket, path: path.to_owned(), datagram: Vec::new() })
    }

    /// Sends the datagram. A receiver that has been started again has another socket at that path.
    fn send(&self) -> io::Result<usize> {
        match self.socket.send(&self.datagram) {
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::ConnectionRefused
                        | io::ErrorKind::NotConnected
                        | io::ErrorKind::ConnectionReset
                ) =>
            {
                self.socket.connect(&self.path)?;
                self.socket.send(&self.datagram)
            }
            sent => sent,
        }
    }
}

impl Write for SyslogSocket {
    /// Sends the first line.
    fn write(&mut self, lines: &[u8]) -> io::Result<usize> {
        let (line, taken) = match lines.iter().position(|byte| *byte == b'\n') {
            Some(end) => (&lines[..end], end + 1),
            None => (lines, lines.len()),
        };
        if line.is_empty() {
            return Ok(taken);
        }
        self.datagram.clear();
        write!(self.datagram, "<{PRIORITY}>penstock[{}]: ", process::id())?;
        self.datagram.extend_from_slice(line);
        self.send()?;
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
