//! What ends because a client takes too long.

use std::time::{Duration, Instant};

use penstock_config::limits;
use penstock_http2::{ErrorCode, Shutdown};

use super::{End, Goaway, IDLE_MEMORY, Session};
use crate::clients::IdleEntry;
use crate::connection::{CLOSE_NOTIFY, drop_unacknowledged, unacknowledged_bytes};
use crate::metrics::{Refusal, ShortReason};

impl Session {
    /// When the next deadline of the connection is.
    pub(super) fn deadline(&self, now: Instant) -> Option<Instant> {
        let limits = &self.settings.limits;
        let state = self.shared.state.borrow();
        let kept_for =
            if self.holds_memory { IDLE_MEMORY.min(limits.idle_timeout) } else { limits.idle_timeout };
        let idle = self.idle.is_some().then(|| self.idle_since + kept_for);
        let unfinished = self.unfinished.map(|(_, since)| since + limits.head_deadline);
        let blocked = self.budget.left().filter(|_| self.is_blocked).map(|left| now + left);
        let check = Duration::from_millis(limits::DEADLINE_CHECK_MILLISECONDS);
        let stalled = state.stall_left().filter(|_| !self.is_blocked).map(|left| now + left.min(check));
        let early = self.connection.early_deadline();
        let goaway = match self.goaway {
            Goaway::First(due) => Some(due),
            Goaway::None | Goaway::Last => None,
        };
        [idle, unfinished, blocked, stalled, early, goaway].into_iter().flatten().min()
    }

    /// Ends the streams, or the connection, that have reached their deadlines.
    pub(super) fn judge(&mut self, now: Instant) -> Result<(), End> {
        if self.idle.as_ref().is_some_and(IdleEntry::is_evicted) {
            self.connection.worker.shard.refused(Refusal::Evicted);
            self.is_given_up = true;
            return Err(self.end_with(ErrorCode::NO_ERROR));
        }
        if matches!(self.goaway, Goaway::First(due) if now >= due) {
            self.shared.state.borrow_mut().protocol.connection.shutdown(Shutdown::Final);
            self.goaway = Goaway::Last;
        }
        let limits = &self.settings.limits;
        if self.unfinished.is_some_and(|(_, since)| now >= since + limits.head_deadline) {
            self.connection.worker.shard.http2_error("frame_too_slow");
            return Err(self.end_with(ErrorCode::ENHANCE_YOUR_CALM));
        }
        if self.idle.is_some() && now >= self.idle_since + limits.idle_timeout {
            return Err(self.end_with(ErrorCode::NO_ERROR));
        }
        if self.is_blocked && self.budget.left() == Some(Duration::ZERO) {
            let socket = &self.connection.socket;
            if !self.budget.earn(self.sent.saturating_sub(unacknowledged_bytes(socket))) {
                drop_unacknowledged(socket);
                self.shared.state.borrow_mut().fail_all(ShortReason::TooSlow, &self.shared);
                self.is_given_up = true;
                return Err(End(CLOSE_NOTIFY));
            }
        }
        self.judge_stalls(now);
        Ok(())
    }

    /// Takes the time that clients keep their windows empty off the budgets of the streams.
    fn judge_stalls(&mut self, now: Instant) {
        if self.is_blocked {
            return self.stalled.stop();
        }
        let mut state = self.shared.state.borrow_mut();
        if self.stalled.judge(&mut state, self.settings.limits.minimum_rate, now) {
            self.shared.set_changed();
        }
    }

    /// Tells the client that the connection ends.
    fn end_with(&mut self, code: ErrorCode) -> End {
        self.shared.state.borrow_mut().protocol.connection.close(code);
        // A full socket takes no more; the connection ends all the same.
        drop(self.send());
        End(CLOSE_NOTIFY)
    }
}
