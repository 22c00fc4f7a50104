use std::fs::File;
use std::io::Write;
use std::num::NonZeroU64;

use rustix::fs::Advice;
use tempfile::NamedTempFile;

use super::*;
use crate::io_threads::tests::{Gate, pool};

const KIB: u64 = 1024;
const MIB: u64 = 1024 * KIB;

const LIMITS: ResidencyLimits = ResidencyLimits {
    first_ahead: 256 * KIB,
    most_ahead: MIB,
    window: 256 * KIB,
    resident_window: MIB,
    small_file: 64 * KIB,
    believed_for: Duration::from_secs(1),
};

fn residency(pool: &Arc<IoThreads>) -> (Residency, Instant) {
    let start = Instant::now();
    (Residency::new(pool.clone(), LIMITS, start), start)
}

/// A file of `len` bytes that a disk holds.
fn file_of(len: u64) -> (NamedTempFile, Extent) {
    // By convention this directory is not in memory.
    let mut named = NamedTempFile::new_in("/var/tmp").unwrap();
    for _ in 0..len / KIB {
        named.write_all(&[7; 1024]).unwrap();
    }
    named.as_file().sync_all().unwrap();
    let file = OpenFile::from_fd(File::open(named.path()).unwrap().into()).unwrap();
    (named, Extent::whole(Arc::new(file)))
}

/// Drops the bytes from the page cache and says whether that is possible here.
fn forget(body: &Extent) -> bool {
    rustix::fs::fadvise(body.file.as_fd(), 0, NonZeroU64::new(body.len), Advice::DontNeed).unwrap();
    let gone = !body.file.is_resident(0, body.len).unwrap();
    if !gone {
        println!("SKIPPED: /var/tmp does not let go of its pages, as a tmpfs would not");
    }
    gone
}

#[tokio::test]
async fn bytes_in_memory_need_no_thread() {
    let pool = pool(1, 8);
    let (residency, now) = residency(&pool);
    let (_named, body) = file_of(2 * MIB);
    let mut stream = Stream::default();
    residency.ensure_resident(&mut stream, &body, 0, MIB, now).await.unwrap();
    residency.ensure_resident(&mut stream, &body, MIB, MIB, now).await.unwrap();
    let expected = ResidencyCounters { resident: 2, ..Default::default() };
    assert_eq!(residency.counters(), expected);
    assert_eq!(pool.counters().begun, 0);
}

#[tokio::test]
async fn what_is_in_memory_is_sent_in_wider_windows_than_what_is_loaded() {
    let pool = pool(1, 8);
    let (residency, now) = residency(&pool);
    let (_named, body) = file_of(4 * MIB);
    let front = |offset, len| Extent::new(Arc::clone(&body.file), offset, len).unwrap();
    let mut stream = Stream::default();
    for (offset, len, window) in [(0, 4 * MIB, MIB), (MIB, 300 * KIB, 300 * KIB), (7, 5, 5)] {
        assert_eq!(residency.ensure_front(&mut stream, &front(offset, len), now).await, Ok(window));
    }
    let counters = residency.counters();
    assert_eq!((counters.resident, counters.loaded, pool.counters().begun), (3, 0, 0));
    if !forget(&body) {
        return;
    }
    assert_eq!(residency.ensure_front(&mut stream, &front(2 * MIB, 2 * MIB), now).await, Ok(256 * KIB));
    assert!(body.file.is_resident(2 * MIB, 256 * KIB).unwrap());
    assert_eq!(residency.counters().loaded_bytes, 256 * KIB);
}

#[tokio::test]
async fn a_window_that_is_not_in_memory_is_loaded() {
    let pool = pool(1, 8);
    let (residency, now) = residency(&pool);
    let (_named, body) = file_of(4 * MIB);
    if !forget(&body) {
        return;
    }
    residency.ensure_resident(&mut Stream::default(), &body, MIB, MIB, now).await.unwrap();
    assert!(body.file.is_resident(MIB, MIB).unwrap());
    let counters = residency.counters();
    assert_eq!((counters.loaded, counters.loaded_bytes, counters.resident), (1, MIB, 0));
    assert_eq!(counters.ahead_bytes, 256 * KIB);
}

#[tokio::test]
async fn a_cold_stream_reads_ahead_further_and_further_up_to_its_end() {
    let pool = pool(1, 64);
    let (residency, now) = residency(&pool);
    let (_named, body) = file_of(8 * MIB);
    if !forget(&body) {
        return;
    }
    let mut stream = Stream::default();
    let window = 256 * KIB;
    let mut widest = 0;
    for index in 0..body.len / window {
        residency.ensure_resident(&mut stream, &body, index * window, window, now).await.unwrap();
        assert!(body.file.is_resident(index * window, window).unwrap());
        assert!(stream.ahead <= LIMITS.most_ahead);
        assert!(stream.ahead_to <= body.len);
        widest = widest.max(stream.ahead);
    }
    assert_eq!(widest, LIMITS.most_ahead);
    let counters = residency.counters();
    assert_eq!(counters.loaded + counters.resident, body.len / window);
    assert!(counters.loaded >= 1);
    // Nothing was asked for twice, and the first window was not asked for ahead.
    assert!(counters.ahead_bytes <= body.len - window, "{counters:?}");
}

