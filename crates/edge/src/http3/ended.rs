//! Connections that have ended not long ago.

use std::collections::{HashSet, VecDeque};
use std::time::{Duration, Instant};

use penstock_config::limits;
use penstock_http3::ConnectionId;

/// Their ids. Packets that were under way at the end are nothing to be answered: a stateless reset could reach the client before the
/// reason of the end does.
#[derive(Default)]
pub(super) struct Ended {
    ids: HashSet<ConnectionId>,
    /// When each was added, in this order.
    times: VecDeque<(Instant, ConnectionId)>,
}

impl Ended {
    pub(super) fn add(&mut self, id: ConnectionId, now: Instant) {
        self.expire(now);
        if self.times.len() == limits::QUIC_ENDED_IDS {
            self.drop_first();
        }
        if self.ids.insert(id) {
            self.times.push_back((now, id));
        }
    }

    pub(super) fn has(&mut self, id: &ConnectionId, now: Instant) -> bool {
        self.expire(now);
        self.ids.contains(id)
    }

    fn expire(&mut self, now: Instant) {
        let kept = Duration::from_secs(limits::QUIC_ENDED_SECONDS);
        while self.times.front().is_some_and(|(since, _)| now.duration_since(*since) >= kept) {
            self.drop_first();
        }
    }

    fn drop_first(&mut self) {
        if let Some((_, id)) = self.times.pop_front() {
            self.ids.remove(&id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_known_for_a_time_and_up_to_a_number() {
        let mut ended = Ended::default();
        let start = Instant::now();
        let [first, second] = [(); 2].map(|()| ConnectionId::random(0, 1));
        ended.add(first, start);
        ended.add(first, start);
        let later = start + Duration::from_secs(limits::QUIC_ENDED_SECONDS - 1);
        ended.add(second, later);
        assert!(ended.has(&first, later) && ended.has(&second, later));
        let last = start + Duration::from_secs(limits::QUIC_ENDED_SECONDS);
        assert!(!ended.has(&first, last) && ended.has(&second, last));
        for _ in 0..limits::QUIC_ENDED_IDS {
            ended.add(ConnectionId::random(0, 1), last);
        }
        assert!(!ended.has(&second, last));
        assert_eq!((ended.ids.len(), ended.times.len()), (limits::QUIC_ENDED_IDS, limits::QUIC_ENDED_IDS));
    }
}
