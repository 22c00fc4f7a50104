//! The schedule of an open loop, and how punctual the generator was.

use std::time::Duration;

/// Starts at equal distances, independent of the server. A thread takes every n-th of them.
#[derive(Clone, Copy, Debug)]
pub struct Schedule {
    rate: f64,
    first: u64,
    step: u64,
}

impl Schedule {
    /// `rate` starts per second; this is thread `thread` of `threads`.
    pub fn new(rate: f64, thread: usize, threads: usize) -> Self {
        Self { rate, first: thread as u64, step: threads.max(1) as u64 }
    }

    /// The time of start `index` of this thread, relative to the start of the run.
    pub fn due(&self, index: u64) -> Duration {
        let number = self.first + index * self.step;
        #[expect(clippy::cast_precision_loss, reason = "exact to 2^53 starts")]
        Duration::from_secs_f64(number as f64 / self.rate)
    }
}

/// The lateness from which a start is late: its latency would be the generator's own.
pub const LATE: Duration = Duration::from_millis(5);

/// The share of late starts, in percent, above which a run is void.
const LATE_PERCENT_MAX: u64 = 1;

/// How punctual the generator was. Waiting for a free connection is the server's doing and does not count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Punctuality {
    /// Starts that became due.
    pub starts: u64,
    /// Starts that were noticed late.
    pub late: u64,
    /// The largest lateness.
    pub worst: Duration,
    /// Starts that found all connections busy.
    pub queued: u64,
}

impl Punctuality {
    /// Adds a start with its lateness.
    pub fn note(&mut self, lateness: Duration) {
        self.starts += 1;
        self.late += u64::from(lateness > LATE);
        self.worst = self.worst.max(lateness);
    }

    /// Adds the starts of another thread.
    pub fn add(&mut self, other: &Self) {
        self.starts += other.starts;
        self.late += other.late;
        self.queued += other.queued;
        self.worst = self.worst.max(other.worst);
    }

    /// Why the run is void, if it is.
    pub fn fault(&self) -> Option<String> {
        (self.late * 100 > self.starts * LATE_PERCENT_MAX).then(|| {
            format!(
                "the generator was late: {} of {} starts by more than {} ms, the worst by {} ms; lower --rate, or give \
                 it more --threads or a quieter machine",
                self.late,
                self.starts,
                LATE.as_millis(),
                self.worst.as_millis()
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn starts_are_due_at_even_distances() {
        let schedule = Schedule::new(500.0, 0, 1);
        let due: Vec<_> = (0..4).map(|index| schedule.due(index).as_micros()).collect();
        assert_eq!(due, [0, 2000, 4000, 6000]);
    }

    #[test]
    fn threads_share_one_schedule() {
        let mut due: Vec<_> = (0..3)
            .flat_map(|thread| {
                (0..2).map(move |index| Schedule::new(100.0, thread, 3).due(index).as_millis())
            })
            .collect();
        due.sort_unstable();
        assert_eq!(due, [0, 10, 20, 30, 40, 50]);
    }

    #[test]
    fn long_runs_do_not_drift() {
        let schedule = Schedule::new(1_000_000.0 / 3.0, 0, 1);
        let day = schedule.due(1_000_000 / 3 * 86_400);
        assert!((86_399..=86_400).contains(&day.as_secs()), "{day:?}");
    }

    #[test]
    fn a_run_is_void_when_more_than_one_start_in_a_hundred_was_late() {
        let mut punctuality = Punctuality::default();
        for _ in 0..99 {
            punctuality.note(Duration::from_micros(80));
        }
        punctuality.note(LATE + Duration::from_millis(1));
        assert_eq!(punctuality.fault(), None);
        punctuality.note(Duration::from_millis(30));
        let fault = punctuality.fault().unwrap();
        assert!(fault.contains("2 of 101 starts") && fault.contains("the worst by 30 ms"), "{fault}");
    }

    #[test]
    fn a_run_without_a_schedule_is_not_void() {
        assert_eq!(Punctuality::default().fault(), None);
    }
}
