//! The buffer of a player: how much media lies ahead of playback, and when playback stalls.

use std::time::Duration;

/// The buffer of one player. Times are relative to the start of the run.
#[derive(Clone, Debug)]
pub struct PlaybackBuffer {
    began: Duration,
    at: Duration,
    ahead: Duration,
    start: Duration,
    state: PlaybackState,
    startup: Option<Duration>,
    stalls: u64,
    stalled: Duration,
    played: Duration,
    is_complete: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PlaybackState {
    Starting,
    Playing,
    Stalled { since: Duration },
    Ended,
}

impl PlaybackBuffer {
    /// An empty buffer; playback starts once `start` is buffered.
    pub fn new(now: Duration, start: Duration) -> Self {
        Self {
            began: now,
            at: now,
            ahead: Duration::ZERO,
            start,
            state: PlaybackState::Starting,
            startup: None,
            stalls: 0,
            stalled: Duration::ZERO,
            played: Duration::ZERO,
            is_complete: false,
        }
    }

    /// Lowers the amount that is buffered before playback starts.
    pub fn start_within(&mut self, most: Duration) {
        self.start = self.start.min(most);
    }

    /// Lets time pass.
    pub fn advance(&mut self, now: Duration) {
        let passed = now.saturating_sub(self.at);
        self.at = self.at.max(now);
        if self.state != PlaybackState::Playing {
            return;
        }
        if passed < self.ahead {
            self.ahead -= passed;
            self.played += passed;
            return;
        }
        self.played += self.ahead;
        let empty = now - (passed - self.ahead);
        self.ahead = Duration::ZERO;
        if self.is_complete {
            self.state = PlaybackState::Ended;
        } else {
            self.state = PlaybackState::Stalled { since: empty };
            self.stalls += 1;
        }
    }

    /// Adds media.
    pub fn fill(&mut self, now: Duration, duration: Duration) {
        self.advance(now);
        self.ahead += duration;
        self.start_if_enough();
    }

    /// Notes that all media was added.
    pub fn complete(&mut self, now: Duration) {
        self.advance(now);
        self.is_complete = true;
        self.start_if_enough();
    }

    fn start_if_enough(&mut self) {
        let is_enough = self.ahead >= self.start || self.is_complete;
        match self.state {
            _ if !is_enough => {}
            PlaybackState::Starting => {
                self.startup = Some(self.at - self.began);
                self.state = PlaybackState::Playing;
            }
            PlaybackState::Stalled { since } => {
                self.stalled += self.at - since;
                self.state = PlaybackState::Playing;
            }
            PlaybackState::Playing | PlaybackState::Ended => {}
        }
        if self.is_complete && self.ahead.is_zero() {
            self.state = PlaybackState::Ended;
        }
    }

    /// How much media lies ahead of playback.
    pub fn ahead(&self) -> Duration {
        self.ahead
    }

    /// Whether playback has ended.
    pub fn has_ended(&self) -> bool {
        self.state == PlaybackState::Ended
    }

    /// Whether playback has stopped for lack of data.
    pub fn is_stalled(&self) -> bool {
        matches!(self.state, PlaybackState::Stalled { .. })
    }

    /// From arrival to the first picture, if there was one.
    pub fn startup(&self) -> Option<Duration> {
        self.startup
    }

    /// The number of stalls, the time stalled, and the time played.
    pub fn experience(&self) -> (u64, Duration, Duration) {
        let running = match self.state {
            PlaybackState::Stalled { since } => self.at - since,
            _ => Duration::ZERO,
        };
        (self.stalls, self.stalled + running, self.played)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: Duration = Duration::from_secs(1);

    #[test]
    fn playback_starts_when_enough_is_buffered() {
        let mut buffer = PlaybackBuffer::new(10 * S, 4 * S);
        buffer.fill(11 * S, 2 * S);
        assert_eq!(buffer.startup(), None);
        buffer.fill(12 * S, 2 * S);
        assert_eq!(buffer.startup(), Some(2 * S));
        buffer.advance(13 * S);
        assert_eq!(buffer.ahead(), 3 * S);
    }

    #[test]
    fn a_stall_lasts_from_the_last_frame_until_enough_is_buffered() {
        let mut buffer = PlaybackBuffer::new(Duration::ZERO, 2 * S);
        buffer.fill(S, 2 * S);
        // Empty at 3 s; the next segment is too short, the one after is enough.
        buffer.fill(5 * S, S);
        buffer.fill(7 * S, S);
        assert_eq!(buffer.experience(), (1, 4 * S, 2 * S));
        buffer.advance(8 * S);
        assert_eq!(buffer.experience(), (1, 4 * S, 3 * S));
    }

    #[test]
    fn the_end_of_the_film_is_no_stall() {
        let mut buffer = PlaybackBuffer::new(Duration::ZERO, 2 * S);
        buffer.fill(S, 3 * S);
        buffer.complete(2 * S);
        buffer.advance(60 * S);
        assert!(buffer.has_ended());
        assert_eq!(buffer.experience(), (0, Duration::ZERO, 3 * S));
    }

    #[test]
    fn a_film_shorter_than_the_start_still_starts() {
        let mut buffer = PlaybackBuffer::new(Duration::ZERO, 10 * S);
        buffer.fill(S, 3 * S);
        buffer.complete(2 * S);
        assert_eq!(buffer.startup(), Some(2 * S));
    }

    #[test]
    fn a_stall_that_still_lasts_counts_up_to_now() {
        let mut buffer = PlaybackBuffer::new(Duration::ZERO, S);
        buffer.fill(S, S);
        buffer.advance(9 * S);
        assert_eq!(buffer.experience(), (1, 7 * S, S));
    }
}
