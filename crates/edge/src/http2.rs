//! HTTP/2 on a connection: many requests at once (RFC 9113).
//!
//! One task serves the connection. It reads frames, runs the streams, and fills batches with the frames of the streams that
//! `penstock-http2` chooses. A stream answers its request as HTTP/1 does, and leaves what it sends to that task.

mod deadlines;
mod protocol;
mod receive;

use std::future::pending;
use std::pin::pin;
use std::rc::Rc;
use std::task::Context;
use std::time::{Duration, Instant};

use penstock_config::limits;
use penstock_egress::{FramesStep, SendError};
use penstock_http2::Shutdown;
use tokio::task::coop::consume_budget;

use crate::carrier::{
    ConnectionFacts, SharedConnection, StallClock, StreamTasks, Wait, answer, attach, now_with,
    record_connection,
};
use crate::clients::{ClientBudget, IdleEntry};
use crate::connection::{CLOSE_NOTIFY, Connection, Unacknowledged};
use crate::metrics::{HttpLabel, ShortReason};
use crate::worker::LocalSettings;
use protocol::Http2;

/// Serves requests until client or server ends the connection, then closes it.
pub(crate) async fn serve(connection: Box<Connection>) {
    connection.worker.shard.connection_speaks(HttpLabel::H2);
    let mut session = Session::new(connection);
    let mut tasks = StreamTasks::new(answer::<Http2>);
    let last_alert = loop {
        let reading = |context: &mut Context<'_>| session.read(&mut |opened| tasks.start(opened, context));
        let has_read = match now_with(reading).await {
            Ok(has_read) => has_read,
            Err(End(alert)) => break alert,
        };
        now_with(|context| tasks.run(context)).await;
        match session.send() {
            Ok(FramesStep::Sent(bytes)) => {
                // Other connections of this worker get their turn between two batches.
                if bytes >= limits::BATCH_BYTES_MIN / 2 {
                    tokio::task::yield_now().await;
                } else {
                    consume_budget().await;
                }
                continue;
            }
            Ok(step) => session.is_blocked = step == FramesStep::Blocked,
            Err(error) => {
                session.failed(&error);
                break CLOSE_NOTIFY;
            }
        }
        if has_read {
            consume_budget().await;
            continue;
        }
        now_with(|context| attach(&session.shared, &mut |opened| tasks.start(opened, context))).await;
        if session.is_over(!tasks.is_empty()) {
            break CLOSE_NOTIFY;
        }
        session.wait(&mut tasks).await;
        if let Err(End(alert)) = session.judge(Instant::now()) {
            break alert;
        }
    };
    if session.connection.requests == 0 {
        record_connection(session.shared.carrier_without_stream(), session.connection.since, None);
    }
    Box::pin(session.close(tasks, last_alert)).await;
}

/// How long an idle connection keeps memory for the next requests.
const IDLE_MEMORY: Duration = Duration::from_millis(limits::HTTP2_IDLE_MEMORY_MILLISECONDS);

/// The end of a connection, with the alert to send.
struct End(u8);

/// The task of one connection.
struct Session {
    connection: Box<Connection>,
    shared: Rc<SharedConnection<Http2>>,
    settings: LocalSettings,
    client: Client,
    /// Whether the socket takes no more.
    is_blocked: bool,
    /// The client's time to take what is sent.
    budget: ClientBudget,
    /// All bytes given to the outlet.
    sent: u64,
    stalled: StallClock,
    /// The frame or field block whose rest is missing, and since when.
    unfinished: Option<(u32, Instant)>,
    /// Since when there is no stream.
    idle_since: Instant,
    idle: Option<IdleEntry>,
    /// Whether there is memory that an idle connection does not need.
    holds_memory: bool,
    goaway: Goaway,
    /// Whether the client was too slow to take what was sent.
    is_given_up: bool,
}

/// How far the client has ended the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Client {
    Active,
    /// It has sent GOAWAY: it opens no more streams.
    Left,
    /// It has closed its sending direction.
    Ended,
}

/// How far the server has announced the end of the connection (RFC 9113 §6.8).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Goaway {
    None,
    /// The first GOAWAY was sent. The last is due then, if the client does not acknowledge the first.
    First(Instant),
    Last,
}

impl Session {
    fn new(connection: Box<Connection>) -> Self {
        let settings = connection.worker.settings();
        let facts = ConnectionFacts {
            client: connection.client,
            tls: connection.tls,
            handshake_busy: connection.handshake_busy,
            ja4: connection.ja4,
            client_certificate: connection.client_certificate.clone(),
            alt_svc: connection.alt_svc.clone(),
            rules: connection.rules.clone(),
            socket: Some(Rc::clone(&connection.socket)),
        };
        let (worker, protocol) = (Rc::clone(&connection.worker), Http2::new(&settings.http2));
        let shared = Rc::new(SharedConnection::new(worker, facts, connection.outlet_kind(), protocol));
        Self {
            budget: ClientBudget::to_take(&settings.limits),
            connection,
            shared,
            settings,
            client: Client::Active,
            is_blocked: false,
            sent: 0,
            stalled: StallClock::default(),
            unfinished: None,
            idle_since: Instant::now(),
            idle: None,
            holds_memory: false,
            goaway: Goaway::None,
            is_given_up: false,
        }
    }

