//! Field blocks into fields (RFC 7541 §3, §6).

use std::ops::Range;

use super::dynamic_table::DynamicTable;
use super::error::HpackError;
use super::static_table::STATIC_TABLE;
use super::{huffman, integer};

/// The size of the table until SETTINGS change it (RFC 9113 §6.5.2).
const TABLE_BYTES_INITIAL: usize = 4096;

/// The state that decoding keeps between field blocks.
#[derive(Debug)]
pub(crate) struct Decoder {
    table: DynamicTable,
    /// The most that the peer may choose for the table.
    limit: usize,
    /// The next block must begin by making the table smaller (RFC 7541 §4.2).
    update_due: bool,
    /// Whether a block may mean something else than before.
    has_changed: bool,
}

impl Decoder {
    pub(crate) fn new() -> Self {
        Self {
            table: DynamicTable::new(TABLE_BYTES_INITIAL),
            limit: TABLE_BYTES_INITIAL,
            update_due: false,
            has_changed: false,
        }
    }

    /// Changes the limit of the table. Call it when the peer has acknowledged the setting.
    pub(crate) fn set_limit(&mut self, limit: usize) {
        self.limit = limit;
        self.update_due = self.table.limit() > limit;
        self.has_changed = true;
    }

    /// Whether the state has changed since the last call. If not, equal blocks mean what they meant before it.
    pub(crate) fn take_changed(&mut self) -> bool {
        std::mem::take(&mut self.has_changed)
    }

    /// Decodes a field block, and gives each name and value to `sink` in order, with the place in the block of a value that
    /// is a string literal, else an empty one. Every block has to be decoded, to the end.
    ///
    /// `scratch` is overwritten. Work and memory are linear in the length of the block and what `sink` keeps; a field has at
    /// most as many bytes as the table or eight fifths of the block.
    ///
    /// # Errors
    /// The block is malformed. The state is undefined then, and the connection ends.
    pub(crate) fn decode(
        &mut self,
        mut block: &[u8],
        scratch: &mut Vec<u8>,
        mut sink: impl FnMut(&[u8], &[u8], Range<usize>),
    ) -> Result<(), HpackError> {
        let length = block.len();
        self.update_size(&mut block)?;
        while let Some(&first) = block.first() {
            if first & 0x80 != 0 {
                let index = integer::decode(&mut block, 7)?;
                let (name, value) = self.field(index)?;
                sink(name, value, 0..0);
                continue;
            }
            if first & 0xe0 == 0x20 {
                return Err(HpackError("hpack_late_size_update"));
            }
            let is_indexed = first & 0x40 != 0;
            let (name_length, left) = self.literal(&mut block, if is_indexed { 6 } else { 4 }, scratch)?;
            let (name, value) = scratch.split_at(name_length);
            sink(name, value, length - left..length - block.len());
            if is_indexed {
                self.table.insert(0, name, value);
                self.has_changed = true;
            }
        }
        Ok(())
    }

    /// Takes the size updates from the front of a block (RFC 7541 §4.2, §6.3): at most two.
    fn update_size(&mut self, block: &mut &[u8]) -> Result<(), HpackError> {
        for _ in 0..2 {
            if block.first().is_none_or(|first| first & 0xe0 != 0x20) {
                break;
            }
            let size = integer::decode(block, 5)?;
            if size > self.limit {
                return Err(HpackError("hpack_table_size"));
            }
            self.table.set_limit(size);
            (self.update_due, self.has_changed) = (false, true);
        }
        if self.update_due { Err(HpackError("hpack_missing_size_update")) } else { Ok(()) }
    }

    /// The field with an index of both tables.
    fn field(&self, index: usize) -> Result<(&[u8], &[u8]), HpackError> {
        let place = index.checked_sub(1).ok_or(HpackError("hpack_index"))?;
        match STATIC_TABLE.get(place) {
            Some(&field) => Ok(field),
            None => self.table.get(place - STATIC_TABLE.len()).ok_or(HpackError("hpack_index")),
        }
    }

    /// Takes a literal field, whose name has an index with this prefix, into `scratch`. Returns the length of its name, and how
    /// many bytes were left of the block in front of its value.
    fn literal(
        &self,
        block: &mut &[u8],
        prefix: u32,
        scratch: &mut Vec<u8>,
    ) -> Result<(usize, usize), HpackError> {
        scratch.clear();
        match integer::decode(block, prefix)? {
            0 => string(block, scratch)?,
            index => scratch.extend_from_slice(self.field(index)?.0),
        }
        let (name_length, left) = (scratch.len(), block.len());
        string(block, scratch)?;
        Ok((name_length, left))
    }

    /// Bytes of memory that the table holds.
    #[cfg(any(test, feature = "fuzz"))]
    pub(crate) fn held_bytes(&self) -> usize {
        self.table.held_bytes()
    }

    /// Gives back memory that the table does not need.
    pub(crate) fn shrink(&mut self) {
        self.table.shrink();
    }
}

/// Whether `literal` is one string literal and nothing else. `scratch` becomes what it says.
pub(crate) fn is_string(mut literal: &[u8], scratch: &mut Vec<u8>) -> bool {
    scratch.clear();
    string(&mut literal, scratch).is_ok() && literal.is_empty()
}

/// Takes a string literal (RFC 7541 §5.2).
fn string(block: &mut &[u8], out: &mut Vec<u8>) -> Result<(), HpackError> {
    let is_huffman = block.first().is_some_and(|first| first & 0x80 != 0);
    let length = integer::decode(block, 7)?;
    let (text, rest) = block.split_at_checked(length).ok_or(HpackError("hpack_truncated"))?;
    *block = rest;
    if is_huffman {
        return huffman::decode(text, out);
    }
    out.extend_from_slice(text);
    Ok(())
}
