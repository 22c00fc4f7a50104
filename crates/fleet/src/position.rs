//! Positions in the stream of purges.

use std::fmt;

use crate::seal::hex;

/// The stream's own name: another one after the store was emptied.
pub(crate) type Epoch = [u8; 16];

/// An entry of the stream: milliseconds and sequence number, as the store numbers them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct EntryId(pub(crate) u64, pub(crate) u64);

impl EntryId {
    /// Before all entries.
    pub(crate) const BEGIN: Self = Self(0, 0);

    /// Whether the store could not number many more entries after this one: no clock gave it its number.
    pub(crate) fn is_exhausted(self) -> bool {
        self.0 > u64::MAX / 2
    }

    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (milliseconds, sequence) = text.split_once('-')?;
        Some(Self(milliseconds.parse().ok()?, sequence.parse().ok()?))
    }
}

impl fmt::Display for EntryId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.0, self.1)
    }
}

/// Up to which entry purges were applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Position {
    pub(crate) epoch: Epoch,
    pub(crate) last: EntryId,
}

impl Position {
    /// Reads what [`fmt::Display`] writes.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (epoch, last) = text.split_once(' ')?;
        Some(Self { epoch: epoch_of(epoch)?, last: EntryId::parse(last)? })
    }

    /// Whether the entry of `other` was applied.
    pub(crate) fn includes(&self, other: &Self) -> bool {
        self.epoch == other.epoch && self.last >= other.last
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", hex(&self.epoch), self.last)
    }
}

/// An epoch written in hexadecimal digits.
pub(crate) fn epoch_of(text: &str) -> Option<Epoch> {
    let number = u128::from_str_radix(text, 16).ok().filter(|_| text.len() == 32)?;
    Some(number.to_be_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_are_read_as_they_are_written_and_compared_within_an_epoch() {
        let position = Position { epoch: [0xab; 16], last: EntryId(17, 3) };
        assert_eq!(Position::parse(&position.to_string()), Some(position));
        for wrong in ["", "ab 1-1", "x 1", &position.to_string()[1..]] {
            assert_eq!(Position::parse(wrong), None, "{wrong}");
        }
        assert!(position.includes(&Position { last: EntryId(16, 9), ..position }));
        assert!(!position.includes(&Position { last: EntryId(17, 4), ..position }));
        assert!(!position.includes(&Position { epoch: [1; 16], ..position }));
        assert!(EntryId(u64::MAX, 0).is_exhausted() && !EntryId(u64::MAX / 1000, u64::MAX).is_exhausted());
    }
}
