use std::collections::HashMap;

use super::*;

/// A cache of `capacity` equal slices under the policy.
struct Kept {
    policy: S3Fifo<u32, u32>,
    uses: HashMap<u32, Uses>,
    capacity: usize,
}

impl Kept {
    fn new(capacity: usize) -> Self {
        Self { policy: S3Fifo::new(), uses: HashMap::new(), capacity }
    }

    /// Whether it was there.
    fn ask(&mut self, name: u32) -> bool {
        if let Some(uses) = self.uses.get(&name) {
            uses.add();
            return true;
        }
        while self.uses.len() >= self.capacity {
            let uses = &self.uses;
            let look = |name| uses.get(&name).map_or(Candidate::Gone, Candidate::Kept);
            let gone = self.policy.evict(look).expect("a slice is kept");
            self.uses.remove(&gone.name).expect("an evicted slice was kept");
            if gone.is_to_be_remembered {
                self.policy.remember(gone.name);
            }
        }
        self.uses.insert(name, Uses::default());
        self.policy.insert(name, name);
        false
    }
}

struct Lru {
    order: VecDeque<u32>,
    capacity: usize,
    moves_up: bool,
}

impl Lru {
    fn ask(&mut self, name: u32) -> bool {
        if let Some(place) = self.order.iter().position(|kept| *kept == name) {
            if self.moves_up {
                self.order.remove(place);
                self.order.push_back(name);
            }
            return true;
        }
        if self.order.len() >= self.capacity {
            self.order.pop_front();
        }
        self.order.push_back(name);
        false
    }
}

/// Xorshift: the same numbers in each run.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn unit(&mut self) -> f64 {
        f64::from(u32::try_from(self.next() >> 32).expect("32 bits")) / f64::from(u32::MAX)
    }
}

/// Names under a Zipf law of exponent 0.9 over `count` of them; one request in three is for a name never asked again.
fn requests(count: u32, length: usize) -> Vec<u32> {
    let weights: Vec<f64> = (1..=count).map(|rank| f64::from(rank).powf(-0.9)).collect();
    let total: f64 = weights.iter().sum();
    let mut sums = Vec::new();
    let mut sum = 0.0;
    for weight in weights {
        sum += weight / total;
        sums.push(sum);
    }
    let mut numbers = Numbers(0x9e37_79b9_7f4a_7c15);
    let mut once = count;
    (0..length)
        .map(|_| {
            if numbers.next().is_multiple_of(3) {
                once += 1;
                return once;
            }
            let drawn = numbers.unit();
            u32::try_from(sums.partition_point(|sum| *sum < drawn)).expect("few names")
        })
        .collect()
}

#[test]
fn under_zipf_with_one_hit_wonders_it_keeps_more_than_lru_and_fifo() {
    let requests = requests(2000, 60_000);
    let mut ours = Kept::new(100);
    let mut lru = Lru { order: VecDeque::new(), capacity: 100, moves_up: true };
    let mut fifo = Lru { order: VecDeque::new(), capacity: 100, moves_up: false };
    let mut hits = [0_u32; 3];
    for name in requests {
        hits[0] += u32::from(ours.ask(name));
        hits[1] += u32::from(lru.ask(name));
        hits[2] += u32::from(fifo.ask(name));
    }
    println!("hits in 60,000 requests: S3-FIFO {}, LRU {}, FIFO {}", hits[0], hits[1], hits[2]);
    assert!(hits[0] > hits[1] && hits[1] > hits[2], "{hits:?}");
}

#[test]
fn a_scan_does_not_wash_out_what_is_used_all_the_time() {
    let mut kept = Kept::new(50);
    for _ in 0..5 {
        for name in 0..20 {
            kept.ask(name);
        }
    }
    for name in 1000..1500 {
        kept.ask(name);
    }
    let still = (0..20).filter(|name| kept.uses.contains_key(name)).count();
    assert_eq!(still, 20);
}

#[test]
fn a_slice_that_returns_soon_is_kept_longer_the_second_time() {
    let mut kept = Kept::new(10);
    kept.ask(1);
    for name in 100..110 {
        kept.ask(name);
    }
    assert!(!kept.uses.contains_key(&1));
    kept.ask(1);
    for name in 200..220 {
        kept.ask(name);
    }
    assert!(kept.uses.contains_key(&1), "it was in the main queue");
}

#[test]
fn ghosts_are_bounded() {
    let mut kept = Kept::new(10);
    for name in 0..10_000 {
        kept.ask(name);
    }
    assert!(kept.policy.ghosts.len() <= 40, "{}", kept.policy.ghosts.len());
    assert!(kept.policy.ghost_order.len() <= 40);
}

#[test]
fn for_a_tier_behind_more_are_remembered_and_only_the_latest_had_to_go_too_soon() {
    let mut kept = Kept::new(10);
    kept.policy.remember_at_least(200);
    for name in 0..150 {
        kept.ask(name);
    }
    assert!(kept.policy.insert(5, 5), "it was here, long ago");
    assert_eq!(kept.policy.main.len(), 0, "but that earns nothing in this tier");
    assert!(kept.policy.insert(139, 139), "it had to go just now");
    assert_eq!(kept.policy.main.len(), 1);
}

#[test]
fn an_empty_cache_evicts_nothing() {
    let mut policy: S3Fifo<u32, u32> = S3Fifo::new();
    assert!(policy.evict(|_| Candidate::Gone).is_none());
    policy.insert(1, 1);
    assert!(policy.evict(|_| Candidate::Gone).is_none(), "a removed slice cannot be evicted");
}
