//! Bounds on how often a client does what costs more to serve than to send.

use std::time::{Duration, Instant};

use crate::error::ConnectionError;
use crate::frame::calm;
use crate::limits::FloodLimits;

/// What is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flood {
    /// Streams that the client resets.
    Reset,
    /// Streams that this side resets because of an error of the client.
    ProvokedReset,
    /// Streams that are refused.
    RefusedStream,
    /// Answers that a client asks for.
    Ping,
    /// Settings.
    Settings,
    /// Frames of content without content.
    EmptyData,
    /// Other priorities.
    Priority,
    /// Updates of windows that bring little.
    WindowUpdate,
    /// Frames without effect.
    Ignored,
}

impl Flood {
    const KINDS: usize = 9;

    /// The label of the bound.
    const fn reason(self) -> &'static str {
        match self {
            Self::Reset => "reset_flood",
            Self::ProvokedReset => "provoked_reset_flood",
            Self::RefusedStream => "refused_stream_flood",
            Self::Ping => "ping_flood",
            Self::Settings => "settings_flood",
            Self::EmptyData => "empty_data_flood",
            Self::Priority => "priority_flood",
            Self::WindowUpdate => "window_update_flood",
            Self::Ignored => "ignored_frame_flood",
        }
    }
}

/// Counts of a connection. Each falls by a tenth of its limit in a second, so that a client may reach the limit at once, and a
/// tenth of it in each second after that.
#[derive(Debug)]
pub struct FloodGuard {
    counts: [u16; Flood::KINDS],
    limits: [u16; Flood::KINDS],
    counted_until: Option<Instant>,
}

impl FloodGuard {
    /// Counts of a new connection.
    pub fn new(limits: &FloodLimits) -> Self {
        let limits = [
            limits.resets,
            limits.provoked_resets,
            limits.refused_streams,
            limits.pings,
            limits.settings,
            limits.empty_data,
            limits.priorities,
            limits.window_updates,
            limits.ignored,
        ];
        Self { counts: [0; Flood::KINDS], limits, counted_until: None }
    }

    /// Lets the counts fall with time.
    pub fn advance(&mut self, now: Instant) {
        let since = *self.counted_until.get_or_insert(now);
        let seconds = now.saturating_duration_since(since).as_secs();
        if seconds == 0 {
            return;
        }
        self.counted_until = Some(since + Duration::from_secs(seconds));
        for (count, limit) in self.counts.iter_mut().zip(self.limits) {
            let fall = (u64::from(limit) * seconds).div_ceil(FloodLimits::PERIOD_SECONDS);
            *count = count.saturating_sub(u16::try_from(fall).unwrap_or(u16::MAX));
        }
    }

    /// Counts one of a kind.
    ///
    /// # Errors
    /// The limit is exceeded: ENHANCE_YOUR_CALM.
    pub fn count(&mut self, kind: Flood) -> Result<(), ConnectionError> {
        let count = &mut self.counts[kind as usize];
        *count = count.saturating_add(1);
        if *count > self.limits[kind as usize] { Err(calm(kind.reason())) } else { Ok(()) }
    }

    /// Allows some more of a kind.
    pub(crate) fn allow(&mut self, kind: Flood, number: u16) {
        let count = &mut self.counts[kind as usize];
        *count = count.saturating_sub(number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_may_be_reached_at_once_and_a_tenth_of_it_in_each_second() {
        let mut guard = FloodGuard::new(&FloodLimits { pings: 20, ..FloodLimits::default() });
        let start = Instant::now();
        guard.advance(start);
        for _ in 0..20 {
            assert_eq!(guard.count(Flood::Ping), Ok(()));
        }
        for seconds in 1..50 {
            for part in 0..4 {
                guard.advance(start + Duration::from_millis(seconds * 1000 + part * 250));
            }
            assert_eq!(guard.count(Flood::Ping), Ok(()));
            assert_eq!(guard.count(Flood::Ping), Ok(()));
        }
        assert_eq!(guard.count(Flood::Ping), Err(calm("ping_flood")));
    }

    #[test]
    fn what_is_allowed_in_addition_is_not_counted() {
        let mut guard = FloodGuard::new(&FloodLimits { window_updates: 1, ..FloodLimits::default() });
        for _ in 0..10 {
            guard.allow(Flood::WindowUpdate, 2);
            assert_eq!(guard.count(Flood::WindowUpdate), Ok(()));
        }
        assert_eq!(guard.count(Flood::WindowUpdate), Err(calm("window_update_flood")));
    }
}
