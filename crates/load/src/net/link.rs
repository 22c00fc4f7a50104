//! A connection, plain or over TLS. Reads never wait.

use std::future::poll_fn;
use std::io;
use std::task::{Context, Poll};
use std::time::Duration;

use boring::ssl::{ErrorCode, SslRef, SslStream};
use penstock_sys::ssl::{self, client};
use tokio::io::Interest;
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::pipe::ReadAhead;
use crate::failure::{LoadFailure, is_reset};
use crate::plan::ConnectionEnding;

/// An open connection.
pub(crate) enum ClientConnection {
    /// Plain HTTP.
    Plain(TcpStream),
    /// HTTP over TLS.
    Tls(Box<SslStream<ReadAhead>>),
}

/// The result of a read.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum ReadResult {
    /// This many bytes.
    Bytes(usize),
    /// No data yet.
    Wait(Readiness),
    /// The server ended the connection in an orderly way.
    End,
    /// The connection ended without close_notify, which over TLS may be an attacker's doing.
    Cut,
    /// The server reset the connection.
    Reset,
    /// A record could not be opened, or an alert arrived.
    Broken,
    /// The server rejected early data; the request must be sent again.
    EarlyDataRefused,
}

/// The event that a socket is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Readiness {
    Readable,
    Writable,
}

/// The result of a handshake.
#[derive(Clone, Debug)]
pub(crate) struct HandshakeFacts {
    pub(crate) resumed: bool,
    pub(crate) early_data_accepted: bool,
    pub(crate) agreed: String,
}

impl HandshakeFacts {
    pub(super) fn of(ssl: &SslRef) -> Self {
        let cipher = ssl.current_cipher().map_or("?", |cipher| cipher.name());
        let mut agreed = format!("{} {cipher}", ssl.version_str());
        for part in [ssl.curve_name(), protocol_of(ssl)].into_iter().flatten() {
            agreed.push(' ');
            agreed.push_str(part);
        }
        Self { resumed: ssl.session_reused(), early_data_accepted: client::early_data_accepted(ssl), agreed }
    }
}

/// The protocol of ALPN, if any.
pub(super) fn protocol_of(ssl: &SslRef) -> Option<&str> {
    ssl.selected_alpn_protocol().and_then(|name| str::from_utf8(name).ok())
}

/// Why a connection could not be opened, with the words of the system, the library or the alert.
pub(crate) type ConnectFault = (LoadFailure, String);

