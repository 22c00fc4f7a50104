//! Purges that some nodes have not confirmed. They are repeated once these nodes answer, by the next process if need be.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use penstock_cache::purge::{Deliveries, Delivery, DeliveryLimits, Pattern, UndeliveredPurge};
use penstock_config::limits;
use penstock_sys::lock::Unpoisoned;

use crate::clock::Moment;

/// A purge that nodes have missed. Its note is the node that repeats it, if that is another one; this node does so once that
/// one is away.
pub(crate) type MissedPurge = Delivery<Option<String>>;

/// What another node tells with a purge: who has missed it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MissingNodes {
    /// See [`Delivery::ordered`].
    pub(crate) ordered: u64,
    /// The node that repeats it.
    pub(crate) taker: String,
    pub(crate) nodes: Vec<String>,
    /// Whether all other members of the cluster have confirmed it.
    pub(crate) settled: bool,
}

/// The purges, oldest first, and when they are repeated. Bounded in number, bytes and time.
#[derive(Debug, Default)]
pub(crate) struct MissedPurges {
    list: Mutex<List>,
    /// Purges in the list, so that an empty one costs no lock.
    count: AtomicUsize,
}

#[derive(Debug)]
struct List {
    purges: Deliveries<Option<String>>,
    /// Nodes that left the list of nodes, and when. They may come back with what they have.
    departed: BTreeMap<String, Instant>,
    /// Set while a purge is being repeated.
    is_repeating: bool,
    /// The next attempt is not before this,
    not_before: Option<Instant>,
    /// and after a failure not for so long.
    pause: Duration,
    /// Since when another node in the place of one that is away should have repeated a purge.
    expected: Option<Instant>,
}

impl Default for List {
    fn default() -> Self {
        Self {
            purges: Deliveries::new(LIMITS),
            departed: BTreeMap::new(),
            is_repeating: false,
            not_before: None,
            pause: Duration::ZERO,
            expected: None,
        }
    }
}

const KEPT: Duration = Duration::from_secs(limits::PEER_MISSED_SECONDS);
const LIMITS: DeliveryLimits =
    DeliveryLimits { purges: limits::PEER_MISSED_PURGES, bytes: limits::PEER_MISSED_PURGE_BYTES, kept: KEPT };
/// How long the first of the nodes that know a purge may take to repeat it, before the others do so too.
const EXPECTED: Duration = Duration::from_secs(10);
const PAUSE: Duration = Duration::from_secs(1);
const PAUSE_MAX: Duration = Duration::from_secs(limits::PEER_REPEAT_SECONDS_MAX);

/// Nanoseconds since 1970, as the number of an order.
pub(crate) fn nanoseconds(time: SystemTime) -> u64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

impl MissedPurges {
    /// Number of purges that a node has missed.
    pub(crate) fn of(&self, node: &str) -> usize {
        if self.count.load(Ordering::Acquire) == 0 {
            return 0;
        }
        self.lock().purges.missing_of(node)
    }

    /// Notes a purge of this node that these nodes have missed. Nodes that have left the cluster have missed it too.
    pub(crate) fn add(&self, pattern: &Pattern, soft: bool, nodes: &[String], ordered: u64, now: Instant) {
        let mut list = self.lock();
        list.departed.retain(|_, since| now.saturating_duration_since(*since) < KEPT);
        let missing = nodes.iter().chain(list.departed.keys()).cloned().collect();
        let pattern = pattern.clone();
        list.purges.add(Delivery { pattern, soft, missing, since: now, ordered, note: None });
        self.count(&list);
    }

    /// The same while the purge is under way. One that is known from before is no younger for it.
    pub(crate) fn mark(&self, pattern: &Pattern, soft: bool, nodes: &[String], ordered: u64, now: Instant) {
        let mut list = self.lock();
        if let Some(known) = list.purges.find(pattern, soft) {
            known.missing.extend(nodes.iter().cloned());
            return;
        }
        drop(list);
        self.add(pattern, soft, nodes, ordered, now);
    }

    /// Notes what another node tells of a purge. Returns whether that changed anything.
    pub(crate) fn learn(
        &self,
        pattern: &Pattern,
        soft: bool,
        told: MissingNodes,
        is_other: impl Fn(&str) -> bool,
        now: Instant,
    ) -> bool {
        let MissingNodes { ordered, taker, nodes, settled } = told;
        let nodes: BTreeSet<String> = nodes.into_iter().filter(|node| is_other(node)).collect();
        let mut list = self.lock();
        let is_changed = match list.purges.find(pattern, soft) {
            None if nodes.is_empty() || settled => false,
            None => {
                let (pattern, note) = (pattern.clone(), Some(taker));
                list.purges.add(Delivery { pattern, soft, missing: nodes, since: now, ordered, note });
                true
            }
            // An older order says nothing of the newer one.
            Some(known) if settled && known.ordered > ordered => false,
            Some(known) => {
                let before = known.clone();
                if settled {
                    known.missing.retain(|node| !is_other(node));
                }
                known.missing.extend(nodes);
                if known.ordered < ordered {
                    (known.ordered, known.note, known.since) = (ordered, Some(taker), now);
                }
                let is_changed = *known != before;
                list.purges.retain(|purge| !purge.missing.is_empty());
                is_changed
            }
        };
        self.count(&list);
        is_changed
    }

