//! What the task of a connection and the tasks of its streams share.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use penstock_config::limits;
use penstock_content::ListenerRules;
use penstock_egress::Transmission;
use penstock_sys::ConnectedSocket;
use penstock_sys::socket::{Carriage, carriage};
use penstock_tls::Ja4;

use super::detached::Detached;
use super::open_stream::{BodyEnd, OpenStream};
use crate::carrier::answered::CarriedBy;
use crate::carrier::drive::{NOTHING_SENT, Sent};
use crate::carrier::multiplexer::{Multiplexer, Outgoing, Stalled, StreamCount, StreamHead};
use crate::clients::ClientBudget;
use crate::connection::CarriageMeter;
use crate::metrics::{Carried, HandshakeFacts, OutletKind, ShortReason};
use crate::worker::Worker;

/// What counters and the access log say of a connection.
pub(crate) struct ConnectionFacts {
    pub(crate) client: SocketAddr,
    pub(crate) tls: Option<HandshakeFacts>,
    /// What the handshake cost the worker.
    pub(crate) handshake_busy: Duration,
    pub(crate) ja4: Option<Ja4>,
    pub(crate) client_certificate: Option<Box<str>>,
    /// Where the same is served over HTTP/3, for connections of other versions.
    pub(crate) alt_svc: Option<Arc<str>>,
    /// The rules of its listener.
    pub(crate) rules: Option<Arc<ListenerRules>>,
    /// Its socket, if it has one to itself.
    pub(crate) socket: Option<Rc<ConnectedSocket>>,
}

/// What the task of a connection and the tasks of its streams share.
pub(crate) struct SharedConnection<M: Multiplexer> {
    pub(crate) worker: Rc<Worker>,
    pub(crate) facts: ConnectionFacts,
    pub(crate) outlet: Cell<OutletKind>,
    carriage: CarriageMeter,
    pub(crate) state: RefCell<OpenStreams<M>>,
    /// Whether a task has changed the state, so that there may be something to send.
    is_changed: Cell<bool>,
}

impl<M: Multiplexer> SharedConnection<M> {
    pub(crate) fn new(worker: Rc<Worker>, facts: ConnectionFacts, outlet: OutletKind, protocol: M) -> Self {
        let state = OpenStreams {
            protocol,
            streams: VecDeque::new(),
            batches: 0,
            detached: 0,
            is_handshake_finished: false,
        };
        Self {
            worker,
            facts,
            outlet: Cell::new(outlet),
            carriage: CarriageMeter::default(),
            state: RefCell::new(state),
            is_changed: Cell::new(true),
        }
    }

    /// The carrier of a response, for counters and the access log.
    pub(super) fn carrier(&self, stream: M::StreamId, request_number: u64) -> CarriedBy<'_> {
        CarriedBy { request_number, stream: Some(M::number(stream)), ..self.carrier_without_stream() }
    }

    /// The connection, before its first stream.
    pub(crate) fn carrier_without_stream(&self) -> CarriedBy<'_> {
        let ConnectionFacts { client, tls, handshake_busy, ja4, client_certificate, .. } = &self.facts;
        CarriedBy {
            worker: &self.worker,
            client: *client,
            tls: *tls,
            handshake_busy: *handshake_busy,
            ja4: *ja4,
            client_certificate: client_certificate.as_deref(),
            outlet: self.outlet.get(),
            version: M::VERSION,
            request_number: 0,
            stream: None,
        }
    }

    /// How the network carried a response of `bytes` bytes that has ended.
    pub(super) fn carried(&self, bytes: u64) -> Option<Carried> {
        self.carriage.measure(bytes, || self.carriage_now())
    }

    /// What the network says of the connection.
    pub(super) fn carriage_now(&self) -> Option<Carriage> {
        match &self.facts.socket {
            Some(socket) => carriage(socket).ok(),
            None => self.state.borrow().protocol.carriage(),
        }
    }

    pub(crate) fn set_changed(&self) {
        self.is_changed.set(true);
    }

    pub(crate) fn take_changed(&self) -> bool {
        self.is_changed.replace(false)
    }
}

/// The protocol of one connection and its open streams.
pub(crate) struct OpenStreams<M: Multiplexer> {
    pub(crate) protocol: M,
    /// In the order of their identifiers.
    streams: VecDeque<OpenStream<M>>,
    /// Batches filled so far.
    batches: u64,
    /// Streams without a task.
    detached: usize,
    /// Whether the client has finished its handshake, as far as the task of the connection has told.
    is_handshake_finished: bool,
}

