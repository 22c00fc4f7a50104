//! One connection, from accept to close.
//!
//! PROXY header, handshake, then requests one after the other, then a close that does not cut off the last
//! answer. Everything a client can do wrong ends here, in a counter.

use std::net::SocketAddr;
use std::rc::Rc;
use std::time::{Duration, Instant};

use penstock_config::limits;
use penstock_egress::Outlet;
use penstock_http::{Rejection, Status, head_length};
use penstock_tls::Ja4;
use penstock_tls::{Received, alert};
use tokio::net::TcpStream;
use tokio::task::coop::consume_budget;
use tokio::time::{sleep_until, timeout_at};

use crate::early::Early;
use crate::inbound::Inbound;
use crate::metrics::{Direction, HandshakeFacts, OutletKind};
use crate::sealing::Way;
use crate::settings::Settings;
use crate::worker::Worker;

/// One client that is past its handshake.
pub(crate) struct Connection {
    pub(crate) worker: Rc<Worker>,
    pub(crate) socket: Rc<TcpStream>,
    pub(crate) inbound: Inbound,
    pub(crate) outlet: Outlet,
    pub(crate) way: Way,
    /// Received and not yet used: the start of a head, pipelined requests. No memory while idle.
    pub(crate) inbox: Vec<u8>,
    /// Who is there: behind a balancer, the client it names.
    pub(crate) client: SocketAddr,
    /// What the handshake agreed on; `None` for plain HTTP.
    pub(crate) tls: Option<HandshakeFacts>,
    /// The client has yet to finish its handshake.
    pub(crate) early: Option<Early>,
    /// What its ClientHello tells about the client's software, where the access log is to have it.
    pub(crate) ja4: Option<Ja4>,
    /// The name in the certificate that the client has shown.
    pub(crate) client_certificate: Option<Box<str>>,
    /// Requests answered so far.
    pub(crate) requests: u64,
    key_updates: KeyUpdates,
    /// The client has ended its side.
    ended: bool,
    /// The alert to end with because of what the client did.
    parting: Option<u8>,
}

/// What reading brought.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pulled {
    /// The inbox has grown.
    Bytes,
    /// Nothing at the moment.
    Nothing,
    /// The client has ended its side.
    Ended,
    /// The client broke the protocol; answer with this alert if there is one.
    Broken(Option<u8>),
}

/// What comes next on a connection.
enum Next {
    /// A whole request head.
    Head(Vec<u8>),
    /// Something that is not a request.
    Refused(Rejection),
    /// The end, with the alert to send.
    Close(u8),
}

const CLOSE_NOTIFY: u8 = 0;
const UNEXPECTED_MESSAGE: u8 = 10;
/// First byte of a TLS handshake record.
const TLS_HANDSHAKE: u8 = 0x16;

impl Connection {
    pub(crate) fn new(
        worker: Rc<Worker>,
        socket: Rc<TcpStream>,
        inbound: Inbound,
        outlet: Outlet,
        way: Way,
        client: SocketAddr,
        tls: Option<HandshakeFacts>,
    ) -> Self {
        let key_updates = KeyUpdates::default();
        Self {
            worker,
            socket,
            inbound,
            outlet,
            way,
            inbox: Vec::new(),
            client,
            tls,
            early: None,
            ja4: None,
            client_certificate: None,
            requests: 0,
            key_updates,
            ended: false,
            parting: None,
        }
    }

    /// Answers requests until one side has had enough, then closes.
    ///
    /// What is not waiting for a request is boxed: an idle connection must not carry the room that answers take.
    pub(crate) async fn serve(mut self) {
        let last_alert = loop {
            let settings = self.worker.settings();
            match self.next_head(&settings).await {
                Next::Head(head) => {
                    if !Box::pin(self.answer(&head, &settings)).await {
                        break CLOSE_NOTIFY;
                    }
                }
                Next::Refused(rejection) => {
                    let answered = self.answer_rejected(rejection, Instant::now(), &settings);
                    if !Box::pin(answered).await {
                        break CLOSE_NOTIFY;
                    }
                }
                Next::Close(alert) => break alert,
            }
            if self.outlet.ending().is_some() {
                break CLOSE_NOTIFY;
            }
            // Who asks faster than it is answered never makes us wait; the other connections must get their turn.
            consume_budget().await;
        };
        Box::pin(self.close(last_alert)).await;
    }

