//! The entries of the stream of purges that this process has read: how many of them another edge misses.

use std::collections::BTreeSet;
use std::ops::Bound::{Excluded, Unbounded};

use crate::position::{EntryId, Position};

/// The entries, at most so many.
pub(crate) struct KnownEntries {
    entries: BTreeSet<EntryId>,
    most: usize,
}

impl KnownEntries {
    pub(crate) fn new(most: usize) -> Self {
        Self { entries: BTreeSet::new(), most }
    }

    /// Notes entries that were read. If the stream is read again from behind `last`, it may have lost what was known there.
    pub(crate) fn note(&mut self, read: Vec<EntryId>, last: Option<EntryId>) {
        if let Some(last) = last {
            self.entries.retain(|known| *known <= last && last != EntryId::BEGIN);
        }
        self.entries.extend(read);
        while self.entries.len() > self.most {
            self.entries.pop_first();
        }
    }

    /// Purges that an edge at this position has yet to apply, of those that are known; at least 1 if there are older ones. `own` is
    /// the position of this edge.
    pub(crate) fn missing_at(&self, edge: &Position, own: &Position) -> usize {
        if edge.epoch != own.epoch {
            return self.entries.len();
        }
        let known = self.entries.range((Excluded(edge.last), Unbounded)).count();
        known.max(usize::from(edge.last < own.last))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(last: u64) -> Position {
        Position { epoch: [1; 16], last: EntryId(last, 0) }
    }

    #[test]
    fn an_edge_misses_the_entries_behind_its_position() {
        let mut known = KnownEntries::new(4);
        assert_eq!(known.missing_at(&at(8), &at(9)), 1, "written before this process began");
        known.note([7, 8, 9].map(|number| EntryId(number, 0)).into(), None);
        let missing =
            |known: &KnownEntries, own| [6, 8, 9, 10].map(|last| known.missing_at(&at(last), &at(own)));
        assert_eq!(missing(&known, 9), [3, 1, 0, 0]);
        let of_another_stream = Position { epoch: [2; 16], ..at(9) };
        assert_eq!(known.missing_at(&of_another_stream, &at(9)), 3);
        // The stream lost its last entry.
        known.note(Vec::new(), Some(EntryId(8, 0)));
        assert_eq!(missing(&known, 8), [2, 0, 0, 0]);
        known.note((0..9).map(|number| EntryId(100, number)).collect(), None);
        assert_eq!(known.entries.len(), 4);
        known.note(Vec::new(), Some(EntryId::BEGIN));
        assert_eq!(known.entries.len(), 0);
    }
}
