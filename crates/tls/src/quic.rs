//! Handshakes over QUIC (RFC 9001): the context, and what the library waits for.
//!
//! QUIC carries the messages, so the transport calls the library whenever packets come. [`QuicHandshake`] goes around each
//! call. It gives the library a permit to sign, and tells what else the handshake waits for.

use std::net::IpAddr;
use std::time::{Duration, Instant};

use boring::error::ErrorStack;
use boring::ssl::{SslContextBuilder, SslRef};
use penstock_metrics::Timing;
use penstock_sys::ssl::{self, Suspension};

use crate::acceptor::Acceptor;
use crate::alert;
use crate::alpn::HttpVersions;
use crate::context::{ContextError, base_context};
use crate::early_data::{self, EarlyDataOutcome};
use crate::failure::HandshakeFailure;
use crate::load_signal::LoadSignal;
use crate::negotiated::{Negotiated, facts_of};
use crate::remote_key::{RemoteKeyError, RemoteOperation};
use crate::signing::{self, HandshakeProgress};
use crate::signing_limiter::{Permit, SigningLimiter};

impl Acceptor {
    /// A context for connections over QUIC. Certificates, tickets and policy are those of all connections of the acceptor.
    ///
    /// # Errors
    /// A combination that the library refuses.
    pub fn quic_context(&self) -> Result<SslContextBuilder, ContextError> {
        let mut builder = base_context(self.quic_settings())?;
        let selector = self.selector();
        builder.set_select_certificate_callback(move |hello| selector.select(hello));
        Ok(builder)
    }

    /// Prepares a new connection of [`Self::quic_context`] for its handshake with a client, whose packets come from the
    /// connection id `id`. `promises` names what a client remembers of this server for its early data: early data is taken
    /// only with a ticket of the same promises (RFC 9001 §4.6.3).
    ///
    /// # Errors
    /// The library has no memory.
    pub fn begin_quic(
        &self,
        connection: &mut SslRef,
        (client, id): (IpAddr, &[u8]),
        promises: &[u8],
    ) -> Result<(), ErrorStack> {
        self.prepare(connection, HttpVersions::H3);
        if let Some(progress) = signing::progress(connection) {
            progress.set_client(Some(client));
            progress.parameters().set_id(id);
        }
        ssl::set_quic_early_data_context(connection, promises)
    }

    /// The outcome of the early data of a handshake over QUIC, as over TCP.
    pub async fn quic_early_data(&self, connection: &SslRef) -> EarlyDataOutcome {
        early_data::outcome(connection, self.early_data()).await
    }
}

/// The error code for faulty transport parameters (RFC 9000 §20.1).
pub const TRANSPORT_PARAMETER_ERROR: u64 = 0x08;

/// One handshake over QUIC.
#[derive(Debug)]
pub struct QuicHandshake<'l> {
    limiter: &'l SigningLimiter,
    permit: Option<Permit<'l>>,
    is_waiting: bool,
    /// Time of the library and the transport.
    busy: Duration,
    timing: Timing,
}

/// What a handshake waits for, beside packets. It lives on meanwhile: packets are received and sent.
#[derive(Debug)]
pub struct QuicWait(Wait);

#[derive(Debug)]
enum Wait {
    Load(LoadSignal),
    Remote(RemoteOperation),
    Permit,
}

/// What a wait has brought.
#[derive(Debug)]
pub struct QuicAnswer<'l>(WaitAnswer<'l>);

#[derive(Debug)]
enum WaitAnswer<'l> {
    Loaded,
    Signature(Result<Vec<u8>, RemoteKeyError>),
    Permit(Permit<'l>, Duration),
}

impl<'l> QuicHandshake<'l> {
    /// A handshake whose signature needs a permit of `limiter`.
    pub fn new(limiter: &'l SigningLimiter) -> Self {
        Self { limiter, permit: None, is_waiting: false, busy: Duration::ZERO, timing: Timing::default() }
    }

    /// Runs a call of the transport, which calls the library.
    pub fn call<C: AsMut<SslRef>, R>(&mut self, connection: &mut C, call: impl FnOnce(&mut C) -> R) -> R {
        // While the handshake waits for something, the library is to find that it still does.
        let permit = match self.is_waiting {
            true => None,
            false => self.permit.take().or_else(|| self.limiter.try_acquire()),
        };
        if let Some(progress) = signing::progress(connection.as_mut()) {
            progress.set_permit(permit.is_some());
        }
        let started = Instant::now();
        let result = call(connection);
        self.busy += started.elapsed();
        let is_left = signing::progress(connection.as_mut()).is_some_and(HandshakeProgress::has_permit);
        if let Some(permit) = permit.filter(|_| !is_left) {
            permit.consume();
        }
        result
    }

