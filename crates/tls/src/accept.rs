//! One handshake, from the first byte to the keys we send with.

use std::rc::Rc;
use std::time::Duration;

use boring::ssl::{
    ErrorCode, HandshakeError, MidHandshakeSslStream, NameType, SslRef, SslStream, SslVersion,
};
use penstock_sys::aead::Cipher;
use penstock_sys::ssl;
use penstock_sys::traffic::TrafficKeys;
use tokio::net::TcpStream;

use crate::context::Acceptor;
use crate::failure::HandshakeFailure;
use crate::receiver::Receiver;
use crate::signing::{self, Progress};
use crate::turns::{Turn, Turns};
use crate::wire::Wire;

/// What a finished handshake leaves behind.
pub struct Established {
    /// To seal what we send. The library knows them too and must not use them again.
    pub keys: TrafficKeys,
    /// Records that the library has sealed and not sent: session tickets. They leave before anything else, best
    /// together with the first response.
    pub tickets: Vec<u8>,
    /// Reads what the client sends.
    pub receiver: Receiver,
    /// What was agreed on.
    pub facts: Facts,
}

/// What was agreed on, in the words of logs and metrics.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Facts {
    /// `TLSv1.2` or `TLSv1.3`.
    pub version: &'static str,
    /// The suite's name in the IANA registry.
    pub cipher: &'static str,
    /// The key exchange group; `none` when a TLS 1.2 session was resumed without one.
    pub group: &'static str,
    /// Whether an earlier session was resumed, without certificate or signature.
    pub resumed: bool,
    /// Whether the client had to send a second ClientHello.
    pub retried: bool,
    /// The server name the client asked for, in lower case.
    pub server_name: Option<String>,
    /// How long the private key was at work; zero if the session was resumed.
    pub signing: Duration,
    /// How long the handshake waited for its turn to sign; zero if it did not have to.
    pub queued: Duration,
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
        let connection = self.new_connection().map_err(|_| HandshakeFailure::silent("out_of_memory"))?;
        let started = connection.setup_accept(Wire::new(Rc::clone(&socket), received));
        let (stream, queued) = handshake(started, &socket, turns).await?;
        take_over(stream, queued)
    }
}

/// Also says how long it waited for its turn.
async fn handshake(
    mut ongoing: MidHandshakeSslStream<Wire>,
    socket: &TcpStream,
    turns: &Turns,
) -> Result<(SslStream<Wire>, Duration), HandshakeFailure> {
    let mut queued = Duration::ZERO;
    let mut waited_for = None;
    loop {
        let turn = waited_for.take().or_else(|| turns.take());
        ongoing = match go_on(ongoing, turn) {
            Ok(stream) => return Ok((stream, queued)),
            Err(HandshakeError::WouldBlock(paused)) => paused,
            Err(HandshakeError::Failure(failed)) => return Err(failure_of(&failed)),
            Err(HandshakeError::SetupFailure(_)) => return Err(HandshakeFailure::silent("out_of_memory")),
        };
        let waited = match ongoing.error().code() {
            ErrorCode::WANT_READ => socket.readable().await,
            ErrorCode::WANT_WRITE => socket.writable().await,
            ErrorCode::PENDING_CERTIFICATE | ErrorCode::WANT_PRIVATE_KEY_OPERATION => {
                let (turn, duration) =
                    turns.wait(socket).await.map_err(|_| HandshakeFailure::silent("gone_before_signing"))?;
                queued += duration;
                waited_for = Some(turn);
                continue;
            }
            _ => return Err(failure_of(&ongoing)),
        };
        waited.map_err(|_| HandshakeFailure::silent("connection_lost"))?;
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
    )
}

/// Ends the library's right to write and takes its keys.
fn take_over(mut stream: SslStream<Wire>, queued: Duration) -> Result<Established, HandshakeFailure> {
    // The library holds session tickets back until its first write, which is never to come: a write of nothing
    // makes it seal them, and the transport keeps them for us.
    stream.get_mut().keep_writes();
    if !ssl::flush_tickets(stream.ssl_mut()) {
        return Err(HandshakeFailure::silent("tickets_unavailable"));
    }
    let tickets = stream.get_mut().close_write();
    let facts = facts_of(stream.ssl(), queued);
    let keys =
        keys_of(stream.ssl(), facts.cipher).ok_or_else(|| HandshakeFailure::silent("keys_unavailable"))?;
    Ok(Established { keys, tickets, receiver: Receiver::new(stream), facts })
}

fn keys_of(ssl: &SslRef, suite: &str) -> Option<TrafficKeys> {
    let cipher = cipher_of(suite)?;
    let sequence = ssl::write_sequence(ssl);
    if ssl.version2() == Some(SslVersion::TLS1_3) {
        let secret = ssl::notes(ssl)?.take_server_secret()?;
        TrafficKeys::tls13(cipher, secret, sequence)
    } else {
        TrafficKeys::tls12(cipher, &ssl::key_block(ssl)?, sequence)
    }
}

fn cipher_of(suite: &str) -> Option<Cipher> {
    match suite {
        name if name.ends_with("_AES_128_GCM_SHA256") => Some(Cipher::Aes128Gcm),
        name if name.ends_with("_AES_256_GCM_SHA384") => Some(Cipher::Aes256Gcm),
        name if name.ends_with("_CHACHA20_POLY1305_SHA256") => Some(Cipher::ChaCha20Poly1305),
        _ => None,
    }
}

fn facts_of(ssl: &SslRef, queued: Duration) -> Facts {
    let version = if ssl.version2() == Some(SslVersion::TLS1_3) { "TLSv1.3" } else { "TLSv1.2" };
    Facts {
        version,
        cipher: ssl.current_cipher().and_then(|cipher| cipher.standard_name()).unwrap_or("unknown"),
        group: ssl.curve_name().unwrap_or("none"),
        resumed: ssl.session_reused(),
        retried: ssl::used_hello_retry_request(ssl),
        server_name: ssl.servername(NameType::HOST_NAME).map(str::to_ascii_lowercase),
        signing: signing::progress(ssl).map_or(Duration::ZERO, Progress::signing),
        queued,
    }
}
