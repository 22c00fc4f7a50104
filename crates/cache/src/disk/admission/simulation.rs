//! Both tiers under a trace like those that are published of video: few things are asked for all the time, many once.

use std::collections::{HashMap, HashSet, VecDeque};

use super::*;
use crate::s3_fifo::{Candidate, S3Fifo, Uses};

/// The capacity of the memory tier in slices.
const MEMORY: usize = 100;
const DISK: usize = 600;
const REQUESTS: usize = 120_000;

/// A disk: first in, first out.
#[derive(Default)]
struct Disk {
    order: VecDeque<u32>,
    there: HashSet<u32>,
    writes: u32,
}

impl Disk {
    fn write(&mut self, name: u32) {
        if !self.there.insert(name) {
            return;
        }
        self.writes += 1;
        self.order.push_back(name);
        if self.order.len() > DISK {
            let oldest = self.order.pop_front().unwrap();
            self.there.remove(&oldest);
        }
    }
}

/// Memory under S3-FIFO in front of a disk.
struct Tiers {
    admission: S3Fifo<u32, u32>,
    uses: HashMap<u32, (Uses, u8)>,
    disk: Disk,
    /// Whether what comes is written at once, without a second request.
    writes_all: bool,
    from_disk: HashMap<u32, u8>,
}

impl Tiers {
    fn new(writes_all: bool) -> Self {
        let disk = Disk::default();
        let mut admission = S3Fifo::new();
        admission.remember_at_least(DISK);
        Self { admission, uses: HashMap::new(), disk, writes_all, from_disk: HashMap::new() }
    }

    /// Whether a tier had it.
    fn ask(&mut self, name: u32) -> bool {
        if let Some((uses, requests)) = self.uses.get_mut(&name) {
            uses.add();
            *requests = requests.saturating_add(1);
            let known = InMemory {
                requests: *requests,
                on_disk: self.disk.there.contains(&name),
                bytes_in_flight: 0,
                bytes_in_flight_max: 1,
            };
            if is_written(known, 1) {
                self.disk.write(name);
            }
            return true;
        }
        if self.disk.there.contains(&name) {
            let requests = self.from_disk.entry(name).or_default();
            *requests += 1;
            if is_promoted(*requests) {
                self.from_disk.remove(&name);
                self.take_in(name, TO_DISK);
            }
            return true;
        }
        let comes_back = self.take_in(name, 1);
        if self.writes_all || comes_back {
            self.disk.write(name);
        }
        false
    }

    fn take_in(&mut self, name: u32, requests: u8) -> bool {
        while self.uses.len() >= MEMORY {
            let uses = &self.uses;
            let look = |name| uses.get(&name).map_or(Candidate::Gone, |(uses, _)| Candidate::Kept(uses));
            let gone = self.admission.evict(look).unwrap();
            self.uses.remove(&gone.name).unwrap();
            if gone.is_to_be_remembered {
                self.admission.remember(gone.name);
            }
        }
        self.uses.insert(name, (Uses::default(), requests));
        self.admission.insert(name, name)
    }
}

/// One tier with the capacity of both.
fn plain(requests: &[u32], moves_up: bool) -> u32 {
    let (mut order, mut hits) = (VecDeque::new(), 0);
    for name in requests {
        match order.iter().position(|kept| kept == name) {
            Some(place) => {
                hits += 1;
                if moves_up {
                    order.remove(place);
                    order.push_back(*name);
                }
            }
            None => {
                order.push_back(*name);
                if order.len() > MEMORY + DISK {
                    order.pop_front();
                }
            }
        }
    }
    hits
}

/// Zipf 0.9 over 5,000 names; one request in three is for a name that is never asked for again.
fn requests() -> Vec<u32> {
    let mut sums: Vec<f64> = Vec::new();
    for rank in 1..=5_000 {
        sums.push(sums.last().copied().unwrap_or(0.0) + f64::from(rank).powf(-0.9));
    }
    let total = *sums.last().unwrap();
    let (mut state, mut once) = (0x9e37_79b9_7f4a_7c15_u64, 1_000_000);
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    (0..REQUESTS)
        .map(|_| {
            if next().is_multiple_of(3) {
                once += 1;
                return once;
            }
            let drawn = f64::from(u32::try_from(next() >> 32).unwrap()) / f64::from(u32::MAX) * total;
            u32::try_from(sums.partition_point(|sum| *sum < drawn)).unwrap()
        })
        .collect()
}

#[test]
fn a_second_request_before_writing_saves_the_disk_and_keeps_more() {
    let requests = requests();
    let run = |writes_all| {
        let mut tiers = Tiers::new(writes_all);
        let hits = requests.iter().filter(|name| tiers.ask(**name)).count();
        (u32::try_from(hits).unwrap(), tiers.disk.writes)
    };
    let (ours, ours_written) = run(false);
    let (all, all_written) = run(true);
    let (lru, fifo) = (plain(&requests, true), plain(&requests, false));
    println!(
        "of {REQUESTS} requests, memory for {MEMORY} and a disk for {DISK}: hits {ours} with {ours_written} slices \
         written; writing all that comes {all} with {all_written}; one tier of the same capacity, LRU {lru}, FIFO {fifo}"
    );
    assert!(ours > all && ours > lru && lru > fifo, "{ours} {all} {lru} {fifo}");
    assert!(ours_written * 10 < all_written, "{ours_written} {all_written}");
}
