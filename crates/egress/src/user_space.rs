//! Sealing in user space, out of place: from the mapped file into this worker's batch, then one `send`.

use std::cell::RefCell;
use std::time::Instant;

use penstock_sys::ConnectedSocket;
use penstock_sys::aead::Plaintext;
use penstock_sys::traffic::{SendKeys, TrafficKeys};

use crate::batch::{Batch, with_batch};
use crate::framing::{ContentType, KEY_UPDATE, alert_message};
use crate::pace::{OutletLimits, Pace, RECORD_BYTES};
use crate::record::{OVERHEAD_BYTES, Sealer};
use crate::send_error::SendError;
use crate::step::Step;
use crate::transmission::{Front, Transmission};
use crate::unsent::{LEFT_OVER_BYTES_MAX, Unsent};

/// The alert that ends a connection in order (RFC 8446 §6.1).
const CLOSE_NOTIFY: u8 = 0;

/// Space for one record of any kind plus a KeyUpdate and an alert.
pub(crate) const SLACK_BYTES: usize = RECORD_BYTES + 4 * OVERHEAD_BYTES + LEFT_OVER_BYTES_MAX;

/// Bytes of another socket that are read at once, before they are sealed.
const SOURCE_READ_BYTES: usize = 8 * RECORD_BYTES;

