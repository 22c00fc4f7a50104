//! Purges that some nodes have not confirmed. They are repeated once these nodes answer, by the next process if need be.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use penstock_cache::purge::{Pattern, Scope, UndeliveredPurge};
use penstock_config::limits;

use crate::clock::Moment;

/// A purge, and the nodes that have missed it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MissedPurge {
    pub(crate) pattern: Pattern,
    pub(crate) soft: bool,
    pub(crate) nodes: BTreeSet<String>,
    /// When it was ordered.
    since: Instant,
}

/// The purges, oldest first. Bounded in number, bytes and time: too many become one purge of everything.
#[derive(Debug, Default)]
pub(crate) struct MissedPurges {
    list: Mutex<List>,
    /// Purges in the list, so that an empty one costs no lock.
    count: AtomicUsize,
}

#[derive(Debug, Default)]
struct List {
    purges: VecDeque<MissedPurge>,
    /// Nodes that left the list of nodes, and when. They may come back with what they have.
    departed: BTreeMap<String, Instant>,
    /// Set while a purge is being repeated.
    is_repeating: bool,
    /// The next attempt is not before this,
    not_before: Option<Instant>,
    /// and after a failure not for so long.
    pause: Duration,
}

const KEPT: Duration = Duration::from_secs(limits::PEER_MISSED_SECONDS);
const PAUSE: Duration = Duration::from_secs(1);
const PAUSE_MAX: Duration = Duration::from_secs(limits::PEER_REPEAT_SECONDS_MAX);

impl MissedPurges {
    /// Number of purges that a node has missed.
    pub(crate) fn of(&self, node: &str) -> usize {
        if self.count.load(Ordering::Acquire) == 0 {
            return 0;
        }
        self.lock().purges.iter().filter(|purge| purge.nodes.contains(node)).count()
    }

    /// Notes a purge that these nodes have missed. Nodes that have left the cluster have missed it too.
    pub(crate) fn add(&self, pattern: &Pattern, soft: bool, nodes: &[String], now: Instant) {
        let mut list = self.lock();
        list.departed.retain(|_, since| now.saturating_duration_since(*since) < KEPT);
        let mut nodes: BTreeSet<String> = nodes.iter().chain(list.departed.keys()).cloned().collect();
        let is_same = |known: &MissedPurge| known.pattern == *pattern && known.soft == soft;
        if let Some(place) = list.purges.iter().position(is_same) {
            nodes.extend(list.purges.remove(place).into_iter().flat_map(|known| known.nodes));
        }
        if nodes.is_empty() {
            return;
        }
        list.purges.push_back(MissedPurge { pattern: pattern.clone(), soft, nodes, since: now });
        list.bound(now);
        self.count(&list);
    }

    /// Adds purges that an earlier process could not deliver. Those that any node may have missed count for all `others`.
    pub(crate) fn restore(&self, undelivered: Vec<UndeliveredPurge>, others: &[String], now: Moment) {
        let mut list = self.lock();
        for UndeliveredPurge { since, soft, pattern, servers } in undelivered.into_iter().rev() {
            let mut nodes = servers;
            if nodes.is_empty() {
                nodes.extend(others.iter().cloned());
            }
            let age = now.1.duration_since(since).unwrap_or_default();
            if age >= KEPT || nodes.is_empty() {
                continue;
            }
            let since = now.0.checked_sub(age).unwrap_or(now.0);
            let known = list.purges.iter_mut().find(|known| known.pattern == pattern && known.soft == soft);
            match known {
                Some(known) => known.nodes.extend(nodes),
                None => list.purges.push_front(MissedPurge { pattern, soft, nodes, since }),
            }
        }
        list.bound(now.0);
        self.count(&list);
    }

    /// The purges for the next process.
    pub(crate) fn undelivered(&self, now: Moment) -> Vec<UndeliveredPurge> {
        let since = |purge: &MissedPurge| {
            let age = now.0.saturating_duration_since(purge.since);
            now.1.checked_sub(age).unwrap_or(now.1)
        };
        let list = self.lock();
        let undelivered = |purge: &MissedPurge| UndeliveredPurge {
            since: since(purge),
            soft: purge.soft,
            pattern: purge.pattern.clone(),
            servers: purge.nodes.clone(),
        };
        list.purges.iter().map(undelivered).collect()
    }