impl ClientConnection {
    /// Reads what has arrived.
    pub(crate) fn read(&mut self, into: &mut [u8]) -> ReadResult {
        match self {
            Self::Plain(socket) => match socket.try_read(into) {
                Ok(0) => ReadResult::End,
                Ok(count) => ReadResult::Bytes(count),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    ReadResult::Wait(Readiness::Readable)
                }
                Err(_) => ReadResult::Reset,
            },
            Self::Tls(stream) => match stream.ssl_read(into) {
                Ok(count) => ReadResult::Bytes(count),
                Err(error) => match error.code() {
                    ErrorCode::ZERO_RETURN => ReadResult::End,
                    ErrorCode::WANT_READ => ReadResult::Wait(Readiness::Readable),
                    ErrorCode::WANT_WRITE => ReadResult::Wait(Readiness::Writable),
                    ErrorCode::SYSCALL if error.io_error().is_none() => ReadResult::Cut,
                    ErrorCode::SYSCALL => ReadResult::Reset,
                    code if client::recover_refused_early_data(stream.ssl_mut(), code) => {
                        ReadResult::EarlyDataRefused
                    }
                    _ => ReadResult::Broken,
                },
            },
        }
    }

    /// Reads and drops what the server sends, until this is true or the connection has ended.
    pub(crate) async fn read_until(&mut self, is_enough: impl Fn() -> bool) {
        let mut nothing = [0; 64];
        while !is_enough() {
            match self.read(&mut nothing) {
                ReadResult::Bytes(_) => {}
                // The read may have found a ticket and nothing else.
                ReadResult::Wait(_) if is_enough() => {}
                ReadResult::Wait(waiting) => poll_fn(|context| self.poll_ready(waiting, context)).await,
                _ => return,
            }
        }
    }

    /// Writes all bytes.
    pub(crate) async fn write(&mut self, bytes: &[u8], limit: Duration) -> Result<(), LoadFailure> {
        let mut written = 0;
        while written < bytes.len() {
            let waiting = match self.write_some(&bytes[written..])? {
                Ok(count) => {
                    written += count;
                    continue;
                }
                Err(waiting) => waiting,
            };
            if !self.wait(waiting, limit).await {
                return Err(LoadFailure::RequestNotSent);
            }
        }
        Ok(())
    }

    /// Writes what fits. Returns 0 after the server rejected early data: then everything must be written again.
    pub(crate) fn write_some(&mut self, bytes: &[u8]) -> Result<Result<usize, Readiness>, LoadFailure> {
        match self {
            Self::Plain(socket) => match socket.try_write(bytes) {
                Ok(count) => Ok(Ok(count)),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(Err(Readiness::Writable)),
                Err(_) => Err(LoadFailure::RequestNotSent),
            },
            Self::Tls(stream) => match stream.ssl_write(bytes) {
                Ok(count) => Ok(Ok(count)),
                Err(error) => match error.code() {
                    ErrorCode::WANT_READ => Ok(Err(Readiness::Readable)),
                    ErrorCode::WANT_WRITE => Ok(Err(Readiness::Writable)),
                    // Rejected early data was not counted as sent: all of it is written again.
                    code if client::recover_refused_early_data(stream.ssl_mut(), code) => Ok(Ok(0)),
                    _ => Err(LoadFailure::RequestNotSent),
                },
            },
        }
    }

    /// Waits for an event. Returns false at the limit.
    pub(crate) async fn wait(&self, waiting: Readiness, limit: Duration) -> bool {
        let interest = match waiting {
            Readiness::Readable => Interest::READABLE,
            Readiness::Writable => Interest::WRITABLE,
        };
        timeout(limit, self.socket().ready(interest)).await.is_ok()
    }

    /// Polls for an event. Errors are found by the read or write that follows.
    pub(crate) fn poll_ready(&self, waiting: Readiness, context: &mut Context<'_>) -> Poll<()> {
        match waiting {
            Readiness::Readable => self.socket().poll_read_ready(context).map(drop),
            Readiness::Writable => self.socket().poll_write_ready(context).map(drop),
        }
    }

    /// Completes the handshake. With early data it returns before the server has answered.
    pub(crate) async fn handshake(&mut self, limit: Duration) -> Result<(), ConnectFault> {
        match timeout(limit, self.drive_handshake()).await {
            Ok(result) => result,
            Err(_) => Err((LoadFailure::HandshakeTimeout, format!("{limit:?} were not enough"))),
        }
    }

    async fn drive_handshake(&mut self) -> Result<(), ConnectFault> {
        let Self::Tls(stream) = self else { return Ok(()) };
        loop {
            let Err(error) = stream.connect() else { return Ok(()) };
            let ready = match error.code() {
                ErrorCode::WANT_READ => stream.get_ref().socket().readable().await,
                ErrorCode::WANT_WRITE => stream.get_ref().socket().writable().await,
                code if client::recover_refused_early_data(stream.ssl_mut(), code) => Ok(()),
                _ => return Err(handshake_failure(stream, &error)),
            };
            if let Err(error) = ready {
                return Err((LoadFailure::HandshakeReset, error.to_string()));
            }
        }
    }

    /// Whether the handshake is incomplete and early data may be sent.
    pub(crate) fn is_in_early_data(&self) -> bool {
        match self {
            Self::Plain(_) => false,
            Self::Tls(stream) => client::is_in_early_data(stream.ssl()),
        }
    }

    /// The result of the handshake; `None` without TLS.
    pub(crate) fn facts(&self) -> Option<HandshakeFacts> {
        let Self::Tls(stream) = self else { return None };
        Some(HandshakeFacts::of(stream.ssl()))
    }

    /// Whether it is over TLS.
    pub(crate) fn is_tls(&self) -> bool {
        matches!(self, Self::Tls(_))
    }

    /// The protocol of ALPN, if any.
    pub(crate) fn protocol(&self) -> Option<&str> {
        let Self::Tls(stream) = self else { return None };
        protocol_of(stream.ssl())
    }

    /// The last alert from the server.
    pub(crate) fn alert(&self) -> Option<u8> {
        match self {
            Self::Plain(_) => None,
            Self::Tls(stream) => ssl::notes(stream.ssl()).and_then(ssl::Notes::alert_received),
        }
    }

    /// Ends the connection. After close_notify and FIN it waits for the end of the server's side, but no longer than
    /// `limit`: closing a socket with unread data would send RST.
    pub(crate) async fn end(mut self, ending: ConnectionEnding, limit: Duration) {
        if ending == ConnectionEnding::Reset {
            _ = rustix::net::sockopt::set_socket_linger(self.socket(), Some(Duration::ZERO));
            return;
        }
        if let Self::Tls(stream) = &mut self {
            // A server that is gone needs no close_notify.
            drop(stream.shutdown());
        }
        let socket = self.socket();
        if rustix::net::shutdown(socket, rustix::net::Shutdown::Write).is_ok() {
            drop(timeout(limit, read_to_end(socket)).await);
        }
    }

    fn socket(&self) -> &TcpStream {
        match self {
            Self::Plain(socket) => socket,
            Self::Tls(stream) => stream.get_ref().socket(),
        }
    }
}

/// Reads and drops what the server still sends, without opening records.
async fn read_to_end(socket: &TcpStream) {
    let mut dropped = [0; 4096];
    loop {
        match socket.try_read(&mut dropped) {
            Ok(1..) => tokio::task::yield_now().await,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                if socket.readable().await.is_err() {
                    return;
                }
            }
            Ok(0) | Err(_) => return,
        }
    }
}

fn handshake_failure(stream: &SslStream<ReadAhead>, error: &boring::ssl::Error) -> ConnectFault {
    if let Some(number) = ssl::notes(stream.ssl()).and_then(ssl::Notes::alert_received) {
        return (LoadFailure::HandshakeAlert(number), format!("the server sent alert {number}"));
    }
    if let Some(error) = error.io_error() {
        let failure =
            if is_reset(error) { LoadFailure::HandshakeReset } else { LoadFailure::HandshakeClosed };
        return (failure, error.to_string());
    }
    let reasons = error.ssl_error().map(|stack| stack.errors()).unwrap_or_default();
    let reasons: Vec<&str> = reasons.iter().filter_map(boring::error::Error::reason).collect();
    if reasons.contains(&"CERTIFICATE_VERIFY_FAILED") {
        let fault = stream.ssl().verify_result().err();
        return (
            LoadFailure::CertificateRejected,
            fault.map_or_else(String::new, |fault| fault.error_string().to_owned()),
        );
    }
    if error.code() == ErrorCode::SYSCALL {
        return (LoadFailure::HandshakeClosed, "no alert came".to_owned());
    }
    (LoadFailure::HandshakeInvalid, reasons.join(", "))
}