    /// Adds purges that an earlier process could not deliver. Those that any node may have missed count for all `others`.
    pub(crate) fn restore(&self, undelivered: Vec<UndeliveredPurge>, others: &[String], now: Moment) {
        let mut list = self.lock();
        list.purges.restore(undelivered, others, now);
        self.count(&list);
    }

    /// The purges for the next process.
    pub(crate) fn undelivered(&self, now: Moment) -> Vec<UndeliveredPurge> {
        self.lock().purges.undelivered(now)
    }

    /// The purges that a node has missed.
    pub(crate) fn undelivered_to(&self, node: &str, now: Moment) -> Vec<UndeliveredPurge> {
        let mut list = self.undelivered(now);
        list.retain(|purge| purge.servers.contains(node));
        list.iter_mut().for_each(|purge| purge.servers = [node.to_owned()].into());
        list
    }

    /// Claims the oldest purge that one of its nodes can confirm now; the caller repeats it and calls [`Self::repeated`].
    ///
    /// A purge of another node is claimed while that one is away: by the node that is first among the others, as
    /// `is_first` says, or by all of them if that one does not do so for a while. If the other node answers it may have
    /// lost the purge, so it is claimed after a longer while.
    pub(crate) fn claim(
        &self,
        is_up: impl Fn(&str) -> bool,
        is_first: impl Fn(&MissedPurge) -> bool,
        now: Instant,
    ) -> Option<MissedPurge> {
        if self.count.load(Ordering::Acquire) == 0 {
            return None;
        }
        let mut list = self.lock();
        list.purges.forget_old(now);
        self.count(&list);
        if list.is_repeating || list.not_before.is_some_and(|then| now < then) {
            return None;
        }
        let List { purges, expected, .. } = &mut *list;
        let can_confirm = |purge: &&MissedPurge| purge.missing.iter().any(|node| is_up(node));
        let mut due = purges.iter().filter(can_confirm).peekable();
        if due.peek().is_none() {
            *expected = None;
            return None;
        }
        let waited = now.saturating_duration_since(*expected.get_or_insert(now));
        let is_due = |purge: &&MissedPurge| match &purge.note {
            None => true,
            Some(taker) if is_up(taker) && !purge.missing.contains(taker) => waited >= 3 * EXPECTED,
            Some(_) => waited >= EXPECTED || is_first(purge),
        };
        let due = due.find(is_due).cloned()?;
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
        let mut progress = false;
        // One that was ordered again meanwhile may have been missed again.
        if let Some(known) = list.purges.find(&purge.pattern, purge.soft)
            && known.ordered <= purge.ordered
        {
            let before = known.missing.len();
            known.missing.retain(|node| missing.contains(node) || !is_member(node));
            progress = known.missing.len() < before;
            known.missing.extend(missing.iter().cloned());
            list.purges.retain(|purge| !purge.missing.is_empty());
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
        self.list.lock().unpoisoned()
    }
}

#[cfg(test)]
mod tests {
    use penstock_cache::purge::PurgeTarget;

    use super::*;

    fn tag(text: &str) -> Pattern {
        Pattern { place: None, target: PurgeTarget::Tag(text.to_owned()) }
    }

