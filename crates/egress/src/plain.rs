//! Sending without sealing in user space: the kernel moves file pages to the socket.

use std::io;

use rustix::fd::BorrowedFd;
use rustix::net::SendFlags;
use tokio::io::Interest;
use tokio::net::TcpStream;

use crate::pace::OutletLimits;
use crate::send_error::SendError;
use crate::step::Step;
use crate::transmission::{Front, Transmission};

/// Moves the front of `transmission` with one system call, two where it comes from another socket.
pub(crate) fn advance(
    socket: &TcpStream,
    transmission: &mut Transmission,
    limits: &OutletLimits,
) -> Result<Step, SendError> {
    if let Some(extent) = transmission.cold() {
        return Ok(Step::Cold(extent));
    }
    let sent = match transmission.front() {
        None | Some(Front::Cold) => return Ok(Step::Done),
        // A head waits for its body, so that they share a packet.
        Some(Front::Memory(bytes)) => send_some(socket, bytes, transmission.continues_at_once()),
        Some(Front::Warm(_)) if transmission.has_changed_while_sent() => return Err(SendError::Truncated),
        Some(Front::Warm(warm)) => {
            let window = limits.batch_bytes_max;
            let wanted = usize::try_from(warm.len).map_or(window, |len| len.min(window));
            send_file(socket, warm.file.as_fd(), warm.offset, wanted)
        }
        Some(Front::Source) => return splice(socket, transmission),
    };
    match sent {
        Ok(0) => Err(SendError::Truncated),
        Ok(count) => {
            transmission.advance(count);
            Ok(Step::Sent(count))
        }
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(Step::Blocked),
        Err(error) => Err(error.into()),
    }
}

fn splice(socket: &TcpStream, transmission: &mut Transmission) -> Result<Step, SendError> {
    let Some((source, left)) = transmission.source_mut() else { return Ok(Step::Done) };
    if !source.fill_pipe(left)? {
        return Ok(Step::Starved);
    }
    match source.empty_pipe(socket) {
        Ok(count) => {
            transmission.advance(count);
            Ok(Step::Sent(count))
        }
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(Step::Blocked),
        Err(error) => Err(error.into()),
    }
}

/// Sends without blocking. A short count also clears the readiness, which saves the call that would only have
/// said "full".
pub(crate) fn send_some(socket: &TcpStream, bytes: &[u8], more: bool) -> io::Result<usize> {
    let flags = if more { SendFlags::NOSIGNAL | SendFlags::MORE } else { SendFlags::NOSIGNAL };
    let mut short = None;
    let result = socket.try_io(Interest::WRITABLE, || {
        let count = rustix::net::send(socket, bytes, flags)?;
        if count < bytes.len() {
            short = Some(count);
            return Err(io::ErrorKind::WouldBlock.into());
        }
        Ok(count)
    });
    short.map_or(result, Ok)
}

/// A short count may mean a short file: only the next call tells, so the readiness stays.
fn send_file(socket: &TcpStream, file: BorrowedFd<'_>, offset: u64, count: usize) -> io::Result<usize> {
    let mut from = offset;
    socket.try_io(Interest::WRITABLE, || Ok(rustix::fs::sendfile(socket, file, Some(&mut from), count)?))
}