    /// The first of two GOAWAYs: requests that are under way still arrive (RFC 9113 §6.8).
    fn begin_shutdown(&mut self) {
        if self.goaway == Goaway::None {
            self.shared.state.borrow_mut().protocol.connection.shutdown(Shutdown::Graceful);
            // To be sent before the connection can end.
            self.shared.set_changed();
            let due = Instant::now() + Duration::from_millis(limits::HTTP2_GOAWAY_MILLISECONDS);
            self.goaway = Goaway::First(due);
        }
    }

    /// Sends one batch.
    fn send(&mut self) -> Result<FramesStep, SendError> {
        let now = Instant::now();
        let Self { connection, shared, settings, .. } = self;
        shared.take_changed();
        let Connection { path, outlet, .. } = &mut **connection;
        path.before_responses(outlet, shared.state.borrow().transmissions(), &settings.kernel);
        shared.outlet.set(connection.outlet_kind());
        let step = connection.outlet.send_frames(now, |batch| {
            shared.state.borrow_mut().fill(batch, shared, now);
        })?;
        if let FramesStep::Sent(bytes) = step {
            self.sent += bytes as u64;
            let shard = &self.connection.worker.shard;
            shard.sent(self.connection.outlet_kind(), bytes as u64);
            let stalls = self.shared.state.borrow_mut().protocol.connection.take_stalls();
            if stalls > 0 {
                shard.stalled(u64::from(stalls));
            }
        }
        Ok(step)
    }

    fn failed(&self, error: &SendError) {
        tracing::debug!("{}: {error}", self.connection.client);
        if let SendError::Kernel(reason) = error {
            self.connection.worker.shard.egress_ended(reason);
        }
    }

    /// Whether nothing is left to do.
    fn is_over(&mut self, has_streams: bool) -> bool {
        let worker = &self.connection.worker;
        // A new connection has its first request answered: a client that got GOAWAY before would only connect again.
        let is_leaving = worker.is_draining() || (worker.is_leaving() && self.connection.requests > 0);
        if is_leaving || self.connection.outlet.ending().is_some() {
            self.begin_shutdown();
        }
        if has_streams {
            self.idle = None;
            self.idle_since = Instant::now();
            return false;
        }
        let is_drained = self.shared.state.borrow().protocol.connection.is_drained();
        !self.is_blocked && (self.client != Client::Active || is_drained)
    }

    /// Waits until the client, a stream or a deadline needs attention.
    async fn wait<F: Future<Output = ()>, M>(&mut self, tasks: &mut StreamTasks<F, M>) {
        let is_idle = tasks.is_empty() && !self.is_blocked;
        let begun = Instant::now();
        if is_idle && self.idle.is_none() {
            self.budget = ClientBudget::to_take(&self.settings.limits);
            self.idle = Some(self.connection.worker.idle.enter());
            self.holds_memory = true;
        }
        // Also while the socket is full: `deadline` ends the wait for it.
        if self.idle.is_some() && self.holds_memory && begun >= self.idle_since + IDLE_MEMORY {
            self.shared.state.borrow_mut().release_memory();
            tasks.release_memory();
            self.connection.inbox = Vec::new();
            self.holds_memory = false;
        }
        let blocked = self.shared.state.borrow_mut().pause_blocked(begun);
        let deadline = self.deadline(begun).into_iter().chain(blocked).min();
        let socket = &self.connection.socket;
        // Errors of the socket are found when it is read or written.
        let transport = pin!(async {
            let _failed = match (self.client != Client::Ended, self.is_blocked) {
                (true, false) => socket.readable().await,
                (false, true) => socket.writable().await,
                (true, true) => socket.readable_or_writable().await,
                (false, false) => pending().await,
            };
        });
        let follows_drain = self.goaway == Goaway::None;
        let wait = Wait { idle: self.idle.as_ref(), deadline, follows_drain };
        self.shared.run_until(tasks, &wait, transport).await;
        if self.is_blocked {
            self.budget.spend(begun.elapsed());
        }
    }

    /// Ends what is left of the streams and closes the connection.
    async fn close<F: Future<Output = ()>, M>(self, mut tasks: StreamTasks<F, M>, alert: u8) {
        let Self { mut connection, shared, budget, sent, is_given_up, .. } = self;
        shared.state.borrow_mut().fail_all(ShortReason::ClientClosed, &shared);
        // Those that wait for an origin are dropped.
        now_with(|context| tasks.run(context)).await;
        drop(tasks);
        if is_given_up {
            connection.give_up_place();
        } else {
            connection.unacknowledged = Some(Unacknowledged::new(budget, sent, Instant::now()));
        }
        connection.close(alert).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::carrier::OpenedStream;

    fn size_of_future<F>(_: impl FnOnce(Box<Connection>) -> F) -> usize {
        size_of::<F>() + size_of::<Connection>() + size_of::<SharedConnection<Http2>>()
    }

    #[test]
    fn an_idle_connection_carries_no_response() {
        let bytes = size_of_future(serve);
        assert!(
            bytes <= 2700,
            "{bytes} bytes for each connection, busy or not: is something large not boxed?"
        );
    }

    fn size_of_answer<F>(_: impl FnOnce(OpenedStream<Http2>) -> F) -> usize {
        size_of::<F>()
    }

    #[test]
    fn a_stream_with_a_response_under_way_carries_few_kilobytes() {
        let bytes = size_of_answer(answer);
        assert!(
            bytes <= 8 << 10,
            "{bytes} bytes for each stream: is a future passed by value, or not boxed?"
        );
    }
}
