//! The time for which flow control keeps content back, at the expense of the clients' budgets.

use std::time::{Duration, Instant};

use penstock_config::limits;

use super::open_streams::OpenStreams;
use crate::carrier::multiplexer::Multiplexer;

/// Measures how long the windows of a client are empty.
#[derive(Debug, Default)]
pub(crate) struct StallClock {
    /// When the wait began that the client has to end, and the content sent until then.
    since: Option<(Instant, u64)>,
}

impl StallClock {
    /// Takes the time that the client keeps its windows empty off the budgets of its streams. Returns whether a stream may
    /// have ended. `minimum_rate` is in bytes per second.
    pub(crate) fn judge<M: Multiplexer>(
        &mut self,
        streams: &mut OpenStreams<M>,
        minimum_rate: u64,
        now: Instant,
    ) -> bool {
        if !streams.is_stalled() {
            self.stop();
            return false;
        }
        let sent = streams.content_sent();
        let (since, sent_before) = *self.since.get_or_insert((now, sent));
        let waited = now.saturating_duration_since(since);
        let least = streams.stall_left().unwrap_or_default();
        if waited < Duration::from_millis(limits::DEADLINE_CHECK_MILLISECONDS).min(least) {
            return false;
        }
        let enough = u128::from(minimum_rate) * waited.as_millis() / 1000;
        let others_go_on = u128::from(sent.saturating_sub(sent_before)) > enough;
        streams.spend_stalled(waited, others_go_on);
        self.since = Some((now, sent));
        true
    }

    /// The client has not to end a wait now.
    pub(crate) fn stop(&mut self) {
        self.since = None;
    }
}
