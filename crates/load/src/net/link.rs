//! One connection, plain or over TLS, on which reading never waits unless told to.

use std::io;
use std::time::Duration;

use boring::ssl::{ErrorCode, SslStream};
use penstock_sys::ssl::{self, client};
use tokio::io::Interest;
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::pipe::Pipe;
use crate::failure::{Failure, is_reset};

/// An open connection.
pub(crate) enum Link {
    /// HTTP.
    Plain(TcpStream),
    /// HTTPS.
    Tls(Box<SslStream<Pipe>>),
}

/// What a read found.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Input {
    /// So many bytes.
    Bytes(usize),
    /// Nothing yet.
    Wait(Waiting),
    /// The server ended the connection in an orderly way.
    End,
    /// The connection ended without close_notify, which over TLS may be somebody else's doing.
    Cut,
    /// The server reset the connection.
    Reset,
    /// A record could not be opened, or an alert came.
    Broken,
    /// The server refused early data; the request has to be sent again.
    EarlyDataRefused,
}

/// What the socket has to become.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Waiting {
    Readable,
    Writable,
}

/// What the handshake came to.
#[derive(Clone, Debug)]
pub(crate) struct Facts {
    pub(crate) resumed: bool,
    pub(crate) early_data_accepted: bool,
    pub(crate) agreed: String,
}

/// Why a connection could not be opened, and what the system, the library or the server said of it.
pub(crate) type Trouble = (Failure, String);

impl Link {
    /// Reads what is there.
    pub(crate) fn read(&mut self, into: &mut [u8]) -> Input {
        match self {
            Self::Plain(socket) => match socket.try_read(into) {
                Ok(0) => Input::End,
                Ok(count) => Input::Bytes(count),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => Input::Wait(Waiting::Readable),
                Err(_) => Input::Reset,
            },
            Self::Tls(stream) => match stream.ssl_read(into) {
                Ok(count) => Input::Bytes(count),
                Err(error) => match error.code() {
                    ErrorCode::ZERO_RETURN => Input::End,
                    ErrorCode::WANT_READ => Input::Wait(Waiting::Readable),
                    ErrorCode::WANT_WRITE => Input::Wait(Waiting::Writable),
                    ErrorCode::SYSCALL if error.io_error().is_none() => Input::Cut,
                    ErrorCode::SYSCALL => Input::Reset,
                    code if client::recover_refused_early_data(stream.ssl_mut(), code) => {
                        Input::EarlyDataRefused
                    }
                    _ => Input::Broken,
                },
            },
        }
    }

    /// Writes all of it.
    pub(crate) async fn write(&mut self, bytes: &[u8], limit: Duration) -> Result<(), Failure> {
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
                return Err(Failure::RequestNotSent);
            }
        }
        Ok(())
    }

    fn write_some(&mut self, bytes: &[u8]) -> Result<Result<usize, Waiting>, Failure> {
        match self {
            Self::Plain(socket) => match socket.try_write(bytes) {
                Ok(count) => Ok(Ok(count)),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(Err(Waiting::Writable)),
                Err(_) => Err(Failure::RequestNotSent),
            },
            Self::Tls(stream) => match stream.ssl_write(bytes) {
                Ok(count) => Ok(Ok(count)),
                Err(error) => match error.code() {
                    ErrorCode::WANT_READ => Ok(Err(Waiting::Readable)),
                    ErrorCode::WANT_WRITE => Ok(Err(Waiting::Writable)),
                    // What was refused is written again in whole: nothing of it was counted as sent.
                    code if client::recover_refused_early_data(stream.ssl_mut(), code) => Ok(Ok(0)),
                    _ => Err(Failure::RequestNotSent),
                },
            },
        }
    }

    /// Waits for the socket; false if it took too long.
    pub(crate) async fn wait(&self, waiting: Waiting, limit: Duration) -> bool {
        let interest = match waiting {
            Waiting::Readable => Interest::READABLE,
            Waiting::Writable => Interest::WRITABLE,
        };
        timeout(limit, self.socket().ready(interest)).await.is_ok()
    }

    /// Shakes hands. With early data this is over before the server has answered.
    pub(crate) async fn handshake(&mut self, limit: Duration) -> Result<(), Trouble> {
        match timeout(limit, self.drive_handshake()).await {
            Ok(result) => result,
            Err(_) => Err((Failure::HandshakeTimeout, format!("{limit:?} were not enough"))),
        }
    }

    async fn drive_handshake(&mut self) -> Result<(), Trouble> {
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
                return Err((Failure::HandshakeReset, error.to_string()));
            }
        }
    }

    /// Whether the handshake still runs and early data may be sent.
    pub(crate) fn is_in_early_data(&self) -> bool {
        match self {
            Self::Plain(_) => false,
            Self::Tls(stream) => client::is_in_early_data(stream.ssl()),
        }
    }

    /// What was agreed on; `None` without TLS.
    pub(crate) fn facts(&self) -> Option<Facts> {
        let Self::Tls(stream) = self else { return None };
        let ssl = stream.ssl();
        let cipher = ssl.current_cipher().map_or("?", |cipher| cipher.name());
        let mut agreed = format!("{} {cipher}", ssl.version_str());
        for part in [ssl.curve_name(), self.protocol()].into_iter().flatten() {
            agreed.push(' ');
            agreed.push_str(part);
        }
        Some(Facts {
            resumed: ssl.session_reused(),
            early_data_accepted: client::early_data_accepted(ssl),
            agreed,
        })
    }

    /// The protocol that was agreed on; `None` if none was.
    pub(crate) fn protocol(&self) -> Option<&str> {
        let Self::Tls(stream) = self else { return None };
        stream.ssl().selected_alpn_protocol().and_then(|name| str::from_utf8(name).ok())
    }

    /// The last alert that the server sent.
    pub(crate) fn alert(&self) -> Option<u8> {
        match self {
            Self::Plain(_) => None,
            Self::Tls(stream) => ssl::notes(stream.ssl()).and_then(ssl::Notes::alert_received),
        }
    }

    /// Ends the connection in an orderly way, without waiting for the other side.
    pub(crate) fn close(self) {
        if let Self::Tls(mut stream) = self {
            // A server that is gone does not need our close_notify.
            drop(stream.shutdown());
        }
    }

    fn socket(&self) -> &TcpStream {
        match self {
            Self::Plain(socket) => socket,
            Self::Tls(stream) => stream.get_ref().socket(),
        }
    }
}

fn handshake_failure(stream: &SslStream<Pipe>, error: &boring::ssl::Error) -> Trouble {
    if let Some(number) = ssl::notes(stream.ssl()).and_then(ssl::Notes::alert_received) {
        return (Failure::HandshakeAlert(number), format!("the server sent alert {number}"));
    }
    if let Some(error) = error.io_error() {
        let failure = if is_reset(error) { Failure::HandshakeReset } else { Failure::HandshakeClosed };
        return (failure, error.to_string());
    }
    let reasons = error.ssl_error().map(|stack| stack.errors()).unwrap_or_default();
    let reasons: Vec<&str> = reasons.iter().filter_map(boring::error::Error::reason).collect();
    if reasons.contains(&"CERTIFICATE_VERIFY_FAILED") {
        let fault = stream.ssl().verify_result().err();
        return (
            Failure::CertificateRejected,
            fault.map_or_else(String::new, |fault| fault.error_string().to_owned()),
        );
    }
    if error.code() == ErrorCode::SYSCALL {
        return (Failure::HandshakeClosed, "no alert came".to_owned());
    }
    (Failure::HandshakeInvalid, reasons.join(", "))
}