    /// Claims the oldest purge that one of its nodes can confirm now; the caller repeats it and calls [`Self::repeated`].
    pub(crate) fn claim(&self, is_up: impl Fn(&str) -> bool, now: Instant) -> Option<MissedPurge> {
        if self.count.load(Ordering::Acquire) == 0 {
            return None;
        }
        let mut list = self.lock();
        let kept = |purge: &MissedPurge| now.saturating_duration_since(purge.since) < KEPT;
        list.purges.retain(kept);
        self.count(&list);
        if list.is_repeating || list.not_before.is_some_and(|then| now < then) {
            return None;
        }
        let due = list.purges.iter().find(|purge| purge.nodes.iter().any(|node| is_up(node))).cloned()?;
        list.is_repeating = true;
        Some(due)
    }

    /// Notes how a claimed purge ended: `missing` have not confirmed it, and nodes that were not asked have not either.
    pub(crate) fn repeated(
        &self,
        purge: &MissedPurge,
        missing: &[String],
        is_member: impl Fn(&str) -> bool,
        now: Instant,
    ) {
        let mut list = self.lock();
        list.is_repeating = false;
        let is_same = |known: &MissedPurge| known.pattern == purge.pattern && known.soft == purge.soft;
        let mut progress = false;
        if let Some(place) = list.purges.iter().position(is_same) {
            let known = &mut list.purges[place];
            let before = known.nodes.len();
            known.nodes.retain(|node| missing.contains(node) || !is_member(node));
            progress = known.nodes.len() < before;
            known.nodes.extend(missing.iter().cloned());
            if known.nodes.is_empty() {
                list.purges.remove(place);
            }
        }
        list.pause = if progress { PAUSE } else { (2 * list.pause).clamp(PAUSE, PAUSE_MAX) };
        list.not_before = (!progress).then_some(now + list.pause);
        self.count(&list);
    }

