//! One handshake, from the first byte to the keys for sending.

use std::net::IpAddr;
use std::rc::Rc;
use std::time::{Duration, Instant};

use boring::ssl::{ErrorCode, HandshakeError, MidHandshakeSslStream, SslRef, SslStream, SslVersion};
use penstock_metrics::Timing;
use penstock_sys::aead::Cipher;
use penstock_sys::ssl;
use penstock_sys::traffic::{SendKeys, TrafficKeys};
use penstock_sys::{ConnectedSocket, end_of_round};

use crate::acceptor::Acceptor;
use crate::alert;
use crate::alpn::HttpVersions;
use crate::early_data::{self, EarlyDataOutcome};
use crate::failure::HandshakeFailure;
use crate::legacy;
use crate::negotiated::{Negotiated, facts_of};
use crate::receiver::Receiver;
use crate::remote_key::RemoteOperation;
use crate::session_store;
use crate::signing::{self, HandshakeProgress};
use crate::signing_limiter::{Permit, SigningLimiter, SigningRefusal, disconnected};
use crate::wire::Wire;

/// The client of a handshake.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ConnectingClient {
    /// Its address, for the log of a keyserver.
    pub address: Option<IpAddr>,
    /// The number of its network among those that share the rate of handshakes.
    pub network: Option<u64>,
}

/// Result of a finished handshake.
pub struct Established {
    /// Seal what the server sends. The library knows these keys too and no longer uses them.
    pub keys: SendKeys,
    /// Sealed records with session tickets. They are sent before everything else, best with the first response.
    pub tickets: Vec<u8>,
    /// Reads what the client sends.
    pub receiver: Receiver,
    /// The parameters of the session.
    pub facts: Negotiated,
    /// Where the time went.
    pub timing: Timing,
}

impl Acceptor {
    /// Performs a handshake on `socket`. `received` holds bytes that were already read from it. `versions` are those that
    /// the client may agree on by ALPN.
    ///
    /// There is no deadline: the caller sets one. A full handshake takes a permit of `limiter` to sign, and waits for
    /// it if none is available; handshakes with the same network of the `client` leave places to wait to others.
    ///
    /// # Errors
    /// The client or the network failed; see [`HandshakeFailure`].
    pub async fn accept(
        &self,
        socket: Rc<ConnectedSocket>,
        received: Vec<u8>,
        versions: HttpVersions,
        limiter: &SigningLimiter,
        client: ConnectingClient,
    ) -> Result<Established, HandshakeFailure> {
        let started = Instant::now();
        let connection =
            self.new_connection(versions).map_err(|_| HandshakeFailure::silent("out_of_memory"))?;
        if let Some(progress) = signing::progress(&connection) {
            progress.set_client(client.address);
        }
        let ongoing = connection.setup_accept(Wire::new(Rc::clone(&socket), received));
        let limiter = (limiter, client.network);
        let (stream, timing) = drive(ongoing, &socket, limiter, self.lookup_deadline()).await?;
        let early_data = early_data::outcome(stream.ssl(), self.early_data()).await;
        let client_certificate = self.name_of_client(stream.ssl());
        let mut established = take_over(stream, early_data)?;
        established.facts.client_certificate = client_certificate;
        established.timing = timing.finished(started.elapsed());
        Ok(established)
    }
}

