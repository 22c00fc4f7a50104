//! The minimum rate of a body. Pure: time is an argument.

use std::time::Duration;

use super::error::OriginError;
use super::settings::MinimumRate;

/// Measures the rate of one body over the time spent waiting for it: a reader that is slow itself does not count
/// against the origin.
#[derive(Debug, Default)]
pub(super) struct RateMeter {
    waited: Duration,
    bytes: u64,
}

impl RateMeter {
    /// Adds bytes and the time spent waiting for them.
    ///
    /// # Errors
    /// [`OriginError::TooSlow`] if a window has passed with too few bytes.
    pub(super) fn record(
        &mut self,
        waited: Duration,
        bytes: usize,
        minimum: &MinimumRate,
    ) -> Result<(), OriginError> {
        self.waited += waited;
        self.bytes += bytes as u64;
        if self.waited < minimum.window {
            return Ok(());
        }
        let window = std::mem::take(self);
        let wanted = minimum.bytes_per_second as f64 * window.waited.as_secs_f64();
        if (window.bytes as f64) < wanted { Err(OriginError::TooSlow) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINIMUM: MinimumRate = MinimumRate { bytes_per_second: 100, window: Duration::from_secs(10) };

    fn seconds(meter: &mut RateMeter, seconds: u32, bytes: usize) -> bool {
        (0..seconds).any(|_| meter.record(Duration::from_secs(1), bytes, &MINIMUM).is_err())
    }

    #[test]
    fn a_byte_per_second_is_too_slow_after_one_window_and_not_before() {
        let mut meter = RateMeter::default();
        assert!(!seconds(&mut meter, 9, 1));
        assert!(seconds(&mut meter, 1, 1));
    }

    #[test]
    fn the_minimum_itself_is_enough_and_a_fast_start_pays_for_no_later_window() {
        let mut meter = RateMeter::default();
        assert!(!seconds(&mut meter, 100, 100));
        assert!(meter.record(Duration::ZERO, 1 << 30, &MINIMUM).is_ok());
        assert!(!seconds(&mut meter, 10, 1));
        assert!(seconds(&mut meter, 10, 1));
    }

    #[test]
    fn time_spent_elsewhere_does_not_count() {
        let mut meter = RateMeter::default();
        assert!(!(0..1000).any(|_| meter.record(Duration::ZERO, 1, &MINIMUM).is_err()));
    }
}
