//! The type that sends.

use std::fmt;
use std::io;
use std::rc::Rc;
use std::time::Instant;

use penstock_sys::file::Extent;
use penstock_sys::traffic::SendKeys;
use tokio::net::TcpStream;

use crate::choice::CBC_SUITE;
use crate::kernel::{Kernel, KernelAbilities};
use crate::pace::OutletLimits;
use crate::plain;
use crate::transmission::Transmission;
use crate::user_space::UserSpace;

/// Takes responses to one socket. What starts in user space may enter the kernel once; nothing else changes.
pub struct Outlet {
    socket: Rc<TcpStream>,
    limits: OutletLimits,
    kind: Kind,
}

enum Kind {
    Plain,
    /// Boxed, because a worker holds far more idle connections than busy ones.
    UserSpace(Box<UserSpace>),
    Kernel(Box<Kernel>),
}

/// How bytes leave, in the words of metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OutletKind {
    /// Unencrypted: `sendfile`.
    Plain,
    /// Sealed by this program straight out of the mapped file.
    UserSpace,
    /// Sealed by the kernel: `sendfile` with the keys in the kernel.
    Kernel,
}

/// What came of [`Outlet::enter_kernel`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entry {
    /// The kernel has the keys; this is a kernel outlet from now on.
    Entered,
    /// Sealed bytes have to leave first; ask again before the next response.
    NotYet,
    /// The kernel did not take the keys, for this reason, and will not: nothing has changed.
    Refused(&'static str),
}

/// What one step achieved, and what to do before the next.
#[derive(Debug)]
pub enum Step {
    /// This many bytes of the transmission were taken over; go on.
    Sent(usize),
    /// The socket is full: wait until it is writable.
    Blocked,
    /// The first bytes of this may have to be read from disk: see to it that a window of them is in memory, call
    /// [`Transmission::warmed`] with its length, go on.
    Cold(Extent),
    /// The other socket that the next bytes come from has none: wait until [`Transmission::source`] is readable.
    Starved,
    /// All of the transmission has been given to the kernel.
    Done,
}

/// Why a transmission ended early. The connection cannot be used for another response.
#[derive(Debug)]
pub enum SendError {
    /// The file became shorter than it was when the head was sent, or the source of the body ended early.
    Truncated,
    /// The client has closed or reset the connection.
    Gone,
    /// Another error of the socket or the file.
    Io(io::Error),
    /// The keys have sealed as much as is safe and the protocol version has no way to change them.
    KeysWornOut,
    /// The crypto library refused to work.
    Internal,
    /// The kernel gave up sealing; this is its reason, in the words of metrics.
    Kernel(&'static str),
}

impl fmt::Display for SendError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Truncated => f.write_str("the file was truncated while it was sent"),
            Self::Gone => f.write_str("the client closed the connection"),
            Self::Io(error) => write!(f, "sending failed: {error}"),
            Self::KeysWornOut => f.write_str("the keys reached their limit of records and cannot be changed"),
            Self::Internal => f.write_str("the crypto library refused to seal a record"),
            Self::Kernel(reason) => write!(f, "the kernel gave up sealing: {reason}"),
        }
    }
}

impl std::error::Error for SendError {}

impl From<io::Error> for SendError {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::ConnectionAborted
            | io::ErrorKind::NotConnected
            | io::ErrorKind::TimedOut => Self::Gone,
            io::ErrorKind::UnexpectedEof => Self::Truncated,
            _ => Self::Io(error),
        }
    }
}

impl Outlet {
    /// Sends without encryption.
    pub fn plain(socket: Rc<TcpStream>, limits: OutletLimits) -> Self {
        Self { socket, limits, kind: Kind::Plain }
    }

    /// Seals in user space with the keys of a finished handshake.
    ///
    /// # Errors
    /// [`SendError::Internal`] if the keys do not suit their cipher.
    pub fn user_space(
        socket: Rc<TcpStream>,
        keys: impl Into<SendKeys>,
        limits: OutletLimits,
    ) -> Result<Self, SendError> {
        let sealing = UserSpace::new(keys.into(), &limits).ok_or(SendError::Internal)?;
        Ok(Self { socket, limits, kind: Kind::UserSpace(Box::new(sealing)) })
    }

