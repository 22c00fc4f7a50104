//! Notices that other files take the space of a memory tier, once, and once that it is there again.

/// Of the space of the tier, the part that others take before it counts as short. Small files come and go unnoticed.
const TAKEN_SHARE: u64 = 8;

/// What has become of the space of a tier.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum SpaceChange {
    /// An eighth of what there was before, or more, is missing.
    Short {
        /// Bytes that the tier could use before.
        before: u64,
    },
    /// All of it is there again.
    Enough,
}

/// The space that a tier has had.
pub(super) struct SpaceWatch {
    most: u64,
    is_short: bool,
}

impl SpaceWatch {
    /// For a tier that may use this many bytes. If that is less than was asked for, the start has warned of it.
    pub(super) fn new(bytes: u64) -> Self {
        Self { most: bytes, is_short: false }
    }

    /// Compares the bytes that the tier may use now with those that it had.
    pub(super) fn note(&mut self, available: u64) -> Option<SpaceChange> {
        self.most = self.most.max(available);
        match self.is_short {
            false if available < self.most - self.most / TAKEN_SHARE => {
                self.is_short = true;
                Some(SpaceChange::Short { before: self.most })
            }
            true if available == self.most => {
                self.is_short = false;
                Some(SpaceChange::Enough)
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_change_is_noticed_once_and_small_files_are_not() {
        let mut watch = SpaceWatch::new(600);
        let seen = [600, 800, 700, 699, 0, 700, 799, 800, 800, 750, 100].map(|bytes| watch.note(bytes));
        let short = || Some(SpaceChange::Short { before: 800 });
        let enough = Some(SpaceChange::Enough);
        assert_eq!(seen, [None, None, None, short(), None, None, None, enough, None, None, short()]);
    }
}
