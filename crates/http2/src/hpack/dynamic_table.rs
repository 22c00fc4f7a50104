//! The dynamic table (RFC 7541 §2.3.2, §4), which both directions use.

use std::collections::VecDeque;

/// What an entry counts for in addition to its name and value (RFC 7541 §4.1).
const ENTRY_OVERHEAD: usize = 32;

/// The least allocation for names and values, in bytes.
const ALLOCATION_MIN: usize = 256;

/// Recently used fields, the newest first. Memory grows on demand, up to the limit for names and values, and eight bytes for
/// each of at most limit / 32 entries.
#[derive(Debug, Default)]
pub(super) struct DynamicTable {
    /// Names and values of the entries from the oldest to the newest, behind `evicted` bytes of evicted ones.
    bytes: Vec<u8>,
    evicted: usize,
    /// The newest entry is the last.
    entries: VecDeque<TableEntry>,
    size: usize,
    limit: usize,
    inserted: u16,
}

#[derive(Clone, Copy, Debug)]
struct TableEntry {
    /// The place of the name in `bytes`, if nothing had ever been taken out of it: modulo 2^16, since the table is smaller.
    at: u16,
    name: u16,
    value: u16,
    /// A digest of name and value, for the encoder.
    digest: u16,
}

impl DynamicTable {
    /// The largest limit of a table.
    pub(super) const LIMIT_MAX: usize = 16 * 1024;

    pub(super) fn new(limit: usize) -> Self {
        Self { limit: limit.min(Self::LIMIT_MAX), ..Self::default() }
    }

    pub(super) fn limit(&self) -> usize {
        self.limit
    }

    /// Sets the limit, and evicts what is over it.
    pub(super) fn set_limit(&mut self, limit: usize) {
        self.limit = limit.min(Self::LIMIT_MAX);
        self.evict(self.limit);
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    /// The entry at `index`; 0 is the newest.
    pub(super) fn get(&self, index: usize) -> Option<(&[u8], &[u8])> {
        let entry = self.entries.get(self.entries.len().checked_sub(index + 1)?)?;
        Some(self.field(*entry))
    }

    fn field(&self, entry: TableEntry) -> (&[u8], &[u8]) {
        let oldest = self.entries.front().map_or(0, |oldest| oldest.at);
        let start = self.evicted + usize::from(entry.at.wrapping_sub(oldest));
        let (name, rest) = self.bytes[start..].split_at(usize::from(entry.name));
        (name, &rest[..usize::from(entry.value)])
    }

    /// The index of the newest entry with this digest, name and value.
    pub(super) fn find(&self, digest: u16, name: &[u8], value: &[u8]) -> Option<usize> {
        let is_it = |entry: &TableEntry| entry.digest == digest && self.field(*entry) == (name, value);
        self.entries.iter().rev().position(is_it)
    }

    /// Whether the entry at `index` is this one.
    pub(super) fn is(&self, index: usize, name: &[u8], value: &[u8]) -> bool {
        self.get(index).is_some_and(|field| field == (name, value))
    }

    /// The number of entries that were ever inserted, modulo 2^16.
    pub(super) fn inserted(&self) -> u16 {
        self.inserted
    }

    /// The index of the newest entry with this name.
    pub(super) fn find_name(&self, name: &[u8]) -> Option<usize> {
        let is_named =
            |entry: &TableEntry| usize::from(entry.name) == name.len() && self.field(*entry).0 == name;
        self.entries.iter().rev().position(is_named)
    }

    /// Adds an entry. One that is larger than the table empties it (RFC 7541 §4.4).
    pub(super) fn insert(&mut self, digest: u16, name: &[u8], value: &[u8]) {
        let length = name.len() + value.len();
        let size = length + ENTRY_OVERHEAD;
        if size > self.limit {
            self.evict(0);
            return;
        }
        self.evict(self.limit - size);
        self.make_space(length);
        // The table is smaller than 2^16 bytes.
        let [at, name_length, value_length] =
            [self.end(), name.len(), value.len()].map(|number| u16::try_from(number).unwrap_or(u16::MAX));
        self.bytes.extend_from_slice(name);
        self.bytes.extend_from_slice(value);
        self.entries.push_back(TableEntry { at, name: name_length, value: value_length, digest });
        self.size += size;
        self.inserted = self.inserted.wrapping_add(1);
    }

    /// The place of the next entry, modulo 2^16.
    fn end(&self) -> usize {
        let newest = self.entries.back();
        let end = newest.map_or(0, |entry| entry.at.wrapping_add(entry.name).wrapping_add(entry.value));
        usize::from(end)
    }

    fn evict(&mut self, limit: usize) {
        while self.size > limit
            && let Some(oldest) = self.entries.pop_front()
        {
            let length = usize::from(oldest.name) + usize::from(oldest.value);
            self.evicted += length;
            self.size -= length + ENTRY_OVERHEAD;
        }
        if self.entries.is_empty() {
            self.bytes.clear();
            self.evicted = 0;
        }
    }

    /// Makes space for `length` bytes behind the newest entry, within the limit.
    fn make_space(&mut self, length: usize) {
        if self.bytes.capacity() - self.bytes.len() >= length {
            return;
        }
        self.bytes.drain(..self.evicted);
        self.evicted = 0;
        let needed = self.bytes.len() + length;
        if needed > self.bytes.capacity() {
            let capacity = (2 * self.bytes.capacity()).max(needed).max(ALLOCATION_MIN).min(self.limit);
            self.bytes.reserve_exact(capacity - self.bytes.len());
        }
    }

    /// Bytes of memory that are allocated.
    #[cfg(any(test, feature = "fuzz"))]
    pub(super) fn held_bytes(&self) -> usize {
        self.bytes.capacity() + self.entries.capacity() * size_of::<TableEntry>()
    }

    /// Gives back memory that the entries do not need.
    pub(super) fn shrink(&mut self) {
        self.bytes.drain(..self.evicted);
        self.evicted = 0;
        self.bytes.shrink_to_fit();
        self.entries.shrink_to_fit();
    }
}
