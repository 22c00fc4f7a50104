//! What is known of a connection and its streams.

use std::collections::HashMap;
use std::io;
use std::rc::Rc;
use std::sync::Arc;

use quiche::h3::{self, NameValue};
use tokio::sync::Notify;

use crate::failure::LoadFailure;
use crate::net::link::ConnectFault;
use crate::net::sessions::SessionPool;

/// A connection without its socket.
pub(super) struct ConnectionState {
    pub(super) quic: quiche::Connection,
    pub(super) http: Option<h3::Connection>,
    http_config: Arc<h3::Config>,
    pub(super) streams: HashMap<u64, StreamState>,
    pub(super) socket_fault: Option<io::Error>,
    /// Where the session goes that the server gives; `None` once it has given one, or if none is wanted.
    sessions: Option<Arc<SessionPool>>,
    is_server_leaving: bool,
}

/// One request.
#[derive(Default)]
pub(super) struct StreamState {
    /// The status of the response, once its head is here.
    pub(super) status: Option<u16>,
    /// The length that the head has announced.
    pub(super) length: Option<u64>,
    pub(super) end: Option<StreamEnd>,
    /// Notified when something above changes.
    pub(super) news: Rc<Notify>,
}

/// How a response has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StreamEnd {
    Whole,
    /// The server has reset the stream with this code.
    Reset(u64),
}

impl ConnectionState {
    pub(super) fn new(
        quic: quiche::Connection,
        http_config: Arc<h3::Config>,
        sessions: Option<Arc<SessionPool>>,
    ) -> Self {
        Self {
            quic,
            http: None,
            http_config,
            streams: HashMap::new(),
            socket_fault: None,
            sessions,
            is_server_leaving: false,
        }
    }

    /// Whether requests can be sent.
    pub(super) fn may_send(&self) -> bool {
        self.http.is_some()
    }

    /// Whether nothing more is received.
    pub(super) fn has_ended(&self) -> bool {
        let is_refused = self.socket_fault.is_some() && !self.quic.is_established();
        is_refused || self.quic.is_closed() || self.quic.is_draining()
    }

    /// Whether more requests may be sent.
    pub(super) fn is_open(&self) -> bool {
        !self.is_server_leaving && !self.has_ended() && self.quic.local_error().is_none()
    }

    /// Follows what was received: the handshake, then events of streams.
    pub(super) fn follow(&mut self) {
        let Self { quic, http, http_config, .. } = self;
        if http.is_none() && (quic.is_established() || quic.is_in_early_data()) {
            *http = h3::Connection::with_transport(quic, http_config).ok();
        }
        if self.sessions.is_some()
            && let Some(session) = self.quic.session()
            && let Some(sessions) = self.sessions.take()
        {
            sessions.put_quic(session.to_vec());
        }
        let Some(http) = &mut self.http else { return };
        // An error of the server has ended the connection, which its state tells.
        while let Ok((number, event)) = http.poll(&mut self.quic) {
            if let h3::Event::GoAway = event {
                self.is_server_leaving = true;
            }
            let Some(stream) = self.streams.get_mut(&number) else { continue };
            match event {
                h3::Event::Headers { list, .. } if stream.status.is_none() => stream.take_head(&list),
                h3::Event::Data => {}
                h3::Event::Finished => stream.end = Some(StreamEnd::Whole),
                h3::Event::Reset(code) => stream.end = Some(StreamEnd::Reset(code)),
                // Trailers among others.
                _ => continue,
            }
            stream.news.notify_one();
        }
        if self.has_ended() {
            self.wake_all();
        }
    }

    /// Lets each request find that the connection has ended.
    pub(super) fn wake_all(&self) {
        self.streams.values().for_each(|stream| stream.news.notify_one());
    }

    /// Why the handshake has failed.
    pub(super) fn handshake_fault(&mut self) -> ConnectFault {
        if let Some(error) = &self.socket_fault {
            return (LoadFailure::of_connect(error), error.to_string());
        }
        if let Err(fault) = self.quic.as_mut().verify_result() {
            return (LoadFailure::CertificateRejected, fault.error_string().to_owned());
        }
        match (self.quic.peer_error(), self.quic.local_error()) {
            (Some(error), _) => match alert_of(error) {
                Some(alert) => (LoadFailure::HandshakeAlert(alert), format!("the server sent alert {alert}")),
                None => {
                    let code = error.error_code;
                    (LoadFailure::HandshakeClosed, format!("the server closed with error code {code:#x}"))
                }
            },
            (None, Some(error)) => {
                (LoadFailure::HandshakeInvalid, format!("error code {:#x}", error.error_code))
            }
            (None, None) => (LoadFailure::HandshakeClosed, "no error code came".to_owned()),
        }
    }

    /// Why a request was not answered. `has_begun` tells whether a part of the response has arrived.
    pub(super) fn failure(&self, has_begun: bool) -> LoadFailure {
        if let Some(error) = self.quic.peer_error() {
            match alert_of(error) {
                // In TLS 1.3 a server rejects a client's certificate after the client's handshake is complete.
                Some(alert) if !has_begun => return LoadFailure::HandshakeAlert(alert),
                None if error.is_app && error.error_code != super::NO_ERROR => {
                    return LoadFailure::GoAway(u32::try_from(error.error_code).unwrap_or(u32::MAX));
                }
                _ => {}
            }
        } else if self.quic.local_error().is_some() {
            return LoadFailure::Http3Invalid;
        }
        let is_reset = self.quic.peer_error().is_none() && !self.quic.is_timed_out();
        match (has_begun, is_reset) {
            (true, true) => LoadFailure::BodyReset,
            (true, false) => LoadFailure::BodyShort,
            (false, true) => LoadFailure::ResetBeforeResponse,
            (false, false) => LoadFailure::ClosedBeforeResponse,
        }
    }
}

impl StreamState {
    fn take_head(&mut self, fields: &[h3::Header]) {
        let value = |wanted: &[u8]| {
            let field = fields.iter().find(|field| field.name() == wanted)?;
            str::from_utf8(field.value()).ok()
        };
        // An interim response (1xx) comes before the one that is waited for.
        self.status =
            value(b":status").and_then(|status| status.parse().ok()).filter(|status| *status >= 200);
        self.length = value(b"content-length").and_then(|length| length.parse().ok());
    }
}

/// The alert of TLS in an error code of QUIC (RFC 9001 §4.8).
fn alert_of(error: &quiche::ConnectionError) -> Option<u8> {
    let code = error.error_code.checked_sub(0x100).filter(|_| !error.is_app)?;
    u8::try_from(code).ok()
}
