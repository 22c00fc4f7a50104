//! The task of one connection.

mod end;
mod guard;

use std::net::SocketAddr;
use std::pin::pin;
use std::rc::Rc;
use std::task::Context;
use std::time::{Duration, Instant};

use penstock_config::limits;
use penstock_http2::{Flood, FloodGuard, HeadFault, LastFields, PriorityParameters};
use penstock_http3::{Fields, StreamEvent, code};
use penstock_metrics::QuicPackets;
use penstock_tls::Negotiated;
use tokio::task::coop::consume_budget;

use super::endpoint::Admitted;
use super::handshake::{facts_of, handshake};
use super::link::Link;
use super::protocol::{Http3, Round, WrongLength};
use super::request::RequestHead;
use crate::carrier::{
    ConnectionFacts, Incoming, OpenedStream, SharedConnection, StallClock, StreamTasks, Wait, answer, attach,
    now_with, record_connection,
};
use crate::clients::IdleEntry;
use crate::connection::UnfinishedHandshake;
use crate::metrics::{HttpLabel, OutletKind, ShortReason, Work, doing_all};
use crate::worker::{LocalSettings, Worker};

/// Performs the handshake, then serves requests until client or server ends the connection.
pub(super) async fn serve(admitted: Box<Admitted>) {
    let Admitted {
        endpoint,
        mut connection,
        inbox,
        ids,
        acceptor,
        settings,
        client,
        client_id,
        counted,
        network,
        handshakes,
        in_flight,
    } = *admitted;
    let mut link = Link::new(endpoint, inbox, ids);
    let worker = Rc::clone(&link.endpoint.worker);
    let deadline = Instant::now() + settings.limits.handshake_deadline;
    // Boxed, and dropped before the first request: a connection must not carry its handshake.
    let shaking = handshake(&mut link, &mut connection, &worker, &acceptor, (client, client_id, deadline));
    let negotiated = doing_all(Work::Handshakes, Box::pin(shaking)).await;
    let unfinished = negotiated
        .as_ref()
        .and_then(|(facts, _)| UnfinishedHandshake::after(facts.early_data, &settings, deadline));
    drop((in_flight, handshakes, acceptor, settings));
    if let Some(negotiated) = negotiated {
        worker.shard.connection_speaks(HttpLabel::H3);
        worker.shard.egress(OutletKind::Quic, "quic");
        let mut session = Session::new(link, &worker, Http3::new(connection), negotiated, client);
        session.unfinished = unfinished;
        Box::pin(session.run()).await;
    }
    drop((network, counted));
}

/// How long an idle connection keeps memory for the next requests.
const IDLE_MEMORY: Duration = Duration::from_millis(limits::HTTP2_IDLE_MEMORY_MILLISECONDS);

/// How often a connection that is always busy looks at deadlines.
const JUDGE: Duration = Duration::from_secs(1);

/// The end of a connection, with the error code for the client.
struct End(u64);

struct Session {
    link: Link,
    shared: Rc<SharedConnection<Http3>>,
    settings: LocalSettings,
    requests: u64,
    last: LastFields,
    stalled: StallClock,
    /// When content leaves that does not fill a train.
    train_due: Option<Instant>,
    /// Since when there is no stream.
    idle_since: Instant,
    /// Whether there are no streams.
    is_quiet: bool,
    /// Set if the client has acknowledged all responses as well.
    idle: Option<IdleEntry>,
    /// When it last had.
    settled_at: Instant,
    holds_memory: bool,
    goaway: Goaway,
    /// Whether the client opens no more streams.
    has_client_left: bool,
    /// When deadlines were last looked at.
    judged: Instant,
    /// When something was last received.
    heard: Instant,
    /// What was counted of its packets.
    counted: [u64; 4],
    floods: FloodGuard,
    /// The client's part of the handshake, while early data is answered without it.
    unfinished: Option<UnfinishedHandshake>,
}

/// How far the client was told that the connection ends after its requests (RFC 9114 §5.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Goaway {
    None,
    /// It is to be told.
    Due,
    /// It was told at that time; requests that are under way are still answered.
    First(Instant),
    /// Later requests are refused since `last`.
    Last {
        first: Instant,
        last: Instant,
    },
}