thread_local! {
    // Where a record made of several small parts is put together.
    static GATHER: RefCell<Vec<u8>> = RefCell::new(Vec::with_capacity(RECORD_BYTES));
    // What was read from another socket. It never shrinks, because what grows again is filled with zeros first.
    static READ: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

pub(crate) struct UserSpace {
    pub(crate) sealer: Sealer,
    pub(crate) pace: Pace,
    /// Records that the socket did not take.
    pub(crate) unsent: Unsent,
    /// The last record has been sealed.
    pub(crate) ended: bool,
}

impl UserSpace {
    pub(crate) fn new(keys: SendKeys, limits: &OutletLimits) -> Option<Self> {
        let sealer = Sealer::new(keys, limits.records_per_key)?;
        Some(Self { sealer, pace: Pace::new(limits), unsent: Unsent::default(), ended: false })
    }

    pub(crate) fn advance(
        &mut self,
        socket: &ConnectedSocket,
        transmission: &mut Transmission,
        limits: &OutletLimits,
        now: Instant,
    ) -> Result<Step, SendError> {
        if self.unsent.len() > LEFT_OVER_BYTES_MAX && !self.flush(socket)? {
            return Ok(Step::Blocked);
        }
        if transmission.remaining() == 0 {
            return Ok(if self.flush(socket)? { Step::Done } else { Step::Blocked });
        }
        if self.ended {
            return Err(SendError::Gone);
        }
        if let Some(extent) = transmission.cold() {
            return Ok(Step::Cold(extent));
        }
        if transmission.has_changed_while_sent() {
            return Err(SendError::Truncated);
        }
        self.pace.resume(limits, now);
        with_batch(|batch| {
            batch.begin(limits.batch_bytes_max + SLACK_BYTES);
            let before = transmission.remaining();
            self.unsent.move_to(batch);
            let filled = self.fill(batch, transmission, limits);
            if filled.is_ok() && batch.len() == 0 {
                return Ok(Step::Starved);
            }
            let is_last = transmission.ends_connection() && transmission.remaining() == 0;
            if is_last && filled.is_ok() {
                self.seal_alert(CLOSE_NOTIFY, batch);
            }
            // Also if it ended in an error: a record that is left out would make every later one unreadable.
            let taken = self.unsent.offer(socket, batch, is_last)?;
            filled?;
            self.pace.taken(limits, batch.len(), taken);
            Ok(Step::Sent(usize::try_from(before - transmission.remaining()).unwrap_or(usize::MAX)))
        })
    }

    pub(crate) fn begin_with(&mut self, sealed: Vec<u8>) {
        self.unsent = Unsent::of(sealed);
    }

    /// Seals records until the batch is large enough, or there is nothing more that can be read at once.
    fn fill(
        &mut self,
        batch: &mut Batch,
        transmission: &mut Transmission,
        limits: &OutletLimits,
    ) -> Result<(), SendError> {
        while batch.len() < self.pace.batch_bytes() {
            if self.sealer.is_worn_out() {
                self.seal_key_update(batch, limits)?;
            }
            let record_bytes = self.pace.record_bytes(limits);
            let front_bytes = match transmission.front() {
                None | Some(Front::Cold) => return Ok(()),
                Some(Front::Memory(memory)) => memory.len() as u64,
                Some(Front::Warm(warm)) => warm.len,
                Some(Front::Source) => match self.seal_source(batch, transmission, limits)? {
                    true => continue,
                    false => return Ok(()),
                },
            };
            // Small parts share a record when that fills a packet or ends the response; a long body is not
            // worth a copy.
            let remaining = transmission.remaining();
            let worth_a_copy = record_bytes < RECORD_BYTES || remaining <= record_bytes as u64;
            let sealed = if front_bytes < remaining.min(record_bytes as u64) && worth_a_copy {
                self.seal_gathered(batch, transmission, record_bytes)?
            } else {
                self.seal_front(batch, transmission, record_bytes)?
            };
            self.pace.sealed(sealed);
        }
        Ok(())
    }

    /// One record of the front part alone, without a copy. Returns the bytes of plaintext.
    fn seal_front(
        &mut self,
        batch: &mut Batch,
        transmission: &mut Transmission,
        record_bytes: usize,
    ) -> Result<usize, SendError> {
        let bytes = match transmission.front() {
            None | Some(Front::Cold | Front::Source) => return Ok(0),
            Some(Front::Memory(memory)) => {
                let piece = &memory[..memory.len().min(record_bytes)];
                self.sealer.seal(ContentType::ApplicationData, Plaintext::Memory(piece), batch)?;
                piece.len()
            }
            Some(Front::Warm(warm)) => {
                let window = warm.file.window(warm.offset, warm.len.min(record_bytes as u64))?;
                self.sealer.seal(ContentType::ApplicationData, Plaintext::Mapped(window), batch)?;
                window.len()
            }
        };
        transmission.advance(bytes);
        Ok(bytes)
    }

    /// One record out of as many parts as fit. Returns the bytes of plaintext.
    fn seal_gathered(
        &mut self,
        batch: &mut Batch,
        transmission: &mut Transmission,
        record_bytes: usize,
    ) -> Result<usize, SendError> {
        GATHER.with_borrow_mut(|gather| {
            gather.clear();
            while gather.len() < record_bytes {
                let space = record_bytes - gather.len();
                let count = match transmission.front() {
                    None | Some(Front::Cold | Front::Source) => break,
                    Some(Front::Memory(memory)) => {
                        let count = memory.len().min(space);
                        gather.extend_from_slice(&memory[..count]);
                        count
                    }
                    Some(Front::Warm(warm)) => warm.copy_to(space, gather)?,
                };
                transmission.advance(count);
            }
            self.sealer.seal(ContentType::ApplicationData, Plaintext::Memory(gather), batch)?;
            Ok(gather.len())
        })
    }

    /// Records of the bytes that the source of the body has now, read at once; false if it has none.
    fn seal_source(
        &mut self,
        batch: &mut Batch,
        transmission: &mut Transmission,
        limits: &OutletLimits,
    ) -> Result<bool, SendError> {
        let space =
            self.pace.batch_bytes().saturating_sub(batch.len()).clamp(RECORD_BYTES, SOURCE_READ_BYTES);
        READ.with_borrow_mut(|buffer| {
            let Some((source, left)) = transmission.source_mut() else { return Ok(false) };
            let wanted = usize::try_from(left).map_or(space, |left| left.min(space));
            if buffer.len() < wanted {
                buffer.resize(wanted, 0);
            }
            let Some(count) = source.read(&mut buffer[..wanted])? else { return Ok(false) };
            transmission.advance(count);
            let mut rest = &buffer[..count];
            while !rest.is_empty() {
                if self.sealer.is_worn_out() {
                    self.seal_key_update(batch, limits)?;
                }
                let (record, behind) = rest.split_at(rest.len().min(self.pace.record_bytes(limits)));
                batch.reserve(record.len() + SLACK_BYTES);
                self.sealer.seal(ContentType::ApplicationData, Plaintext::Memory(record), batch)?;
                self.pace.sealed(record.len());
                rest = behind;
            }
            Ok(true)
        })
    }

    pub(crate) fn flush(&mut self, socket: &ConnectedSocket) -> Result<bool, SendError> {
        self.unsent.flush(socket, self.ended)
    }

    /// The keys with the sequence number of the next record; `None` if only this program can use them.
    pub(crate) fn keys(&self) -> Option<&TrafficKeys> {
        self.sealer.keys()
    }

    pub(crate) fn update_keys(&mut self, limits: &OutletLimits) -> Result<(), SendError> {
        with_batch(|batch| {
            batch.begin(SLACK_BYTES);
            self.seal_key_update(batch, limits)?;
            self.unsent.append(batch.filled());
            Ok(())
        })
    }

    pub(crate) fn seal_key_update(
        &mut self,
        batch: &mut Batch,
        limits: &OutletLimits,
    ) -> Result<(), SendError> {
        let next = self.sealer.next_generation(limits.records_per_key).ok_or(SendError::KeysWornOut)?;
        self.sealer.seal(ContentType::Handshake, Plaintext::Memory(&KEY_UPDATE), batch)?;
        self.sealer = next;
        Ok(())
    }

    pub(crate) fn alert(&mut self, number: u8) {
        if self.ended {
            return;
        }
        with_batch(|batch| {
            batch.begin(SLACK_BYTES);
            self.seal_alert(number, batch);
            self.unsent.append(batch.filled());
        });
    }

    /// Adds the last record to the batch. If the library refuses, the connection ends without it.
    fn seal_alert(&mut self, number: u8, batch: &mut Batch) {
        self.ended = true;
        let alert = alert_message(number);
        drop(self.sealer.seal(ContentType::Alert, Plaintext::Memory(&alert), batch));
    }
}
