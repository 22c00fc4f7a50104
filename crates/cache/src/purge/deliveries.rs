//! Which purges other machines have yet to confirm: the bookkeeping of every transport.
//!
//! A recipient is what confirms: a node of a cluster, or the store of a fleet, from whose stream all edges read. Transports
//! decide when a purge is tried again; here is what is missing, and the bounds.

use std::collections::{BTreeSet, VecDeque, vec_deque};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use super::pattern::{Pattern, nanoseconds};
use super::target::PurgeTarget;
use super::undelivered::UndeliveredPurge;

/// A purge, and the recipients that have not confirmed it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivery<N> {
    /// The objects. Without a name space, the target may be as an operator wrote it.
    pub pattern: Pattern,
    /// Whether the objects only become stale.
    pub soft: bool,
    /// The recipients.
    pub missing: BTreeSet<String>,
    /// When this machine got to know it.
    pub since: Instant,
    /// Tells orders of the same purge apart: the later one has the greater number.
    pub ordered: u64,
    /// What the transport knows about it.
    pub note: N,
}

/// Bounds of [`Deliveries`].
#[derive(Clone, Copy, Debug)]
pub struct DeliveryLimits {
    /// Purges; more become one of everything.
    pub purges: usize,
    /// Bytes of them.
    pub bytes: usize,
    /// How long a purge that is not confirmed is kept.
    pub kept: Duration,
}

/// The purges, oldest first.
#[derive(Debug)]
pub struct Deliveries<N> {
    list: VecDeque<Delivery<N>>,
    limits: DeliveryLimits,
}

impl<N: Default> Deliveries<N> {
    /// No purges.
    pub fn new(limits: DeliveryLimits) -> Self {
        Self { list: VecDeque::new(), limits }
    }

    /// Number of purges.
    pub fn len(&self) -> usize {
        self.list.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// All of them.
    pub fn iter(&self) -> vec_deque::Iter<'_, Delivery<N>> {
        self.list.iter()
    }

