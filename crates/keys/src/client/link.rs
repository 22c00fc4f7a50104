//! The connection to one keyserver.
//!
//! It is made at the start and made again whenever it ends. While it is not there, operations fail at once; only those
//! that come before the first attempt has ended wait for it.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

use penstock_tls::remote_key::{RemoteKeyError, SignRequest};
use penstock_tls::{Outbound, OutboundStream, certificate_end};
use tokio::io::{AsyncReadExt, AsyncWriteExt, ReadHalf, WriteHalf, split};
use tokio::net::TcpStream;
use tokio::sync::{Notify, oneshot};
use tokio::time::{sleep, timeout, timeout_at};

use super::refusals::{Change, Refusals};
use super::settings::{KeyserverAddress, KeyserverLimits};
use super::shared::ClientState;
use crate::counters::SignerCounters;
use crate::protocol::{
    ErrorCode, HEADER_BYTES, Message, Opcode, PADDED_BYTES, decode_body, decode_header, encode,
};

/// Pings carry this number; operations never do.
const PING_ID: u32 = 0;

/// One keyserver.
pub(super) struct Link {
    index: usize,
    address: KeyserverAddress,
    client: Outbound,
    shared: Arc<ClientState>,
    limits: KeyserverLimits,
    phase: Cell<Phase>,
    phase_changed: Notify,
    /// Operations without an answer, by number.
    pending: RefCell<HashMap<u32, oneshot::Sender<KeyserverAnswer>>>,
    next_id: Cell<u32>,
    /// Messages to be written. Bounded as if as many operations as allowed were in it.
    outbox: RefCell<Vec<u8>>,
    outbox_filled: Notify,
    received_at: Cell<Instant>,
    /// Notified when an operation has found that the server is silent.
    stalled: Notify,
    refusals: Refusals,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// The first attempt to connect is under way.
    Starting,
    Up,
    Down,
}

/// The answer to an operation.
enum KeyserverAnswer {
    Signature(Vec<u8>),
    Error(u8),
}

impl Link {
    pub(super) fn new(
        index: usize,
        address: KeyserverAddress,
        client: Outbound,
        shared: &Arc<ClientState>,
        limits: KeyserverLimits,
    ) -> Self {
        Self {
            index,
            address,
            client,
            shared: Arc::clone(shared),
            limits,
            phase: Cell::new(Phase::Starting),
            phase_changed: Notify::new(),
            pending: RefCell::default(),
            next_id: Cell::new(PING_ID + 1),
            outbox: RefCell::default(),
            outbox_filled: Notify::new(),
            received_at: Cell::new(Instant::now()),
            stalled: Notify::new(),
            refusals: Refusals::default(),
        }
    }

    pub(super) fn index(&self) -> usize {
        self.index
    }

    pub(super) fn is_up(&self) -> bool {
        self.phase.get() == Phase::Up
    }

    /// Whether an operation may be sent, now or after the first attempt to connect.
    pub(super) fn admits(&self, now: Instant) -> bool {
        self.phase.get() != Phase::Down && self.counters().circuit.admits(now)
    }

    /// Operations that wait for an answer.
    pub(super) fn under_way(&self) -> usize {
        self.pending.borrow().len()
    }

    /// Asks for a signature and verifies it.
    pub(super) async fn sign(
        &self,
        request: &SignRequest,
        deadline: Instant,
    ) -> Result<Vec<u8>, RemoteKeyError> {
        let asking = Asking::begin(self);
        let result = self.ask(request, deadline, &asking).await;
        let error = result.as_ref().err().copied();
        asking.ended(error);
        match self.refusals.note(request.key, error) {
            Some(change @ Change::Refused(..)) => tracing::warn!("keyserver {} {change}", self.address),
            Some(change @ Change::SignsAgain(_)) => tracing::info!("keyserver {} {change}", self.address),
            None => {}
        }
        result
    }