    /// Notes which nodes left the cluster and which are in it.
    pub(crate) fn note_members<'n>(
        &self,
        gone: impl Iterator<Item = &'n str>,
        members: impl Iterator<Item = &'n str>,
        now: Instant,
    ) {
        let mut list = self.lock();
        list.departed.extend(gone.map(|name| (name.to_owned(), now)));
        for name in members {
            list.departed.remove(name);
        }
        while list.departed.len() > limits::CLUSTER_NODES {
            let oldest = list.departed.iter().min_by_key(|(_, since)| **since).map(|(name, _)| name.clone());
            if let Some(name) = oldest {
                list.departed.remove(&name);
            }
        }
    }

    fn count(&self, list: &List) {
        self.count.store(list.purges.len(), Ordering::Release);
    }

    /// The data is whole at every moment, so a panic elsewhere does not spoil it.
    fn lock(&self) -> MutexGuard<'_, List> {
        self.list.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl List {
    fn bound(&mut self, now: Instant) {
        let bytes: usize = self.purges.iter().map(|purge| purge.pattern.bytes()).sum();
        if self.purges.len() <= limits::PEER_MISSED_PURGES && bytes <= limits::PEER_MISSED_PURGE_BYTES {
            return;
        }
        let nodes = self.purges.drain(..).flat_map(|purge| purge.nodes).collect();
        let everything = Pattern { place: None, scope: Scope::Everything };
        self.purges.push_back(MissedPurge { pattern: everything, soft: false, nodes, since: now });
    }
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use super::*;

    fn tag(text: &str) -> Pattern {
        Pattern { place: None, scope: Scope::Tag(text.to_owned()) }
    }

    fn nodes(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn a_purge_is_repeated_once_a_node_that_missed_it_answers_until_all_have_confirmed() {
        let now = Instant::now();
        let missed = MissedPurges::default();
        missed.add(&tag("a"), false, &[], now);
        assert_eq!(missed.of("e1"), 0, "all have confirmed it");
        missed.add(&tag("a"), false, &nodes(&["e1", "e2"]), now);
        assert_eq!((missed.of("e1"), missed.of("e2"), missed.of("e3")), (1, 1, 0));
        assert_eq!(missed.claim(|_| false, now), None);
        let purge = missed.claim(|node| node == "e2", now).unwrap();
        assert_eq!(purge.pattern, tag("a"));
        assert_eq!(missed.claim(|_| true, now), None, "one at a time");
        missed.repeated(&purge, &nodes(&["e1"]), |_| true, now);
        assert_eq!((missed.of("e1"), missed.of("e2")), (1, 0));
        let purge = missed.claim(|node| node == "e1", now).unwrap();
        missed.repeated(&purge, &[], |_| true, now);
        assert_eq!((missed.of("e1"), missed.claim(|_| true, now)), (0, None));
    }

    #[test]
    fn attempts_that_fail_come_less_and_less_often() {
        let now = Instant::now();
        let missed = MissedPurges::default();
        missed.add(&tag("a"), false, &nodes(&["e1"]), now);
        let mut at = now;
        for seconds in [1, 2, 4, 8, 16, 32, 60, 60] {
            let purge = missed.claim(|_| true, at).unwrap();
            missed.repeated(&purge, &nodes(&["e1"]), |_| true, at);
            let next = at + Duration::from_secs(seconds);
            assert_eq!(missed.claim(|_| true, next - Duration::from_millis(1)), None, "{seconds} s");
            at = next;
        }
        assert_eq!(missed.claim(|_| true, now + KEPT), None, "too old");
        assert_eq!(missed.of("e1"), 0);
    }

    #[test]
    fn a_node_that_was_out_of_the_list_has_missed_what_was_purged_meanwhile() {
        let now = Instant::now();
        let missed = MissedPurges::default();
        missed.note_members(["e1"].into_iter(), ["e2"].into_iter(), now);
        missed.add(&tag("a"), false, &[], now);
        assert_eq!(missed.of("e1"), 1);
        missed.note_members([].into_iter(), ["e1"].into_iter(), now);
        missed.add(&tag("b"), false, &[], now);
        assert_eq!(missed.of("e1"), 1, "it has confirmed the second one");
        for number in 0..2 * limits::CLUSTER_NODES {
            missed.note_members([&*format!("gone{number}")].into_iter(), [].into_iter(), now);
        }
        assert_eq!(missed.lock().departed.len(), limits::CLUSTER_NODES);
    }

    #[test]
    fn another_process_goes_on_with_what_was_not_delivered() {
        let now = (Instant::now() + 2 * KEPT, SystemTime::now());
        let before = MissedPurges::default();
        before.add(&tag("a"), false, &nodes(&["e1"]), now.0);
        before.add(&tag("b"), true, &nodes(&["e2", "e3"]), now.0);
        let later = |time: Duration| (now.0 + time, now.1 + time);
        let hour = Duration::from_secs(3600);
        let left = before.undelivered(later(hour));
        let after = MissedPurges::default();
        after.add(&tag("b"), true, &nodes(&["e4"]), later(hour).0);
        let everything = Pattern { place: None, scope: Scope::Everything };
        let unknown =
            UndeliveredPurge { since: now.1, soft: false, pattern: everything.clone(), servers: [].into() };
        after.restore([left, vec![unknown]].concat(), &nodes(&["e5"]), later(hour));
        let of = |missed: &MissedPurges| ["e1", "e2", "e3", "e4", "e5"].map(|name| missed.of(name));
        assert_eq!(of(&after), [1, 1, 1, 1, 1]);
        let found: Vec<_> = after.lock().purges.iter().map(|one| (one.pattern.clone(), one.soft)).collect();
        assert_eq!(found, [(tag("a"), false), (everything, false), (tag("b"), true)]);
        assert_eq!(after.claim(|_| true, later(KEPT).0).unwrap().pattern, tag("b"), "the others are too old");
        let late = MissedPurges::default();
        late.restore(before.undelivered(later(hour)), &[], later(KEPT));
        assert_eq!(of(&late), [0; 5], "too old");
    }

    #[test]
    fn too_many_purges_become_one_of_everything() {
        let now = Instant::now();
        let long = "a".repeat(limits::PEER_MISSED_PURGE_BYTES);
        let many = (0..=limits::PEER_MISSED_PURGES).map(|number| number.to_string()).collect();
        for tags in [many, vec![long, "b".to_owned()]] {
            let missed = MissedPurges::default();
            for text in &tags {
                // The same one twice takes one place.
                missed.add(&tag(text), false, &nodes(&["e1"]), now);
                missed.add(&tag(text), false, &nodes(&["e2"]), now);
            }
            let everything = missed.claim(|_| true, now).unwrap();
            assert_eq!(everything.pattern.scope, Scope::Everything);
            assert!(!everything.soft && everything.nodes.len() == 2);
            assert!(missed.of("e1") <= 2);
        }
    }
}
