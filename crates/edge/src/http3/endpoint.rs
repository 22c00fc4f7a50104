//! The UDP socket of one listener on one worker: what comes is given to its connection, or begins one.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use penstock_config::limits;
use penstock_content::{ListenerRules, NetworkEntry};
use penstock_http3::{
    CONNECTION_ID_BYTES, CongestionControl, ConnectionId, Datagram, Http3Limits, IdKey, Initial, NetworkPath,
    QuicConfig, RetryOrigin, ServerConnection, version_negotiation,
};
use penstock_sys::CountGuard;
use penstock_sys::udp::{Arrival, Inlet};
use penstock_tls::Acceptor;
use tokio::io::Interest;
use tokio::sync::Notify;

use super::ended::Ended;
use super::generations::{Passage, Passages, Source};
use super::inbox::Inbox;
use super::outbox::Outbox;
use crate::metrics::Refusal;
use crate::settings::Settings;
use crate::worker::{HandshakeInFlight, Listening, Worker, WorkerConnection};

/// Calls that receive before other tasks get their turn.
const CALLS_PER_TURN: usize = 4;

/// The socket of one listener on one worker, and its connections.
pub(crate) struct Endpoint {
    pub(super) outbox: Outbox,
    pub(super) worker: Rc<Worker>,
    listening: RefCell<Listening>,
    local: SocketAddr,
    key: IdKey,
    /// Makes the task of a connection.
    serve: fn(Box<Admitted>) -> Serving,
    /// The number of this worker, and of all workers.
    place: (u16, u16),
    config: RefCell<Option<(Arc<Acceptor>, CongestionControl, QuicConfig)>>,
    connections: RefCell<HashMap<ConnectionId, Rc<Inbox>>>,
    ended: RefCell<Ended>,
    answers: RefCell<Answers>,
    /// To the process before, as long as it has connections.
    predecessor: RefCell<Passages>,
    /// To the process that succeeds this one.
    successor: RefCell<Option<Passage>>,
    is_closing: Cell<bool>,
    /// Notified when the endpoint begins to close, and when a connection has ended meanwhile.
    left: Notify,
    start: Instant,
}

/// How many datagrams were answered without a connection in this second.
struct Answers {
    since: Instant,
    count: u32,
}

/// The task of a connection.
pub(super) type Serving = Pin<Box<dyn Future<Output = ()>>>;

/// A connection that begins, with its places among those that are bounded.
pub(super) struct Admitted {
    pub(super) endpoint: Rc<Endpoint>,
    pub(super) connection: ServerConnection,
    pub(super) inbox: Rc<Inbox>,
    /// The ids by which datagrams find the inbox.
    pub(super) ids: Vec<ConnectionId>,
    pub(super) acceptor: Arc<Acceptor>,
    pub(super) settings: Arc<Settings>,
    pub(super) client: SocketAddr,
    /// The connection id that its packets come from.
    pub(super) client_id: ConnectionId,
    pub(super) counted: CountGuard<WorkerConnection>,
    /// Among the connections of the client's network, and its handshakes.
    pub(super) network: NetworkEntry,
    pub(super) handshakes: NetworkEntry,
    /// Among the handshakes in flight, from the first packet on.
    pub(super) in_flight: CountGuard<HandshakeInFlight>,
}

impl Endpoint {
    /// The endpoint of a worker. All workers share `key`.
    ///
    /// # Errors
    /// The runtime cannot watch the socket.
    pub(super) fn new(
        worker: &Rc<Worker>,
        socket: &UdpSocket,
        listening: Listening,
        key: IdKey,
        predecessor: Passages,
        serve: fn(Box<Admitted>) -> Serving,
    ) -> io::Result<Rc<Self>> {
        let local = socket.local_addr()?;
        let socket = tokio::net::UdpSocket::from_std(socket.try_clone()?)?;
        Ok(Rc::new(Self {
            outbox: Outbox::new(socket, local.ip().is_unspecified()),
            worker: Rc::clone(worker),
            listening: RefCell::new(listening),
            local,
            key,
            serve,
            place: worker.place(),
            config: RefCell::default(),
            connections: RefCell::default(),
            ended: RefCell::default(),
            answers: RefCell::new(Answers { since: Instant::now(), count: 0 }),
            predecessor: RefCell::new(predecessor),
            successor: RefCell::default(),
            is_closing: Cell::new(false),
            left: Notify::new(),
            start: Instant::now(),
        }))
    }

