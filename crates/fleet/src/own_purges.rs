//! Purges of this machine's operators, until the stream has them and for some minutes after: the store may lose them.

use std::time::{Duration, Instant, SystemTime};

use penstock_cache::purge::{
    Deliveries, Delivery, DeliveryLimits, Pattern, PurgeOrder, PurgeTarget, UndeliveredPurge,
};

use crate::position::{EntryId, Position};
use crate::state::StateDirectory;

/// The file with those that are not in the stream.
const FILE: &str = "undelivered-purges";

/// The recipient, from which all edges read.
const STORE: &str = "store";

/// How long a purge waits for the store: edges that are away for longer are forgotten.
const WAITS: Duration = Duration::from_secs(24 * 3600);

/// What a purge takes in the list beside its text, in bytes.
const PURGE_BYTES: usize = 128;

/// The purges. The note of each is its position, once it is in the stream.
#[derive(Debug)]
pub(crate) struct OwnPurges {
    list: Deliveries<Option<Position>>,
    /// The longest URL, prefix or tag.
    text_bytes_max: usize,
    /// The number of the last one.
    last: u64,
    /// Whether a file with some of them may be there.
    is_kept: bool,
}

impl OwnPurges {
    /// At most `purges`, each with a text of at most `text_bytes_max` bytes; more, or a longer one, become one of everything.
    pub(crate) fn new(purges: usize, text_bytes_max: usize) -> Self {
        let bytes = purges.saturating_mul(text_bytes_max + PURGE_BYTES);
        let list = Deliveries::new(DeliveryLimits { purges, bytes, kept: WAITS });
        Self { list, text_bytes_max, last: 0, is_kept: false }
    }

    /// Adds a purge; returns its number.
    pub(crate) fn add(&mut self, order: &PurgeOrder, now: Instant) -> u64 {
        self.last += 1;
        let PurgeOrder { mut target, mut soft } = order.clone();
        if target.text().len() > self.text_bytes_max {
            (target, soft) = (PurgeTarget::Everything, false);
        }
        let (pattern, missing) = (Pattern { place: None, target }, [STORE.to_owned()].into());
        self.list.add(Delivery { pattern, soft, missing, since: now, ordered: self.last, note: None });
        self.last
    }

    /// Number of purges that are not in the stream.
    pub(crate) fn waiting(&self) -> usize {
        self.list.missing_of(STORE)
    }

    /// The oldest of these with its number.
    pub(crate) fn next(&self) -> Option<(u64, PurgeOrder)> {
        let own = self.list.iter().find(|own| !own.missing.is_empty())?;
        Some((own.ordered, PurgeOrder { target: own.pattern.target.clone(), soft: own.soft }))
    }

    /// Notes where the stream has a purge.
    pub(crate) fn note_written(&mut self, number: u64, position: Position) {
        if let Some(own) = self.list.iter_mut().find(|own| own.ordered == number) {
            own.missing.clear();
            own.note = Some(position);
        }
    }

    /// Where the stream has a purge, or the one that took its place: of everything, or the same again.
    pub(crate) fn position_of(&self, number: u64) -> Option<Position> {
        self.list.iter().find(|own| own.ordered >= number).and_then(|own| own.note)
    }

    /// The purges in the stream, with their numbers.
    pub(crate) fn written(&self) -> Vec<(u64, EntryId)> {
        self.list.iter().filter_map(|own| Some((own.ordered, own.note?.last))).collect()
    }

    /// Notes that the stream has lost the purges that `is_lost` names by their numbers.
    pub(crate) fn note_lost(&mut self, is_lost: impl Fn(u64) -> bool) {
        for own in self.list.iter_mut().filter(|own| is_lost(own.ordered)) {
            own.missing.insert(STORE.to_owned());
            own.note = None;
        }
    }

    /// Forgets those that have been in the stream for long enough.
    pub(crate) fn forget_written(&mut self, kept: Duration, now: Instant) {
        self.list.retain(|own| !own.missing.is_empty() || now.saturating_duration_since(own.since) < kept);
    }