    /// Has records that are sealed already leave before anything else, in the same packet if it is there in time:
    /// what the handshake has left to say. Only a fresh user-space outlet takes them.
    pub fn begin_with(&mut self, sealed: Vec<u8>) {
        if let Kind::UserSpace(sealing) = &mut self.kind {
            sealing.begin_with(sealed);
        }
    }

    /// Which way this outlet sends.
    pub fn kind(&self) -> OutletKind {
        match self.kind {
            Kind::Plain => OutletKind::Plain,
            Kind::UserSpace(_) => OutletKind::UserSpace,
            Kind::Kernel(_) => OutletKind::Kernel,
        }
    }

    /// Gives the keys to the kernel, between two responses. There is no way back.
    pub fn enter_kernel(&mut self, abilities: KernelAbilities) -> Entry {
        let Kind::UserSpace(sealing) = &mut self.kind else { return Entry::Refused("not_in_user_space") };
        if !matches!(sealing.flush(&self.socket), Ok(true)) {
            return Entry::NotYet;
        }
        let Some(keys) = sealing.keys() else { return Entry::Refused(CBC_SUITE) };
        match Kernel::enter(&self.socket, keys, &self.limits, abilities) {
            Ok(kernel) => {
                self.kind = Kind::Kernel(Box::new(kernel));
                Entry::Entered
            }
            Err(reason) => Entry::Refused(reason),
        }
    }

    /// Why the connection should end behind the response that is under way, if it should: the keys may not be
    /// used for more, and this kernel cannot change them.
    pub fn ending(&self) -> Option<&'static str> {
        match &self.kind {
            Kind::Plain | Kind::UserSpace(_) => None,
            Kind::Kernel(kernel) => kernel.ending(),
        }
    }

    /// Moves as much of `transmission` as one system call takes, without waiting for anything.
    ///
    /// # Errors
    /// See [`SendError`].
    pub fn advance(&mut self, transmission: &mut Transmission, now: Instant) -> Result<Step, SendError> {
        match &mut self.kind {
            Kind::Plain => plain::advance(&self.socket, transmission, &self.limits),
            Kind::UserSpace(sealing) => sealing.advance(&self.socket, transmission, &self.limits, now),
            Kind::Kernel(kernel) => kernel.advance(&self.socket, transmission, &self.limits),
        }
    }

    /// Answers a client's KeyUpdate with our own and changes the keys (RFC 8446 §4.6.3). The message leaves
    /// before the next bytes that are sealed. Nothing to do without TLS 1.3. Where the kernel cannot change
    /// keys, [`Self::ending`] says so from then on.
    ///
    /// # Errors
    /// [`SendError::Internal`] if the next keys cannot be derived.
    pub fn update_keys(&mut self) -> Result<(), SendError> {
        match &mut self.kind {
            Kind::Plain => Ok(()),
            Kind::UserSpace(sealing) => sealing.update_keys(&self.limits),
            Kind::Kernel(kernel) => {
                kernel.update_keys();
                Ok(())
            }
        }
    }

    /// Seals an alert as the last record; 0 is close_notify. Plain connections have none.
    pub fn alert(&mut self, number: u8) {
        match &mut self.kind {
            Kind::Plain => {}
            Kind::UserSpace(sealing) => sealing.alert(number),
            Kind::Kernel(kernel) => kernel.alert(number),
        }
    }

    /// Tries to send what is sealed already; true once nothing is left.
    ///
    /// # Errors
    /// [`SendError::Gone`], [`SendError::Io`] or [`SendError::Kernel`].
    pub fn flush(&mut self) -> Result<bool, SendError> {
        match &mut self.kind {
            Kind::Plain => Ok(true),
            Kind::UserSpace(sealing) => sealing.flush(&self.socket),
            Kind::Kernel(kernel) => kernel.flush(&self.socket),
        }
    }
}