    /// Receives until the endpoint is closed and its last connection has ended, or a successor receives.
    pub(crate) async fn receive(self: Rc<Self>) {
        self.read_predecessor();
        let mut inlet = Inlet::default();
        while !(self.is_over() || (self.is_closing.get() && self.successor.borrow().is_some())) {
            let socket = self.outbox.socket();
            tokio::select! {
                biased;
                () = self.left.notified() => continue,
                ready = socket.readable() => if ready.is_err() { return },
            }
            for _ in 0..CALLS_PER_TURN {
                let receive = || inlet.receive(socket, |arrival| self.take(arrival));
                match socket.try_io(Interest::READABLE, receive) {
                    Ok(Inlet::MESSAGES) => {}
                    // Errors of earlier datagrams (ICMP) concern their client alone.
                    Ok(_) | Err(_) => break,
                }
            }
            tokio::task::yield_now().await;
        }
    }

    /// Takes what the process before does not know, until it has ended.
    fn read_predecessor(self: &Rc<Self>) {
        let own: Vec<_> = self.predecessor.borrow().read_by(self.place).collect();
        for (worker, passage) in own {
            let endpoint = Rc::clone(self);
            penstock_content::spawn(async move {
                let take = |datagram: &mut [u8], path| {
                    endpoint.take_one(datagram, path, Source::Predecessor(worker));
                };
                tokio::select! {
                    () = passage.read(take) => endpoint.predecessor.borrow_mut().end(worker),
                    () = endpoint.until_over() => {}
                }
            });
        }
    }

    /// Shares the socket with a successor: its datagrams come over `passage`.
    pub(crate) fn read_successor(self: &Rc<Self>, passage: Passage) {
        self.successor.replace(Some(passage.clone()));
        let endpoint = Rc::clone(self);
        penstock_content::spawn(async move {
            let take = |datagram: &mut [u8], path| endpoint.take_one(datagram, path, Source::Successor);
            tokio::select! {
                () = passage.read(take) => drop(endpoint.successor.take()),
                () = endpoint.until_over() => {}
            }
        });
    }

    /// Whether the endpoint is closed and has no connection.
    fn is_over(&self) -> bool {
        self.is_closing.get() && self.connections.borrow().is_empty()
    }

    async fn until_over(&self) {
        while !self.is_over() {
            self.left.notified().await;
        }
    }

    /// The listener of new connections from now on.
    pub(crate) fn set_listening(&self, listening: Listening) {
        self.listening.replace(listening);
    }

    /// The rules of the listener.
    pub(super) fn rules(&self) -> Option<Arc<ListenerRules>> {
        self.listening.borrow().rules.clone()
    }

    /// Whether the endpoint takes no new connections.
    pub(super) fn is_closing(&self) -> bool {
        self.is_closing.get()
    }

    /// Takes no new connections from now on.
    pub(crate) fn close(&self) {
        self.is_closing.set(true);
        self.left.notify_waiters();
    }

    fn take(self: &Rc<Self>, arrival: Arrival<'_>) {
        let mut local = self.local;
        if let Some(to) = arrival.to {
            local.set_ip(to);
        }
        let path = NetworkPath { local, client: arrival.from };
        for datagram in arrival.bytes.chunks_mut(arrival.datagram_bytes) {
            self.take_one(datagram, path, Source::Client);
        }
    }

    fn take_one(self: &Rc<Self>, datagram: &mut [u8], path: NetworkPath, source: Source) {
        let parsed = Datagram::parse(datagram);
        if let Some(id) = parsed.destination() {
            if self.give(id, datagram, path) {
                return;
            }
            if self.ended.borrow_mut().has(id, Instant::now()) {
                return self.worker.shard.quic_dropped("ended_connection");
            }
            if self.pass_on(&parsed, datagram, path, source) {
                return;
            }
        }
        match parsed {
            Datagram::Known(id) if id.worker(self.place.1) == self.place.0 => self.reset(&id, datagram, path),
            // The kernel chooses by another order while sockets of the group close.
            Datagram::Known(_) => self.worker.shard.quic_dropped("other_worker"),
            Datagram::Handshake(_) => self.worker.shard.quic_dropped("unknown_connection"),
            Datagram::Initial(initial) => self.begin(&initial, datagram, path),
            Datagram::OtherVersion { destination, source, version } => {
                self.worker.shard.quic_version(version);
                let mut out = [0; 64];
                if let Some(length) = version_negotiation(&destination, &source, &mut out)
                    && self.may_answer()
                {
                    self.worker.shard.quic_answered("version_negotiation");
                    self.outbox.send_alone(&out[..length], path);
                }
            }
            Datagram::Ignored => self.worker.shard.quic_dropped("not_quic"),
        }
    }

