//! Fields into field blocks (RFC 7541 §6).

use super::dynamic_table::DynamicTable;
use super::static_table::{STATIC_TABLE, static_name};
use super::{huffman, integer};

/// The table of this side, in bytes: the fields that most responses of a site have in common.
const TABLE_BYTES_MAX: usize = 2048;

/// The size of the table until SETTINGS change it (RFC 9113 §6.5.2).
const TABLE_BYTES_INITIAL: usize = 4096;

/// Fields with a longer name and value are never put into the table.
const INDEXED_BYTES_MAX: usize = 512;

/// How many places of entries are remembered by their digest.
const PLACES: usize = 64;

/// How many fields that were not found in the table are remembered.
const RECENT: usize = 16;

/// The state that encoding keeps between field blocks.
///
/// A field enters the table when it is sent the second time within a short while, so that values that are different in
/// each response (validators, lengths) do not evict those that are not.
#[derive(Debug)]
pub(crate) struct Encoder {
    table: DynamicTable,
    /// The sizes that the next block announces: the least since the last block if it is below the last, and the last.
    update: Option<(usize, usize)>,
    /// Digests of the last fields that were not in the table.
    recent: [u16; RECENT],
    next_recent: usize,
    /// By the low bits of a digest, the number of the entry that was inserted or found last: a first guess, which saves a
    /// search. Not there until an entry is looked for, nor after [`shrink`](Self::shrink).
    places: Option<Box<[u16; PLACES]>>,
    /// Whether a field that is sent again may be encoded otherwise than before.
    has_changed: bool,
}

impl Encoder {
    pub(crate) fn new() -> Self {
        let update = (TABLE_BYTES_MAX < TABLE_BYTES_INITIAL).then_some((TABLE_BYTES_MAX, TABLE_BYTES_MAX));
        Self {
            table: DynamicTable::new(TABLE_BYTES_MAX),
            update,
            recent: [0; RECENT],
            next_recent: 0,
            places: None,
            has_changed: true,
        }
    }

    /// Sets the limit that the peer announced (`SETTINGS_HEADER_TABLE_SIZE`).
    pub(crate) fn set_limit(&mut self, limit: usize) {
        let limit = limit.min(TABLE_BYTES_MAX);
        if limit != self.table.limit() {
            self.table.set_limit(limit);
            let least = self.update.map_or(limit, |(least, _)| least.min(limit));
            self.update = Some((least, limit));
            self.has_changed = true;
        }
    }

    /// Whether the state has changed since the last call. If not, equal fields are encoded as they were before it.
    pub(crate) fn take_changed(&mut self) -> bool {
        std::mem::take(&mut self.has_changed)
    }

    /// Begins a field block. Call it before the first field of each.
    pub(crate) fn begin(&mut self, out: &mut Vec<u8>) {
        if let Some((least, last)) = self.update.take() {
            self.has_changed = true;
            if least < last {
                integer::encode(least, 5, 0x20, out);
            }
            integer::encode(last, 5, 0x20, out);
        }
    }

    /// Appends `:status`. `status` is 100 to 999.
    pub(crate) fn status(&mut self, status: u16, out: &mut Vec<u8>) {
        let index = match status {
            200 => 8,
            204 => 9,
            206 => 10,
            304 => 11,
            400 => 12,
            404 => 13,
            500 => 14,
            _ => {
                let digit = |place: u16| b'0' + u8::try_from(status / place % 10).unwrap_or(0);
                return self.field(b":status", &[digit(100), digit(10), digit(1)], out);
            }
        };
        out.push(0x80 | index);
    }

    /// Appends a field. `name` is in lowercase letters.
    pub(crate) fn field(&mut self, name: &[u8], value: &[u8], out: &mut Vec<u8>) {
        let digest = digest(name, value);
        if let Some(index) = self.find(digest, name, value) {
            integer::encode(STATIC_TABLE.len() + 1 + index, 7, 0x80, out);
            return;
        }
        // Never to be indexed, by intermediaries too (RFC 7541 §7.1.3).
        let is_secret = matches!(name, b"set-cookie" | b"authorization" | b"proxy-authorization");
        let is_repeated = !is_secret && self.is_repeated(digest, name.len() + value.len());
        let (prefix, flags) = match (is_repeated, is_secret) {
            (true, _) => (6, 0x40),
            (false, true) => (4, 0x10),
            (false, false) => (4, 0),
        };
        let in_table = || self.table.find_name(name).map(|index| STATIC_TABLE.len() + 1 + index);
        match static_name(name).or_else(in_table) {
            Some(index) => integer::encode(index, prefix, flags, out),
            None => {
                out.push(flags);
                string(name, out);
            }
        }
        string(value, out);
        if is_repeated {
            self.set_place(digest, self.table.inserted());
            self.table.insert(digest, name, value);
            self.has_changed = true;
        }
    }

    /// The index of a field in the table.
    fn find(&mut self, digest: u16, name: &[u8], value: &[u8]) -> Option<usize> {
        // The entry inserted last has the index 0 and the number `inserted - 1`.
        let newest = self.table.inserted().wrapping_sub(1);
        if let Some(places) = &self.places {
            let guess = usize::from(newest.wrapping_sub(places[place(digest)]));
            if self.table.is(guess, name, value) {
                return Some(guess);
            }
        }
        let index = self.table.find(digest, name, value)?;
        self.set_place(digest, newest.wrapping_sub(u16::try_from(index).unwrap_or(0)));
        Some(index)
    }

    /// Whether a field that is not in the table was sent a short while ago. Remembers it if not.
    fn is_repeated(&mut self, digest: u16, length: usize) -> bool {
        if length > INDEXED_BYTES_MAX.min(self.table.limit() / 2) {
            return false;
        }
        let is_known = self.recent.contains(&digest);
        if !is_known {
            self.has_changed = true;
            self.recent[self.next_recent] = digest;
            self.next_recent = (self.next_recent + 1) % RECENT;
        }
        is_known
    }

    fn set_place(&mut self, digest: u16, number: u16) {
        self.places.get_or_insert_with(|| Box::new([0; PLACES]))[place(digest)] = number;
    }

    /// Gives back memory that the table does not need.
    pub(crate) fn shrink(&mut self) {
        self.table.shrink();
        self.places = None;
    }
}

/// Appends a string literal, in Huffman code if that is shorter (RFC 7541 §5.2).
fn string(text: &[u8], out: &mut Vec<u8>) {
    let length = huffman::encoded_length(text);
    if length < text.len() {
        integer::encode(length, 7, 0x80, out);
        huffman::encode(text, out);
    } else {
        integer::encode(text.len(), 7, 0, out);
        out.extend_from_slice(text);
    }
}

fn place(digest: u16) -> usize {
    usize::from(digest) % PLACES
}

/// A digest that is equal for equal fields, never 0. Others are told apart by comparing them.
fn digest(name: &[u8], value: &[u8]) -> u16 {
    const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
    let mut state = name.len() as u64;
    let mut mix = |word: u64| state = (state.rotate_left(5) ^ word).wrapping_mul(FACTOR);
    for text in [name, value] {
        let (words, rest) = text.as_chunks();
        words.iter().for_each(|word| mix(u64::from_le_bytes(*word)));
        match text.last_chunk() {
            // The last eight octets, of which some were mixed before.
            Some(last) => mix(u64::from_le_bytes(*last)),
            None => mix(rest.iter().fold(0, |word, octet| word << 8 | u64::from(*octet))),
        }
    }
    let [.., low, high] = state.to_le_bytes();
    u16::from_le_bytes([low, high]).max(1)
}
