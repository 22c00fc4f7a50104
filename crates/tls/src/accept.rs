//! One handshake, from the first byte to the keys we send with.

use std::rc::Rc;

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
}

impl Acceptor {
    /// Handshakes on `socket`. `received` is what was already read from it.
    ///
    /// Waits for the client without a deadline of its own: the caller sets one.
    ///
    /// # Errors
    /// The peer's or the network's doing; see [`HandshakeFailure`].
    pub async fn accept(
        &self,
        socket: Rc<TcpStream>,
        received: Vec<u8>,
    ) -> Result<Established, HandshakeFailure> {
        let connection = self.new_connection().map_err(|_| HandshakeFailure::silent("out_of_memory"))?;
        let started = connection.setup_accept(Wire::new(Rc::clone(&socket), received));
        let stream = handshake(started, &socket).await?;
        take_over(stream)
    }
}

async fn handshake(
    mut ongoing: MidHandshakeSslStream<Wire>,
    socket: &TcpStream,
) -> Result<SslStream<Wire>, HandshakeFailure> {
    loop {
        ongoing = match ongoing.handshake() {
            Ok(stream) => return Ok(stream),
            Err(HandshakeError::WouldBlock(paused)) => paused,
            Err(HandshakeError::Failure(failed)) => return Err(failure_of(&failed)),
            Err(HandshakeError::SetupFailure(_)) => return Err(HandshakeFailure::silent("out_of_memory")),
        };
        let waited = match ongoing.error().code() {
            ErrorCode::WANT_READ => socket.readable().await,
            ErrorCode::WANT_WRITE => socket.writable().await,
            _ => return Err(failure_of(&ongoing)),
        };
        waited.map_err(|_| HandshakeFailure::silent("connection_lost"))?;
    }
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
fn take_over(mut stream: SslStream<Wire>) -> Result<Established, HandshakeFailure> {
    // The library holds session tickets back until its first write, which is never to come: a write of nothing
    // makes it seal them, and the transport keeps them for us.
    stream.get_mut().keep_writes();
    if !ssl::flush_tickets(stream.ssl_mut()) {
        return Err(HandshakeFailure::silent("tickets_unavailable"));
    }
    let tickets = stream.get_mut().close_write();
    let facts = facts_of(stream.ssl());
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

fn facts_of(ssl: &SslRef) -> Facts {
    let version = if ssl.version2() == Some(SslVersion::TLS1_3) { "TLSv1.3" } else { "TLSv1.2" };
    Facts {
        version,
        cipher: ssl.current_cipher().and_then(|cipher| cipher.standard_name()).unwrap_or("unknown"),
        group: ssl.curve_name().unwrap_or("none"),
        resumed: ssl.session_reused(),
        retried: ssl::used_hello_retry_request(ssl),
        server_name: ssl.servername(NameType::HOST_NAME).map(str::to_ascii_lowercase),
    }
}
