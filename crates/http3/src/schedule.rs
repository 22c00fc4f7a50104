//! Whose turn it is to send (RFC 9218 §10).

/// What a stream has to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Readiness {
    /// Nothing at the moment.
    Nothing,
    /// A head, or the end of the stream.
    Frames,
    /// Content.
    Content,
}

/// The order of the streams of one connection: by urgency; within an urgency the incremental streams take turns with the
/// first of the others.
#[derive(Debug, Default)]
pub struct Schedule {
    /// In the order of their numbers.
    entries: Vec<StreamPriority>,
    clock: u64,
    /// The last turn of the streams of each urgency that are not incremental.
    sequential: [u64; 8],
}

#[derive(Debug)]
struct StreamPriority {
    stream: u64,
    asked: Option<u8>,
    default: u8,
    incremental: bool,
    readiness: Readiness,
    turn: u64,
}

impl StreamPriority {
    fn urgency(&self) -> u8 {
        self.asked.unwrap_or(self.default)
    }
}

const DEFAULT_URGENCY: u8 = 3;
const URGENCY_MAX: u8 = 7;

impl Schedule {
    fn entry(&mut self, stream: u64) -> Option<&mut StreamPriority> {
        let position = self.entries.binary_search_by_key(&stream, |entry| entry.stream).ok()?;
        self.entries.get_mut(position)
    }

    /// Adds a stream with the priority that the client asks for.
    pub fn add(&mut self, stream: u64, urgency: Option<u8>, incremental: bool) {
        let Err(position) = self.entries.binary_search_by_key(&stream, |entry| entry.stream) else { return };
        let turn = self.clock;
        let (readiness, default) = (Readiness::Nothing, DEFAULT_URGENCY);
        let asked = urgency.map(|urgency| urgency.min(URGENCY_MAX));
        self.entries
            .insert(position, StreamPriority { stream, asked, default, incremental, readiness, turn });
    }

    /// Removes a stream.
    pub fn remove(&mut self, stream: u64) {
        self.entries.retain(|entry| entry.stream != stream);
    }

    /// Sets what a stream has to send.
    pub fn set(&mut self, stream: u64, readiness: Readiness) {
        if let Some(entry) = self.entry(stream) {
            entry.readiness = readiness;
        }
    }

    /// The urgency of a stream for which the client asks none.
    pub fn set_default_urgency(&mut self, stream: u64, urgency: u8) {
        if let Some(entry) = self.entry(stream) {
            entry.default = urgency.min(URGENCY_MAX);
        }
    }

    /// Sets the priority that the client asks for later.
    pub fn update(&mut self, stream: u64, urgency: Option<u8>, incremental: bool) {
        if let Some(entry) = self.entry(stream) {
            entry.asked = urgency.map(|urgency| urgency.min(URGENCY_MAX));
            entry.incremental = incremental;
        }
    }

    /// Urgency and whether the stream is incremental.
    pub fn priority(&self, stream: u64) -> (u8, bool) {
        let found = self.entries.binary_search_by_key(&stream, |entry| entry.stream);
        found
            .map_or((DEFAULT_URGENCY, false), |at| (self.entries[at].urgency(), self.entries[at].incremental))
    }

    /// The streams that have content to send.
    pub fn with_content(&self) -> impl Iterator<Item = u64> {
        let ready = self.entries.iter().filter(|entry| entry.readiness == Readiness::Content);
        ready.map(|entry| entry.stream)
    }

    /// The next stream among those that have something to send and for which `may_send`. Its turn ends with this call.
    pub fn next(&mut self, mut may_send: impl FnMut(u64, Readiness) -> bool) -> Option<u64> {
        let mut best: Option<(u8, u64, usize)> = None;
        let mut sequential_seen = 0_u8;
        for (at, entry) in self.entries.iter().enumerate() {
            let (urgency, bit) = (entry.urgency(), 1 << entry.urgency());
            let is_later = !entry.incremental && sequential_seen & bit != 0;
            if entry.readiness == Readiness::Nothing || is_later || !may_send(entry.stream, entry.readiness) {
                continue;
            }
            let turn = if entry.incremental {
                entry.turn
            } else {
                sequential_seen |= bit;
                self.sequential[usize::from(urgency)]
            };
            if best.is_none_or(|best| (urgency, turn) < (best.0, best.1)) {
                best = Some((urgency, turn, at));
            }
        }
        let (urgency, _, at) = best?;
        self.clock += 1;
        let entry = &mut self.entries[at];
        if entry.incremental {
            entry.turn = self.clock;
        } else {
            self.sequential[usize::from(urgency)] = self.clock;
        }
        Some(entry.stream)
    }

    /// Gives back memory if there is no stream.
    pub fn shrink(&mut self) {
        if self.entries.is_empty() {
            self.entries = Vec::new();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(streams: &[(u64, Option<u8>, bool)]) -> Schedule {
        let mut schedule = Schedule::default();
        for &(stream, urgency, incremental) in streams {
            schedule.add(stream, urgency, incremental);
            schedule.set(stream, Readiness::Content);
        }
        schedule
    }

    fn turns(schedule: &mut Schedule, count: usize) -> Vec<u64> {
        (0..count).map_while(|_| schedule.next(|_, _| true)).collect()
    }

    #[test]
    fn urgent_streams_go_first_and_others_of_an_urgency_in_the_order_of_their_numbers() {
        let mut schedule = with(&[(8, None, false), (0, Some(5), false), (4, Some(1), false)]);
        assert_eq!(turns(&mut schedule, 2), [4, 4]);
        schedule.remove(4);
        assert_eq!(turns(&mut schedule, 2), [8, 8]);
        schedule.set(8, Readiness::Nothing);
        assert_eq!(turns(&mut schedule, 1), [0]);
        schedule.update(0, Some(9), false);
        assert_eq!(schedule.priority(0), (7, false));
        schedule.set(0, Readiness::Nothing);
        assert!(turns(&mut schedule, 1).is_empty() && schedule.with_content().next().is_none());
    }

    #[test]
    fn incremental_streams_take_turns_with_the_first_of_the_others() {
        let mut schedule = with(&[(0, None, true), (4, None, false), (8, None, true), (12, None, false)]);
        let mut first = turns(&mut schedule, 6);
        assert_eq!(first.iter().filter(|stream| **stream == 12).count(), 0, "{first:?}");
        first.sort_unstable();
        assert_eq!(first, [0, 0, 4, 4, 8, 8]);
    }

    #[test]
    fn a_stream_that_may_not_send_is_passed_over() {
        let mut schedule = with(&[(0, None, false), (4, None, false)]);
        schedule.set(4, Readiness::Frames);
        assert_eq!(schedule.next(|_, readiness| readiness == Readiness::Frames), Some(4));
        assert_eq!(schedule.next(|stream, _| stream == 0), Some(0));
        assert_eq!(schedule.next(|_, _| false), None);
    }

    #[test]
    fn the_default_of_the_server_counts_where_the_client_asks_nothing() {
        let mut schedule = with(&[(0, None, false), (4, Some(2), false)]);
        schedule.set_default_urgency(0, 1);
        schedule.set_default_urgency(4, 7);
        assert_eq!((schedule.priority(0), schedule.priority(4)), ((1, false), (2, false)));
        assert_eq!(turns(&mut schedule, 1), [0]);
    }
}