/// Drives the library to the end of the handshake. [`Timing::rest`] is left zero.
async fn drive(
    mut ongoing: MidHandshakeSslStream<Wire>,
    socket: &ConnectedSocket,
    (limiter, network): (&SigningLimiter, Option<u64>),
    lookup_deadline: Duration,
) -> Result<(SslStream<Wire>, Timing), HandshakeFailure> {
    let mut timing = Timing::default();
    let mut waited_for = None;
    loop {
        let permit = waited_for.take().or_else(|| limiter.try_acquire());
        ongoing = match advance(ongoing, permit) {
            Ok(mut stream) => {
                let finished = Instant::now();
                send_flight(socket, stream.get_mut()).await?;
                timing.waiting += finished.elapsed();
                let progress = signing::progress(stream.ssl());
                timing.signing = progress.map_or(Duration::ZERO, HandshakeProgress::signing);
                timing.signature = progress.map_or("", HandshakeProgress::signature);
                timing.key_exchange =
                    ssl::notes(stream.ssl()).map_or(Duration::ZERO, ssl::Notes::key_exchange);
                return Ok((stream, timing));
            }
            Err(HandshakeError::WouldBlock(paused)) => paused,
            Err(HandshakeError::Failure(mut failed)) => {
                send_alert(socket, failed.get_mut());
                return Err(failure_of(&failed));
            }
            Err(HandshakeError::SetupFailure(_)) => return Err(HandshakeFailure::silent("out_of_memory")),
        };
        let paused = Instant::now();
        send_flight(socket, ongoing.get_mut()).await?;
        if let Some(signal) = signing::progress(ongoing.ssl()).and_then(HandshakeProgress::take_pending_load)
        {
            signal.loaded().await;
            paused_for(ongoing.ssl(), paused.elapsed());
            continue;
        }
        let ready = match ongoing.error().code() {
            ErrorCode::WANT_READ => socket.readable().await,
            ErrorCode::WANT_PRIVATE_KEY_OPERATION if wait_for_remote_key(&mut ongoing, socket).await? => {
                let waited = paused.elapsed();
                timing.signing_remote += waited;
                paused_for(ongoing.ssl(), waited);
                continue;
            }
            ErrorCode::PENDING_CERTIFICATE | ErrorCode::WANT_PRIVATE_KEY_OPERATION => {
                let (permit, duration) =
                    limiter.acquire(Some(socket), network).await.map_err(without_permit)?;
                timing.queued += duration;
                paused_for(ongoing.ssl(), duration);
                waited_for = Some(permit);
                continue;
            }
            ErrorCode::PENDING_SESSION => {
                session_store::wait_for_session(ongoing.ssl(), lookup_deadline).await;
                Ok(())
            }
            _ => return Err(failure_of(&ongoing)),
        };
        ready.map_err(|_| HandshakeFailure::silent("connection_lost"))?;
        let waited = paused.elapsed();
        timing.waiting += waited;
        paused_for(ongoing.ssl(), waited);
    }
}

/// Sends what the library has written, together with the flights of other handshakes.
async fn send_flight(socket: &ConnectedSocket, wire: &mut Wire) -> Result<(), HandshakeFailure> {
    let flight = wire.take_written();
    if flight.is_empty() {
        return Ok(());
    }
    end_of_round().await;
    let mut rest = &flight[..];
    while !rest.is_empty() {
        match socket.try_send(rest) {
            Ok(count) => rest = &rest[count..],
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                socket.writable().await.map_err(|_| HandshakeFailure::silent("connection_lost"))?;
            }
            Err(_) => return Err(HandshakeFailure::silent("connection_lost")),
        }
    }
    Ok(())
}

/// Sends the library's alert as far as the socket takes it.
fn send_alert(socket: &ConnectedSocket, wire: &mut Wire) {
    let _sent = socket.try_send(&wire.take_written());
}

/// Waits for the signature of a remote key; returns false if the handshake does not need one.
async fn wait_for_remote_key(
    ongoing: &mut MidHandshakeSslStream<Wire>,
    socket: &ConnectedSocket,
) -> Result<bool, HandshakeFailure> {
    let operation = signing::progress(ongoing.ssl()).and_then(HandshakeProgress::take_remote_operation);
    let Some(RemoteOperation { remote, request, has_fallback }) = operation else { return Ok(false) };
    let answer = tokio::select! {
        answer = remote.sign(request) => answer,
        () = disconnected(socket) => return Err(without_permit(SigningRefusal::Disconnected)),
    };
    if answer.is_err() && !has_fallback {
        // The library sends no alert for a key that fails, and the client would wait for its own deadline.
        ssl::send_fatal_alert(ongoing.ssl_mut(), alert::INTERNAL_ERROR);
        send_alert(socket, ongoing.get_mut());
        let alert_sent = Some(alert::INTERNAL_ERROR);
        return Err(HandshakeFailure { alert_sent, ..HandshakeFailure::silent("private_key_unavailable") });
    }
    if let Some(progress) = signing::progress(ongoing.ssl()) {
        progress.set_answer(answer);
    }
    Ok(true)
}

