//! What two processes know of each other while a tier passes from one to the other.

use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;

/// A tier as its process gives it away.
#[derive(Debug)]
pub struct GivenTier {
    /// The file of slices, with the lock on the directory.
    pub slices: File,
    /// The slots in use at that moment.
    pub busy: BusySlots,
}

/// Slots that a process still needs after it has given its tier away.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BusySlots {
    /// Their numbers in rising order, each with the pages that it takes.
    pub(super) slots: Vec<(u32, u16)>,
}

/// Bytes of one slot of an encoded list: its number and its pages, little-endian.
const ENTRY_BYTES: usize = 6;

impl BusySlots {
    /// The list as bytes, for another process.
    pub fn encode(&self) -> Vec<u8> {
        let entry = |(number, pages): &(u32, u16)| {
            let [a, b, c, d] = number.to_le_bytes();
            let [e, f] = pages.to_le_bytes();
            [a, b, c, d, e, f]
        };
        self.slots.iter().flat_map(entry).collect()
    }

    /// A list from its bytes; `None` if they are none.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let (entries, rest) = bytes.as_chunks::<ENTRY_BYTES>();
        let slot = |[a, b, c, d, e, f]: &[u8; ENTRY_BYTES]| {
            (u32::from_le_bytes([*a, *b, *c, *d]), u16::from_le_bytes([*e, *f]))
        };
        let slots: Vec<(u32, u16)> = entries.iter().map(slot).collect();
        let rises = slots.windows(2).all(|pair| pair[0].0 < pair[1].0);
        (rest.is_empty() && rises).then_some(Self { slots })
    }

    /// Their numbers, in rising order.
    pub(super) fn numbers(&self) -> impl Iterator<Item = u32> + '_ {
        self.slots.iter().map(|(number, _)| *number)
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }
}

/// The process that had the tier before, while it runs beside this one.
#[derive(Debug, Default)]
pub(super) enum Predecessor {
    /// There is none.
    #[default]
    Gone,
    /// It still finds slices: each slot of the list may get another reader.
    Serving(Vec<u32>),
    /// It only ends what it reads from these slots.
    Ending(Vec<u32>),
}

impl Predecessor {
    /// Whether it may read from a slot.
    pub(super) fn holds(&self, number: u32) -> bool {
        match self {
            Self::Gone => false,
            Self::Serving(held) | Self::Ending(held) => held.binary_search(&number).is_ok(),
        }
    }
}

/// Checks that the file of a tier that was given away is the one that lies in the directory.
///
/// # Errors
/// [`io::ErrorKind::NotFound`] if another file has its name.
pub(super) fn same_file(given: &File, named: &File) -> io::Result<()> {
    let (given, named) = (given.metadata()?, named.metadata()?);
    let is_same = (given.dev(), given.ino()) == (named.dev(), named.ino());
    if is_same { Ok(()) } else { Err(io::ErrorKind::NotFound.into()) }
}
