//! Claims, fills, purges, evictions, new versions and failures at once, in many orders: a response has bytes of one
//! version, which is no older than the last purge before its request.

use std::cell::Cell;
use std::ops::Range;
use std::rc::Rc;
use std::sync::OnceLock;
use std::time::Duration;

use penstock_origin::http::OriginError;
use tokio::task::{JoinHandle, spawn_local};
use tokio::time::sleep;

use super::fixture::{Fixture, OriginAnswer, SLICE, content, run};
use super::scripted::{OriginRequest, Reply};
use crate::nodes::{PurgeOrder, PurgeTarget};

/// Objects that the readers ask for.
const TARGETS: u64 = 3;
const LENGTH: usize = 2 * SLICE + 1000;
/// More than there are steps of a race.
const VERSIONS: usize = 100;

/// Numbers that are the same in each run.
#[derive(Clone)]
struct Numbers(Rc<Cell<u64>>);

impl Numbers {
    fn new(seed: u64) -> Self {
        Self(Rc::new(Cell::new(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)))
    }

    fn below(&self, end: u64) -> u64 {
        let mut value = self.0.get();
        value ^= value << 13;
        value ^= value >> 7;
        value ^= value << 17;
        self.0.set(value);
        (value >> 20) % end
    }

    fn place(&self, end: usize) -> usize {
        usize::try_from(self.below(end as u64)).unwrap()
    }
}

/// The body of a version. Each begins at another byte of the same long text.
fn body_of(version: usize) -> &'static [u8] {
    static ALL: OnceLock<Vec<u8>> = OnceLock::new();
    &ALL.get_or_init(|| content(LENGTH + VERSIONS, 0))[version..version + LENGTH]
}

/// How an origin fails.
#[derive(Clone, Copy, Debug)]
enum Trouble {
    /// Not at all.
    None,
    /// Bodies break off.
    CutShort,
    /// Requests have no response.
    NoResponse,
    /// Both, and new versions come.
    All,
}

fn reply(numbers: &Numbers, version: usize, trouble: Trouble, asked: &OriginRequest) -> Reply {
    let etag = format!("\"{version}\"");
    let fields = [("cache-control", "max-age=1, stale-while-revalidate=2"), ("etag", &etag)];
    let known = asked.known.as_ref();
    if known == Some(&("if-none-match", etag.clone())) {
        return Reply::new(304).with(&fields);
    }
    let fails = numbers.below(4) == 0;
    if fails && matches!(trouble, Trouble::NoResponse | Trouble::All) {
        return Reply::failure(OriginError::Unreachable);
    }
    let part = Reply::part_of(body_of(version), &fields, asked);
    let part = match trouble {
        Trouble::CutShort | Trouble::All if numbers.below(3) == 0 => {
            let length = usize::try_from(part.length_announced()).unwrap();
            part.cut_after(numbers.place(length), OriginError::CutShort)
        }
        _ => part,
    };
    part.slowly(SLICE / 4 + 17, Duration::from_millis(numbers.below(30)))
}

fn check(answer: &OriginAnswer, range: &Range<usize>, versions: Range<usize>) {
    if matches!(answer.status, 502..=504) {
        return;
    }
    let etag = answer.field("etag");
    let version: usize =
        etag.trim_matches('"').parse().unwrap_or_else(|_| panic!("{}: {etag}", answer.status));
    assert!(versions.contains(&version), "version {version} for a request that allows {versions:?}");
    let expected = &body_of(version)[range.clone()];
    let is_right = match answer.fault {
        None => answer.body == expected,
        Some(_) => expected.starts_with(&answer.body),
    };
    assert!(is_right, "{} bytes of version {version}, {range:?}, {:?}", answer.body.len(), answer.fault);
}

async fn race(seed: u64, trouble: Trouble) {
    let fixture = Fixture::cached();
    let numbers = Numbers::new(seed);
    let current = Rc::new(Cell::new(1));
    let (seen, random) = (Rc::clone(&current), numbers.clone());
    fixture.origin.handle(move |asked| reply(&random, seen.get(), trouble, asked));
    let mut purged = 1;
    let mut readers: Vec<JoinHandle<()>> = Vec::new();
    for _ in 0..60 {
        sleep(Duration::from_millis(numbers.below(200))).await;
        match numbers.below(12) {
            0 | 1 if matches!(trouble, Trouble::All) => current.set(current.get() + 1),
            2 => {
                current.set(current.get() + 1);
                purged = current.get();
                let order = PurgeOrder { target: PurgeTarget::Everything, soft: false };
                fixture.store.purge_at(&order, &fixture.sites, fixture.context.moment()).unwrap();
            }
            3 => {
                for number in 0..10 {
                    drop(fixture.spawn(&format!("GET /other/{number}/{}", numbers.below(100)), ""));
                }
            }
            4 => {
                if let Some(reader) = readers.pop() {
                    reader.abort();
                }
            }
            _ => {
                let start = numbers.place(LENGTH);
                let (range, fields) = match numbers.below(2) {
                    0 => (0..LENGTH, String::new()),
                    _ => (start..LENGTH, format!("Range: bytes={start}-\r\n")),
                };
                let target = format!("GET /{}", numbers.below(TARGETS));
                let (answer, current) = (fixture.spawn(&target, &fields), Rc::clone(&current));
                readers.push(spawn_local(async move {
                    let answer = answer.await.unwrap();
                    check(&answer, &range, purged..current.get() + 1);
                }));
            }
        }
    }
    for reader in readers {
        reader.await.unwrap();
    }
    let last = fixture.get("GET /0", "").await;
    check(&last, &(0..LENGTH), purged..current.get() + 1);
}

#[test]
fn a_response_has_bytes_of_one_version_that_is_no_older_than_the_last_purge() {
    for trouble in [Trouble::None, Trouble::CutShort, Trouble::NoResponse, Trouble::All] {
        for seed in 0..3 {
            run(race(seed, trouble));
        }
    }
}