    /// What the handshake waits for now, if it is something else than packets and [`QuicWait::done`] does not wait for it yet.
    pub fn wait(&mut self, connection: &SslRef) -> Option<QuicWait> {
        if self.is_waiting {
            return None;
        }
        let progress = signing::progress(connection)?;
        let wait = match ssl::suspension(connection) {
            Suspension::Peer | Suspension::Session => return None,
            Suspension::Certificate => progress.take_pending_load().map_or(Wait::Permit, Wait::Load),
            Suspension::PrivateKey => progress.take_remote_operation().map_or(Wait::Permit, Wait::Remote),
        };
        self.is_waiting = true;
        Some(QuicWait(wait))
    }

    /// Takes what a wait has brought. The transport is to call the library next.
    pub fn resume(&mut self, connection: &SslRef, QuicAnswer(answer): QuicAnswer<'l>, waited: Duration) {
        self.is_waiting = false;
        if let Some(notes) = ssl::notes(connection) {
            notes.paused(waited);
        }
        match answer {
            WaitAnswer::Loaded => {}
            WaitAnswer::Permit(permit, queued) => {
                self.permit = Some(permit);
                self.timing.queued += queued;
            }
            WaitAnswer::Signature(answer) => {
                self.timing.signing_remote += waited;
                if let Some(progress) = signing::progress(connection) {
                    progress.set_answer(answer);
                }
            }
        }
    }

    /// Facts and times of a handshake that took `total`, and is finished but for the client's part if there is early data.
    pub fn finished(
        &self,
        acceptor: &Acceptor,
        connection: &SslRef,
        early_data: EarlyDataOutcome,
        total: Duration,
    ) -> (Negotiated, Timing) {
        let mut facts = facts_of(connection, early_data);
        facts.client_certificate = acceptor.name_of_client(connection);
        let mut timing = self.timing;
        timing.waiting = total.saturating_sub(self.busy + timing.queued + timing.signing_remote);
        let progress = signing::progress(connection);
        timing.signing = progress.map_or(Duration::ZERO, HandshakeProgress::signing);
        timing.signature = progress.map_or("", HandshakeProgress::signature);
        timing.key_exchange = ssl::notes(connection).map_or(Duration::ZERO, ssl::Notes::key_exchange);
        (facts, timing.finished(total))
    }
}

impl QuicWait {
    /// Waits. `network` names the client's network among those that share the rate of handshakes.
    ///
    /// # Errors
    /// There are more full handshakes than the rate allows, or the private key is out of reach.
    pub async fn done(
        self,
        limiter: &SigningLimiter,
        network: Option<u64>,
    ) -> Result<QuicAnswer<'_>, HandshakeFailure> {
        Ok(QuicAnswer(match self.0 {
            Wait::Load(signal) => {
                signal.loaded().await;
                WaitAnswer::Loaded
            }
            Wait::Remote(RemoteOperation { remote, request, has_fallback }) => {
                let answer = remote.sign(request).await;
                if answer.is_err() && !has_fallback {
                    let alert_sent = Some(alert::INTERNAL_ERROR);
                    return Err(HandshakeFailure {
                        alert_sent,
                        ..HandshakeFailure::silent("private_key_unavailable")
                    });
                }
                WaitAnswer::Signature(answer)
            }
            Wait::Permit => {
                let acquired = limiter.acquire(None, network).await;
                let (permit, queued) = acquired.map_err(|_| HandshakeFailure::silent("rate_limited"))?;
                WaitAnswer::Permit(permit, queued)
            }
        }))
    }
}

/// Whether the client's transport parameters have a fault. The handshake does not go on, and the transport is to close the
/// connection with [`TRANSPORT_PARAMETER_ERROR`].
pub fn has_faulty_parameters(connection: &SslRef) -> bool {
    signing::progress(connection).is_some_and(|progress| progress.parameters().has_failed())
}

/// The failure of a handshake that the transport ended with this error code (RFC 9001 §4.8: 0x100 and an alert).
pub fn quic_failure(connection: &SslRef, code: Option<u64>) -> HandshakeFailure {
    let alert = code.and_then(|code| code.checked_sub(0x100)).and_then(|alert| u8::try_from(alert).ok());
    let reason = match (alert, code) {
        (Some(40), _) => "no_certificate",
        (Some(70), _) => "unsupported_version",
        (Some(120), _) => "no_application_protocol",
        (Some(116), _) => "no_client_certificate",
        (Some(_), _) => "alert_other",
        (None, Some(TRANSPORT_PARAMETER_ERROR)) => "transport_parameters",
        (None, _) => "connection_lost",
    };
    HandshakeFailure {
        reason,
        alert_sent: alert,
        alert_received: None,
        retried: ssl::used_hello_retry_request(connection),
    }
}
