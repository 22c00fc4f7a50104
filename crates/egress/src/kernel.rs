//! Sealing by the kernel: file pages go from the page cache to the network without entering this program.
//!
//! Records without application data (alerts, KeyUpdates) wait in order until the kernel takes them.

use std::io;
use std::time::Duration;

use penstock_sys::ConnectedSocket;
use penstock_sys::aead::Cipher;
use penstock_sys::ktls;
use penstock_sys::traffic::{ProtocolVersion, TrafficKeys};
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use rustix::net::sockopt::set_tcp_nodelay;
use tokio::io::Interest;

use crate::abilities::KernelAbilities;
use crate::frames::{COPIED_BYTES_MAX, FrameBatch, FramesStep, send_plain};
use crate::framing::{ContentType, KEY_UPDATE, alert_message};
use crate::pace::{OutletLimits, RECORD_BYTES};
use crate::plain;
use crate::send_error::SendError;
use crate::step::Step;
use crate::transmission::{Front, Transmission};
use crate::unsent::Unsent;

pub(crate) struct Kernel {
    keys: TrafficKeys,
    abilities: KernelAbilities,
    /// Records sealed with these keys; more are counted than there were.
    sealed: u64,
    /// How many may be.
    sealed_max: u64,
    owed: Owed,
    /// Bytes of frames that the kernel has not taken. Owed records leave behind them.
    unsent: Unsent,
    /// Whether the card may read pages instead of copying them at the moment.
    zerocopy: bool,
    /// The last record is sent or owed, or nothing can be sent any more.
    ended: bool,
    ending: Option<&'static str>,
}

/// Records that the kernel has not taken yet.
#[derive(Default)]
struct Owed {
    key_update: bool,
    alert: Option<u8>,
}

