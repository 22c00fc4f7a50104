//! Time for policies: the system's, or a clock that a test moves.

use std::time::{Instant, SystemTime};

/// One moment on both clocks, monotonic and wall.
pub(crate) type Moment = (Instant, SystemTime);

/// Monotonic and wall-clock time.
///
/// The monotonic clock is the runtime's. With a paused runtime it moves only when the test moves it, and the wall clock
/// of [`Clock::starting_at`] moves with it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Clock {
    start: Option<(Instant, SystemTime)>,
}

impl Clock {
    /// The system's clocks.
    pub fn system() -> Self {
        Self::default()
    }

    /// A wall clock that begins at `wall` and runs with the monotonic clock.
    pub fn starting_at(wall: SystemTime) -> Self {
        Self { start: Some((tokio::time::Instant::now().into_std(), wall)) }
    }

    /// Monotonic time.
    pub fn now(&self) -> Instant {
        tokio::time::Instant::now().into_std()
    }

    /// Wall-clock time.
    pub fn wall(&self) -> SystemTime {
        match self.start {
            Some((start, wall)) => wall + self.now().saturating_duration_since(start),
            None => SystemTime::now(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn both_clocks_move_when_a_test_moves_them() {
        let clock = Clock::starting_at(UNIX_EPOCH);
        let before = clock.now();
        tokio::time::advance(Duration::from_secs(60)).await;
        assert_eq!(clock.now() - before, Duration::from_secs(60));
        assert_eq!(clock.wall(), UNIX_EPOCH + Duration::from_secs(60));
    }
}
