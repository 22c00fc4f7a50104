//! Sends transmissions on one connection.

use std::rc::Rc;
use std::time::{Duration, Instant};

use penstock_metrics::{OutletKind, Work, doing};
use penstock_sys::ConnectedSocket;
use penstock_sys::traffic::SendKeys;

use crate::abilities::KernelAbilities;
use crate::choice::CBC_SUITE;
use crate::depth::{Depth, PACED_FILE_BYTES};
use crate::frames::{FrameBatch, FramesStep, send_plain, send_sealed};
use crate::kernel::Kernel;
use crate::pace::OutletLimits;
use crate::plain;
use crate::send_error::SendError;
use crate::step::Step;
use crate::transmission::Transmission;
use crate::unsent::Unsent;
use crate::user_space::UserSpace;

/// The alert of a response that breaks off (RFC 8446 §6.2).
const INTERNAL_ERROR: u8 = 80;

/// Sends responses to one socket. An outlet that seals in user space may enter the kernel once.
pub struct Outlet {
    socket: Rc<ConnectedSocket>,
    limits: OutletLimits,
    /// Of a socket whose congestion control paces.
    depth: Option<Depth>,
    kind: Kind,
}

enum Kind {
    /// With bytes of frames that the socket did not take.
    Plain(Unsent),
    /// Boxed, because a worker holds far more idle connections than busy ones.
    UserSpace(Box<UserSpace>),
    Kernel(Box<Kernel>),
}

/// Result of [`Outlet::enter_kernel`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KernelEntry {
    /// The kernel has the keys; this is a kernel outlet from now on.
    Entered,
    /// Sealed bytes have to leave first; ask again before the next response.
    NotYet,
    /// The kernel did not take the keys, for this reason, and will not: nothing has changed.
    Refused(&'static str),
}

impl Outlet {
    /// Sends without encryption.
    pub fn plain(socket: Rc<ConnectedSocket>, limits: OutletLimits) -> Self {
        Self { socket, limits, depth: None, kind: Kind::Plain(Unsent::default()) }
    }

    /// Seals in user space with the keys of a finished handshake.
    ///
    /// # Errors
    /// [`SendError::Internal`] if the keys do not suit their cipher.
    pub fn user_space(
        socket: Rc<ConnectedSocket>,
        keys: impl Into<SendKeys>,
        limits: OutletLimits,
    ) -> Result<Self, SendError> {
        let sealing = UserSpace::new(keys.into(), &limits).ok_or(SendError::Internal)?;
        Ok(Self { socket, limits, depth: None, kind: Kind::UserSpace(Box::new(sealing)) })
    }

    /// Sends records that the handshake has sealed already before all others, in the same packet as the first response if
    /// that comes in time. Only a new user-space outlet takes them.
    pub fn begin_with(&mut self, sealed: Vec<u8>) {
        if let Kind::UserSpace(sealing) = &mut self.kind {
            sealing.begin_with(sealed);
        }
    }

    /// Limits the unsent bytes in the socket to `low_water` (`TCP_NOTSENT_LOWAT`; 0 keeps the system's value). A fast
    /// connection keeps [`fast_low_water`](crate::fast_low_water), which the socket already has. Files without sealing move in
    /// smaller pieces.
    pub fn follow_pacing(&mut self, low_water: u32) {
        self.limits.plain_bytes_max = self.limits.plain_bytes_max.min(PACED_FILE_BYTES);
        self.depth = Some(Depth::new(low_water));
    }

    /// The egress path of this outlet.
    pub fn kind(&self) -> OutletKind {
        match self.kind {
            Kind::Plain(_) => OutletKind::Plain,
            Kind::UserSpace(_) => OutletKind::UserSpace,
            Kind::Kernel(_) => OutletKind::Kernel,
        }
    }

    /// Gives the keys to the kernel, between two responses. This cannot be undone.
    pub fn enter_kernel(&mut self, abilities: KernelAbilities) -> KernelEntry {
        let Kind::UserSpace(sealing) = &mut self.kind else {
            return KernelEntry::Refused("not_in_user_space");
        };
        if !matches!(sealing.flush(&self.socket), Ok(true)) {
            return KernelEntry::NotYet;
        }
        let Some(keys) = sealing.keys() else { return KernelEntry::Refused(CBC_SUITE) };
        match Kernel::enter(&self.socket, keys, &self.limits, abilities) {
            Ok(kernel) => {
                self.kind = Kind::Kernel(Box::new(kernel));
                KernelEntry::Entered
            }
            Err(reason) => KernelEntry::Refused(reason),
        }
    }

