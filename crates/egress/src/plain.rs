//! Sending without sealing in user space: the kernel moves file pages to the socket.

use std::io;

use penstock_sys::ConnectedSocket;
use penstock_sys::send::{Piece, send_pieces};
use rustix::fd::BorrowedFd;
use rustix::net::SendFlags;
use tokio::io::Interest;

use crate::pace::OutletLimits;
use crate::send_error::SendError;
use crate::step::Step;
use crate::transmission::{Front, Transmission};

/// Most parts of a response that leave together.
const PARTS_MAX: usize = 8;

/// Moves the front of `transmission`: what is in memory and a short body with one system call that copies both, otherwise
/// the head with one call and the first window of the body with another.
pub(crate) fn advance_together(
    socket: &ConnectedSocket,
    transmission: &mut Transmission,
    limits: &OutletLimits,
) -> Result<Step, SendError> {
    if let Some(extent) = transmission.cold() {
        return Ok(Step::Cold(extent));
    }
    if transmission.has_changed_while_sent() {
        return Err(SendError::Truncated);
    }
    let (copied, is_all) = match copy(socket, transmission) {
        Ok(copied) => copied,
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(Step::Blocked),
        Err(error) => return Err(error.into()),
    };
    if copied == 0 {
        return advance_unchanged(socket, transmission, limits.plain_bytes_max);
    }
    transmission.advance(copied);
    let goes_on = is_all && matches!(transmission.front(), Some(Front::Warm(_)));
    match if goes_on { advance(socket, transmission, limits.plain_bytes_max) } else { Ok(Step::Done) } {
        Ok(Step::Sent(moved)) => Ok(Step::Sent(copied + moved)),
        // The next call tells.
        _ => Ok(Step::Sent(copied)),
    }
}

/// Copies bytes in memory and short extents to the socket. Returns how many bytes it took, and whether that is all of them;
/// no bytes if none are to be copied.
fn copy(socket: &ConnectedSocket, transmission: &Transmission) -> io::Result<(usize, bool)> {
    let mut pieces = [Piece::Memory(&[]); PARTS_MAX];
    let (mut count, mut bytes, mut is_mapped) = (0, 0, false);
    for (place, piece) in pieces.iter_mut().zip(transmission.pieces()) {
        *place = piece;
        count += 1;
        bytes += piece.len();
        is_mapped |= matches!(piece, Piece::Mapped(_));
    }
    if count == 0 {
        return Ok((0, true));
    }
    // A head waits for its body, so that they share a packet; the last bytes wait for the end of the connection.
    let more = transmission.continues_behind(bytes)
        || (transmission.ends_connection() && transmission.remaining() == bytes as u64);
    let mut short = None;
    let result = socket.try_io(Interest::WRITABLE, || {
        let taken = send_pieces(socket, &pieces[..count], more)?;
        // A short count also clears the readiness, which saves the call that would only say "full". It may also mean a
        // short file, which only the next call tells.
        if taken < bytes && !is_mapped {
            short = Some(taken);
            return Err(io::ErrorKind::WouldBlock.into());
        }
        Ok(taken)
    });
    let taken = short.map_or(result, Ok)?;
    if taken == 0 { Err(io::ErrorKind::WouldBlock.into()) } else { Ok((taken, taken == bytes)) }
}

/// Moves the front of `transmission` with one system call, two where it comes from another socket; of a file at most
/// `file_bytes`.
pub(crate) fn advance(
    socket: &ConnectedSocket,
    transmission: &mut Transmission,
    file_bytes: usize,
) -> Result<Step, SendError> {
    if let Some(extent) = transmission.cold() {
        return Ok(Step::Cold(extent));
    }
    if transmission.has_changed_while_sent() {
        return Err(SendError::Truncated);
    }
    advance_unchanged(socket, transmission, file_bytes)
}

/// The same for a file that has just been found unchanged.
fn advance_unchanged(
    socket: &ConnectedSocket,
    transmission: &mut Transmission,
    file_bytes: usize,
) -> Result<Step, SendError> {
    let sent = match transmission.front() {
        None | Some(Front::Cold) => return Ok(Step::Done),
        // A head waits for its body, so that they share a packet.
        Some(Front::Memory(bytes)) => send_some(socket, bytes, transmission.continues_behind(bytes.len())),
        Some(Front::Warm(warm)) => {
            let wanted = usize::try_from(warm.len).map_or(file_bytes, |len| len.min(file_bytes));
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

fn splice(socket: &ConnectedSocket, transmission: &mut Transmission) -> Result<Step, SendError> {
    let Some((source, left)) = transmission.source_mut() else { return Ok(Step::Done) };
    match source.move_to(socket, left) {
        Ok(Some(count)) => {
            transmission.advance(count);
            Ok(Step::Sent(count))
        }
        Ok(None) => Ok(Step::Starved),
        Err(SendError::Io(error)) if error.kind() == io::ErrorKind::WouldBlock => Ok(Step::Blocked),
        Err(error) => Err(error),
    }
}

/// Sends without blocking. A short count also clears the readiness, which saves the call that would only have
/// said "full".
pub(crate) fn send_some(socket: &ConnectedSocket, bytes: &[u8], more: bool) -> io::Result<usize> {
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
pub(crate) fn send_file(
    socket: &ConnectedSocket,
    file: BorrowedFd<'_>,
    offset: u64,
    count: usize,
) -> io::Result<usize> {
    let mut from = offset;
    socket.try_io(Interest::WRITABLE, || Ok(rustix::fs::sendfile(socket, file, Some(&mut from), count)?))
}
