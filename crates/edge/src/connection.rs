//! One connection behind its handshake: reading with bounds, KeyUpdates, and a close that does not cut off the last
//! response. Protocol errors of the client end here, in a counter.
mod alarm;
mod carriage;
mod early;
mod egress_path;
mod unacknowledged;

pub(crate) use carriage::CarriageMeter;
pub(crate) use early::UnfinishedHandshake;
pub(crate) use egress_path::EgressPath;
pub(crate) use unacknowledged::{Unacknowledged, drop_unacknowledged, unacknowledged_bytes};

use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use alarm::Alarm;
use penstock_config::limits;
use penstock_content::ListenerRules;
use penstock_egress::Outlet;
use penstock_http::body::BodyDecoder;
use penstock_sys::ConnectedSocket;
use penstock_tls::{HttpVersions, Ja4, Received, alert};
use tokio::task::coop::consume_budget;
use tokio::time::timeout_at;

use crate::clients::{IdleEntry, Inbound, Upload};
use crate::metrics::{Direction, HandshakeFacts, OutletKind, ShortReason};
use crate::settings::Settings;
use crate::worker::{Purpose, Worker};

/// A connection behind its handshake.
pub(crate) struct Connection {
    pub(crate) worker: Rc<Worker>,
    pub(crate) socket: Rc<ConnectedSocket>,
    pub(crate) inbound: Inbound,
    pub(crate) outlet: Outlet,
    pub(crate) path: EgressPath,
    /// Bytes received and not yet used: the start of a head, pipelined requests. No memory while idle.
    pub(crate) inbox: Vec<u8>,
    /// The client; behind a balancer, the one that the balancer names.
    pub(crate) client: SocketAddr,
    /// Parameters of the TLS session; `None` for plain HTTP.
    pub(crate) tls: Option<HandshakeFacts>,
    /// The handshake, if the client has not finished it.
    pub(crate) unfinished_handshake: Option<UnfinishedHandshake>,
    /// JA4 fingerprint of the ClientHello, if the access log records it.
    /// What the handshake cost the worker.
    pub(crate) handshake_busy: Duration,
    pub(crate) ja4: Option<Ja4>,
    /// The name in the certificate that the client has shown.
    pub(crate) client_certificate: Option<Box<str>>,
    /// The versions of HTTP that the client may still speak: one, unless a plain connection can be either.
    pub(crate) versions: HttpVersions,
    /// What the listener of the connection is for.
    pub(crate) purpose: Purpose,
    /// Where the same is served over HTTP/3.
    pub(crate) alt_svc: Option<Arc<str>>,
    /// The rules of that listener.
    pub(crate) rules: Option<Arc<ListenerRules>>,
    /// The body of the request that is being answered, until its end has been read.
    pub(crate) body: Option<BodyDecoder>,
    /// An upload that goes on while its response is sent, for the carrier of the response.
    pub(crate) upload: Option<Box<Upload>>,
    /// Requests answered so far.
    pub(crate) requests: u64,
    /// The end of the last response, if the client may not have acknowledged it.
    pub(crate) unacknowledged: Option<Unacknowledged>,
    /// Whether the client will send no further request (`Connection: close`) and its request was read completely.
    pub(crate) has_read_last_request: bool,
    /// When the connection was established.
    pub(crate) since: Instant,
    /// When its last response had been given to the kernel; before that, as `since`.
    pub(crate) idle_since: Instant,
    pub(crate) carriage: CarriageMeter,
    alarm: Alarm,
    key_updates: KeyUpdates,
    /// Whether the client has closed its sending direction.
    ended: bool,
    /// The alert that answers an error of the client.
    closing_alert: Option<u8>,
    end: SentEnd,
}

/// How the sending direction ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SentEnd {
    /// It has not ended.
    None,
    /// The last alert has been sealed.
    Sealed,
    /// In the middle of a response, and the client must see that.
    BrokenOff,
}

/// The outcome of reading.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReadOutcome {
    /// The inbox has grown.
    Bytes,
    /// Nothing at the moment.
    Nothing,
    /// The client has closed its sending direction.
    Ended,
    /// The client sent too many KeyUpdates.
    KeyUpdates,
    /// The client broke the protocol. The alert, if there is one, is the answer.
    Broken(Option<u8>),
}

pub(crate) const CLOSE_NOTIFY: u8 = 0;
pub(crate) const UNEXPECTED_MESSAGE: u8 = 10;