impl Kernel {
    /// Gives the keys to the kernel, or returns the reason why it did not take them.
    pub(crate) fn enter(
        socket: &ConnectedSocket,
        keys: &TrafficKeys,
        limits: &OutletLimits,
        abilities: KernelAbilities,
    ) -> Result<Self, &'static str> {
        ktls::attach(socket).map_err(|error| match error.kind() {
            io::ErrorKind::NotConnected => "client_closing",
            io::ErrorKind::NotFound => "kernel_lacks_tls",
            _ => "refused_by_kernel",
        })?;
        ktls::set_send_keys(socket, keys).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => "cipher_not_in_kernel",
            _ => "refused_by_kernel",
        })?;
        Ok(Self {
            keys: keys.clone(),
            abilities,
            sealed: keys.sequence,
            sealed_max: match keys.cipher {
                Cipher::Aes128Gcm | Cipher::Aes256Gcm => limits.records_per_key,
                // No limit below the sequence number's own (RFC 8446 §5.5).
                Cipher::ChaCha20Poly1305 => u64::MAX,
            },
            owed: Owed::default(),
            unsent: Unsent::default(),
            zerocopy: false,
            ended: false,
            ending: None,
        })
    }

    pub(crate) fn ending(&self) -> Option<&'static str> {
        self.ending
    }

    pub(crate) fn advance(
        &mut self,
        socket: &ConnectedSocket,
        transmission: &mut Transmission,
        limits: &OutletLimits,
    ) -> Result<Step, SendError> {
        if !self.is_ready(socket)? {
            return Ok(Step::Blocked);
        }
        self.allow_zerocopy(socket, transmission)?;
        let step =
            plain::advance(socket, transmission, limits.batch_bytes_max).map_err(name_kernel_errors)?;
        match step {
            Step::Sent(count) => self.sealed = self.sealed.saturating_add(records_at_most(count)),
            Step::Blocked => push(socket),
            Step::Cold(_) | Step::Starved | Step::Done => {}
        }
        Ok(step)
    }

    /// As [`Outlet::send_frames`](crate::Outlet::send_frames).
    pub(crate) fn send_frames(
        &mut self,
        socket: &ConnectedSocket,
        limits: &OutletLimits,
        fill: impl FnOnce(&mut FrameBatch<'_>),
    ) -> Result<FramesStep, SendError> {
        if !self.is_ready(socket)? {
            return Ok(FramesStep::Blocked);
        }
        let step = send_plain(&mut self.unsent, socket, limits, fill).map_err(name_kernel_errors)?;
        if let FramesStep::Sent(count) = step {
            // Each piece of large content can end a record.
            let pieces = (count / COPIED_BYTES_MAX) as u64;
            self.sealed = self.sealed.saturating_add(records_at_most(count) + pieces);
        }
        if self.unsent.len() > 0 {
            push(socket);
        }
        Ok(step)
    }

    /// Whether the socket takes content. False if it is full of what is to leave first.
    fn is_ready(&mut self, socket: &ConnectedSocket) -> Result<bool, SendError> {
        self.watch_wear();
        if !self.flush(socket)? {
            return Ok(false);
        }
        if self.ended {
            return Err(SendError::Gone);
        }
        if self.sealed >= self.sealed_max { Err(SendError::KeysWornOut) } else { Ok(true) }
    }

    /// Changes the keys, or ends the connection, while one more response is still within the limit.
    fn watch_wear(&mut self) {
        if self.sealed < self.sealed_max - self.sealed_max / 16 {
            return;
        }
        if self.abilities.rekey && self.keys.version == ProtocolVersion::Tls13 {
            self.owed.key_update = !self.ended;
        } else {
            self.ending.get_or_insert("keys_worn_out");
        }
    }

    /// Lets the card read the pages of files that never change, and of no others.
    fn allow_zerocopy(
        &mut self,
        socket: &ConnectedSocket,
        transmission: &Transmission,
    ) -> Result<(), SendError> {
        let Some(Front::Warm(warm)) = transmission.front().filter(|_| self.abilities.zerocopy) else {
            return Ok(());
        };
        let wanted = warm.file.is_immutable();
        if wanted == self.zerocopy {
            return Ok(());
        }
        match ktls::set_zerocopy_sendfile(socket, wanted) {
            Ok(()) => self.zerocopy = wanted,
            // It stays off, which is only slower.
            Err(_) if wanted => self.abilities.zerocopy = false,
            Err(_) => return Err(SendError::Kernel("zerocopy_stuck")),
        }
        Ok(())
    }

    pub(crate) fn update_keys(&mut self) {
        if self.abilities.rekey {
            self.owed.key_update = !self.ended;
        } else {
            self.ending.get_or_insert("no_rekey");
        }
    }

    pub(crate) fn alert(&mut self, number: u8) {
        if !self.ended {
            self.ended = true;
            self.owed.alert = Some(number);
        }
    }

    /// Sends what is left of frames, then the records that are owed; true once nothing is.
    pub(crate) fn flush(&mut self, socket: &ConnectedSocket) -> Result<bool, SendError> {
        if self.unsent.len() > 0 {
            self.sealed = self.sealed.saturating_add(records_at_most(0));
            if !self.unsent.flush(socket, false).map_err(name_kernel_errors)? {
                push(socket);
                return Ok(false);
            }
        }
        if self.owed.key_update {
            if !self.send_record(socket, ContentType::Handshake, &KEY_UPDATE)? {
                return Ok(false);
            }
            self.owed.key_update = false;
            self.change_keys(socket)?;
        }
        if let Some(number) = self.owed.alert {
            if !self.send_record(socket, ContentType::Alert, &alert_message(number))? {
                return Ok(false);
            }
            self.owed.alert = None;
        }
        Ok(true)
    }

    /// Gives the next keys to the kernel. The client has been told already, so it cannot read anything after a failure.
    fn change_keys(&mut self, socket: &ConnectedSocket) -> Result<(), SendError> {
        let changed = self
            .keys
            .next_generation()
            .and_then(|next| ktls::set_send_keys(socket, &next).ok().map(|()| next));
        let Some(next) = changed else {
            self.ended = true;
            self.owed = Owed::default();
            return Err(SendError::Kernel("rekey_failed"));
        };
        self.keys = next;
        self.sealed = 0;
        Ok(())
    }

    /// False if the socket has no space.
    fn send_record(
        &mut self,
        socket: &ConnectedSocket,
        content: ContentType,
        message: &[u8],
    ) -> Result<bool, SendError> {
        let sent = socket.try_io(Interest::WRITABLE, || {
            // The kernel takes a record as soon as one byte fits, and sends the rest later from a list of its own. That
            // list is lost when the connection is closed, so the last record waits until the socket has space for it and
            // for the list.
            if !has_room(socket)? {
                return Err(io::ErrorKind::WouldBlock.into());
            }
            ktls::send_record(socket, content as u8, message)
        });
        match sent {
            Ok(_) => {
                self.sealed = self.sealed.saturating_add(records_at_most(0));
                Ok(true)
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                push(socket);
                Ok(false)
            }
            Err(error) => Err(name_kernel_errors(error.into())),
        }
    }
}