impl Session {
    fn new(
        link: Link,
        worker: &Rc<Worker>,
        protocol: Http3,
        (negotiated, handshake_busy): (Negotiated, Duration),
        client: SocketAddr,
    ) -> Self {
        let facts = ConnectionFacts {
            client,
            tls: Some(facts_of(&negotiated)),
            handshake_busy,
            ja4: negotiated.ja4,
            client_certificate: negotiated.client_certificate.map(String::into_boxed_str),
            rules: link.endpoint.rules(),
            alt_svc: None,
            socket: None,
        };
        let shared = SharedConnection::new(Rc::clone(worker), facts, OutletKind::Quic, protocol);
        Self {
            link,
            shared: Rc::new(shared),
            settings: worker.settings(),
            requests: 0,
            last: LastFields::default(),
            stalled: StallClock::default(),
            train_due: None,
            idle_since: Instant::now(),
            is_quiet: false,
            idle: None,
            settled_at: Instant::now(),
            holds_memory: true,
            goaway: Goaway::None,
            has_client_left: false,
            judged: Instant::now(),
            heard: Instant::now(),
            counted: [0; 4],
            floods: FloodGuard::new(&worker.settings().http2.floods),
            unfinished: None,
        }
    }

    async fn run(mut self) {
        let mut tasks = StreamTasks::new(answer::<Http3>);
        // What came with the end of the handshake.
        let mut has_received = true;
        let end = loop {
            has_received |= self.receive();
            self.notice_handshake();
            self.follow_timers(Instant::now());
            if has_received {
                let follow =
                    |context: &mut Context<'_>| self.follow(&mut |opened| tasks.start(opened, context));
                if let Err(End(code)) = now_with(follow).await {
                    break Some(code);
                }
            }
            now_with(|context| tasks.run(context)).await;
            let has_sent = self.send();
            if self.shared.state.borrow().protocol.connection.borrow().end().is_some() {
                break None;
            }
            let now = Instant::now();
            let is_busy = std::mem::take(&mut has_received) || has_sent;
            if is_busy && now < self.judged + JUDGE {
                // Other connections of this worker get their turn.
                if has_sent {
                    tokio::task::yield_now().await
                } else {
                    consume_budget().await
                }
                continue;
            }
            self.judged = now;
            now_with(|context| attach(&self.shared, &mut |opened| tasks.start(opened, context))).await;
            if self.is_over(!tasks.is_empty()) {
                break Some(code::NO_ERROR);
            }
            if !is_busy {
                self.wait(&mut tasks).await;
            }
            // The reader of a body may have used what was read.
            let read = self.read_bodies().and_then(|has_any| self.judge(Instant::now()).map(|()| has_any));
            match read {
                Ok(has_any) => has_received = has_any,
                Err(End(code)) => break Some(code),
            }
        };
        self.close(tasks, end).await;
    }

    /// Gives what has come to the connection. Returns whether there was anything.
    fn receive(&mut self) -> bool {
        let mut state = self.shared.state.borrow_mut();
        let connection = state.protocol.connection.get_mut();
        let has_any = self.link.inbox.take(|datagram, path| connection.receive(datagram, path));
        if has_any {
            self.link.renew_ids(connection);
            state.protocol.received();
            self.train_due = None;
            self.heard = Instant::now();
        }
        has_any
    }

    /// Follows the events of what was received.
    fn follow(&mut self, open: &mut impl FnMut(OpenedStream<Http3>)) -> Result<(), End> {
        let now = Instant::now();
        self.floods.advance(now);
        loop {
            let event = self.shared.state.borrow_mut().protocol.connection.get_mut().next_event();
            let Some(event) = event else {
                // Reading can bring the next event: the end of a body.
                if self.read_bodies()? {
                    continue;
                }
                break;
            };
            self.follow_one(event, now, open)?;
        }
        loop {
            let stopped = self.shared.state.borrow().protocol.stopped();
            let Some(stream) = stopped else { return Ok(()) };
            self.reset_by_client(stream, now)?;
        }
    }

