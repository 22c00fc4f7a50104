//! One handshake, from the first byte to the keys we send with.

use std::rc::Rc;
use std::time::{Duration, Instant, SystemTime};

use boring::ssl::{
    ErrorCode, HandshakeError, MidHandshakeSslStream, NameType, SslRef, SslStream, SslVersion,
};
use penstock_sys::aead::Cipher;
use penstock_sys::ssl;
use penstock_sys::traffic::{SendKeys, TrafficKeys};
use tokio::net::TcpStream;

use crate::context::Acceptor;
use crate::early_data::{self, EarlyData};
use crate::extensions::{self, Extensions};
use crate::failure::HandshakeFailure;
use crate::ja4::Ja4;
use crate::legacy;
use crate::receiver::Receiver;
use crate::session_store::{self, LookupWait};
use crate::signing::{self, Progress};
use crate::tickets::{self, TicketFacts};
use crate::turns::{NoTurn, Turn, Turns};
use crate::wire::Wire;

/// What a finished handshake leaves behind.
pub struct Established {
    /// To seal what we send. The library knows them too and must not use them again.
    pub keys: SendKeys,
    /// Records that the library has sealed and not sent: session tickets. They leave before anything else, best
    /// together with the first response.
    pub tickets: Vec<u8>,
    /// Reads what the client sends.
    pub receiver: Receiver,
    /// What was agreed on.
    pub facts: Facts,
    /// How long it took.
    pub timing: Timing,
}

/// What was agreed on, in the words of logs and metrics.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Facts {
    /// `TLSv1.3`, `TLSv1.2`, and where they are spoken `TLSv1.1` and `TLSv1.0`.
    pub version: &'static str,
    /// The suite's name in the IANA registry.
    pub cipher: &'static str,
    /// The key exchange group; `none` when a TLS 1.2 session was resumed without one.
    pub group: &'static str,
    /// Whether an earlier session was resumed, without certificate or signature.
    pub resumed: bool,
    /// The kind of key that signed: `ecdsa` or `rsa`; `none` when a session was resumed.
    pub certificate: &'static str,
    /// Whether the client had to send a second ClientHello.
    pub retried: bool,
    /// The server name the client asked for, in lower case.
    pub server_name: Option<String>,
    /// What became of the client's early data.
    pub early_data: EarlyData,
    /// What the ClientHello tells about its software; `None` unless the settings ask for it.
    pub ja4: Option<Ja4>,
    /// The name in the client's certificate, which was verified in this handshake or in the one that began the
    /// session; `None` if it has shown none.
    pub client_certificate: Option<String>,
    /// How the handshake had to wait for a session that is kept elsewhere; `None` if it had not.
    pub lookup_wait: Option<LookupWait>,
    /// What became of the extensions it sent.
    pub extensions: Extensions,
    /// Tickets offered and issued.
    pub tickets: TicketFacts,
}

/// Where the time of a handshake went. The parts do not overlap.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Timing {
    /// From having nothing left to do until the client had sent or taken something, or a session kept elsewhere had
    /// come, and the worker came to it.
    pub waiting: Duration,
    /// Until it was this handshake's turn to sign; zero if it did not have to wait for it.
    pub queued: Duration,
    /// The private key was at work; zero if a session was resumed.
    pub signing: Duration,
    /// The steps that compute the shared secret.
    pub key_exchange: Duration,
    /// Everything else: parsing, choosing a certificate and reading it if need be, key schedules, sealing.
    pub rest: Duration,
}

impl Timing {
    /// From the first step to the last.
    pub fn total(&self) -> Duration {
        self.waiting + self.queued + self.signing + self.key_exchange + self.rest
    }

    fn finished(self, total: Duration) -> Self {
        let parts = self.waiting + self.queued + self.signing + self.key_exchange;
        Self { rest: total.saturating_sub(parts), ..self }
    }
}