/// No alert asks a client to retry later; most clients retry when the connection just ends.
fn without_permit(refusal: SigningRefusal) -> HandshakeFailure {
    HandshakeFailure::silent(match refusal {
        SigningRefusal::Disconnected => "gone_before_signing",
        SigningRefusal::RateLimited => "rate_limited",
    })
}

/// Excludes a pause from the time of the current step.
fn paused_for(ssl: &SslRef, duration: Duration) {
    if let Some(notes) = ssl::notes(ssl) {
        notes.paused(duration);
    }
}

/// Calls the library once. The permit is consumed if the library signed.
fn advance(
    ongoing: MidHandshakeSslStream<Wire>,
    permit: Option<Permit<'_>>,
) -> Result<SslStream<Wire>, HandshakeError<Wire>> {
    if let Some(progress) = signing::progress(ongoing.ssl()) {
        progress.set_permit(permit.is_some());
    }
    let result = ongoing.handshake();
    let ssl = match &result {
        Ok(stream) => Some(stream.ssl()),
        Err(HandshakeError::WouldBlock(stream) | HandshakeError::Failure(stream)) => Some(stream.ssl()),
        Err(HandshakeError::SetupFailure(_)) => None,
    };
    let is_left = ssl.and_then(signing::progress).is_some_and(HandshakeProgress::has_permit);
    if let Some(permit) = permit.filter(|_| !is_left) {
        permit.consume();
    }
    result
}

fn failure_of(failed: &MidHandshakeSslStream<Wire>) -> HandshakeFailure {
    let notes = ssl::notes(failed.ssl());
    HandshakeFailure::new(
        failed.error(),
        notes.and_then(ssl::Notes::alert_sent),
        notes.and_then(ssl::Notes::alert_received),
        failed.get_ref().at_end(),
        ssl::used_hello_retry_request(failed.ssl()),
    )
}

/// Stops the library from writing and takes its send keys.
fn take_over(
    mut stream: SslStream<Wire>,
    early_data: EarlyDataOutcome,
) -> Result<Established, HandshakeFailure> {
    // With early data the server's flight has been sent, tickets included; the rest of the client's handshake is read
    // later, together with its data, and answered with alerts only.
    // Otherwise the library holds tickets back until its first write. An empty write makes it seal them into the wire.
    if !ssl::flush_tickets(stream.ssl_mut()) {
        return Err(HandshakeFailure::silent("tickets_unavailable"));
    }
    let tickets = stream.get_mut().close_write();
    let facts = facts_of(stream.ssl(), early_data);
    let keys =
        keys_of(stream.ssl(), facts.cipher).ok_or_else(|| HandshakeFailure::silent("keys_unavailable"))?;
    Ok(Established { keys, tickets, receiver: Receiver::new(stream), facts, timing: Timing::default() })
}

fn keys_of(ssl: &SslRef, suite: &str) -> Option<SendKeys> {
    let sequence = ssl::write_sequence(ssl);
    let Some(cipher) = cipher_of(suite) else {
        return legacy::keys_of(ssl, suite, sequence).map(SendKeys::Cbc);
    };
    let keys = if ssl.version2() == Some(SslVersion::TLS1_3) {
        // With early data the handshake is not over yet, and only the key log reports the secret.
        let reported = ssl::notes(ssl).and_then(ssl::Notes::take_server_secret);
        TrafficKeys::tls13(cipher, reported.or_else(|| ssl::write_secret(ssl))?, sequence)
    } else {
        TrafficKeys::tls12(cipher, &ssl::key_block(ssl)?, sequence)
    };
    keys.map(SendKeys::Aead)
}

fn cipher_of(suite: &str) -> Option<Cipher> {
    match suite {
        name if name.ends_with("_AES_128_GCM_SHA256") => Some(Cipher::Aes128Gcm),
        name if name.ends_with("_AES_256_GCM_SHA384") => Some(Cipher::Aes256Gcm),
        name if name.ends_with("_CHACHA20_POLY1305_SHA256") => Some(Cipher::ChaCha20Poly1305),
        _ => None,
    }
}
