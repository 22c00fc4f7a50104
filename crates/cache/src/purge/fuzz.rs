//! An arbitrary file of purges.

use std::fs;
use std::time::{Duration, UNIX_EPOCH};

use super::list::{PurgeLimits, Purges};
use super::pattern::{Pattern, Purge, PurgeEffect, Subject};
use super::target::PurgeTarget;
use crate::scratch::Scratch;

const LIMITS: PurgeLimits = PurgeLimits { purges: 1000, bytes: 1 << 20 };

/// Body of the fuzz target `cache_files` for purges: whatever is in the file, a new purge holds, and everything holds
/// in the same way for the next process.
pub(crate) fn fuzz_purges(input: &[u8]) {
    let directory = Scratch::new();
    fs::write(directory.path().join("purges"), input).expect("it can be written");
    fs::write(directory.path().join("undelivered-purges"), input).expect("it can be written");
    let later = |seconds: u64| UNIX_EPOCH + Duration::from_secs(1_900_000_000 + seconds);
    let open =
        |seconds| Purges::open(&[directory.path()], LIMITS, later(seconds)).expect("no bytes make it fail");
    let list = |purges: &Purges| -> Vec<Purge> { purges.entries().to_vec() };
    let first = open(0);
    let found = list(&first);
    assert!(found.is_sorted_by_key(|purge| purge.at));
    let lines = input.split_inclusive(|byte| *byte == b'\n').filter(|line| line.ends_with(b"\n"));
    if lines.clone().any(|line| str::from_utf8(line).is_err()) {
        let everything = |purge: &Purge| purge.pattern.target == PurgeTarget::Everything;
        assert!(found.iter().any(everything), "what cannot be read is forgotten");
    }
    let undelivered = first.take_undelivered();
    first.keep_undelivered(|| undelivered.clone()).expect("it can be written");
    drop(first);
    let again = open(1);
    assert_eq!(again.take_undelivered(), undelivered, "another process delivers something else");
    assert_eq!(list(&again), found, "another process reads something else");
    let subject = Subject { place: "here", name: "/film", tags: "news" };
    let since = again.stamp(later(2));
    assert_eq!(again.judge(since, subject), PurgeEffect::None, "nothing speaks of what is new");
    let pattern = Pattern { place: None, target: PurgeTarget::Tag("news".to_owned()) };
    again.add(pattern, false, later(2)).expect("it can be written");
    assert_eq!(again.judge(since, subject), PurgeEffect::Gone, "a purge does not hold");
    let expected = list(&again);
    drop(again);
    assert_eq!(list(&open(3)), expected, "a purge is read in another way than it was written");
}
