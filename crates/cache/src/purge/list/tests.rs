use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::symlink;
use std::thread;
use std::time::UNIX_EPOCH;

use tempfile::TempDir;

use super::*;

const LIMITS: PurgeLimits = PurgeLimits { purges: 8, bytes: 4096 };

fn at(seconds: u64) -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(seconds)
}

fn open(directory: &Path) -> Purges {
    Purges::open(&[directory], LIMITS, at(1)).unwrap()
}

fn pattern(target: PurgeTarget) -> Pattern {
    Pattern { place: Some("origin".to_owned()), target }
}

fn name(text: &str) -> Pattern {
    pattern(PurgeTarget::Url(text.to_owned()))
}

const FILM: Subject<'_> = Subject { place: "origin", name: "/vod/a.mp4", tags: "film news" };

fn verdict(purges: &Purges, came: u64) -> PurgeEffect {
    purges.judge(nanoseconds_of(at(came)), FILM)
}

/// Judges the film, and notes up to when that is known.
fn judge(purges: &Purges, judged: &AtomicU64) -> PurgeEffect {
    let latest = purges.latest();
    let effect = purges.judge(judged.load(Ordering::Relaxed), FILM);
    if effect != PurgeEffect::Gone {
        judged.fetch_max(latest, Ordering::Relaxed);
    }
    effect
}

#[test]
fn an_object_older_than_a_matching_purge_is_gone() {
    let directory = tempfile::tempdir().unwrap();
    for what in [
        PurgeTarget::Url("/vod/a.mp4".to_owned()),
        PurgeTarget::Prefix("/vod/".to_owned()),
        PurgeTarget::Tag("news".to_owned()),
        PurgeTarget::Everything,
    ] {
        let purges = Purges::open(&[], LIMITS, at(1)).unwrap();
        purges.add(pattern(what.clone()), false, at(100)).unwrap();
        assert_eq!(
            (verdict(&purges, 99), verdict(&purges, 100)),
            (PurgeEffect::Gone, PurgeEffect::None),
            "{what:?}"
        );
    }
    let purges = open(directory.path());
    for what in [
        PurgeTarget::Url("/vod/a".to_owned()),
        PurgeTarget::Prefix("/live".to_owned()),
        PurgeTarget::Tag("fil".to_owned()),
    ] {
        purges.add(pattern(what), false, at(100)).unwrap();
    }
    purges
        .add(Pattern { place: Some("other".to_owned()), target: PurgeTarget::Everything }, false, at(100))
        .unwrap();
    assert_eq!(verdict(&purges, 99), PurgeEffect::None);
}

#[test]
fn a_soft_purge_makes_objects_stale_once_and_a_hard_purge_removes_them_for_every_reader() {
    let purges = Purges::open(&[], LIMITS, at(1)).unwrap();
    purges.add(name(FILM.name), true, at(100)).unwrap();
    let judged = AtomicU64::new(nanoseconds_of(at(50)));
    assert_eq!(judge(&purges, &judged), PurgeEffect::Stale);
    assert_eq!(judge(&purges, &judged), PurgeEffect::None);
    purges.add(name(FILM.name), false, at(101)).unwrap();
    assert_eq!(judge(&purges, &judged), PurgeEffect::Gone);
    assert_eq!(judge(&purges, &judged), PurgeEffect::Gone);
}

#[test]
fn a_clock_that_goes_back_does_no_harm() {
    let purges = Purges::open(&[], LIMITS, at(1)).unwrap();
    purges.add(name(FILM.name), false, at(100)).unwrap();
    let came = AtomicU64::new(purges.stamp(at(50)));
    assert_eq!(judge(&purges, &came), PurgeEffect::None, "it was asked for after the purge");
    purges.add(name(FILM.name), false, at(40)).unwrap();
    assert_eq!(judge(&purges, &came), PurgeEffect::Gone);
    for back in [200, 199, 30] {
        let came = AtomicU64::new(purges.stamp(at(200)));
        purges.add(name(FILM.name), false, at(back)).unwrap();
        assert_eq!(judge(&purges, &came), PurgeEffect::Gone, "it was asked for before the purge, {back}");
        let later = AtomicU64::new(purges.stamp(at(back)));
        assert_eq!(judge(&purges, &later), PurgeEffect::None, "it was asked for after it, {back}");
    }
}

