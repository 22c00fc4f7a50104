//! A timer of a connection that waits again and again.

use std::pin::Pin;
use std::time::Instant;

use tokio::time::{Sleep, sleep_until};

/// A timer that stays set from one wait to the next. Deadlines move away with each request: the timer is set anew when it has rung too
/// early, which is once in a deadline's length, and not for each of these waits.
#[derive(Debug, Default)]
pub(crate) struct Alarm(Option<Pin<Box<Sleep>>>);

impl Alarm {
    /// Waits until the deadline.
    pub(crate) async fn rings(&mut self, deadline: Instant) {
        let deadline = deadline.into();
        let sleep = self.0.get_or_insert_with(|| Box::pin(sleep_until(deadline)));
        if sleep.deadline() > deadline {
            sleep.as_mut().reset(deadline);
        }
        loop {
            sleep.as_mut().await;
            if sleep.deadline() >= deadline {
                return;
            }
            sleep.as_mut().reset(deadline);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::{Instant as TokioInstant, timeout};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn it_rings_at_each_deadline_and_never_before() {
        let (mut alarm, start) = (Alarm::default(), TokioInstant::now());
        let at = |seconds| start + Duration::from_secs(seconds);
        // Each wait ends by something else, and the next deadline is later; then one is earlier, and one has passed.
        for second in 0..20 {
            let waited = timeout(Duration::from_secs(1), alarm.rings(at(second + 5).into_std())).await;
            assert!(waited.is_err(), "it rang at {second}");
        }
        for (deadline, rings) in [(25, 25), (24, 25), (90, 90), (95, 95), (0, 95)] {
            alarm.rings(at(deadline).into_std()).await;
            assert_eq!(TokioInstant::now().duration_since(start).as_secs(), rings, "{deadline}");
        }
    }
}
