//! A batch of frames: bytes of a framing layer, and content straight out of mapped files.
//!
//! A frame is a header of the framing layer and content. Large content shares a record with its header, and is sealed
//! from where it lies. Small content is copied, so that the frames of many responses share a record. If this program does not
//! seal, large content is named, and the kernel reads it from where it lies.

mod plain;

use std::cell::RefCell;
use std::time::Instant;

use penstock_metrics::{Work, doing};
use penstock_sys::ConnectedSocket;
use penstock_sys::aead::Plaintext;

use crate::batch::{Batch, with_batch};
use crate::framing::ContentType;
use crate::pace::{OutletLimits, RECORD_BYTES};
use crate::record::OVERHEAD_BYTES;
use crate::send_error::SendError;
use crate::transmission::{Front, Transmission, Warm};
use crate::unsent::LEFT_OVER_BYTES_MAX;
use crate::user_space::{SLACK_BYTES, UserSpace};
use plain::Piece;
pub(crate) use plain::send_plain;

/// Result of [`Outlet::send_frames`](crate::Outlet::send_frames).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FramesStep {
    /// This number of bytes of frames was taken over, before encryption; go on.
    Sent(usize),
    /// The socket is full: wait until it is writable.
    Blocked,
    /// There were no frames, and all earlier bytes have been given to the kernel.
    Idle,
}

/// Content up to this size is copied into a record with other frames, rather than sealed from where it lies: a record of
/// its own costs more than the copy.
pub(crate) const COPIED_BYTES_MAX: usize = 4096;

/// A record with less space than this is sealed before the next frame.
const SPACE_BYTES_MIN: usize = 256;

thread_local! {
    // The open record. Nothing stays in it between two batches.
    static OPEN: RefCell<Vec<u8>> = RefCell::new(Vec::with_capacity(RECORD_BYTES));
}

/// A batch of frames that one system call sends.
pub struct FrameBatch<'b> {
    batch: &'b mut Batch,
    /// Plaintext of the open record.
    open: &'b mut Vec<u8>,
    limits: &'b OutletLimits,
    target: Target<'b>,
    /// All plaintext.
    bytes: usize,
    /// Why the connection cannot go on.
    error: Option<SendError>,
}

/// Where frames go.
enum Target<'b> {
    /// Into records in the batch.
    Sealed(&'b mut UserSpace),
    /// Into these pieces, of which the small ones are in the batch.
    Plain(&'b mut Vec<Piece>),
}

impl FrameBatch<'_> {
    /// How long the next frame may be, header included; 0 if the batch is full.
    pub fn space(&self) -> usize {
        let filled = match &self.target {
            Target::Sealed(_) => self.batch.len() + self.open.len(),
            Target::Plain(_) => self.bytes,
        };
        if self.error.is_some() || filled >= self.batch_bytes() {
            return 0;
        }
        let whole = self.record_bytes();
        match whole.saturating_sub(self.open.len()) {
            left if left < SPACE_BYTES_MIN => whole,
            left => left,
        }
    }

    /// Adds bytes of the framing layer, such as frames without content.
    pub fn put(&mut self, mut bytes: &[u8]) {
        if let Target::Plain(pieces) = &mut self.target {
            self.bytes += bytes.len();
            return plain::copy(bytes, self.batch, pieces);
        }
        while !bytes.is_empty() && self.error.is_none() {
            let left = self.record_bytes().saturating_sub(self.open.len());
            let (now, later) = bytes.split_at(bytes.len().min(left));
            self.open.extend_from_slice(now);
            self.bytes += now.len();
            bytes = later;
            if !bytes.is_empty() {
                self.close_record();
            }
        }
    }

    /// Adds a frame whose content is the next `length` bytes of `transmission`, which are
    /// [available](Transmission::available).
    ///
    /// # Errors
    /// The content cannot be read. The frame is left out; others can follow.
    pub fn put_content(
        &mut self,
        header: &[u8],
        transmission: &mut Transmission,
        length: usize,
    ) -> Result<(), SendError> {
        let frame_bytes = header.len() + length;
        if let Target::Plain(pieces) = &mut self.target {
            plain::put_content(header, transmission, length, (self.open, self.batch, pieces))?;
            self.bytes += frame_bytes;
            return Ok(());
        }
        if self.open.len() + frame_bytes > self.record_bytes() {
            self.close_record();
        }
        let start = self.open.len();
        self.open.extend_from_slice(header);
        let fills_record = start + frame_bytes + SPACE_BYTES_MIN > self.record_bytes();
        let added = if fills_record || length > COPIED_BYTES_MAX {
            self.seal_in_place(transmission, length)
        } else {
            Ok(false)
        };
        let added = added
            .and_then(|is_sealed| if is_sealed { Ok(()) } else { transmission.copy_next(length, self.open) });
        match added {
            Ok(()) => self.bytes += frame_bytes,
            Err(_) => self.open.truncate(start),
        }
        added
    }

    /// Seals the open record with this content behind it, if the content lies in one piece. Returns whether it did.
    fn seal_in_place(&mut self, transmission: &mut Transmission, length: usize) -> Result<bool, SendError> {
        if !self.prepare_to_seal() {
            return Ok(false);
        }
        let Target::Sealed(sealing) = &mut self.target else { return Ok(false) };
        let plaintext = match transmission.front() {
            Some(Front::Memory(memory)) if memory.len() >= length => {
                Plaintext::Framed(self.open, &memory[..length])
            }
            Some(Front::Warm(Warm { file, offset, len })) if len >= length as u64 => {
                Plaintext::FramedMapped(self.open, file.window(offset, length as u64)?)
            }
            None | Some(Front::Memory(_) | Front::Warm(_) | Front::Cold | Front::Source) => return Ok(false),
        };
        if plaintext.len() != self.open.len() + length {
            return Err(SendError::Truncated);
        }
        let plaintext_bytes = plaintext.len();
        self.batch.reserve(plaintext_bytes + OVERHEAD_BYTES);
        match sealing.sealer.seal(ContentType::ApplicationData, plaintext, self.batch) {
            Ok(()) => {}
            Err(SendError::Truncated) => return Err(SendError::Truncated),
            Err(error) => {
                self.error = Some(error);
                return Ok(true);
            }
        }
        sealing.pace.sealed(plaintext_bytes);
        self.open.clear();
        transmission.advance(length);
        Ok(true)
    }

    /// Seals the open record.
    fn close_record(&mut self) {
        if self.open.is_empty() || !self.prepare_to_seal() {
            return;
        }
        let Target::Sealed(sealing) = &mut self.target else { return };
        self.batch.reserve(self.open.len() + OVERHEAD_BYTES);
        let plaintext = Plaintext::Memory(self.open);
        match sealing.sealer.seal(ContentType::ApplicationData, plaintext, self.batch) {
            Ok(()) => sealing.pace.sealed(self.open.len()),
            Err(error) => self.error = Some(error),
        }
        self.open.clear();
    }

    /// Changes keys that have sealed enough; false if the connection cannot go on.
    fn prepare_to_seal(&mut self) -> bool {
        if let Target::Sealed(sealing) = &mut self.target
            && sealing.sealer.is_worn_out()
        {
            self.batch.reserve(OVERHEAD_BYTES);
            if let Err(error) = sealing.seal_key_update(self.batch, self.limits) {
                self.error = Some(error);
            }
        }
        self.error.is_none()
    }

    fn record_bytes(&self) -> usize {
        match &self.target {
            Target::Sealed(sealing) => sealing.pace.record_bytes(self.limits),
            Target::Plain(_) => RECORD_BYTES,
        }
    }

    fn batch_bytes(&self) -> usize {
        match &self.target {
            Target::Sealed(sealing) => sealing.pace.batch_bytes(),
            Target::Plain(_) => self.limits.batch_bytes_min,
        }
    }
}