#[test]
fn a_purge_affects_an_object_that_was_stored_while_the_clock_was_ahead() {
    let directory = tempfile::tempdir().unwrap();
    let ahead = nanoseconds_of(at(10_000));
    open(directory.path()).add(name(FILM.name), false, at(200)).unwrap();
    let purges = open(directory.path());
    let restored = |now| {
        let judged = AtomicU64::new(ahead);
        purges.correct_stamp(&judged, at(now));
        judged
    };
    let before = restored(10);
    assert_eq!(judge(&purges, &before), PurgeEffect::None, "the purge was before the object");
    purges.add(name(FILM.name), false, at(20)).unwrap();
    for judged in [before, restored(30)] {
        assert_eq!(judge(&purges, &judged), PurgeEffect::Gone);
    }
    let stored = AtomicU64::new(purges.stamp(at(30)));
    purges.correct_stamp(&stored, at(40));
    assert_eq!(judge(&purges, &stored), PurgeEffect::None, "it was asked for after the purge");
}

#[test]
fn a_purge_that_is_being_written_to_its_files_is_not_passed_over() {
    let purges = Purges::open(&[], LIMITS, at(1)).unwrap();
    let before = AtomicU64::new(purges.stamp(at(50)));
    thread::scope(|scope| {
        // A purge cannot be added to the list meanwhile.
        let list = purges.list.0.read().unwrap();
        scope.spawn(|| purges.add(name(FILM.name), false, at(100)));
        while matches!(purges.pending.load(Ordering::SeqCst), 0 | u64::MAX) {
            thread::yield_now();
        }
        let change = purges.later_stamp(at(200));
        assert_eq!(judge(&purges, &before), PurgeEffect::None, "it is not in force yet");
        assert_eq!(purges.complete_until(change), nanoseconds_of(at(100)) - 1);
        assert_eq!(purges.complete_until(7), 7);
        before.fetch_max(purges.complete_until(change), Ordering::Relaxed);
        drop(list);
    });
    assert_eq!(judge(&purges, &before), PurgeEffect::Gone);
    let change = purges.later_stamp(at(200));
    assert_eq!(purges.complete_until(change), change);
}

#[test]
fn the_list_with_a_new_purge_is_made_without_the_lock_that_requests_read_it_with() {
    let purges = Purges::open(&[], LIMITS, at(1)).unwrap();
    purges.add(name(FILM.name), false, at(2)).unwrap();
    let is_made = |purges: &Purges| purges.needless.load(Ordering::Relaxed) == 1;
    thread::scope(|scope| {
        let reading = purges.list.0.read().unwrap();
        let adding = scope.spawn(|| purges.add(name(FILM.name), false, at(3)));
        let deadline = std::time::Instant::now() + Duration::from_secs(60);
        while !is_made(&purges) && std::time::Instant::now() < deadline {
            thread::yield_now();
        }
        let was_made = is_made(&purges);
        assert_eq!(reading.len(), 1);
        drop(reading);
        adding.join().unwrap().unwrap();
        assert!(was_made, "it waits for readers before it makes the list");
    });
    assert_eq!(purges.len(), 1);
}

#[test]
fn changes_and_purges_are_later_than_all_stamps_and_do_not_move_time_ahead() {
    let purges = Purges::open(&[], LIMITS, at(1)).unwrap();
    let ahead = purges.stamp(at(1000));
    let mut last = ahead;
    for round in 0..100 {
        let change = purges.later_stamp(at(100));
        assert!(change > last, "{round}");
        purges.add(name("/other"), false, at(100)).unwrap();
        assert!(purges.latest() > change, "{round}");
        last = purges.stamp(at(100));
        assert_eq!(last, purges.latest(), "{round}");
    }
    assert!(last < ahead + 2 * STAMPS_AHEAD, "{} ns", last - ahead);
}