    /// Waits for the next whole head. The deadline counts from its first byte, in total.
    async fn next_head(&mut self, settings: &Settings) -> Next {
        let mut scanned = 0;
        let mut deadline = Instant::now() + settings.limits.idle_timeout;
        loop {
            if !self.inbox.is_empty() {
                match head_length(&self.inbox, scanned, &settings.head) {
                    Ok(Some(length)) => return Next::Head(self.take_from_inbox(length)),
                    Ok(None) if scanned == 0 => deadline = Instant::now() + settings.limits.head_deadline,
                    Ok(None) => {}
                    Err(rejection) => return Next::Refused(self.name_the_fault(rejection)),
                }
                scanned = self.inbox.len();
            } else if self.worker.is_draining() {
                return Next::Close(CLOSE_NOTIFY);
            }
            match self.pull() {
                // A record may hold a single byte, and thousands of them may have arrived.
                Pulled::Bytes => consume_budget().await,
                Pulled::Ended => return Next::Close(CLOSE_NOTIFY),
                Pulled::Broken(alert) => return Next::Close(alert.unwrap_or(CLOSE_NOTIFY)),
                Pulled::Nothing => {
                    // Nothing to answer yet: what the handshake left to say goes alone.
                    if self.outlet.flush().is_err() {
                        return Next::Close(CLOSE_NOTIFY);
                    }
                    let begun = !self.inbox.is_empty();
                    if !begun && self.outlet.ending().is_some() {
                        return Next::Close(CLOSE_NOTIFY);
                    }
                    let unfinished = self.early_deadline();
                    let until = unfinished.map_or(deadline, |early| deadline.min(early));
                    if !self.wait_for_bytes(until, !begun).await {
                        if unfinished.is_some() {
                            self.worker.shard.early_request("abandoned");
                            return Next::Close(CLOSE_NOTIFY);
                        }
                        return if begun { Next::Refused(HEAD_TOO_SLOW) } else { Next::Close(CLOSE_NOTIFY) };
                    }
                }
            }
        }
    }

    /// False once the deadline has passed. An idle connection also wakes up when the worker drains.
    pub(crate) async fn wait_for_bytes(&self, deadline: Instant, idle: bool) -> bool {
        tokio::select! {
            biased;
            // An error of the socket shows up again when it is read.
            _ = self.socket.readable() => true,
            () = self.worker.drain_begun(), if idle => true,
            () = sleep_until(deadline.into()) => false,
        }
    }

    /// Reads what has arrived into the inbox, and sees to KeyUpdates on the way.
    pub(crate) fn pull(&mut self) -> Pulled {
        if self.ended {
            return Pulled::Ended;
        }
        let (inbound, inbox) = (&mut self.inbound, &mut self.inbox);
        let received = self.worker.with_scratch(|scratch| {
            let received = inbound.try_receive(scratch);
            if let Received::Bytes(count) = received {
                inbox.extend_from_slice(&scratch[..count]);
            }
            received
        });
        self.notice_finished_handshake();
        if let Some(alert) = self.follow_key_updates() {
            return Pulled::Broken(Some(alert));
        }
        match received {
            Received::Bytes(_) => Pulled::Bytes,
            Received::Nothing => Pulled::Nothing,
            Received::Closed { notified } => {
                if notified && self.tls.is_some() {
                    self.worker.shard.alert(Direction::Received, alert::name(CLOSE_NOTIFY));
                }
                self.ended = true;
                Pulled::Ended
            }
            Received::Failed { alert } => {
                if let Some(number) = self.inbound.tls().and_then(penstock_tls::Receiver::alert_received) {
                    self.worker.shard.alert(Direction::Received, alert::name(number));
                }
                Pulled::Broken(alert)
            }
        }
    }

    /// Answers KeyUpdates that ask for it; too many end the connection with the alert that is returned.
    fn follow_key_updates(&mut self) -> Option<u8> {
        let receiver = self.inbound.tls()?;
        let seen = receiver.key_updates();
        if seen == self.key_updates.seen {
            return None;
        }
        let requested = receiver.take_key_update_request();
        for _ in self.key_updates.seen..seen {
            self.worker.shard.key_update();
        }
        if !self.key_updates.count(seen, Instant::now()) {
            return Some(UNEXPECTED_MESSAGE);
        }
        // What cannot leave now leaves with the next response.
        let answered = !requested || self.outlet.update_keys().and_then(|()| self.outlet.flush()).is_ok();
        (!answered).then_some(CLOSE_NOTIFY)
    }

    /// Whether more may be read: what a client sends ahead is bounded by one head's worth, or by the little that
    /// stands before the end of its handshake.
    pub(crate) fn listens(&self, settings: &Settings) -> bool {
        !self.ended && (self.inbox.len() < settings.head.head_bytes || self.early.is_some())
    }

    /// Says goodbye with this alert, if there is one.
    pub(crate) fn part_with(&mut self, alert: Option<u8>) {
        self.parting = self.parting.or(alert);
    }

    /// Takes the first bytes out of the inbox, which gives its memory back when nothing is left.
    fn take_from_inbox(&mut self, length: usize) -> Vec<u8> {
        let rest = self.inbox.split_off(length);
        std::mem::replace(&mut self.inbox, rest)
    }

    pub(crate) fn drop_from_inbox(&mut self, length: usize) {
        drop(self.take_from_inbox(length));
    }

