//! When a connection ends.

use std::time::{Duration, Instant};

use penstock_config::limits;
use penstock_http3::{ServerConnection, code};

use super::{End, Goaway, IDLE_MEMORY, Session};
use crate::clients::IdleEntry;
use crate::metrics::Refusal;

/// How long the client may still send requests after the first GOAWAY, which were under way, and how long a connection stays after its
/// last response.
const GOAWAY: Duration = Duration::from_millis(limits::HTTP2_GOAWAY_MILLISECONDS);

/// How long a drain waits for a client that has not acknowledged its responses and sends nothing: it may have closed the connection
/// with a packet that was lost.
const DRAIN_SILENCE: Duration = Duration::from_secs(limits::QUIC_DRAIN_SILENCE_SECONDS);

impl Session {
    /// Whether nothing is left to do.
    pub(super) fn is_over(&mut self, has_streams: bool) -> bool {
        let worker = &self.shared.worker;
        let state = self.shared.state.borrow();
        let mut connection = state.protocol.connection.borrow_mut();
        // A new connection has its first request answered: a client that got GOAWAY before would only connect again.
        let is_leaving = worker.is_leaving() || self.link.endpoint.is_closing();
        let is_ending = worker.is_draining() || (is_leaving && self.requests > 0) || connection.is_worn();
        if is_ending && self.goaway == Goaway::None {
            self.goaway = Goaway::Due;
            // Sent at once, or when the client has made space for it.
            self.shared.set_changed();
        }
        if has_streams || !connection.is_idle() {
            (self.idle, self.is_quiet) = (None, false);
            self.idle_since = Instant::now();
            return connection.is_worn_out();
        }
        self.is_quiet = true;
        // What the client has not acknowledged may have to be sent again.
        if !connection.is_settled() {
            return false;
        }
        if self.idle.is_none() {
            self.idle = Some(worker.idle.enter());
            self.settled_at = Instant::now();
            self.holds_memory = true;
        }
        let is_told = self.leaves_at(&connection).is_some_and(|at| Instant::now() >= at);
        self.link.unsent.is_none() && (self.has_client_left || is_told)
    }

    /// When something ends that does not end by itself.
    pub(super) fn deadline(&self) -> Option<Instant> {
        let state = self.shared.state.borrow();
        let limits = &self.settings.limits;
        let frees_memory = self.idle.is_some() && self.holds_memory;
        let kept_for = if frees_memory { IDLE_MEMORY } else { limits.idle_timeout };
        let idle = self.is_quiet.then(|| self.idle_since + kept_for.min(limits.idle_timeout));
        let check = Duration::from_millis(limits::DEADLINE_CHECK_MILLISECONDS);
        let stalled = state.stall_left().map(|left| Instant::now() + left.min(check));
        let told = match self.goaway {
            Goaway::First(at) => Some(at + under_way(&state.protocol.connection.borrow())),
            _ if self.idle.is_some() => self.leaves_at(&state.protocol.connection.borrow()),
            _ => None,
        };
        let quic = state.protocol.connection.borrow().deadline();
        let early = self.unfinished.as_ref().map(|unfinished| unfinished.deadline);
        let silent = self.silent_at();
        [idle, stalled, told, quic, self.train_due, self.link.due, early, silent].into_iter().flatten().min()
    }

    /// When a connection ends of which the client was told, if it has acknowledged all responses and does not end it before. A client
    /// that has just got a response has time to take note of that: some report a failure if the connection ends meanwhile. A drain
    /// does not wait that long for others.
    fn leaves_at(&self, connection: &ServerConnection) -> Option<Instant> {
        let Goaway::Last { first, last } = self.goaway else { return None };
        let is_long_idle = self.settled_at < first && self.shared.worker.is_draining();
        Some(last.max(self.settled_at) + if is_long_idle { under_way(connection) } else { GOAWAY })
    }

    /// When a drain gives up a client that is silent, unless a response is still being made.
    fn silent_at(&self) -> Option<Instant> {
        let is_waited_for = self.shared.worker.is_draining() && self.is_quiet;
        is_waited_for.then(|| self.heard + DRAIN_SILENCE)
    }

    /// Ends what has reached its deadline.
    pub(super) fn judge(&mut self, now: Instant) -> Result<(), End> {
        if self.idle.as_ref().is_some_and(IdleEntry::is_evicted) {
            self.shared.worker.shard.refused(Refusal::Evicted);
            return Err(End(code::NO_ERROR));
        }
        if self.is_quiet && now >= self.idle_since + self.settings.limits.idle_timeout {
            return Err(End(code::NO_ERROR));
        }
        if self.silent_at().is_some_and(|at| now >= at) {
            return Err(End(code::NO_ERROR));
        }
        // A replay of early data never finishes its handshake.
        if self.unfinished.as_ref().is_some_and(|unfinished| now >= unfinished.deadline) {
            self.shared.worker.shard.early_request("abandoned");
            return Err(End(code::NO_ERROR));
        }
        let mut state = self.shared.state.borrow_mut();
        if state.protocol.connection.get_mut().is_stranded() {
            return Err(End(code::NO_ERROR));
        }
        let minimum_rate = self.settings.limits.minimum_rate;
        if self.stalled.judge(&mut state, minimum_rate, now) {
            self.shared.set_changed();
        }
        drop(state);
        self.count_packets();
        Ok(())
    }
}

impl Goaway {
    /// Tells the client what is due.
    pub(super) fn advance(self, connection: &mut ServerConnection, now: Instant) -> Self {
        match self {
            Self::Due if connection.announce_end() => Self::First(now),
            Self::First(first) if now >= first + under_way(connection) => match connection.announce_last() {
                true => Self::Last { first, last: now },
                // The client has to make space for it first.
                false => Self::First(now),
            },
            other => other,
        }
    }
}

/// How long requests may still arrive that were under way when the client was told of the end.
fn under_way(connection: &ServerConnection) -> Duration {
    connection.round_trip().map_or(GOAWAY, |time| GOAWAY.min(2 * time))
}