/// Makes TCP send bytes that it holds back for a fuller packet.
///
/// A kernel that seals waits for space without doing so. With a send buffer or `TCP_NOTSENT_LOWAT` below 64 KiB, no
/// packet would be in flight whose acknowledgement frees space, and both sides would wait for ever: seen on Linux 6.1.
/// Setting the option again pushes, whatever its value.
fn push(socket: &ConnectedSocket) {
    // Fails only on a connection that is over, which the next call notices.
    let _pushed = set_tcp_nodelay(socket, true);
}

/// Whether the socket is writable at this moment, by the measure of `poll`: a third of its buffer is free and
/// less than half of `TCP_NOTSENT_LOWAT` lies unsent.
fn has_room(socket: &ConnectedSocket) -> io::Result<bool> {
    let now = Timespec::try_from(Duration::ZERO).map_err(|_| io::ErrorKind::InvalidInput)?;
    let mut polled = [PollFd::new(socket, PollFlags::OUT)];
    rustix::event::poll(&mut polled, Some(&now))?;
    // An error or the end of the connection shows when the record is sent.
    Ok(!polled[0].revents().is_empty())
}

/// No fewer records than the kernel makes of one call: full ones, the rest of one that was open and the start
/// of the next, and those that it closes early because their bytes lie in many small fragments.
fn records_at_most(bytes: usize) -> u64 {
    const SCATTERED: u64 = 4;
    (bytes / RECORD_BYTES) as u64 + 2 + if bytes == 0 { 0 } else { SCATTERED }
}

/// Errors that only a sealing kernel has.
fn name_kernel_errors(error: SendError) -> SendError {
    let SendError::Io(source) = &error else { return error };
    match Errno::from_io_error(source) {
        Some(Errno::IO) => SendError::Kernel("eio"),
        Some(Errno::BADMSG) => SendError::Kernel("ebadmsg"),
        Some(Errno::MSGSIZE) => SendError::Kernel("emsgsize"),
        Some(Errno::KEYEXPIRED) => SendError::Kernel("ekeyexpired"),
        _ => error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_that_only_a_sealing_kernel_has_get_their_names() {
        for (errno, name) in [
            (Errno::IO, "eio"),
            (Errno::BADMSG, "ebadmsg"),
            (Errno::MSGSIZE, "emsgsize"),
            (Errno::KEYEXPIRED, "ekeyexpired"),
        ] {
            let named = name_kernel_errors(io::Error::from(errno).into());
            assert!(matches!(named, SendError::Kernel(found) if found == name), "{named:?}");
        }
        assert!(matches!(name_kernel_errors(io::Error::from(Errno::PIPE).into()), SendError::Gone));
        assert!(matches!(name_kernel_errors(io::Error::from(Errno::NOMEM).into()), SendError::Io(_)));
        assert!(matches!(name_kernel_errors(SendError::Truncated), SendError::Truncated));
    }

    #[test]
    fn no_call_is_counted_as_fewer_records_than_it_can_make() {
        assert!(records_at_most(0) >= 1);
        // The end of an open record and the start of the next.
        assert!(records_at_most(1) >= 2);
        assert!(records_at_most(512 * 1024) > 512 / 16 + 2);
    }
}