#[test]
fn the_next_process_knows_what_was_purged() {
    let directory = tempfile::tempdir().unwrap();
    let odd = "/vod/ä b\\s\n\r*";
    let purges = open(directory.path());
    purges.add(name(odd), false, at(100)).unwrap();
    purges.add(Pattern { place: None, target: PurgeTarget::Tag("news".to_owned()) }, true, at(101)).unwrap();
    drop(purges);
    let purges = open(directory.path());
    assert_eq!(purges.len(), 2);
    assert_eq!(verdict(&purges, 99), PurgeEffect::Stale);
    assert_eq!(purges.judge(0, Subject { name: odd, ..FILM }), PurgeEffect::Gone);
    assert_eq!(purges.stamp(at(1)), nanoseconds_of(at(101)), "later than all that was purged");
}

#[test]
fn a_purge_that_one_directory_missed_is_written_there_when_both_are_open_again() {
    let [one, other] = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let both = || Purges::open(&[one.path(), other.path()], LIMITS, at(1)).unwrap();
    both().add(name("/both"), false, at(100)).unwrap();
    for (alone, purged, when) in [(&one, "/one", 200), (&other, "/other", 201)] {
        open(alone.path()).add(name(purged), false, at(when)).unwrap();
    }
    assert_eq!(both().len(), 3);
    let lines = |directory: &TempDir| fs::read_to_string(directory.path().join("purges")).unwrap();
    assert_eq!(lines(&one), lines(&other));
    for directory in [&one, &other] {
        assert_eq!(open(directory.path()).len(), 3);
    }
    let before = lines(&one);
    assert_eq!((both().len(), lines(&one)), (3, before), "nothing is written twice");
}

#[test]
fn a_torn_line_was_never_promised_and_a_broken_one_means_everything() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("purges");
    open(directory.path()).add(name("/a"), false, at(100)).unwrap();
    let whole = fs::read_to_string(&file).unwrap();
    fs::write(&file, format!("{whole}170000000")).unwrap();
    let purges = open(directory.path());
    assert_eq!((purges.len(), verdict(&purges, 99)), (1, PurgeEffect::None));
    purges.add(name("/b"), false, at(102)).unwrap();
    assert_eq!(open(directory.path()).len(), 2, "what came behind the torn line is read");
    let after = |line: &[u8]| [whole.as_bytes(), line, b"\n"].concat();
    for broken in [
        after(b"what is this"),
        after(b"300 hard url * /vod/\xffa.mp4"),
        after(b"18446744073709551615 soft url * /c"),
        after(b"300 hard url * /vod300 hard url * /c"),
        b"another file\n".to_vec(),
        Vec::new(),
    ] {
        fs::write(&file, &broken).unwrap();
        let shown = broken.escape_ascii();
        let purges = Purges::open(&[directory.path()], LIMITS, at(200)).unwrap();
        assert_eq!(verdict(&purges, 199), PurgeEffect::Gone, "{shown}");
        assert_eq!(verdict(&purges, 200), PurgeEffect::None, "{shown}");
        let purges = Purges::open(&[directory.path()], LIMITS, at(300)).unwrap();
        assert_eq!(
            verdict(&purges, 299),
            PurgeEffect::None,
            "what came since is gone at each start: {shown}"
        );
        purges.add(name(FILM.name), false, at(301)).unwrap();
        assert_eq!(verdict(&purges, 300), PurgeEffect::Gone, "{shown}");
    }
}

#[test]
fn too_many_purges_become_one_about_everything_older() {
    let directory = tempfile::tempdir().unwrap();
    let purges = open(directory.path());
    for number in 1..=9 {
        purges.add(name(&format!("/{number}")), false, at(100 * number)).unwrap();
    }
    assert_eq!(purges.len(), 5);
    assert_eq!((verdict(&purges, 499), verdict(&purges, 500)), (PurgeEffect::Gone, PurgeEffect::None));
    drop(purges);
    assert_eq!(open(directory.path()).len(), 5, "and the file is as short");
    let purges = open(directory.path());
    purges.add(name(&"x".repeat(5000)), false, at(1000)).unwrap();
    assert_eq!(purges.len(), 4, "long ones count for more");
}

