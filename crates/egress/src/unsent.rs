//! Bytes that a socket has not taken yet.

use std::io;

use penstock_sys::ConnectedSocket;

use crate::batch::Batch;
use crate::plain::send_some;
use crate::send_error::SendError;

/// Sealed bytes that wait for the next batch rather than for a `send` of their own.
pub(crate) const LEFT_OVER_BYTES_MAX: usize = 4096;

/// Bytes that cannot be made a second time, such as sealed records, and that the socket did not take.
#[derive(Default)]
pub(crate) struct Unsent {
    bytes: Vec<u8>,
    from: usize,
}

impl Unsent {
    /// These bytes.
    pub(crate) fn of(bytes: Vec<u8>) -> Self {
        Self { bytes, from: 0 }
    }

    /// How many bytes wait.
    pub(crate) fn len(&self) -> usize {
        self.bytes.len() - self.from
    }

    /// Adds bytes behind those that wait.
    pub(crate) fn append(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// Moves the bytes into the batch if they fit, so that they share a packet with what follows.
    pub(crate) fn move_to(&mut self, batch: &mut Batch) {
        let left = self.len();
        if let Some(space) = batch.space(left) {
            space.copy_from_slice(&self.bytes[self.from..]);
            batch.commit(left);
            *self = Self::default();
        }
    }

    /// Offers the batch to the socket, keeps the rest, and returns how many bytes the socket took. The last packet of the
    /// last batch waits for the end of the stream.
    pub(crate) fn offer(
        &mut self,
        socket: &ConnectedSocket,
        batch: &Batch,
        is_last: bool,
    ) -> Result<usize, SendError> {
        let taken = match send_some(socket, batch.filled(), is_last) {
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => 0,
            Err(error) => return Err(error.into()),
        };
        if taken < batch.len() {
            *self = Self::of(batch.filled()[taken..].to_vec());
        }
        Ok(taken)
    }

    /// Tries to send what waits; true once nothing does. The last packet of the last bytes waits for the end of the stream.
    pub(crate) fn flush(&mut self, socket: &ConnectedSocket, is_last: bool) -> Result<bool, SendError> {
        while self.from < self.bytes.len() {
            match send_some(socket, &self.bytes[self.from..], is_last) {
                Ok(count) => self.from += count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(error) => return Err(error.into()),
            }
        }
        if self.from > 0 {
            *self = Self::default();
        }
        Ok(true)
    }
}