    /// Passes a datagram of an unknown connection to the process that may know it. False if that is this one.
    fn pass_on(&self, parsed: &Datagram, datagram: &[u8], path: NetworkPath, source: Source) -> bool {
        let (is_initial, id) = match parsed {
            Datagram::Known(id) | Datagram::Handshake(id) => (false, id),
            Datagram::Initial(Initial { destination, .. }) => (true, destination),
            Datagram::OtherVersion { .. } | Datagram::Ignored => return false,
        };
        // Most clients choose an id of another length for a new connection.
        let may_be_known = !is_initial || id.as_bytes().len() == CONNECTION_ID_BYTES;
        if may_be_known && self.predecessor.borrow_mut().send(id, source, datagram, path) {
            return true;
        }
        let begins_here = is_initial && source == Source::Client && !self.is_closing.get();
        let asks_successor = !begins_here && !matches!(source, Source::Predecessor(_));
        asks_successor && self.successor.borrow().as_ref().is_some_and(|to| to.send(datagram, path))
    }

    /// Gives a datagram to its connection. False if there is none.
    fn give(&self, id: &ConnectionId, datagram: &[u8], path: NetworkPath) -> bool {
        let connections = self.connections.borrow();
        let Some(inbox) = connections.get(id) else { return false };
        if !inbox.add(datagram, path) {
            self.worker.shard.quic_dropped("inbox_full");
        }
        true
    }

    /// Tells a client that its connection is gone (RFC 9000 §10.3).
    fn reset(&self, id: &ConnectionId, datagram: &[u8], path: NetworkPath) {
        match self.key.stateless_reset(id, datagram.len()) {
            Some(packet) if self.may_answer() => {
                self.worker.shard.quic_answered("stateless_reset");
                self.outbox.send_alone(&packet, path);
            }
            _ => self.worker.shard.quic_dropped("unknown_connection"),
        }
    }

    fn may_answer(&self) -> bool {
        let mut answers = self.answers.borrow_mut();
        let now = Instant::now();
        if now.duration_since(answers.since) >= Duration::from_secs(1) {
            *answers = Answers { since: now, count: 0 };
        }
        answers.count += 1;
        answers.count <= limits::QUIC_ANSWERS_PER_SECOND
    }

    /// Begins a connection, or has the client prove its address first.
    fn begin(self: &Rc<Self>, initial: &Initial, datagram: &[u8], path: NetworkPath) {
        if !initial.can_begin || self.is_closing.get() {
            return self.worker.shard.quic_dropped("no_connection");
        }
        // Of any clock: the process gives and checks its tokens itself.
        let now = self.start.elapsed().as_secs();
        let origin = self.key.origin(initial, path.client, now);
        if origin.is_none() && self.worker.wants_retry() {
            return self.retry(initial, path, now);
        }
        match self.admit(initial, origin, path) {
            Some(admitted) => {
                self.worker.shard.quic_version(initial.version());
                // A new inbox has space for one datagram.
                admitted.inbox.add(datagram, path);
                penstock_content::spawn((self.serve)(Box::new(admitted)));
            }
            // The network of an address that is not proven may be innocent: proven ones have places beside it.
            None if origin.is_none() => self.retry(initial, path, now),
            None => {}
        }
    }

    fn retry(&self, initial: &Initial, path: NetworkPath, now: u64) {
        let id = ConnectionId::random(self.place.0, self.place.1);
        if let Some(packet) = self.key.retry(initial, &id, path.client, now) {
            self.worker.shard.quic_answered("retry");
            self.outbox.send_alone(&packet, path);
        }
    }