    fn follow_one(
        &mut self,
        event: StreamEvent,
        now: Instant,
        open: &mut impl FnMut(OpenedStream<Http3>),
    ) -> Result<(), End> {
        match event {
            StreamEvent::Request { stream, fields, end } => {
                return self.follow_request(stream, &fields, end, now, open);
            }
            StreamEvent::Content(stream) => self.shared.state.borrow_mut().protocol.set_readable(stream),
            StreamEvent::End(stream) => {
                let mut state = self.shared.state.borrow_mut();
                match state.protocol.end_body(stream) {
                    Ok(true) => state.received_end(stream),
                    Ok(false) => state.received_break_off(stream),
                    Err(WrongLength) => {
                        drop(state);
                        return self.refuse_body(stream);
                    }
                }
            }
            StreamEvent::Reset(stream, _) => return self.reset_by_client(stream, now),
            StreamEvent::Incomplete(stream) => {
                self.shared.worker.shard.http3_stream_reset("incomplete");
                return self.refuse(stream, code::REQUEST_INCOMPLETE);
            }
            StreamEvent::Priority(stream, value) => {
                let PriorityParameters { urgency, incremental } = PriorityParameters::parse(&value);
                let mut state = self.shared.state.borrow_mut();
                state.protocol.schedule.update(stream, urgency, incremental);
                let (urgency, incremental) = state.protocol.schedule.priority(stream);
                state.protocol.connection.get_mut().set_priority(stream, urgency, incremental);
                drop(state);
                return self.count(Flood::Priority);
            }
            StreamEvent::GoAway => self.has_client_left = true,
        }
        Ok(())
    }

    fn follow_request(
        &mut self,
        stream: u64,
        fields: &Fields,
        end: bool,
        now: Instant,
        open: &mut impl FnMut(OpenedStream<Http3>),
    ) -> Result<(), End> {
        let read = self.last.head(fields.iter(), &self.settings.http2);
        let shard = &self.shared.worker.shard;
        let (request, priority) = match read {
            Ok((head, _)) if end && head.content_length().is_some_and(|length| length > 0) => {
                shard.http3_stream_reset("content_length");
                return self.refuse(stream, code::MESSAGE_ERROR);
            }
            Ok((head, priority)) => {
                let head = RequestHead(head);
                let early = self.judge_early(&head, end);
                (Incoming::Request { head, has_body: !end, early }, priority)
            }
            Err(HeadFault::TooLarge { status, reason }) => {
                (Incoming::Rejected { status, reason }, PriorityParameters::default())
            }
            Err(HeadFault::Malformed(reason)) => {
                shard.http3_stream_reset(reason);
                return self.refuse(stream, code::MESSAGE_ERROR);
            }
            Err(HeadFault::Flood) => {
                shard.http3_stream_reset("field_section_flood");
                return Err(End(code::EXCESSIVE_LOAD));
            }
        };
        let mut state = self.shared.state.borrow_mut();
        if state.protocol.connection.get_mut().is_too_late(stream) {
            drop(state);
            return self.refuse(stream, code::REQUEST_REJECTED);
        }
        let length = match &request {
            Incoming::Request { head, .. } => crate::carrier::StreamRequestHead::content_length(head),
            Incoming::Rejected { .. } => None,
        };
        state.protocol.add(stream, length, priority);
        drop(state);
        self.settings = self.shared.worker.settings();
        self.requests += 1;
        (self.idle, self.idle_since, self.is_quiet) = (None, now, false);
        let is_whole = end || matches!(request, Incoming::Rejected { .. });
        let numbered = (self.requests, &self.settings);
        open(OpenedStream::new(&self.shared, stream, (request, is_whole), numbered, now));
        if self.requests >= self.settings.limits.requests_per_connection && self.goaway == Goaway::None {
            self.goaway = Goaway::Due;
        }
        Ok(())
    }

    /// Gives content of requests to its readers, as far as they have used what came before. Returns whether there was any.
    fn read_bodies(&mut self) -> Result<bool, End> {
        let mut has_any = false;
        loop {
            let mut state = self.shared.state.borrow_mut();
            let Some((stream, bytes)) = state.protocol.read() else { return Ok(has_any) };
            has_any = true;
            match bytes {
                Ok(bytes) => state.received(stream, bytes, false),
                Err(WrongLength) => {
                    drop(state);
                    self.refuse_body(stream)?;
                }
            }
        }
    }