    async fn ask(
        &self,
        request: &SignRequest,
        deadline: Instant,
        asking: &Asking<'_>,
    ) -> Result<Vec<u8>, RemoteKeyError> {
        // Kinds without an opcode or a hash are those that no server would know.
        let bad_opcode = RemoteKeyError::Refused(ErrorCode::BadOpcode as u8);
        let opcode = Opcode::of(request.kind).ok_or(bad_opcode)?;
        let digest = request.kind.digest(&request.message).ok_or(bad_opcode)?;
        self.wait_for_start(deadline).await?;
        // Requests that were given up stay in it until they are written.
        if self.outbox.borrow().len() >= self.limits.operations.saturating_mul(PADDED_BYTES) {
            return Err(RemoteKeyError::Unavailable);
        }
        let (sent_at, (id, answer)) = (Instant::now(), self.expect_answer());
        asking.id.set(Some(id));
        let message = Message {
            key: Some(request.key),
            // A name is at most 255 bytes, but what a client sends is not checked.
            server_name: request.server_name.as_deref().filter(|name| name.len() <= 255),
            client: request.client,
            ..Message::new(id, opcode, &digest)
        };
        self.send(&message);
        match timeout_at(deadline.into(), answer).await {
            Ok(Ok(KeyserverAnswer::Signature(signature))) => {
                let is_right = request.public.verifies(request.kind, &request.message, &signature);
                if is_right { Ok(signature) } else { Err(RemoteKeyError::WrongSignature) }
            }
            Ok(Ok(KeyserverAnswer::Error(code))) => Err(RemoteKeyError::Refused(code)),
            Ok(Err(_)) => Err(RemoteKeyError::Unavailable),
            Err(_) => {
                if self.received_at.get() < sent_at {
                    // Nothing has come since: the server is stopped or cut off, and others need not find out as well.
                    self.stalled.notify_waiters();
                }
                Err(RemoteKeyError::TimedOut)
            }
        }
    }

    async fn wait_for_start(&self, deadline: Instant) -> Result<(), RemoteKeyError> {
        loop {
            let changed = self.phase_changed.notified();
            match self.phase.get() {
                Phase::Up => return Ok(()),
                Phase::Down => return Err(RemoteKeyError::Unavailable),
                Phase::Starting => {
                    timeout_at(deadline.into(), changed).await.map_err(|_| RemoteKeyError::TimedOut)?;
                }
            }
        }
    }

    fn expect_answer(&self) -> (u32, oneshot::Receiver<KeyserverAnswer>) {
        let (sender, receiver) = oneshot::channel();
        let mut pending = self.pending.borrow_mut();
        let mut id = self.next_id.get();
        while id == PING_ID || pending.contains_key(&id) {
            id = id.wrapping_add(1);
        }
        self.next_id.set(id.wrapping_add(1));
        pending.insert(id, sender);
        (id, receiver)
    }

    fn send(&self, message: &Message<'_>) {
        // A digest and a name are always short enough.
        let Ok(bytes) = encode(message) else { return };
        self.outbox.borrow_mut().extend_from_slice(&bytes);
        self.outbox_filled.notify_one();
    }

    /// Counts failures that are the server's own. An unknown key says nothing about others.
    fn judge(&self, error: Option<RemoteKeyError>) {
        let circuit = &self.counters().circuit;
        let failed = match error {
            None => {
                circuit.succeeded();
                None
            }
            Some(RemoteKeyError::Refused(code)) if code != ErrorCode::Internal as u8 => {
                circuit.ended();
                None
            }
            Some(error) => circuit.failed(Instant::now()).then_some(error),
        };
        if let Some(error) = failed {
            tracing::warn!(
                "keyserver {} failed repeatedly; requests to it are reduced: {error}",
                self.address
            );
        }
    }

    /// Connects, and again whenever the connection ends. Never returns.
    #[expect(clippy::infinite_loop, reason = "ended with its thread")]
    pub(super) async fn maintain(&self) {
        let mut pause = self.limits.reconnect_min;
        loop {
            let reason = match timeout(self.limits.connect, self.connect()).await {
                Ok(Ok((reader, writer))) => {
                    pause = self.limits.reconnect_min;
                    self.begin();
                    self.run(reader, writer).await
                }
                Ok(Err(reason)) => reason,
                Err(_) => "it does not answer".to_owned(),
            };
            self.end(&reason);
            sleep(pause).await;
            pause = (pause * 2).min(self.limits.reconnect_max);
        }
    }

    /// Makes a connection on which the server has answered a ping.
    async fn connect(&self) -> Result<(ReadHalf<OutboundStream>, WriteHalf<OutboundStream>), String> {
        let failed = |error: io::Error| error.to_string();
        let socket =
            TcpStream::connect((self.address.host.as_str(), self.address.port)).await.map_err(failed)?;
        // Requests are one packet each: nothing to gain from waiting.
        drop(socket.set_nodelay(true));
        let stream = self.client.connect(socket).await.map_err(|error| error.to_string())?;
        self.counters().set_certificate_end(certificate_end(&stream));
        let (mut reader, mut writer) = split(stream);
        let ping = encode(&Message::new(PING_ID, Opcode::PING, b"")).map_err(|error| error.to_string())?;
        writer.write_all(&ping).await.map_err(failed)?;
        writer.flush().await.map_err(failed)?;
        self.receive(&mut reader, &mut Vec::new()).await?;
        Ok((reader, writer))
    }

    fn begin(&self) {
        self.outbox.borrow_mut().clear();
        self.received_at.set(Instant::now());
        if self.phase.replace(Phase::Up) != Phase::Starting {
            tracing::info!("keyserver {} answers again", self.address);
        }
        self.counters().opened();
        self.phase_changed.notify_waiters();
    }

