//! What the task of a connection and the tasks of its streams share.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use penstock_config::limits;
use penstock_content::ListenerRules;
use penstock_egress::{FrameBatch, Transmission};
use penstock_http2::{ErrorCode, Outgoing, ServerConnection, StreamId};
use penstock_tls::Ja4;

use super::detached::Detached;
use super::slot::{FRAME_HEADER_BYTES, Head, Slot, code_of};
use crate::carrier::{CarriedBy, Sent};
use crate::connection::Connection;
use crate::metrics::{HandshakeFacts, OutletKind, ShortReason};
use crate::settings::Settings;
use crate::worker::Worker;

/// What the task of a connection and the tasks of its streams share.
pub(super) struct Shared {
    pub(super) worker: Rc<Worker>,
    pub(super) client: SocketAddr,
    pub(super) tls: Option<HandshakeFacts>,
    ja4: Option<Ja4>,
    client_certificate: Option<Box<str>>,
    pub(super) rules: Option<Arc<ListenerRules>>,
    pub(super) outlet: Cell<OutletKind>,
    pub(super) state: RefCell<State>,
    /// Whether a task has changed the state, so that there may be something to send.
    is_changed: Cell<bool>,
}

impl Shared {
    pub(super) fn new(connection: &Connection, settings: &Settings) -> Self {
        let state = State {
            protocol: ServerConnection::new(&settings.http2),
            slots: VecDeque::new(),
            field_block: Vec::new(),
            batches: 0,
            detached: 0,
            is_handshake_finished: connection.unfinished_handshake.is_none(),
        };
        Self {
            worker: Rc::clone(&connection.worker),
            client: connection.client,
            tls: connection.tls,
            ja4: connection.ja4,
            client_certificate: connection.client_certificate.clone(),
            rules: connection.rules.clone(),
            outlet: Cell::new(connection.outlet_kind()),
            state: RefCell::new(state),
            is_changed: Cell::new(true),
        }
    }

    /// The carrier of a response, for counters and the access log.
    pub(super) fn carrier(&self, stream: StreamId, request_number: u64) -> CarriedBy<'_> {
        CarriedBy {
            worker: &self.worker,
            client: self.client,
            tls: self.tls,
            ja4: self.ja4,
            client_certificate: self.client_certificate.as_deref(),
            outlet: self.outlet.get(),
            request_number,
            stream: Some(stream.get()),
        }
    }

    pub(super) fn set_changed(&self) {
        self.is_changed.set(true);
    }

    pub(super) fn take_changed(&self) -> bool {
        self.is_changed.replace(false)
    }
}

/// The protocol of one connection and its streams.
pub(super) struct State {
    pub(super) protocol: ServerConnection,
    /// In the order of their streams' numbers.
    slots: VecDeque<Slot>,
    /// Where field blocks and control frames are put together; no memory while idle.
    field_block: Vec<u8>,
    /// Batches filled so far.
    batches: u64,
    /// Streams without a task.
    detached: usize,
    pub(super) is_handshake_finished: bool,
}

impl State {
    /// Adds a stream that the client has opened.
    pub(super) fn add(&mut self, slot: Slot) {
        // Clients open streams in the order of their numbers.
        self.slots.push_back(slot);
    }

    fn position(&self, stream: StreamId) -> Option<usize> {
        self.slots.binary_search_by_key(&stream, |slot| slot.stream).ok()
    }

    /// The slot of a stream, and the protocol.
    pub(super) fn slot(&mut self, stream: StreamId) -> Option<(&mut Slot, &mut ServerConnection)> {
        let position = self.position(stream)?;
        Some((&mut self.slots[position], &mut self.protocol))
    }

    /// What is left of the responses that are being sent.
    pub(super) fn transmissions(&self) -> impl Iterator<Item = &Transmission> {
        self.slots.iter().filter_map(|slot| slot.transmission.as_ref())
    }

    /// Removes a stream whose work has ended. Returns what was not sent of it.
    pub(super) fn remove(&mut self, stream: StreamId) -> Option<Transmission> {
        let position = self.position(stream)?;
        let slot = self.slots.remove(position)?;
        self.protocol.finished(stream);
        slot.transmission
    }

    /// Ends all streams for this reason.
    pub(super) fn fail_all(&mut self, why: ShortReason, shared: &Shared) {
        for slot in &mut self.slots {
            slot.fail(why);
        }
        let now = Instant::now();
        while self.detached > 0
            && let Some(position) = self.slots.iter().position(|slot| slot.detached.is_some())
        {
            self.settle(position, shared, now);
        }
    }

    /// Ends a stream that the client has reset.
    pub(super) fn reset_by_client(&mut self, stream: StreamId, shared: &Shared, now: Instant) {
        if let Some(position) = self.position(stream) {
            self.slots[position].fail(ShortReason::ClientClosed);
            self.settle(position, shared, now);
        }
    }

    /// Takes a response over from its task.
    pub(super) fn detach(
        &mut self,
        stream: StreamId,
        (head, transmission): (Head, Option<Transmission>),
        urgency: Option<u8>,
        detached: Box<Detached>,
        shared: &Shared,
    ) {
        let Some(position) = self.position(stream) else { return };
        let slot = &mut self.slots[position];
        slot.set_head(head);
        slot.transmission = transmission;
        slot.detached = Some(detached);
        self.protocol.set_response(stream, urgency, slot.outgoing());
        self.detached += 1;
        if slot.short.is_some() {
            // The client has reset it meanwhile.
            self.settle(position, shared, Instant::now());
        }
    }