    /// Bytes that are no HTTP because they are TLS deserve a name of their own.
    fn name_the_fault(&self, rejection: Rejection) -> Rejection {
        match self.inbox.first() {
            Some(&TLS_HANDSHAKE) if self.tls.is_none() => {
                Rejection { reason: "tls_on_plain_port", ..rejection }
            }
            _ => rejection,
        }
    }

    /// How this connection sends, for counters and logs.
    pub(crate) fn outlet_kind(&self) -> OutletKind {
        match self.outlet.kind() {
            penstock_egress::OutletKind::Plain => OutletKind::Plain,
            penstock_egress::OutletKind::UserSpace => OutletKind::UserSpace,
            penstock_egress::OutletKind::Kernel => OutletKind::Kernel,
        }
    }

    /// Waits until `deadline` for more bytes; false if there will be none in time.
    pub(crate) async fn pull_until(&mut self, deadline: Instant) -> bool {
        loop {
            match self.pull() {
                Pulled::Bytes => {
                    consume_budget().await;
                    return true;
                }
                Pulled::Ended | Pulled::Broken(_) => return false,
                Pulled::Nothing if !self.wait_for_bytes(deadline, false).await => return false,
                Pulled::Nothing => {}
            }
        }
    }

    /// Says goodbye and waits a moment for the client to do the same: a socket closed with unread bytes is reset,
    /// and the reset can overtake the last answer (RFC 9112 §9.6).
    async fn close(mut self, number: u8) {
        if let Some(reason) = self.outlet.ending() {
            self.worker.shard.egress_ended(reason);
        }
        let number = self.parting.unwrap_or(number);
        self.outlet.alert(number);
        if self.tls.is_some() {
            self.worker.shard.alert(Direction::Sent, alert::name(number));
        }
        let deadline = Instant::now() + Duration::from_secs(limits::LINGER_SECONDS);
        let flushed = timeout_at(deadline.into(), self.flush()).await;
        if !matches!(flushed, Ok(true)) || self.ended {
            return;
        }
        // The library is of no use any more; the socket alone lingers.
        let Self { socket, worker, .. } = self;
        linger(&worker, &socket, deadline).await;
    }

    async fn flush(&mut self) -> bool {
        loop {
            match self.outlet.flush() {
                Ok(true) => return true,
                Ok(false) => {}
                Err(_) => return false,
            }
            if self.socket.writable().await.is_err() {
                return false;
            }
        }
    }
}

const HEAD_TOO_SLOW: Rejection =
    Rejection { status: Status::RequestTimeout, reason: "head_too_slow", close: true };

/// Ends our side and reads what the client still sends, within bounds.
pub(crate) async fn linger(worker: &Worker, socket: &TcpStream, deadline: Instant) {
    if rustix::net::shutdown(socket, rustix::net::Shutdown::Write).is_err() {
        return;
    }
    let mut allowance = limits::LINGER_BYTES;
    while allowance > 0 && matches!(timeout_at(deadline.into(), socket.readable()).await, Ok(Ok(()))) {
        let read = worker.with_scratch(|scratch| penstock_tls::receive(socket, scratch));
        match read {
            Ok(0) => return,
            Ok(count) => allowance = allowance.saturating_sub(count as u64),
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
            Err(_) => return,
        }
    }
}

/// Bounds how often a client may have keys changed: each change costs it nothing and us two derivations.
#[derive(Debug, Default)]
struct KeyUpdates {
    seen: u32,
    /// Start of the current minute, and how many there were in it.
    minute: Option<(Instant, u32)>,
}

impl KeyUpdates {
    /// Takes note of a new total; false if that is too many for one minute.
    fn count(&mut self, total: u32, now: Instant) -> bool {
        let fresh = total.saturating_sub(self.seen);
        self.seen = total;
        let (since, count) = match self.minute {
            Some((since, count)) if now.saturating_duration_since(since) < Duration::from_secs(60) => {
                (since, count.saturating_add(fresh))
            }
            _ => (now, fresh),
        };
        self.minute = Some((since, count));
        count <= limits::KEY_UPDATES_PER_MINUTE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn key_updates_are_bounded_per_minute() {
        let start = Instant::now();
        let mut updates = KeyUpdates::default();
        assert!(updates.count(limits::KEY_UPDATES_PER_MINUTE, start));
        assert!(!updates.count(limits::KEY_UPDATES_PER_MINUTE + 1, start + Duration::from_secs(59)));
        assert!(updates.count(limits::KEY_UPDATES_PER_MINUTE + 2, start + Duration::from_secs(60)));
    }

    fn size_of_future<F>(_: impl FnOnce(Connection) -> F) -> usize {
        size_of::<F>()
    }

    #[test]
    fn an_idle_connection_carries_no_answer() {
        let bytes = size_of_future(Connection::serve);
        assert!(
            bytes <= 2048,
            "{bytes} bytes for each connection, busy or not: is something large not boxed?"
        );
    }
}