/// Fills a batch, seals it and offers it to the socket.
pub(crate) fn send_sealed(
    sealing: &mut UserSpace,
    socket: &ConnectedSocket,
    limits: &OutletLimits,
    now: Instant,
    fill: impl FnOnce(&mut FrameBatch<'_>),
) -> Result<FramesStep, SendError> {
    if sealing.unsent.len() > LEFT_OVER_BYTES_MAX && !sealing.unsent.flush(socket, false)? {
        return Ok(FramesStep::Blocked);
    }
    if sealing.ended {
        return Err(SendError::Gone);
    }
    sealing.pace.resume(limits, now);
    with_batch(|batch| {
        batch.begin(limits.batch_bytes_max + SLACK_BYTES);
        sealing.unsent.move_to(batch);
        let (bytes, error) = filled(batch, limits, Target::Sealed(sealing), fill);
        if batch.len() == 0 {
            return error.map_or(Ok(FramesStep::Idle), Err);
        }
        // Also if it ended in an error: a record that is left out would make every later one unreadable.
        let taken = sealing.unsent.offer(socket, batch, false)?;
        sealing.pace.taken(limits, batch.len(), taken);
        step(bytes, batch.len() - taken, error)
    })
}

fn step(bytes: usize, left: usize, error: Option<SendError>) -> Result<FramesStep, SendError> {
    match error {
        Some(error) => Err(error),
        None if bytes == 0 && left > 0 => Ok(FramesStep::Blocked),
        None if bytes == 0 => Ok(FramesStep::Idle),
        None => Ok(FramesStep::Sent(bytes)),
    }
}

/// The plaintext that was put into the batch, and the error that ends the connection.
fn filled(
    batch: &mut Batch,
    limits: &OutletLimits,
    target: Target<'_>,
    fill: impl FnOnce(&mut FrameBatch<'_>),
) -> (usize, Option<SendError>) {
    OPEN.with_borrow_mut(|open| {
        open.clear();
        let mut frames = FrameBatch { batch, open, limits, target, bytes: 0, error: None };
        // What a protocol does to fill it is no sending.
        doing(Work::Rest, || fill(&mut frames));
        frames.close_record();
        (frames.bytes, frames.error)
    })
}
