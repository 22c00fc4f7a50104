//! How many different clients of a site received too slowly in the last minute, in constant memory.

use std::sync::OnceLock;

use crate::cells::Counter;
use crate::distinct::{Distinct, NameHash, Registers};
use crate::facts::RateId;
use crate::limits;

/// Registers of one part of the window: the standard error is 6.5 %.
const REGISTERS: usize = 256;

/// Seconds of one part of the window.
const PART_SECONDS: u64 = 15;

/// The parts of the last minute, and the one that is being filled.
const PARTS: usize = 5;

const _: () = assert!((PARTS as u64 - 1) * PART_SECONDS == 60, "the whole parts are a minute");

/// Clients of a site whose rate was measured, in one worker.
#[derive(Debug, Default)]
pub(crate) struct ViewerCounters {
    all: RecentClients,
    /// By rate: those that received more slowly.
    slow: [OnceLock<Box<RecentClients>>; limits::RATES],
}

/// Different clients of the last minute, in parts that are overwritten in turn.
#[derive(Debug, Default)]
struct RecentClients([Part; PARTS]);

#[derive(Debug, Default)]
struct Part {
    /// Its number since the start, from 1; 0 if it was never filled.
    number: Counter,
    clients: Distinct<REGISTERS>,
}

impl RecentClients {
    fn add(&self, client: NameHash, second: u64) {
        let number = part_number(second);
        let place = usize::try_from(number % PARTS as u64).ok();
        let Some(part) = place.and_then(|place| self.0.get(place)) else { return };
        if part.number.get() != number {
            // A reader between the two calls finds too few clients, once in a quarter of a minute.
            part.clients.clear();
            part.number.set(number);
        }
        part.clients.add(client);
    }

    fn merge_into(&self, sum: &mut Registers<REGISTERS>, second: u64) {
        let oldest = (part_number(second) + 1).saturating_sub(PARTS as u64);
        let recent = self.0.iter().filter(|part| part.number.get() >= oldest.max(1));
        recent.for_each(|part| sum.merge_from(&part.clients));
    }
}

fn part_number(second: u64) -> u64 {
    second / PART_SECONDS + 1
}

impl ViewerCounters {
    /// Counts a client whose rate was measured in this second since the start.
    pub(crate) fn measured(&self, client: NameHash, second: u64) {
        self.all.add(client, second);
    }

    /// Counts it among those that received more slowly than a rate.
    pub(crate) fn slower(&self, rate: RateId, client: NameHash, second: u64) {
        if let Some(slow) = self.slow.get(rate.0) {
            slow.get_or_init(Box::default).add(client, second);
        }
    }
}

/// The clients of the last minute whose rate was measured in any of these workers, or those of them below a rate, estimated.
pub(crate) fn viewers(workers: &[&ViewerCounters], below: Option<usize>, second: u64) -> u64 {
    let mut sum = Registers::default();
    for counters in workers {
        let clients = match below {
            None => Some(&counters.all),
            Some(rate) => counters.slow.get(rate).and_then(OnceLock::get).map(|clients| &**clients),
        };
        clients.into_iter().for_each(|clients| clients.merge_into(&mut sum, second));
    }
    sum.estimate()
}

/// Bytes of the counters with so many rates.
#[cfg(test)]
pub(crate) fn bytes(rates: usize) -> usize {
    size_of::<ViewerCounters>() + rates * size_of::<RecentClients>()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_counts_for_a_minute_and_once_in_all_workers() {
        let client = NameHash::of_number;
        let (one, other) = (ViewerCounters::default(), ViewerCounters::default());
        let seen = |below, second| viewers(&[&one, &other], below, second);
        assert_eq!(seen(None, 0), 0);
        for second in [0, 3, 14] {
            one.measured(client(1), second);
            other.measured(client(1), second);
        }
        other.measured(client(2), 20);
        other.slower(RateId(1), client(2), 20);
        assert_eq!((seen(None, 20), seen(Some(1), 20), seen(Some(0), 20)), (2, 1, 0));
        assert_eq!(seen(None, 74), 2, "at least a minute");
        assert_eq!((seen(None, 75), seen(Some(1), 75)), (1, 1), "the first part is too old");
        assert_eq!((seen(None, 90), seen(Some(1), 90)), (0, 0));
        // The place of an old part is taken.
        one.measured(client(3), 5 * PART_SECONDS);
        assert_eq!(seen(None, 5 * PART_SECONDS), 2);
    }
}