    /// Gives QUIC what streams have to send, and the socket what QUIC has. Returns whether there was anything.
    fn send(&mut self) -> bool {
        let now = Instant::now();
        self.shared.take_changed();
        // In any case: its time is a deadline of the connection.
        self.goaway = self.goaway.advance(self.shared.state.borrow_mut().protocol.connection.get_mut(), now);
        if self.link.unsent.is_some() {
            self.link.flush_unsent();
            if self.link.unsent.is_some() {
                return false;
            }
        }
        let shared = &self.shared;
        let mut state = shared.state.borrow_mut();
        let sent = self.link.sent;
        // QUIC would keep what it is given before its pace lets it send, beyond the window of congestion.
        let waits = self.link.due.is_some_and(|due| due > now);
        if waits {
            self.link.flush(state.protocol.connection.get_mut(), limits::HTTP3_TURN_BYTES);
        }
        if !waits || self.link.due.is_none() {
            state.fill(&mut Round { left: limits::HTTP3_TURN_BYTES }, shared, now);
            self.link.flush(state.protocol.connection.get_mut(), limits::HTTP3_TURN_BYTES);
        }
        let sent = self.link.sent - sent;
        if sent > 0 {
            shared.worker.shard.sent(OutletKind::Quic, sent);
        }
        sent > 0
    }

    /// Waits until the client, a stream or a deadline needs attention.
    async fn wait<F: Future<Output = ()>, M>(&mut self, tasks: &mut StreamTasks<F, M>) {
        let begun = Instant::now();
        if self.idle.is_some() && self.holds_memory && begun >= self.idle_since + IDLE_MEMORY {
            self.shared.state.borrow_mut().release_memory();
            tasks.release_memory();
            self.link.inbox.release_memory();
            self.last = LastFields::default();
            self.holds_memory = false;
        }
        let blocked = {
            let mut state = self.shared.state.borrow_mut();
            if self.train_due.is_none() && state.protocol.is_held_back() {
                self.train_due = Some(begun + Duration::from_millis(limits::HTTP3_TRAIN_MILLISECONDS));
            }
            state.pause_blocked(begun)
        };
        let deadline = self.deadline().into_iter().chain(blocked).min();
        let link = &self.link;
        let transport = pin!(async {
            tokio::select! {
                biased;
                () = link.inbox.arrived() => {}
                _ = link.endpoint.outbox.socket().writable(), if link.unsent.is_some() => {}
            }
        });
        let follows_drain = !self.shared.worker.is_draining();
        let wait = Wait { idle: self.idle.as_ref(), deadline, follows_drain };
        self.shared.run_until(tasks, &wait, transport).await;
    }

    /// Follows the timers of QUIC, and lets content leave that waits for a full train.
    fn follow_timers(&mut self, now: Instant) {
        let mut state = self.shared.state.borrow_mut();
        let due = state.protocol.connection.get_mut().deadline();
        if due.is_some_and(|due| now >= due) {
            state.protocol.connection.get_mut().on_timeout();
            state.protocol.received();
        }
        if self.train_due.is_some_and(|due| now >= due) {
            self.train_due = None;
            state.protocol.connection.get_mut().send_little();
        }
    }

    fn count_packets(&mut self) {
        let counts = self.shared.state.borrow().protocol.connection.borrow().counts();
        let [received, sent, lost, migrations] =
            std::array::from_fn(|at| counts[at].saturating_sub(self.counted[at]));
        self.counted = counts;
        self.shared.worker.shard.quic_packets(&QuicPackets { received, sent, lost, migrations });
    }

    /// Ends what is left of the streams, and the connection. `code` is for the client, unless the connection has ended.
    async fn close<F: Future<Output = ()>, M>(mut self, mut tasks: StreamTasks<F, M>, code: Option<u64>) {
        if self.requests == 0 {
            record_connection(self.shared.carrier_without_stream(), self.idle_since, None);
        }
        self.shared.state.borrow_mut().fail_all(ShortReason::ClientClosed, &self.shared);
        // Those that wait for an origin are dropped.
        now_with(|context| tasks.run(context)).await;
        drop(tasks);
        let reason = {
            let mut state = self.shared.state.borrow_mut();
            let connection = state.protocol.connection.get_mut();
            if let Some(code) = code {
                connection.close(code);
                self.link.flush(connection, limits::HTTP3_TURN_BYTES);
            }
            let is_stranded = connection.is_stranded();
            if is_stranded { "stranded" } else { connection.end().map_or("closed", |end| end.reason) }
        };
        self.shared.worker.shard.quic_ended(reason);
        self.count_packets();
    }
}