#[test]
fn a_purge_older_than_every_object_is_removed() {
    let directory = tempfile::tempdir().unwrap();
    let purges = open(directory.path());
    for seconds in [100, 200, 300] {
        purges.add(name(&format!("/{seconds}")), false, at(seconds)).unwrap();
    }
    purges.sweep(Duration::from_secs(100), at(300)).unwrap();
    assert_eq!(purges.len(), 2);
    assert_eq!(open(directory.path()).len(), 2);
    purges.sweep(Duration::ZERO, at(1000)).unwrap();
    assert!(purges.is_empty());
    assert_eq!(purges.stamp(at(1)), nanoseconds_of(at(300)), "moments never go back");
}

#[test]
fn a_purge_takes_the_place_of_older_ones_of_the_same_objects() {
    let directory = tempfile::tempdir().unwrap();
    let purges = open(directory.path());
    for (soft, expected) in [(true, 1), (true, 1), (false, 1), (true, 2), (false, 1)] {
        purges.add(name(FILM.name), soft, at(100)).unwrap();
        assert_eq!(purges.len(), expected, "a soft purge replaces no other");
    }
    assert_eq!(verdict(&purges, 99), PurgeEffect::Gone);
}

#[test]
fn the_same_purge_again_and_again_takes_no_more_space() {
    let directory = tempfile::tempdir().unwrap();
    let purges = open(directory.path());
    let file = directory.path().join("purges");
    let mut largest = 0;
    for _ in 0..3 * LIMITS.purges {
        purges.add(name(FILM.name), false, at(100)).unwrap();
        largest = largest.max(fs::metadata(&file).unwrap().len());
    }
    let line = format!("{}x", FILM.name).len() as u64 + 64;
    assert!(largest < (LIMITS.purges as u64 + 2) * line, "{largest} bytes");
    drop(purges);
    assert_eq!(open(directory.path()).len(), 1);
}

#[test]
fn a_list_that_cannot_be_written_holds_all_the_same() {
    let directory = tempfile::tempdir().unwrap();
    let purges = open(directory.path());
    *purges.files.lock().unwrap() = vec![PurgeFile::full()];
    let not_kept = purges.add(name(FILM.name), false, at(100)).unwrap_err();
    assert_eq!(not_kept.path, Path::new("/dev/full"));
    assert_eq!(verdict(&purges, 99), PurgeEffect::Gone);
}

#[test]
fn a_purge_that_one_directory_cannot_keep_is_kept_by_the_others() {
    let directory = tempfile::tempdir().unwrap();
    let purges = open(directory.path());
    purges.files.lock().unwrap().insert(0, PurgeFile::full());
    purges.add(name(FILM.name), false, at(100)).unwrap_err();
    drop(purges);
    assert_eq!(verdict(&open(directory.path()), 99), PurgeEffect::Gone);
}

#[test]
fn what_is_undelivered_is_written_again_after_a_disk_was_full() {
    let (full, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let purges = Purges::open(&[full.path(), other.path()], LIMITS, at(1)).unwrap();
    let undelivered = |text: &str| {
        let (pattern, servers) = (name(text), ["edge2".to_owned()].into());
        vec![UndeliveredPurge { since: at(100), soft: false, pattern, servers }]
    };
    let (older, newer) = (undelivered("/older"), undelivered("/newer"));
    purges.keep_undelivered(|| older.clone()).unwrap();
    assert!(!purges.take_outdated());
    // The new file has no space.
    let temporary = full.path().join("undelivered-purges.new");
    symlink("/dev/full", &temporary).unwrap();
    let not_kept = purges.keep_undelivered(|| newer.clone()).unwrap_err();
    assert_eq!(not_kept.source.kind(), ErrorKind::StorageFull);
    let kept = |directory: &TempDir| undelivered::read(directory.path(), at(200)).unwrap();
    assert_eq!((kept(&full), kept(&other)), (older, newer.clone()), "whole or not at all");
    assert!(fs::symlink_metadata(&temporary).is_err(), "its space is given back");
    assert!(purges.take_outdated() && !purges.take_outdated(), "once for each failure");
    purges.keep_undelivered(|| newer.clone()).unwrap();
    assert_eq!(kept(&full), newer);
    assert!(!purges.take_outdated());
    symlink("/dev/full", &temporary).unwrap();
    purges.keep_undelivered(Vec::new).unwrap();
    assert!(kept(&full).is_empty(), "what is delivered needs no space");
}
