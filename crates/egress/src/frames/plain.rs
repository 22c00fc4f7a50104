//! Frames that this program does not seal: the kernel reads large content from where it lies.

use std::cell::RefCell;
use std::io;
use std::sync::Arc;

use penstock_sys::ConnectedSocket;
use penstock_sys::file::OpenFile;
use penstock_sys::send::{self, PIECES_MAX, send_pieces};
use tokio::io::Interest;

use super::{COPIED_BYTES_MAX, FrameBatch, FramesStep, Target, filled, step};
use crate::batch::{Batch, with_batch};
use crate::pace::OutletLimits;
use crate::send_error::SendError;
use crate::transmission::{Front, Transmission, Warm};
use crate::unsent::Unsent;
use crate::user_space::SLACK_BYTES;

thread_local! {
    // One per worker: a batch is filled and offered to the socket without an await in between.
    static PIECES: RefCell<Vec<Piece>> = const { RefCell::new(Vec::new()) };
}

/// The next bytes of a batch.
pub(crate) enum Piece {
    /// This number of the bytes that were copied into the batch.
    Copied(usize),
    /// Bytes of a file that are in the page cache.
    Mapped { file: Arc<OpenFile>, offset: u64, len: usize },
}

impl Piece {
    fn len(&self) -> usize {
        match self {
            Self::Copied(len) | Self::Mapped { len, .. } => *len,
        }
    }
}

/// Adds bytes to the batch.
pub(super) fn copy(bytes: &[u8], batch: &mut Batch, pieces: &mut Vec<Piece>) {
    batch.reserve(bytes.len());
    if let Some(space) = batch.space(bytes.len()) {
        space.copy_from_slice(bytes);
        batch.commit(bytes.len());
    }
    match pieces.last_mut() {
        Some(Piece::Copied(len)) => *len += bytes.len(),
        _ => pieces.push(Piece::Copied(bytes.len())),
    }
}

/// Adds a frame. Content that is small, in several parts, or whose owner may drop it, is copied.
pub(super) fn put_content(
    header: &[u8],
    transmission: &mut Transmission,
    length: usize,
    (gather, batch, pieces): (&mut Vec<u8>, &mut Batch, &mut Vec<Piece>),
) -> Result<(), SendError> {
    let mapped = match transmission.front() {
        Some(Front::Warm(Warm { file, offset, len }))
            if length > COPIED_BYTES_MAX && len >= length as u64 =>
        {
            // Fails for a file that is known to be truncated.
            file.window(offset, length as u64)?;
            Some(Piece::Mapped { file: Arc::clone(file), offset, len: length })
        }
        _ => None,
    };
    match mapped {
        Some(piece) => {
            copy(header, batch, pieces);
            pieces.push(piece);
            transmission.advance(length);
        }
        None => {
            gather.clear();
            gather.extend_from_slice(header);
            transmission.copy_next(length, gather)?;
            copy(gather, batch, pieces);
            gather.clear();
        }
    }
    Ok(())
}

/// Fills a batch and offers it to the socket.
pub(crate) fn send_plain(
    unsent: &mut Unsent,
    socket: &ConnectedSocket,
    limits: &OutletLimits,
    fill: impl FnOnce(&mut FrameBatch<'_>),
) -> Result<FramesStep, SendError> {
    if !unsent.flush(socket, false)? {
        return Ok(FramesStep::Blocked);
    }
    with_batch(|batch| {
        PIECES.with_borrow_mut(|pieces| {
            batch.begin(SLACK_BYTES);
            pieces.clear();
            let (bytes, error) = filled(batch, limits, Target::Plain(pieces), fill);
            let left = offer(unsent, socket, batch.filled(), pieces);
            // Files are closed by their other owners.
            pieces.clear();
            step(bytes, left?, error)
        })
    })
}

/// Sends the first pieces, of which the first without its `sent` bytes, with one system call. Their copied bytes begin
/// `copied`. Returns how many bytes the socket took, and whether it is full. A kernel that seals reads large pieces from where
/// they lie, and copies others.
fn send_together(
    socket: &ConnectedSocket,
    copied: &[u8],
    pieces: &[Piece],
    sent: usize,
) -> Result<(usize, bool), SendError> {
    let mut views = [send::Piece::Memory(&[]); PIECES_MAX];
    let count = view(copied, pieces, sent, &mut views)?;
    let offered: usize = views[..count].iter().map(send::Piece::len).sum();
    let more = count < pieces.len();
    match socket.try_io(Interest::WRITABLE, || send_pieces(socket, &views[..count], more)) {
        Ok(taken) => Ok((taken, taken < offered)),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok((0, true)),
        Err(error) => Err(error.into()),
    }
}

/// Offers the pieces to the socket, and keeps a copy of the rest: the owner of a file may use its memory for others once the
/// frame counts as sent. Returns how many bytes that is.
fn offer(
    unsent: &mut Unsent,
    socket: &ConnectedSocket,
    copied: &[u8],
    pieces: &[Piece],
) -> Result<usize, SendError> {
    let (mut copied, mut pieces) = (copied, pieces);
    // Bytes of the first piece that were sent.
    let mut sent = 0;
    while !pieces.is_empty() {
        let (mut taken, is_full) = send_together(socket, copied, pieces, sent)?;
        while let Some(piece) = pieces.first() {
            let rest = piece.len() - sent;
            if taken < rest {
                sent += taken;
                break;
            }
            (taken, sent, pieces) = (taken - rest, 0, &pieces[1..]);
            if let Piece::Copied(len) = piece {
                copied = &copied[*len..];
            }
        }
        if is_full {
            break;
        }
    }
    let mut left = Vec::new();
    while !pieces.is_empty() {
        let mut views = [send::Piece::Memory(&[]); PIECES_MAX];
        let count = view(copied, pieces, sent, &mut views)?;
        for (view, piece) in views[..count].iter().zip(pieces) {
            match view {
                send::Piece::Memory(bytes) => left.extend_from_slice(bytes),
                send::Piece::Mapped(window) => {
                    let start = left.len();
                    left.resize(start + window.len(), 0);
                    window.copy_to(&mut left[start..]).map_err(|_| SendError::Truncated)?;
                }
            }
            if let Piece::Copied(len) = piece {
                copied = &copied[*len..];
            }
        }
        (pieces, sent) = (&pieces[count..], 0);
    }
    let bytes = left.len();
    if bytes > 0 {
        *unsent = Unsent::of(left);
    }
    Ok(bytes)
}

/// Writes the first pieces without the `sent` bytes of the first, as far as they fit, and returns their number.
fn view<'p>(
    mut copied: &'p [u8],
    pieces: &'p [Piece],
    mut sent: usize,
    views: &mut [send::Piece<'p>; PIECES_MAX],
) -> Result<usize, SendError> {
    let mut count = 0;
    for (view, piece) in views.iter_mut().zip(pieces) {
        let from = std::mem::take(&mut sent);
        *view = match piece {
            Piece::Copied(len) => {
                let (bytes, rest) = copied.split_at(*len);
                copied = rest;
                send::Piece::Memory(&bytes[from..])
            }
            Piece::Mapped { file, offset, len } => {
                send::Piece::Mapped(file.window(offset + from as u64, (len - from) as u64)?)
            }
        };
        count += 1;
    }
    Ok(count)
}