    fn nodes(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn a_purge_is_repeated_once_a_node_that_missed_it_answers_until_all_have_confirmed() {
        let now = Instant::now();
        let missed = MissedPurges::default();
        missed.add(&tag("a"), false, &[], 1, now);
        assert_eq!(missed.of("e1"), 0, "all have confirmed it");
        missed.add(&tag("a"), false, &nodes(&["e1", "e2"]), 1, now);
        assert_eq!((missed.of("e1"), missed.of("e2"), missed.of("e3")), (1, 1, 0));
        assert_eq!(missed.claim(|_| false, |_| true, now), None);
        let purge = missed.claim(|node| node == "e2", |_| true, now).unwrap();
        assert_eq!(purge.pattern, tag("a"));
        assert_eq!(missed.claim(|_| true, |_| true, now), None, "one at a time");
        missed.repeated(&purge, &nodes(&["e1"]), |_| true, now);
        assert_eq!((missed.of("e1"), missed.of("e2")), (1, 0));
        let purge = missed.claim(|node| node == "e1", |_| true, now).unwrap();
        missed.repeated(&purge, &[], |_| true, now);
        assert_eq!((missed.of("e1"), missed.claim(|_| true, |_| true, now)), (0, None));
    }

    #[test]
    fn a_node_repeats_the_purge_of_another_one_that_is_away() {
        let now = Instant::now();
        let missed = MissedPurges::default();
        let told = |ordered, missing: &[&str], settled| MissingNodes {
            ordered,
            taker: "e1".to_owned(),
            nodes: nodes(missing),
            settled,
        };
        let learn = |told| missed.learn(&tag("a"), false, told, |node| node != "own", now);
        assert!(!learn(told(5, &["own"], false)), "this node knows that it has confirmed it");
        assert!(learn(told(5, &["e3", "own"], false)) && !learn(told(5, &["e3"], false)));
        assert_eq!((missed.of("e3"), missed.of("own")), (1, 0));
        let all_up = missed.claim(|_| true, |_| true, now);
        assert_eq!(all_up, None, "the node that took the order does so");
        assert!(missed.claim(|_| true, |_| false, now + 3 * EXPECTED).is_some(), "which has lost it");
        missed.lock().is_repeating = false;
        let is_up = |node: &str| node != "e1";
        assert_eq!(missed.claim(is_up, |_| false, now), None, "another node is first");
        let late = now + EXPECTED;
        assert_eq!(missed.claim(is_up, |_| false, late - Duration::from_millis(1)), None);
        let purge = missed.claim(is_up, |_| false, late).unwrap();
        missed.repeated(&purge, &nodes(&["e3"]), |_| true, now);
        assert!(!learn(told(4, &[], true)), "an older order");
        assert_eq!(missed.of("e3"), 1);
        assert!(learn(told(6, &["e4"], false)), "ordered again");
        missed.repeated(&purge, &[], |_| true, now);
        assert_eq!((missed.of("e3"), missed.of("e4")), (1, 1), "the repetition was that of the older order");
        assert!(learn(told(6, &[], true)));
        assert_eq!((missed.of("e3"), missed.of("e4")), (0, 0));
    }

    #[test]
    fn attempts_that_fail_come_less_and_less_often() {
        let now = Instant::now();
        let missed = MissedPurges::default();
        missed.add(&tag("a"), false, &nodes(&["e1"]), 1, now);
        let mut at = now;
        for seconds in [1, 2, 4, 8, 16, 32, 60, 60] {
            let purge = missed.claim(|_| true, |_| true, at).unwrap();
            missed.repeated(&purge, &nodes(&["e1"]), |_| true, at);
            let next = at + Duration::from_secs(seconds);
            assert_eq!(
                missed.claim(|_| true, |_| true, next - Duration::from_millis(1)),
                None,
                "{seconds} s"
            );
            at = next;
        }
        assert_eq!(missed.claim(|_| true, |_| true, now + KEPT), None, "too old");
        assert_eq!(missed.of("e1"), 0);
    }

    #[test]
    fn a_node_that_was_out_of_the_list_has_missed_what_was_purged_meanwhile() {
        let now = Instant::now();
        let missed = MissedPurges::default();
        missed.note_members(["e1"].into_iter(), ["e2"].into_iter(), now);
        missed.add(&tag("a"), false, &[], 1, now);
        assert_eq!(missed.of("e1"), 1);
        missed.note_members([].into_iter(), ["e1"].into_iter(), now);
        missed.add(&tag("b"), false, &[], 1, now);
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
        before.add(&tag("a"), false, &nodes(&["e1"]), 1, now.0);
        before.add(&tag("b"), true, &nodes(&["e2", "e3"]), 1, now.0);
        let later = |time: Duration| (now.0 + time, now.1 + time);
        let hour = Duration::from_secs(3600);
        let left = before.undelivered(later(hour));
        let after = MissedPurges::default();
        after.add(&tag("b"), true, &nodes(&["e4"]), 1, later(hour).0);
        let everything = Pattern { place: None, target: PurgeTarget::Everything };
        let unknown =
            UndeliveredPurge { since: now.1, soft: false, pattern: everything.clone(), servers: [].into() };
        after.restore([left, vec![unknown]].concat(), &nodes(&["e5"]), later(hour));
        let of = |missed: &MissedPurges| ["e1", "e2", "e3", "e4", "e5"].map(|name| missed.of(name));
        assert_eq!(of(&after), [1, 1, 1, 1, 1]);
        let found: Vec<_> = after.lock().purges.iter().map(|one| (one.pattern.clone(), one.soft)).collect();
        assert_eq!(found, [(tag("a"), false), (everything, false), (tag("b"), true)]);
        assert_eq!(
            after.claim(|_| true, |_| true, later(KEPT).0).unwrap().pattern,
            tag("b"),
            "the others are too old"
        );
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
                missed.add(&tag(text), false, &nodes(&["e1"]), 1, now);
                missed.add(&tag(text), false, &nodes(&["e2"]), 1, now);
            }
            let everything = missed.claim(|_| true, |_| true, now).unwrap();
            assert_eq!(everything.pattern.target, PurgeTarget::Everything);
            assert!(!everything.soft && everything.missing.len() == 2);
            assert!(missed.of("e1") <= 2);
        }
    }
}