impl<M: Multiplexer> OpenStreams<M> {
    /// Adds a stream that the client has opened.
    pub(super) fn add(&mut self, stream: M::StreamId, budget: ClientBudget, is_body_whole: bool) {
        let added = OpenStream::new(stream, budget, is_body_whole);
        // HTTP/2 opens streams in the order of their numbers. Packets of HTTP/3 may arrive in another order.
        let position = match self.streams.back() {
            Some(last) if last.stream > stream => self.streams.partition_point(|open| open.stream < stream),
            _ => self.streams.len(),
        };
        self.streams.insert(position, added);
    }

    fn position(&self, stream: M::StreamId) -> Option<usize> {
        self.streams.binary_search_by_key(&stream, |open| open.stream).ok()
    }

    /// A stream, and the protocol.
    pub(super) fn stream(&mut self, stream: M::StreamId) -> Option<(&mut OpenStream<M>, &mut M)> {
        let position = self.position(stream)?;
        Some((&mut self.streams[position], &mut self.protocol))
    }

    /// Takes a part of the body of a request.
    pub(crate) fn received(&mut self, stream: M::StreamId, bytes: Vec<u8>, is_last: bool) {
        if let Some((open, protocol)) = self.stream(stream) {
            let unused = open.body.add(bytes, is_last);
            protocol.discard(stream, unused);
            open.wake();
        }
    }

    /// The body of a request has ended.
    pub(crate) fn received_end(&mut self, stream: M::StreamId) {
        if let Some((open, _)) = self.stream(stream) {
            open.body.end = BodyEnd::Whole;
            open.wake();
        }
    }

    /// The client has stopped to send the body of a request, before its end. The response goes on.
    pub(crate) fn received_break_off(&mut self, stream: M::StreamId) {
        if let Some((open, _)) = self.stream(stream) {
            open.body.end = BodyEnd::BrokenOff;
            open.wake();
        }
    }

    /// Has the streams go on that wait for the end of the handshake.
    pub(crate) fn finish_handshake(&mut self) {
        if !std::mem::replace(&mut self.is_handshake_finished, true) {
            for open in &mut self.streams {
                open.wake();
            }
        }
    }

    pub(super) fn is_handshake_finished(&self) -> bool {
        self.is_handshake_finished
    }

    /// What is left of the responses that are being sent.
    pub(crate) fn transmissions(&self) -> impl Iterator<Item = &Transmission> {
        self.streams.iter().filter_map(|open| open.transmission.as_ref())
    }

    /// Removes a stream whose work has ended. Returns what was not sent of it.
    pub(super) fn remove(&mut self, stream: M::StreamId) -> Option<Transmission> {
        let position = self.position(stream)?;
        let open = self.streams.remove(position)?;
        self.protocol.finished(stream);
        open.transmission
    }

    /// Ends all streams for this reason.
    pub(crate) fn fail_all(&mut self, why: ShortReason, shared: &SharedConnection<M>) {
        for open in &mut self.streams {
            open.fail(why);
        }
        let now = Instant::now();
        while self.detached > 0
            && let Some(position) = self.streams.iter().position(|open| open.detached.is_some())
        {
            self.settle(position, shared, now);
        }
    }

    /// Ends a stream that the client has reset.
    pub(crate) fn reset_by_client(
        &mut self,
        stream: M::StreamId,
        shared: &SharedConnection<M>,
        now: Instant,
    ) {
        if let Some(position) = self.position(stream) {
            self.streams[position].fail(ShortReason::ClientClosed);
            self.settle(position, shared, now);
        }
    }

    /// Takes a response over from its task.
    pub(super) fn detach(
        &mut self,
        stream: M::StreamId,
        (head, transmission): (StreamHead, Option<Transmission>),
        urgency: Option<u8>,
        detached: Box<Detached>,
        shared: &SharedConnection<M>,
    ) {
        let Some(position) = self.position(stream) else { return };
        let open = &mut self.streams[position];
        open.set_head(head);
        open.transmission = transmission;
        open.detached = Some(detached);
        self.protocol.set_response(stream, urgency, open.outgoing());
        self.detached += 1;
        if open.short.is_some() {
            // The client has reset it meanwhile.
            self.settle(position, shared, Instant::now());
        }
    }