    /// All of them, to note what was confirmed.
    pub fn iter_mut(&mut self) -> vec_deque::IterMut<'_, Delivery<N>> {
        self.list.iter_mut()
    }

    /// The same purge, if it is known.
    pub fn find(&mut self, pattern: &Pattern, soft: bool) -> Option<&mut Delivery<N>> {
        self.list.iter_mut().find(|known| known.pattern == *pattern && known.soft == soft)
    }

    /// Forgets purges.
    pub fn retain(&mut self, is_kept: impl FnMut(&Delivery<N>) -> bool) {
        self.list.retain(is_kept);
    }

    /// Forgets what is too old to be delivered.
    pub fn forget_old(&mut self, now: Instant) {
        let kept = self.limits.kept;
        self.list.retain(|purge| now.saturating_duration_since(purge.since) < kept);
    }

    /// Number of purges that a recipient has not confirmed.
    pub fn missing_of(&self, recipient: &str) -> usize {
        self.list.iter().filter(|purge| purge.missing.contains(recipient)).count()
    }

    /// Adds an order that a recipient is missing. The same purge from before is a part of it.
    pub fn add(&mut self, mut order: Delivery<N>) {
        let known = |known: &Delivery<N>| known.pattern == order.pattern && known.soft == order.soft;
        if let Some(known) = self.list.iter().position(known).and_then(|place| self.list.remove(place)) {
            order.missing.extend(known.missing);
            order.ordered = order.ordered.max(known.ordered);
        }
        if order.missing.is_empty() {
            return;
        }
        let now = order.since;
        self.list.push_back(order);
        self.bound(now);
    }

    /// Adds purges that an earlier process could not deliver. Those that any recipient may have missed count for all
    /// `recipients`.
    pub fn restore(
        &mut self,
        undelivered: Vec<UndeliveredPurge>,
        recipients: &[String],
        now: (Instant, SystemTime),
    ) {
        for UndeliveredPurge { since, soft, pattern, servers } in undelivered.into_iter().rev() {
            let mut missing = servers;
            if missing.is_empty() {
                missing.extend(recipients.iter().cloned());
            }
            let age = now.1.duration_since(since).unwrap_or_default();
            if age >= self.limits.kept || missing.is_empty() {
                continue;
            }
            if let Some(known) = self.find(&pattern, soft) {
                known.missing.extend(missing);
                continue;
            }
            let (since, at) =
                (now.0.checked_sub(age).unwrap_or(now.0), now.1.checked_sub(age).unwrap_or(now.1));
            let ordered = nanoseconds(at.duration_since(UNIX_EPOCH).unwrap_or_default());
            self.list.push_front(Delivery { pattern, soft, missing, since, ordered, note: N::default() });
        }
        self.bound(now.0);
    }

    /// What is not confirmed, for the next process or another machine.
    pub fn undelivered(&self, now: (Instant, SystemTime)) -> Vec<UndeliveredPurge> {
        let missing = self.list.iter().filter(|purge| !purge.missing.is_empty());
        let undelivered = |purge: &Delivery<N>| {
            let age = now.0.saturating_duration_since(purge.since);
            UndeliveredPurge {
                since: now.1.checked_sub(age).unwrap_or(now.1),
                soft: purge.soft,
                pattern: purge.pattern.clone(),
                servers: purge.missing.clone(),
            }
        };
        missing.map(undelivered).collect()
    }

    /// Makes one purge of everything of too many. Those that are confirmed give their places up first.
    fn bound(&mut self, now: Instant) {
        if self.fits() {
            return;
        }
        self.list.retain(|purge| !purge.missing.is_empty());
        if self.fits() {
            return;
        }
        let ordered = self.list.iter().map(|purge| purge.ordered).max().unwrap_or_default();
        let missing = self.list.drain(..).flat_map(|purge| purge.missing).collect();
        let pattern = Pattern { place: None, target: PurgeTarget::Everything };
        let note = N::default();
        self.list.push_back(Delivery { pattern, soft: false, missing, since: now, ordered, note });
    }

    fn fits(&self) -> bool {
        let bytes: usize = self.list.iter().map(|purge| purge.pattern.bytes()).sum();
        self.list.len() <= self.limits.purges && bytes <= self.limits.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: DeliveryLimits = DeliveryLimits { purges: 2, bytes: 1000, kept: Duration::from_secs(60) };

    fn order(text: &str, missing: &[&str], ordered: u64, since: Instant) -> Delivery<()> {
        let pattern = Pattern { place: None, target: PurgeTarget::Tag(text.to_owned()) };
        let missing = missing.iter().map(|name| (*name).to_owned()).collect();
        Delivery { pattern, soft: false, missing, since, ordered, note: () }
    }

    #[test]
    fn the_same_order_again_is_one_delivery_of_all_recipients() {
        let now = Instant::now();
        let mut deliveries = Deliveries::new(LIMITS);
        deliveries.add(order("a", &["e1"], 1, now));
        deliveries.add(order("b", &["e1"], 2, now));
        deliveries.add(order("a", &["e2"], 3, now));
        let found: Vec<_> = deliveries.iter().map(|one| (one.pattern.target.text(), one.ordered)).collect();
        assert_eq!(found, [("b", 2), ("a", 3)]);
        assert_eq!(["e1", "e2", "e3"].map(|name| deliveries.missing_of(name)), [2, 1, 0]);
        deliveries.add(order("c", &[], 4, now));
        assert_eq!(deliveries.len(), 2, "all have confirmed it");
        deliveries.forget_old(now + LIMITS.kept);
        assert!(deliveries.is_empty());
    }

    #[test]
    fn confirmed_ones_give_up_their_places_before_the_others_become_one() {
        let now = Instant::now();
        let mut deliveries = Deliveries::new(LIMITS);
        deliveries.add(order("a", &["e1"], 1, now));
        deliveries.add(order("b", &["e2"], 2, now));
        deliveries.iter_mut().next().unwrap().missing.clear();
        deliveries.add(order("c", &["e2"], 3, now));
        assert_eq!((deliveries.len(), deliveries.missing_of("e2")), (2, 2));
        deliveries.add(order("d", &["e1"], 4, now));
        let all: Vec<_> = deliveries.iter().map(|one| (one.pattern.target.clone(), one.ordered)).collect();
        assert_eq!(all, [(PurgeTarget::Everything, 4)]);
        assert_eq!(["e1", "e2"].map(|name| deliveries.missing_of(name)), [1, 1]);
        let mut long = Deliveries::new(LIMITS);
        long.add(order(&"a".repeat(LIMITS.bytes), &["e1"], 1, now));
        assert_eq!(long.iter().next().unwrap().pattern.target, PurgeTarget::Everything);
    }

    #[test]
    fn what_is_missing_is_restored_in_order_unless_it_is_too_old() {
        let now = (Instant::now() + Duration::from_secs(600), SystemTime::now());
        let mut before = Deliveries::new(LIMITS);
        before.add(order("a", &["e1"], 1, now.0));
        before.add(order("b", &["e2"], 2, now.0));
        let later = (now.0 + Duration::from_secs(10), now.1 + Duration::from_secs(10));
        let mut left = before.undelivered(later);
        left[1].servers.clear();
        let mut after = Deliveries::<()>::new(LIMITS);
        after.restore(left.clone(), &["e3".to_owned()], later);
        let found: Vec<_> = after.iter().map(|one| one.pattern.target.text()).collect();
        assert_eq!(found, ["a", "b"]);
        assert_eq!(["e1", "e2", "e3"].map(|name| after.missing_of(name)), [1, 0, 1]);
        let mut late = Deliveries::<()>::new(LIMITS);
        late.restore(left, &[], (now.0 + LIMITS.kept, now.1 + LIMITS.kept));
        assert!(late.is_empty());
    }
}