    /// Ends a stream without a task if its response is whole or has failed.
    fn settle(&mut self, position: usize, shared: &Shared, now: Instant) {
        let slot = self.slots.get_mut(position).filter(|slot| slot.is_whole || slot.short.is_some());
        let Some(detached) = slot.and_then(|slot| slot.detached.take()) else { return };
        let Some(mut slot) = self.slots.remove(position) else { return };
        self.detached -= 1;
        let shard = &shared.worker.shard;
        match slot.short {
            Some(why) if !slot.is_whole => {
                self.protocol.reset(slot.stream, code_of(why));
                if why != ShortReason::ClientClosed {
                    shard.stream_reset(why.label());
                }
            }
            _ => slot.short = None,
        }
        self.protocol.finished(slot.stream);
        shard.stream_closed();
        let Slot { stream, content_sent: bytes, first_byte, short, .. } = slot;
        let carrier = shared.carrier(stream, detached.number);
        detached.end(&carrier, &Sent { bytes, first_byte, short }, now);
        discard_files(slot.transmission, shared);
    }

    /// Takes out what is left of a response without a task.
    pub(super) fn attach(&mut self) -> Option<(StreamId, Detached, Transmission)> {
        if self.detached == 0 {
            return None;
        }
        let mut slots = self.slots.iter_mut();
        let (stream, detached, transmission) = slots.find_map(|slot| {
            let detached = slot.detached.take()?;
            slot.pause = None;
            let transmission = slot.transmission.take().unwrap_or_default();
            self.protocol.set_outgoing(slot.stream, slot.outgoing());
            Some((slot.stream, *detached, transmission))
        })?;
        self.detached -= 1;
        Some((stream, detached, transmission))
    }

    /// Wakes all streams.
    pub(super) fn wake_all(&mut self) {
        for slot in &mut self.slots {
            slot.wake();
        }
    }

    /// Puts frames into the batch until it is full or nothing can be sent.
    pub(super) fn fill(&mut self, batch: &mut FrameBatch<'_>, shared: &Shared, now: Instant) {
        self.batches += 1;
        if self.protocol.has_control() {
            self.field_block.clear();
            self.protocol.write_control(&mut self.field_block);
            batch.put(&self.field_block);
        }
        while batch.space() > FRAME_HEADER_BYTES {
            let Some(stream) = self.protocol.next_stream() else { break };
            let Some(position) = self.position(stream) else {
                self.protocol.set_outgoing(stream, Outgoing::Nothing);
                continue;
            };
            let slot = &mut self.slots[position];
            let around = (&mut self.field_block, self.batches, now);
            slot.put_next(batch, &mut self.protocol, &shared.worker, around);
            if slot.detached.is_some() && (slot.is_whole || slot.short.is_some()) {
                self.settle(position, shared, now);
            } else {
                self.protocol.set_outgoing(stream, slot.outgoing());
            }
        }
    }

    /// Called while nothing can be sent. Pauses responses of which the client has taken nothing for a while, so that they can
    /// give their bytes up. Returns when the next one is due.
    pub(super) fn pause_blocked(&mut self, now: Instant) -> Option<Instant> {
        let limit = Duration::from_millis(limits::CLIENT_HOLDS_CHECK_MILLISECONDS);
        let Self { slots, protocol, .. } = self;
        let due = slots.iter_mut().filter_map(|slot| {
            let due = slot.pause_if_blocked(limit, now);
            protocol.set_outgoing(slot.stream, slot.outgoing());
            due
        });
        due.min()
    }

    /// Whether a response has bytes that flow control keeps back.
    pub(super) fn is_stalled(&self) -> bool {
        self.slots.iter().any(|slot| slot.is_stalled(&self.protocol))
    }

    /// The shortest time that a stalled stream may stay so.
    pub(super) fn stall_left(&self) -> Option<Duration> {
        let stalled = self.slots.iter().filter(|slot| slot.is_stalled(&self.protocol));
        stalled.filter_map(|slot| slot.budget.left()).min()
    }

    /// Takes `waited` off the budgets of stalled streams, and ends those that have none left. A stream that only waits for
    /// its share of the connection's window pays nothing as long as the client lets others go on.
    pub(super) fn spend_stalled(&mut self, waited: Duration, others_go_on: bool) {
        for slot in &mut self.slots {
            if !slot.is_stalled(&self.protocol) || (others_go_on && !slot.is_stalled_itself(&self.protocol)) {
                continue;
            }
            slot.budget.spend(waited);
            if !slot.budget.earn(slot.content_sent) {
                slot.fail(ShortReason::TooSlow);
                self.protocol.reset(slot.stream, ErrorCode::CANCEL);
            }
        }
    }

    /// Bytes of content sent on streams that are open.
    pub(super) fn content_sent(&self) -> u64 {
        self.slots.iter().map(|slot| slot.content_sent).sum()
    }

    /// Gives back memory that an idle connection does not need.
    pub(super) fn release_memory(&mut self) {
        self.protocol.release_memory();
        self.slots = VecDeque::new();
        self.field_block = Vec::new();
    }
}

/// Closes what files a response had.
pub(super) fn discard_files(unsent: Option<Transmission>, shared: &Shared) {
    for file in unsent.into_iter().flat_map(Transmission::into_files) {
        // Closing a file can block.
        shared.worker.io.discard(file);
    }
}