#[tokio::test]
async fn read_ahead_stays_inside_the_range_that_is_sent() {
    let pool = pool(1, 8);
    let (residency, now) = residency(&pool);
    let (_named, whole) = file_of(4 * MIB);
    if !forget(&whole) {
        return;
    }
    let body = Extent::new(whole.file, MIB, 300 * KIB).unwrap();
    residency.ensure_resident(&mut Stream::default(), &body, MIB, 256 * KIB, now).await.unwrap();
    assert_eq!(residency.counters().ahead_bytes, 44 * KIB);
}

#[tokio::test]
async fn a_jump_starts_reading_ahead_from_small_again() {
    let pool = pool(1, 8);
    let (residency, now) = residency(&pool);
    let (_named, body) = file_of(8 * MIB);
    if !forget(&body) {
        return;
    }
    let mut stream = Stream { ahead: MIB, ahead_to: 2 * MIB, sent_to: MIB };
    residency.ensure_resident(&mut stream, &body, 6 * MIB, 256 * KIB, now).await.unwrap();
    assert_eq!(stream.ahead, LIMITS.first_ahead);
    assert_eq!(stream.ahead_to, 6 * MIB + 512 * KIB);
}

#[tokio::test]
async fn a_window_that_begins_within_the_last_frame_is_no_jump() {
    let pool = pool(1, 8);
    let (residency, now) = residency(&pool);
    let (_named, body) = file_of(8 * MIB);
    if !forget(&body) {
        return;
    }
    let mut stream = Stream { ahead: 256 * KIB, ahead_to: MIB, sent_to: MIB };
    residency.ensure_resident(&mut stream, &body, MIB - 288, 256 * KIB, now).await.unwrap();
    assert_eq!(stream.ahead, 512 * KIB);
}

#[tokio::test]
async fn a_small_file_is_believed_until_its_time_is_over() {
    let pool = pool(1, 8);
    let (residency, now) = residency(&pool);
    let (_named, body) = file_of(64 * KIB);
    for milliseconds in [0, 1, 999, 1000] {
        let now = now + Duration::from_millis(milliseconds);
        residency.ensure_resident(&mut Stream::default(), &body, 0, body.len, now).await.unwrap();
    }
    let counters = residency.counters();
    assert_eq!((counters.resident, counters.believed), (2, 2));
}

#[tokio::test]
async fn a_range_of_a_large_file_is_believed_until_its_time_is_over() {
    let pool = pool(1, 8);
    let (residency, now) = residency(&pool);
    let (_named, body) = file_of(2 * MIB);
    for (milliseconds, offset, len, believed) in [
        (0, MIB, 2 * KIB, false),
        (1, MIB, 2 * KIB, true),
        (999, MIB, KIB, true),
        (999, MIB, 3 * KIB, false),
        (999, MIB + KIB, KIB, false),
        (1999, MIB + KIB, KIB, false),
        (1999, MIB, 65 * KIB, false),
        (1999, MIB, 65 * KIB, true),
    ] {
        let before = residency.counters().believed;
        let now = now + Duration::from_millis(milliseconds);
        residency.ensure_resident(&mut Stream::default(), &body, offset, len, now).await.unwrap();
        assert_eq!(residency.counters().believed > before, believed, "{milliseconds} {offset} {len}");
    }
    assert_eq!(residency.counters().loaded, 0);
}

#[tokio::test]
async fn a_small_file_is_loaded_as_a_whole() {
    let pool = pool(1, 8);
    let (residency, now) = residency(&pool);
    let (_named, body) = file_of(64 * KIB);
    if !forget(&body) {
        return;
    }
    residency.ensure_resident(&mut Stream::default(), &body, 0, 1, now).await.unwrap();
    assert!(body.file.is_resident(0, body.len).unwrap());
    assert_eq!(residency.counters().loaded_bytes, 64 * KIB);
}

#[tokio::test]
async fn a_file_that_became_shorter_is_truncated() {
    let pool = pool(1, 8);
    let (residency, now) = residency(&pool);
    for len in [64 * KIB, 2 * MIB] {
        let (named, body) = file_of(len);
        named.as_file().set_len(1000).unwrap();
        for _ in 0..2 {
            let result = residency.ensure_resident(&mut Stream::default(), &body, 0, len, now).await;
            assert_eq!(result, Err(NotResident::Truncated), "{len}");
        }
    }
}

#[tokio::test]
async fn a_file_whose_mapping_lost_it_is_truncated() {
    let pool = pool(1, 8);
    let (residency, now) = residency(&pool);
    let (named, body) = file_of(2 * MIB);
    let window = body.file.window(0, body.len).unwrap();
    named.as_file().set_len(0).unwrap();
    assert!(window.copy_to(&mut [0]).is_err());
    // Longer again, so that only the mapping knows.
    named.as_file().set_len(2 * MIB).unwrap();
    let result = residency.ensure_resident(&mut Stream::default(), &body, 0, MIB, now).await;
    assert_eq!(result, Err(NotResident::Truncated));
}

#[tokio::test]
async fn a_full_queue_is_busy() {
    let pool = pool(1, 1);
    let (residency, now) = residency(&pool);
    let (_named, body) = file_of(2 * MIB);
    if !forget(&body) {
        return;
    }
    let _gate = Gate::close(&pool);
    let _queued = pool.run(|| ()).unwrap();
    let result = residency.ensure_resident(&mut Stream::default(), &body, 0, MIB, now).await;
    assert_eq!(result, Err(NotResident::Busy));
}

#[test]
fn a_stream_is_a_few_words() {
    assert!(size_of::<Stream>() <= 24);
}