impl Connection {
    pub(crate) fn new(
        worker: Rc<Worker>,
        socket: Rc<ConnectedSocket>,
        inbound: Inbound,
        outlet: Outlet,
        path: EgressPath,
        client: SocketAddr,
        tls: Option<HandshakeFacts>,
    ) -> Self {
        let key_updates = KeyUpdates::default();
        let now = Instant::now();
        Self {
            worker,
            socket,
            inbound,
            outlet,
            path,
            inbox: Vec::new(),
            client,
            tls,
            unfinished_handshake: None,
            handshake_busy: Duration::ZERO,
            ja4: None,
            client_certificate: None,
            versions: HttpVersions::H1,
            purpose: Purpose::Clients,
            alt_svc: None,
            rules: None,
            body: None,
            upload: None,
            requests: 0,
            unacknowledged: None,
            has_read_last_request: false,
            since: now,
            idle_since: now,
            carriage: CarriageMeter::default(),
            alarm: Alarm::default(),
            key_updates,
            ended: false,
            closing_alert: None,
            end: SentEnd::None,
        }
    }

    /// Waits for bytes; false once the deadline has passed. An idle connection also wakes when the worker drains, or when
    /// its place is needed.
    pub(crate) async fn wait_for_bytes(&mut self, deadline: Instant, idle: Option<&IdleEntry>) -> bool {
        let woken = async {
            match idle {
                Some(idle) => idle.woken().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            // An error of the socket is found when it is read.
            _ = self.socket.readable() => true,
            () = woken => true,
            () = self.alarm.rings(deadline) => false,
        }
    }

    /// Reads into the inbox without waiting, and answers KeyUpdates.
    pub(crate) fn read(&mut self) -> ReadOutcome {
        if self.ended {
            return ReadOutcome::Ended;
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
        if let Some(end) = self.follow_key_updates() {
            return end;
        }
        match received {
            Received::Bytes(_) => ReadOutcome::Bytes,
            Received::Nothing => ReadOutcome::Nothing,
            Received::Closed { notified } => {
                if notified && self.tls.is_some() {
                    self.worker.shard.alert(Direction::Received, alert::name(CLOSE_NOTIFY));
                }
                self.ended = true;
                ReadOutcome::Ended
            }
            Received::Failed { .. } if self.inbound.tls().is_some_and(|tls| tls.exceeds_key_updates()) => {
                tracing::debug!("{} sent more than 32 KeyUpdates in a row: the connection ends", self.client);
                ReadOutcome::KeyUpdates
            }
            Received::Failed { alert } => {
                if let Some(number) = self.inbound.tls().and_then(penstock_tls::Receiver::alert_received) {
                    self.worker.shard.alert(Direction::Received, alert::name(number));
                }
                ReadOutcome::Broken(alert)
            }
        }
    }

    /// Answers KeyUpdates that ask for it. Returns how the connection ends, if it does.
    fn follow_key_updates(&mut self) -> Option<ReadOutcome> {
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
            tracing::debug!(
                "{} sent more than {} KeyUpdates in a minute: the connection ends",
                self.client,
                limits::KEY_UPDATES_PER_MINUTE
            );
            return Some(ReadOutcome::KeyUpdates);
        }
        // A full socket takes the KeyUpdate with the next response.
        let answered = !requested || self.outlet.update_keys().and_then(|()| self.outlet.flush()).is_ok();
        (!answered).then_some(ReadOutcome::Broken(Some(CLOSE_NOTIFY)))
    }

    /// Waits for the client's end of the handshake; false if it does not come in time.
    pub(crate) async fn finish_handshake(&mut self) -> bool {
        while let Some(deadline) = self.early_deadline() {
            match self.read() {
                // Bounded: the library takes no more early data than its tickets announce.
                ReadOutcome::Bytes => consume_budget().await,
                ReadOutcome::Broken(alert) => {
                    self.set_closing_alert(alert);
                    return false;
                }
                ReadOutcome::KeyUpdates => {
                    self.set_closing_alert(Some(UNEXPECTED_MESSAGE));
                    return false;
                }
                ReadOutcome::Ended => return false,
                ReadOutcome::Nothing if self.unfinished_handshake.is_none() => {}
                // The client may wait for the rest of the server's messages.
                ReadOutcome::Nothing if self.outlet.flush().is_err() => return false,
                ReadOutcome::Nothing => {
                    if !self.wait_for_bytes(deadline, None).await {
                        self.worker.shard.early_request("abandoned");
                        return false;
                    }
                }
            }
        }
        true
    }

    /// When the client has to have finished its handshake; `None` if it has.
    pub(crate) fn early_deadline(&self) -> Option<Instant> {
        self.unfinished_handshake.as_ref().map(|unfinished| unfinished.deadline)
    }

    /// Whether the client has been too slow to take the end of the last response out of the socket buffer. The connection
    /// then has to be closed; the kernel drops the rest.
    pub(crate) fn is_unacknowledged_given_up(&mut self) -> bool {
        let bytes = unacknowledged_bytes(&self.socket);
        if bytes == 0 {
            self.unacknowledged = None;
        }
        let is_given_up =
            self.unacknowledged.as_mut().is_some_and(|unacknowledged| unacknowledged.is_given_up(bytes));
        if is_given_up {
            self.worker.shard.short_response(ShortReason::TooSlow);
            drop_unacknowledged(&self.socket);
            self.unacknowledged = None;
            self.ended = true;
        }
        is_given_up
    }

    /// Gives the connection up for another client. It does not linger: its place is taken already.
    pub(crate) fn give_up_place(&mut self) {
        self.unacknowledged = None;
        self.ended = true;
    }

    /// Until when a drain waits for the first request: a client that has just connected sends it without knowing of the
    /// drain. A silent client holds its connection for so long, no longer.
    pub(crate) fn first_request_deadline(&self) -> Instant {
        self.since + Duration::from_secs(limits::DRAIN_FIRST_REQUEST_SECONDS)
    }

    /// Drops the unfinished handshake once its end has been read.
    fn notice_finished_handshake(&mut self) {
        let is_early = || self.inbound.tls().is_some_and(penstock_tls::Receiver::in_early_data);
        if self.unfinished_handshake.is_some() && !is_early() {
            self.unfinished_handshake = None;
        }
    }

    /// Whether more may be read: a client may send one head ahead, or the rest of its handshake.
    pub(crate) fn may_read(&self, settings: &Settings) -> bool {
        !self.ended && (self.inbox.len() < settings.head.head_bytes || self.unfinished_handshake.is_some())
    }

    /// Closes with this alert, unless there is one already.
    pub(crate) fn set_closing_alert(&mut self, alert: Option<u8>) {
        self.closing_alert = self.closing_alert.or(alert);
    }

    /// Ends the connection so that the client does not take a part of a body for the whole: without close_notify, or with
    /// a reset.
    pub(crate) fn break_off(&mut self) {
        self.end = SentEnd::BrokenOff;
    }

    /// Takes the first bytes out of the inbox. An empty inbox has no memory.
    pub(crate) fn take_from_inbox(&mut self, length: usize) -> Vec<u8> {
        let rest = self.inbox.split_off(length);
        std::mem::replace(&mut self.inbox, rest)
    }

    pub(crate) fn drop_from_inbox(&mut self, length: usize) {
        drop(self.take_from_inbox(length));
    }

    /// The outlet, for counters and logs.
    pub(crate) fn outlet_kind(&self) -> OutletKind {
        self.outlet.kind()
    }

    /// Waits until `deadline` for more bytes; false if none come in time.
    pub(crate) async fn read_until(&mut self, deadline: Instant) -> bool {
        loop {
            match self.read() {
                ReadOutcome::Bytes => {
                    consume_budget().await;
                    return true;
                }
                ReadOutcome::Ended | ReadOutcome::KeyUpdates | ReadOutcome::Broken(_) => return false,
                ReadOutcome::Nothing if !self.wait_for_bytes(deadline, None).await => return false,
                ReadOutcome::Nothing => {}
            }
        }
    }

    /// Closes the connection. Waits a moment for the client to close too, unless the client sends nothing else: a socket
    /// closed with unread bytes is reset, and the reset can overtake the last response (RFC 9112 §9.6).
    pub(crate) async fn close(mut self: Box<Self>, number: u8) {
        if !self.end(number) {
            // Boxed: most connections have nothing to wait for.
            Box::pin(self.wait_for_end()).await;
        }
    }

    /// Sends what ends the connection. Returns whether the socket can be closed at once.
    fn end(&mut self, number: u8) -> bool {
        if let Some(reason) = self.outlet.ending() {
            self.worker.shard.egress_ended(reason);
        }
        if self.end == SentEnd::BrokenOff {
            self.outlet.break_off();
            return false;
        }
        let number = self.closing_alert.unwrap_or(number);
        self.alert_once(number);
        matches!(self.outlet.flush(), Ok(true)) && !self.lingers() && !self.has_unacknowledged()
    }

    /// Seals the last alert of the connection, if there is none yet.
    pub(crate) fn alert_once(&mut self, number: u8) {
        if self.end != SentEnd::None {
            return;
        }
        self.end = SentEnd::Sealed;
        self.outlet.alert(number);
        if self.tls.is_some() {
            self.worker.shard.alert(Direction::Sent, alert::name(number));
        }
    }

    async fn wait_for_end(mut self: Box<Self>) {
        let bounds = if self.body.is_some() { Linger::FOR_BODY } else { Linger::SHORT };
        let deadline = bounds.deadline();
        let flushed = {
            let (worker, socket) = (Rc::clone(&self.worker), Rc::clone(&self.socket));
            // A client that sends its whole body before it reads takes nothing while its body is not read.
            let reading = async {
                if bounds == Linger::SHORT {
                    std::future::pending::<()>().await;
                }
                drop_received(&worker, &socket, bounds).await;
            };
            tokio::select! {
                biased;
                flushed = timeout_at(deadline.into(), self.flush()) => flushed.unwrap_or(false),
                () = reading => false,
            }
        };
        if self.end == SentEnd::BrokenOff {
            // The socket is not shut down in order, which would look like an end of the body.
            return;
        }
        let lingers = flushed && self.lingers();
        let is_first = self.requests <= 1;
        // The TLS state is no longer needed: only the socket lingers.
        let Self { socket, worker, unacknowledged, .. } = *self;
        if lingers {
            linger(&worker, &socket, bounds).await;
        }
        if let Some(unacknowledged) = unacknowledged
            && must_wait_for(&unacknowledged, is_first, &socket)
        {
            let _end_of_stream = rustix::net::shutdown(&*socket, rustix::net::Shutdown::Write);
            unacknowledged.until_acknowledged(&socket).await;
        }
    }

    fn has_unacknowledged(&self) -> bool {
        let is_first = self.requests <= 1;
        self.unacknowledged
            .as_ref()
            .is_some_and(|unacknowledged| must_wait_for(unacknowledged, is_first, &self.socket))
    }

    fn lingers(&self) -> bool {
        !self.ended && self.may_receive()
    }

    /// Whether the client may send more, or bytes of it have not been read.
    fn may_receive(&self) -> bool {
        let is_silent =
            self.has_read_last_request && self.unfinished_handshake.is_none() && self.inbox.is_empty();
        !is_silent || rustix::io::ioctl_fionread(&*self.socket) != Ok(0)
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

/// Whether too much of the last response lies in the socket buffer to be left to the kernel. A few bytes are: waiting would
/// delay the end of every connection by a round trip.
fn must_wait_for(unacknowledged: &Unacknowledged, is_first: bool, socket: &ConnectedSocket) -> bool {
    let left_to_kernel = limits::UNTAKEN_BYTES_AT_CLOSE;
    !(is_first && unacknowledged.sent() <= left_to_kernel) && unacknowledged_bytes(socket) > left_to_kernel
}

/// How long the server reads on after its last byte, and how much.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Linger {
    seconds: u64,
    /// Without a byte of the client.
    pause_seconds: u64,
    bytes: u64,
}

impl Linger {
    /// For a client that has nothing more to send.
    pub(crate) const SHORT: Self = Self {
        seconds: limits::LINGER_SECONDS,
        pause_seconds: limits::LINGER_SECONDS,
        bytes: limits::LINGER_BYTES,
    };
    /// For a client in the middle of a body.
    const FOR_BODY: Self = Self {
        seconds: limits::LINGER_BODY_SECONDS,
        pause_seconds: limits::LINGER_BODY_PAUSE_SECONDS,
        bytes: limits::LINGER_BODY_BYTES,
    };

    fn deadline(self) -> Instant {
        Instant::now() + Duration::from_secs(self.seconds)
    }
}

/// Closes the sending direction and reads the client's last bytes, within bounds.
pub(crate) async fn linger(worker: &Worker, socket: &ConnectedSocket, bounds: Linger) {
    if rustix::net::shutdown(socket, rustix::net::Shutdown::Write).is_ok() {
        drop_received(worker, socket, bounds).await;
    }
}

/// Drops what the client sends, until its end. The place of the connection can be taken by another client.
async fn drop_received(worker: &Worker, socket: &ConnectedSocket, bounds: Linger) {
    let idle = worker.idle.enter();
    let deadline = bounds.deadline();
    let mut allowance = bounds.bytes;
    while allowance > 0 && !idle.is_evicted() {
        let until = deadline.min(Instant::now() + Duration::from_secs(bounds.pause_seconds));
        let is_readable = tokio::select! {
            biased;
            readable = timeout_at(until.into(), socket.readable()) => matches!(readable, Ok(Ok(()))),
            () = idle.woken() => continue,
        };
        if !is_readable {
            return;
        }
        let read = worker.with_scratch(|scratch| socket.try_receive(scratch));
        match read {
            Ok(0) => return,
            Ok(count) => allowance = allowance.saturating_sub(count as u64),
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
            Err(_) => return,
        }
    }
}

/// Bounds the rate of KeyUpdates: each costs the client nothing and the server two derivations.
#[derive(Debug, Default)]
struct KeyUpdates {
    seen: u32,
    /// Start of the current minute, and how many there were in it.
    minute: Option<(Instant, u32)>,
}

impl KeyUpdates {
    /// Counts a new total; false if it is too many for one minute.
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
}