    /// Ends a stream without a task if its response is whole or has failed.
    fn settle(&mut self, position: usize, shared: &SharedConnection<M>, now: Instant) {
        let open = self.streams.get_mut(position).filter(|open| open.is_whole || open.short.is_some());
        let Some(detached) = open.and_then(|open| open.detached.take()) else { return };
        let Some(mut open) = self.streams.remove(position) else { return };
        self.detached -= 1;
        let shard = &shared.worker.shard;
        match open.short {
            Some(why) if !open.is_whole => {
                self.protocol.reset(open.stream, why);
                if why != ShortReason::ClientClosed {
                    M::count(shard, StreamCount::Reset(why.label()));
                }
            }
            _ => open.short = None,
        }
        self.protocol.finished(open.stream);
        M::count(shard, StreamCount::Closed);
        let OpenStream { stream, content_sent: bytes, first_byte, short, transmission, .. } = open;
        let carrier = shared.carrier(stream, detached.number);
        detached.end(&carrier, &Sent { bytes, first_byte, short, ..NOTHING_SENT }, now);
        discard_files(transmission, &shared.worker);
    }

    /// Takes out what is left of a response without a task.
    pub(super) fn attach(&mut self) -> Option<(M::StreamId, Detached, Transmission)> {
        if self.detached == 0 {
            return None;
        }
        let mut streams = self.streams.iter_mut();
        let (stream, detached, transmission) = streams.find_map(|open| {
            let detached = open.detached.take()?;
            open.pause = None;
            let transmission = open.transmission.take().unwrap_or_default();
            self.protocol.set_outgoing(open.stream, open.outgoing());
            Some((open.stream, *detached, transmission))
        })?;
        self.detached -= 1;
        Some((stream, detached, transmission))
    }

    /// Puts frames into the batch until it is full or nothing can be sent.
    pub(crate) fn fill(&mut self, batch: &mut M::Batch<'_>, shared: &SharedConnection<M>, now: Instant) {
        self.batches += 1;
        self.protocol.put_control(batch);
        while let Some(stream) = self.protocol.next_stream(batch) {
            let Some(position) = self.position(stream) else {
                self.protocol.set_outgoing(stream, Outgoing::Nothing);
                continue;
            };
            let open = &mut self.streams[position];
            open.put_next(batch, &mut self.protocol, &shared.worker, (self.batches, now));
            if open.detached.is_some() && (open.is_whole || open.short.is_some()) {
                self.settle(position, shared, now);
            } else {
                self.protocol.set_outgoing(stream, open.outgoing());
            }
        }
    }

    /// Called while nothing can be sent. Pauses responses of which the client has taken nothing for a while, so that they can
    /// give their bytes up. Returns when the next one is due.
    pub(crate) fn pause_blocked(&mut self, now: Instant) -> Option<Instant> {
        let limit = Duration::from_millis(limits::CLIENT_HOLDS_CHECK_MILLISECONDS);
        let Self { streams, protocol, .. } = self;
        let due = streams.iter_mut().filter_map(|open| {
            let due = open.pause_if_blocked(limit, now);
            protocol.set_outgoing(open.stream, open.outgoing());
            due
        });
        due.min()
    }

    fn stalled(&self) -> impl Iterator<Item = &OpenStream<M>> {
        self.streams.iter().filter(|open| open.stalled(&self.protocol).is_some())
    }

    /// Whether a response has bytes that flow control keeps back.
    pub(super) fn is_stalled(&self) -> bool {
        self.stalled().next().is_some()
    }

    /// The shortest time that a stalled stream may stay so.
    pub(crate) fn stall_left(&self) -> Option<Duration> {
        self.stalled().filter_map(|open| open.budget.left()).min()
    }

    /// Takes `waited` off the budgets of stalled streams, and ends those that have none left. A stream that only waits for
    /// its share of the connection's window pays nothing as long as the client lets others go on.
    pub(super) fn spend_stalled(&mut self, waited: Duration, others_go_on: bool) {
        for open in &mut self.streams {
            match open.stalled(&self.protocol) {
                None => continue,
                Some(Stalled::Connection) if others_go_on => continue,
                Some(Stalled::Connection | Stalled::Stream) => {}
            }
            open.budget.spend(waited);
            if !open.budget.earn(open.content_sent) {
                open.fail(ShortReason::TooSlow);
                self.protocol.reset(open.stream, ShortReason::TooSlow);
            }
        }
    }

    /// Bytes of content sent on streams that are open.
    pub(super) fn content_sent(&self) -> u64 {
        self.streams.iter().map(|open| open.content_sent).sum()
    }

    /// Gives back memory that an idle connection does not need.
    pub(crate) fn release_memory(&mut self) {
        self.protocol.release_memory();
        self.streams = VecDeque::new();
    }
}

/// Closes what files a response had.
pub(super) fn discard_files(unsent: Option<Transmission>, worker: &Worker) {
    for file in unsent.into_iter().flat_map(Transmission::into_files) {
        // Closing a file can block.
        worker.io.discard(file);
    }
}