impl Acceptor {
    /// Handshakes on `socket`. `received` is what was already read from it.
    ///
    /// Waits for the client without a deadline of its own: the caller sets one. Full handshakes take one of `turns`
    /// to sign, and wait for it if there is none.
    ///
    /// # Errors
    /// The peer's or the network's doing; see [`HandshakeFailure`].
    pub async fn accept(
        &self,
        socket: Rc<TcpStream>,
        received: Vec<u8>,
        turns: &Turns,
    ) -> Result<Established, HandshakeFailure> {
        let started = Instant::now();
        let connection = self.new_connection().map_err(|_| HandshakeFailure::silent("out_of_memory"))?;
        let ongoing = connection.setup_accept(Wire::new(Rc::clone(&socket), received));
        let (stream, timing) = handshake(ongoing, &socket, turns, self.lookup_deadline()).await?;
        let early_data = early_data::outcome(stream.ssl(), self.early_data());
        let client_certificate = self.name_of_client(stream.ssl());
        let mut established = take_over(stream, early_data)?;
        established.facts.client_certificate = client_certificate;
        established.timing = timing.finished(started.elapsed());
        Ok(established)
    }
}

/// Also says where its time went; the rest is left out.
async fn handshake(
    mut ongoing: MidHandshakeSslStream<Wire>,
    socket: &TcpStream,
    turns: &Turns,
    lookup_deadline: Duration,
) -> Result<(SslStream<Wire>, Timing), HandshakeFailure> {
    let mut timing = Timing::default();
    let mut waited_for = None;
    loop {
        let turn = waited_for.take().or_else(|| turns.take());
        ongoing = match go_on(ongoing, turn) {
            Ok(stream) => {
                timing.signing = signing::progress(stream.ssl()).map_or(Duration::ZERO, Progress::signing);
                timing.key_exchange =
                    ssl::notes(stream.ssl()).map_or(Duration::ZERO, ssl::Notes::key_exchange);
                return Ok((stream, timing));
            }
            Err(HandshakeError::WouldBlock(paused)) => paused,
            Err(HandshakeError::Failure(failed)) => return Err(failure_of(&failed)),
            Err(HandshakeError::SetupFailure(_)) => return Err(HandshakeFailure::silent("out_of_memory")),
        };
        let paused = Instant::now();
        if let Some(gate) = signing::progress(ongoing.ssl()).and_then(Progress::take_gate) {
            // Closed when the certificate has been read, and never has a permit to give.
            drop(gate.acquire().await);
            paused_for(ongoing.ssl(), paused.elapsed());
            continue;
        }
        let ready = match ongoing.error().code() {
            ErrorCode::WANT_READ => socket.readable().await,
            ErrorCode::WANT_WRITE => socket.writable().await,
            ErrorCode::PENDING_CERTIFICATE | ErrorCode::WANT_PRIVATE_KEY_OPERATION => {
                let (turn, duration) = turns.wait(socket).await.map_err(without_turn)?;
                timing.queued += duration;
                paused_for(ongoing.ssl(), duration);
                waited_for = Some(turn);
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

/// No alert tells a client to come back later; a connection that just ends makes most of them do so.
fn without_turn(why: NoTurn) -> HandshakeFailure {
    HandshakeFailure::silent(match why {
        NoTurn::Gone => "gone_before_signing",
        NoTurn::RateLimited => "rate_limited",
    })
}

/// The step that the library is in was not at work for so long.
fn paused_for(ssl: &SslRef, duration: Duration) {
    if let Some(notes) = ssl::notes(ssl) {
        notes.paused(duration);
    }
}

/// Lets the library work; it uses the turn up or not.
fn go_on(
    ongoing: MidHandshakeSslStream<Wire>,
    turn: Option<Turn<'_>>,
) -> Result<SslStream<Wire>, HandshakeError<Wire>> {
    if let Some(progress) = signing::progress(ongoing.ssl()) {
        progress.set_turn(turn.is_some());
    }
    let result = ongoing.handshake();
    let ssl = match &result {
        Ok(stream) => Some(stream.ssl()),
        Err(HandshakeError::WouldBlock(stream) | HandshakeError::Failure(stream)) => Some(stream.ssl()),
        Err(HandshakeError::SetupFailure(_)) => None,
    };
    let is_left = ssl.and_then(signing::progress).is_some_and(Progress::has_turn);
    if let Some(turn) = turn.filter(|_| !is_left) {
        turn.use_up();
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

/// Ends the library's right to write and takes its keys.
fn take_over(mut stream: SslStream<Wire>, early_data: EarlyData) -> Result<Established, HandshakeFailure> {
    // If early data was taken, everything up to our tickets has left, and what the client still has to say of the
    // handshake is read later, among its data. Nothing is written for it but alerts.
    // Otherwise the library holds session tickets back until its first write, which is never to come: a write of nothing
    // makes it seal them, and the transport keeps them for us.
    stream.get_mut().keep_writes();
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
        // With early data the handshake is not over yet; the key log has told the secret then.
        let told = ssl::notes(ssl).and_then(ssl::Notes::take_server_secret);
        TrafficKeys::tls13(cipher, told.or_else(|| ssl::write_secret(ssl))?, sequence)
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

fn facts_of(ssl: &SslRef, early_data: EarlyData) -> Facts {
    let version = match ssl.version2() {
        Some(SslVersion::TLS1_3) => "TLSv1.3",
        Some(SslVersion::TLS1_1) => "TLSv1.1",
        Some(SslVersion::TLS1) => "TLSv1.0",
        _ => "TLSv1.2",
    };
    let cipher = ssl.current_cipher().and_then(|cipher| cipher.standard_name()).unwrap_or("unknown");
    let certificate = if ssl.session_reused() {
        "none"
    } else {
        signer(cipher, ssl::notes(ssl).and_then(ssl::Notes::signature_scheme))
    };
    Facts {
        version,
        cipher,
        certificate,
        group: ssl.curve_name().unwrap_or("none"),
        resumed: ssl.session_reused(),
        retried: ssl::used_hello_retry_request(ssl),
        server_name: ssl.servername(NameType::HOST_NAME).map(str::to_ascii_lowercase),
        early_data,
        ja4: signing::progress(ssl).and_then(Progress::ja4),
        client_certificate: None,
        lookup_wait: session_store::lookup_wait(ssl),
        extensions: extensions::outcome(ssl),
        tickets: tickets::facts_of(ssl, SystemTime::now()),
    }
}

/// The kind of key that signed: TLS 1.3 says it in the scheme (RFC 8446 §4.2.3), older versions in the suite.
fn signer(suite: &str, scheme: Option<u16>) -> &'static str {
    match (scheme.map(u16::to_be_bytes), suite) {
        (Some([2..=6, 3]), _) => "ecdsa",
        (Some([8, 4..=6 | 9..=11] | [2..=6, 1]), _) => "rsa",
        (None, suite) if suite.contains("_ECDSA_") => "ecdsa",
        (None, suite) if suite.contains("_RSA_") => "rsa",
        _ => "other",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kind_of_certificate_is_read_from_what_was_signed() {
        for (scheme, kind) in
            [(0x0403, "ecdsa"), (0x0603, "ecdsa"), (0x0804, "rsa"), (0x080b, "rsa"), (0x0807, "other")]
        {
            assert_eq!(signer("TLS_AES_128_GCM_SHA256", Some(scheme)), kind, "{scheme:04x}");
        }
        assert_eq!(signer("TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256", None), "ecdsa");
        assert_eq!(signer("TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256", None), "rsa");
    }

    #[test]
    fn the_parts_of_a_handshake_add_up_to_the_whole() {
        let ms = Duration::from_millis;
        let timing = Timing {
            waiting: ms(80),
            queued: ms(10),
            signing: ms(2),
            key_exchange: ms(3),
            ..Timing::default()
        };
        assert_eq!((timing.finished(ms(100)).rest, timing.finished(ms(100)).total()), (ms(5), ms(100)));
        // Clocks read at different moments never make a part negative.
        assert_eq!(timing.finished(ms(94)).rest, Duration::ZERO);
    }
}