    /// Applies the limits of new connections. `None` if one is reached, which is counted if the client has proven its address.
    fn admit(
        self: &Rc<Self>,
        initial: &Initial,
        origin: Option<RetryOrigin>,
        path: NetworkPath,
    ) -> Option<Admitted> {
        let worker = &self.worker;
        let is_proven = origin.is_some();
        let refused = |reason| {
            if is_proven {
                worker.shard.refused(reason);
            }
        };
        if worker.is_full_of_handshakes() {
            refused(Refusal::Handshakes);
            return None;
        }
        let client = path.client.ip();
        let settings = Arc::clone(&worker.settings());
        let share = worker.handshakes_per_network();
        let share = if is_proven { share } else { share.div_ceil(2) };
        let most = settings.limits.connections_per_network;
        let entered = worker
            .networks
            .enter(client, share)
            .and_then(|handshakes| worker.connected.enter(client, most).map(|network| (network, handshakes)));
        let Ok((network, handshakes)) = entered else {
            refused(Refusal::Network);
            return None;
        };
        let Some(open) = worker.try_count_connection() else {
            // The client sends its packet again. An idle connection has ended then, if there is one.
            worker.idle.evict_longest();
            refused(Refusal::Limit);
            return None;
        };
        let acceptor = Arc::clone(settings.acceptor.as_ref()?);
        let (id, reset_token) = self.new_id();
        let mut connection = self.with_config(&acceptor, &settings, |config| {
            ServerConnection::accept(config, (id, reset_token), origin, path)
        })?;
        if let Some(writer) = settings.qlog.as_ref().and_then(|qlog| qlog.writer(path.client, &id)) {
            connection.log_to(Box::new(writer));
        }
        let inbox = Rc::new(Inbox::default());
        self.know(initial.destination, &inbox);
        self.know(id, &inbox);
        let counted = WorkerConnection::count(worker, self.listening.borrow().id, open);
        let (client, ids) = (path.client, vec![initial.destination, id]);
        let endpoint = Rc::clone(self);
        Some(Admitted {
            endpoint,
            connection,
            inbox,
            ids,
            acceptor,
            settings,
            client,
            client_id: initial.source,
            counted,
            network,
            handshakes,
            in_flight: HandshakeInFlight::count(worker),
        })
    }

    /// Calls `accept` with the settings of QUIC for this acceptor.
    fn with_config<R>(
        &self,
        acceptor: &Arc<Acceptor>,
        settings: &Settings,
        accept: impl FnOnce(&mut QuicConfig) -> Option<R>,
    ) -> Option<R> {
        let mut kept = self.config.borrow_mut();
        let control = self.listening.borrow().quic_control;
        if !matches!(&*kept, Some((of, with, _)) if Arc::ptr_eq(of, acceptor) && *with == control) {
            let context = acceptor.quic_context();
            let context =
                context.map_err(|error| tracing::error!(%error, "no connections over QUIC")).ok()?;
            let config = QuicConfig::new(context, &limits_of(settings, control))?;
            *kept = Some((Arc::clone(acceptor), control, config));
        }
        accept(&mut kept.as_mut()?.2)
    }

    /// A new id of this worker, and the token of its stateless reset.
    pub(super) fn new_id(&self) -> (ConnectionId, u128) {
        let id = ConnectionId::random(self.place.0, self.place.1);
        (id, self.key.reset_token(&id))
    }

    /// Has datagrams with this id given to `inbox`.
    pub(super) fn know(&self, id: ConnectionId, inbox: &Rc<Inbox>) {
        self.connections.borrow_mut().insert(id, Rc::clone(inbox));
    }

    /// Drops what still comes with this id.
    pub(super) fn forget(&self, id: &ConnectionId) {
        self.connections.borrow_mut().remove(id);
        self.ended.borrow_mut().add(*id, Instant::now());
        if self.is_closing.get() {
            self.left.notify_waiters();
        }
    }
}

/// Bounds of a connection.
fn limits_of(settings: &Settings, congestion_control: CongestionControl) -> Http3Limits {
    let milliseconds = settings.limits.idle_timeout.as_millis();
    Http3Limits {
        streams: limits::HTTP3_STREAMS,
        stream_window: limits::HTTP3_STREAM_WINDOW_BYTES,
        connection_window: limits::HTTP3_CONNECTION_WINDOW_BYTES,
        // More than a request may have: up to this size it is refused with a status.
        field_section_bytes: 2 * u64::from(settings.http2.header_list_bytes),
        idle_milliseconds: u64::try_from(milliseconds).unwrap_or(u64::MAX),
        packets: limits::HTTP3_PACKETS,
        congestion_control,
    }
}
