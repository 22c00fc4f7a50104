//! The last response head: one that is the same again needs no encoding.

/// Heads that are larger, as lines or encoded, are not remembered. Bytes.
const BYTES_MAX: usize = 2048;

/// Bytes that say what a response head is, in parts that the caller chooses: heads with equal status and equal parts have
/// equal fields.
pub type HeadParts<'p> = [&'p [u8]; 3];

/// A response head and its field block, which stays right until the encoder's state changes: for ever in HTTP/3, whose encoder here
/// has none.
#[derive(Debug)]
pub struct LastHead {
    status: u16,
    lengths: [usize; 3],
    /// All parts.
    parts: Vec<u8>,
    block: Vec<u8>,
}

impl LastHead {
    /// Takes note of a head and its block; `None` if they are large.
    pub fn new(status: u16, parts: &HeadParts<'_>, block: &[u8]) -> Option<Self> {
        let lengths = parts.map(<[u8]>::len);
        let is_small = lengths.iter().sum::<usize>() <= BYTES_MAX && block.len() <= BYTES_MAX;
        is_small.then(|| Self { status, lengths, parts: parts.concat(), block: block.to_vec() })
    }

    /// The block of a head, if it is this one.
    pub fn block_of(&self, status: u16, parts: &HeadParts<'_>) -> Option<&[u8]> {
        let mut rest = &self.parts[..];
        let mut is_next = |part: &[u8]| {
            let (front, behind) = rest.split_at(part.len());
            rest = behind;
            front == part
        };
        let is_it = self.status == status
            && self.lengths == parts.map(<[u8]>::len)
            && parts.iter().all(|part| is_next(part));
        is_it.then_some(&self.block)
    }
}