    /// Takes over the purges of an earlier process that are not in the stream.
    pub(crate) fn restore(&mut self, state: &StateDirectory) {
        let Some(bytes) = state.read(FILE) else { return };
        let text = String::from_utf8(bytes).ok();
        let found = text.and_then(|text| UndeliveredPurge::read_list(&text)).unwrap_or_else(|| {
            // Too much is purged then, never too little.
            let pattern = Pattern { place: None, target: PurgeTarget::Everything };
            vec![UndeliveredPurge { since: SystemTime::now(), soft: false, pattern, servers: [].into() }]
        });
        self.list.restore(found, &[STORE.to_owned()], (Instant::now(), SystemTime::now()));
        self.last = self.list.iter().map(|own| own.ordered).max().unwrap_or_default();
        self.is_kept = true;
    }

    /// The text of the file for the next process; `None` if there is none and none is needed.
    pub(crate) fn kept(&mut self) -> Option<String> {
        let list = self.list.undelivered((Instant::now(), SystemTime::now()));
        let was_kept = std::mem::replace(&mut self.is_kept, !list.is_empty());
        (was_kept || self.is_kept).then(|| UndeliveredPurge::write_list(&list))
    }
}

/// Writes what [`OwnPurges::kept`] gave. Without the lock of the purges, since this waits for a disk.
pub(crate) fn keep(state: &StateDirectory, text: &str) {
    // A file that cannot be read is a purge of everything.
    let text = if state.fits(text.len()) { text } else { "too many\n" };
    state.write(FILE, text.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: Position = Position { epoch: [1; 16], last: EntryId(5, 0) };

    fn tag(text: &str) -> PurgeOrder {
        PurgeOrder { target: PurgeTarget::Tag(text.to_owned()), soft: false }
    }

    #[test]
    fn purges_that_wait_for_the_store_are_bounded_and_none_is_lost() {
        let mut own = OwnPurges::new(2, 64);
        let add = |own: &mut OwnPurges, text: &str| {
            own.add(&tag(text), Instant::now());
            own.list.iter().map(|one| one.pattern.target.text().to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(add(&mut own, "a"), ["a"]);
        assert_eq!(add(&mut own, "b"), ["a", "b"]);
        // One of everything takes their place.
        assert_eq!(add(&mut own, "c"), [""]);
        let (number, order) = own.next().unwrap();
        assert_eq!((number, order.target), (3, PurgeTarget::Everything));
        // What is in the stream gives its place up.
        own.note_written(number, HERE);
        assert_eq!((own.position_of(1), own.waiting()), (Some(HERE), 0));
        assert_eq!(add(&mut own, "d"), ["", "d"]);
        assert_eq!(add(&mut own, "e"), ["d", "e"]);
        assert_eq!(own.waiting(), 2);
        assert_eq!(add(&mut own, &"f".repeat(65)), [""]);
    }

    #[test]
    fn a_purge_that_the_store_has_lost_is_written_again_and_others_are_forgotten_in_time() {
        let (mut own, now) = (OwnPurges::new(2, 64), Instant::now());
        let numbers = ["a", "b"].map(|text| own.add(&tag(text), now));
        numbers.iter().for_each(|number| own.note_written(*number, HERE));
        assert_eq!((own.written().len(), own.next()), (2, None));
        own.note_lost(|number| number == numbers[1]);
        assert_eq!(own.next(), Some((numbers[1], tag("b"))));
        own.forget_written(Duration::from_secs(600), now + Duration::from_secs(600));
        assert_eq!((own.written().len(), own.waiting()), (0, 1));
    }

    #[test]
    fn purges_that_wait_for_the_store_wait_in_the_next_process_too() {
        let directory = tempfile::tempdir().unwrap();
        let state = StateDirectory::new(Some(directory.path().to_owned()), 4096);
        let process = || {
            let mut own = OwnPurges::new(2, 64);
            own.restore(&state);
            own
        };
        let mut first = process();
        assert_eq!(first.kept(), None, "no file is needed");
        let order = PurgeOrder { target: PurgeTarget::Url("/a b".to_owned()), soft: true };
        let number = first.add(&order, Instant::now());
        keep(&state, &first.kept().unwrap());
        let mut second = process();
        let (found, restored) = second.next().unwrap();
        assert_eq!(restored, order);
        assert!(found > number && second.add(&tag("b"), Instant::now()) > found);
        second.note_lost(|_| true);
        while let Some((number, _)) = second.next() {
            second.note_written(number, HERE);
        }
        keep(&state, &second.kept().unwrap());
        assert_eq!(process().waiting(), 0, "it was delivered");
        keep(&state, &"long".repeat(1025));
        assert_eq!(process().next().unwrap().1.target, PurgeTarget::Everything);
    }
}