    fn end(&self, reason: &str) {
        // Operations without an answer fail now.
        self.pending.borrow_mut().clear();
        if self.phase.replace(Phase::Down) != Phase::Down {
            tracing::warn!("keyserver {} cannot be used: {reason}", self.address);
        }
        self.counters().up.store(false, Relaxed);
        self.phase_changed.notify_waiters();
    }

    /// Runs a connection; returns why it has ended.
    async fn run(
        &self,
        mut reader: ReadHalf<OutboundStream>,
        mut writer: WriteHalf<OutboundStream>,
    ) -> String {
        tokio::select! {
            reason = self.receive_all(&mut reader) => reason,
            reason = self.write_all(&mut writer) => reason,
            reason = self.watch() => reason,
        }
    }

    async fn receive_all(&self, reader: &mut ReadHalf<OutboundStream>) -> String {
        let mut body = Vec::new();
        loop {
            if let Err(reason) = self.receive(reader, &mut body).await {
                return reason;
            }
        }
    }

    /// Receives one message and gives it to the operation that waits for it.
    async fn receive(&self, reader: &mut ReadHalf<OutboundStream>, body: &mut Vec<u8>) -> Result<(), String> {
        let failed = |error: io::Error| match error.kind() {
            io::ErrorKind::UnexpectedEof => "it has closed the connection".to_owned(),
            _ => error.to_string(),
        };
        let mut header = [0; HEADER_BYTES];
        reader.read_exact(&mut header).await.map_err(failed)?;
        let header = decode_header(header).map_err(|error| error.to_string())?;
        body.resize(header.body_bytes, 0);
        reader.read_exact(body).await.map_err(failed)?;
        let message = decode_body(header.id, body).map_err(|error| error.to_string())?;
        self.received_at.set(Instant::now());
        let answer = match message.opcode {
            Opcode::RESPONSE => KeyserverAnswer::Signature(message.payload.to_vec()),
            Opcode::ERROR => KeyserverAnswer::Error(message.payload.first().copied().unwrap_or(0)),
            // Others, such as pongs, show that the server is there.
            _ => return Ok(()),
        };
        if let Some(waiting) = self.pending.borrow_mut().remove(&message.id) {
            // The operation may have ended meanwhile.
            drop(waiting.send(answer));
        }
        Ok(())
    }

    async fn write_all(&self, writer: &mut WriteHalf<OutboundStream>) -> String {
        loop {
            let batch = std::mem::take(&mut *self.outbox.borrow_mut());
            if batch.is_empty() {
                self.outbox_filled.notified().await;
                continue;
            }
            let written = async {
                writer.write_all(&batch).await?;
                writer.flush().await
            };
            match timeout(self.limits.ping, written).await {
                Ok(Ok(())) => {}
                Ok(Err(error)) => return error.to_string(),
                Err(_) => return "it does not read".to_owned(),
            }
        }
    }

    /// Pings a silent server; returns when it stays silent, or when an operation has found out.
    async fn watch(&self) -> String {
        let silent = || async {
            loop {
                let before = self.received_at.get();
                sleep(self.limits.ping).await;
                if self.received_at.get() != before {
                    continue;
                }
                self.send(&Message::new(PING_ID, Opcode::PING, b""));
                sleep(self.limits.ping).await;
                if self.received_at.get() == before {
                    return;
                }
            }
        };
        tokio::select! {
            () = silent() => {}
            () = self.stalled.notified() => {}
        }
        "it has stopped to answer".to_owned()
    }

    fn counters(&self) -> &SignerCounters {
        &self.shared.servers[self.index]
    }
}

/// An operation of one server. Dropped before its end it is forgotten: the handshake has ended before.
struct Asking<'l> {
    link: &'l Link,
    started: Instant,
    /// The number under which the answer comes, once the request is sent.
    id: Cell<Option<u32>>,
    has_ended: Cell<bool>,
}

impl<'l> Asking<'l> {
    fn begin(link: &'l Link) -> Self {
        link.counters().circuit.begun();
        link.counters().under_way.fetch_add(1, Relaxed);
        Self { link, started: Instant::now(), id: Cell::new(None), has_ended: Cell::new(false) }
    }

    fn ended(self, error: Option<RemoteKeyError>) {
        self.has_ended.set(true);
        self.link.counters().ended(error.map_or_else(|| Ok(self.started.elapsed()), Err));
        self.link.judge(error);
    }
}

impl Drop for Asking<'_> {
    fn drop(&mut self) {
        self.link.counters().under_way.fetch_sub(1, Relaxed);
        if let Some(id) = self.id.get() {
            self.link.pending.borrow_mut().remove(&id);
        }
        if !self.has_ended.get() {
            self.link.counters().abandoned();
            self.link.counters().circuit.ended();
        }
    }
}