    /// Why the connection should end behind the response that is under way, if it should: the keys may not be
    /// used for more, and this kernel cannot change them.
    pub fn ending(&self) -> Option<&'static str> {
        match &self.kind {
            Kind::Plain(_) | Kind::UserSpace(_) => None,
            Kind::Kernel(kernel) => kernel.ending(),
        }
    }

    /// Moves as much of `transmission` as one system call takes, or two for a head and a long body, without waiting for
    /// anything.
    ///
    /// # Errors
    /// See [`SendError`].
    pub fn advance(&mut self, transmission: &mut Transmission, now: Instant) -> Result<Step, SendError> {
        let step = doing(Work::Sending, || match &mut self.kind {
            Kind::Plain(_) => plain::advance_together(&self.socket, transmission, &self.limits),
            Kind::UserSpace(sealing) => sealing.advance(&self.socket, transmission, &self.limits, now),
            Kind::Kernel(kernel) => kernel.advance(&self.socket, transmission, &self.limits),
        })?;
        match (&mut self.depth, &step) {
            (Some(depth), Step::Sent(bytes)) => depth.sent(*bytes),
            (Some(depth), Step::Blocked) => depth.full(&self.socket, now),
            (Some(depth), Step::Done) => depth.done(),
            _ => {}
        }
        Ok(step)
    }

    /// Sends frames of several responses, which `fill` puts into one batch, with one system call. `fill` is not called
    /// while bytes of an earlier batch fill the socket.
    ///
    /// # Errors
    /// See [`SendError`]. No more can be sent.
    pub fn send_frames(
        &mut self,
        now: Instant,
        fill: impl FnOnce(&mut FrameBatch<'_>),
    ) -> Result<FramesStep, SendError> {
        let step = doing(Work::Sending, || match &mut self.kind {
            Kind::Plain(unsent) => send_plain(unsent, &self.socket, &self.limits, fill),
            Kind::UserSpace(sealing) => send_sealed(sealing, &self.socket, &self.limits, now, fill),
            Kind::Kernel(kernel) => kernel.send_frames(&self.socket, &self.limits, fill),
        })?;
        match (&mut self.depth, step) {
            (Some(depth), FramesStep::Sent(bytes)) => depth.sent(bytes),
            (Some(depth), FramesStep::Blocked) => depth.full(&self.socket, now),
            (Some(depth), FramesStep::Idle) => depth.done(),
            (None, _) => {}
        }
        Ok(step)
    }

    /// Answers a client's KeyUpdate with a KeyUpdate and changes the keys (RFC 8446 §4.6.3). The message leaves
    /// before the next bytes that are sealed. Nothing to do without TLS 1.3. Where the kernel cannot change
    /// keys, [`Self::ending`] says so from then on.
    ///
    /// # Errors
    /// [`SendError::Internal`] if the next keys cannot be derived.
    pub fn update_keys(&mut self) -> Result<(), SendError> {
        match &mut self.kind {
            Kind::Plain(_) => Ok(()),
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
            Kind::Plain(_) => {}
            Kind::UserSpace(sealing) => sealing.alert(number),
            Kind::Kernel(kernel) => kernel.alert(number),
        }
    }

    /// Ends the connection in the middle of a response, so that the client cannot take a body that is delimited by the
    /// end of the connection for whole (RFC 9112 §9.8): with the alert internal_error instead of close_notify, and on
    /// plain connections with a reset. Follow it by [`Self::flush`] as after an alert, and drop the socket.
    pub fn break_off(&mut self) {
        if let Kind::Plain(_) = self.kind {
            // Fails only on a connection that is over.
            let _reset = rustix::net::sockopt::set_socket_linger(&*self.socket, Some(Duration::ZERO));
        } else {
            self.alert(INTERNAL_ERROR);
        }
    }

    /// Whether bytes that are sealed already wait for the next ones.
    pub fn has_unsent(&self) -> bool {
        match &self.kind {
            Kind::Plain(unsent) => unsent.len() > 0,
            Kind::UserSpace(sealing) => sealing.unsent.len() > 0,
            Kind::Kernel(_) => false,
        }
    }

    /// Tries to send bytes that are sealed already; true once none is left.
    ///
    /// # Errors
    /// [`SendError::Gone`], [`SendError::Io`] or [`SendError::Kernel`].
    pub fn flush(&mut self) -> Result<bool, SendError> {
        doing(Work::Sending, || match &mut self.kind {
            Kind::Plain(unsent) => unsent.flush(&self.socket, false),
            Kind::UserSpace(sealing) => sealing.flush(&self.socket),
            Kind::Kernel(kernel) => kernel.flush(&self.socket),
        })
    }
}
