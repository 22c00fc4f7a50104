//! One response on its way out: what is left to send, described rather than carried.

use std::fmt;
use std::sync::Arc;

use penstock_sys::file::{Extent, OpenFile};

use crate::source::Source;

/// A piece of a response.
#[derive(Debug)]
pub enum Part {
    /// Bytes made for this response: its head, the heads of multipart ranges.
    Owned(Vec<u8>),
    /// Bytes in memory that many responses share: compressed manifests, status pages.
    Shared(Arc<[u8]>),
    /// Bytes in memory that are somebody else's.
    Lent(Lent),
    /// Bytes of a file.
    Extent(Extent),
    /// Bytes that arrive on another socket.
    Source(Source),
}

/// Bytes in memory that are somebody else's, such as a piece of what an origin sent: given back when they have been sent.
pub struct Lent(Box<dyn AsRef<[u8]> + Send + Sync>);

impl Lent {
    /// Bytes that stay the same until this is dropped.
    pub fn new(bytes: impl AsRef<[u8]> + Send + Sync + 'static) -> Self {
        Self(Box::new(bytes))
    }

    fn bytes(&self) -> &[u8] {
        (*self.0).as_ref()
    }
}

impl fmt::Debug for Lent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lent").field("len", &self.bytes().len()).finish_non_exhaustive()
    }
}

impl Part {
    fn len(&self) -> u64 {
        match self {
            Self::Owned(bytes) => bytes.len() as u64,
            Self::Shared(bytes) => bytes.len() as u64,
            Self::Lent(lent) => lent.bytes().len() as u64,
            Self::Extent(extent) => extent.len,
            Self::Source(source) => source.len(),
        }
    }
}

/// What can be sent next.
pub(crate) enum Front<'a> {
    Memory(&'a [u8]),
    /// Bytes of a file that are known to be in the page cache; never empty.
    Warm(Warm<'a>),
    /// Bytes of a file come next, and reading them could block.
    Cold,
    /// Bytes of another socket come next; see [`Transmission::source`].
    Source,
}

/// A stretch of a file that can be read without blocking.
#[derive(Clone, Copy)]
pub(crate) struct Warm<'a> {
    pub(crate) file: &'a OpenFile,
    pub(crate) offset: u64,
    pub(crate) len: u64,
}

/// A head and a body, and how far they have been sent.
#[derive(Debug)]
pub struct Transmission {
    parts: Vec<Part>,
    /// The part being sent.
    at: usize,
    /// Bytes of that part already sent.
    offset: u64,
    /// Bytes of the next extent (from `offset` on, if it is the part being sent) known to be in the page cache.
    warm: u64,
    /// All bytes not yet sent.
    remaining: u64,
}

impl Transmission {
    /// The parts in the order they are sent; empty ones are fine.
    pub fn new(parts: Vec<Part>) -> Self {
        let remaining = parts.iter().map(Part::len).sum();
        let mut transmission = Self { parts, at: 0, offset: 0, warm: 0, remaining };
        transmission.skip_finished();
        transmission
    }

    /// Bytes not yet handed to the outlet.
    pub fn remaining(&self) -> u64 {
        self.remaining
    }

    /// The files that were to be sent, for whoever sees to it that closing them blocks nobody.
    pub fn into_files(self) -> impl Iterator<Item = Arc<OpenFile>> {
        self.parts.into_iter().filter_map(|part| match part {
            Part::Extent(extent) => Some(extent.file),
            Part::Owned(_) | Part::Shared(_) | Part::Lent(_) | Part::Source(_) => None,
        })
    }

    /// Tells that the first `bytes` of the extent last reported as cold are in the page cache now.
    pub fn warmed(&mut self, bytes: u64) {
        self.warm = bytes;
    }

    /// The rest of the next extent, if nobody knows whether its first bytes can be read without blocking.
    ///
    /// Looks past a head that has not been sent yet, so that head and body can leave together.
    pub(crate) fn cold(&self) -> Option<Extent> {
        if self.warm > 0 {
            return None;
        }
        let mut offset = self.offset;
        for part in self.parts.get(self.at..)? {
            if let Part::Extent(extent) = part
                && extent.len > offset
            {
                return Some(Extent {
                    file: Arc::clone(&extent.file),
                    offset: extent.offset + offset,
                    len: extent.len - offset,
                });
            }
            offset = 0;
        }
        None
    }

    pub(crate) fn front(&self) -> Option<Front<'_>> {
        Some(match self.parts.get(self.at)? {
            Part::Owned(bytes) => Front::Memory(tail(bytes, self.offset)),
            Part::Shared(bytes) => Front::Memory(tail(bytes, self.offset)),
            Part::Lent(lent) => Front::Memory(tail(lent.bytes(), self.offset)),
            Part::Source(_) => Front::Source,
            Part::Extent(_) if self.warm == 0 => Front::Cold,
            Part::Extent(extent) => Front::Warm(Warm {
                file: &extent.file,
                offset: extent.offset + self.offset,
                len: self.warm.min(extent.len - self.offset),
            }),
        })
    }

    /// The socket that the next bytes come from, to wait for after [`Step::Starved`](crate::Step::Starved).
    pub fn source(&self) -> Option<&Source> {
        match self.parts.get(self.at)? {
            Part::Source(source) => Some(source),
            Part::Owned(_) | Part::Shared(_) | Part::Lent(_) | Part::Extent(_) => None,
        }
    }

    /// The source at the front, and how many bytes of it are still to be sent.
    pub(crate) fn source_mut(&mut self) -> Option<(&mut Source, u64)> {
        match self.parts.get_mut(self.at)? {
            Part::Source(source) => {
                let left = source.len() - self.offset;
                Some((source, left))
            }
            Part::Owned(_) | Part::Shared(_) | Part::Lent(_) | Part::Extent(_) => None,
        }
    }

    /// Bytes not yet sent that the kernel could move by itself: those of files and of other sockets.
    pub fn movable_bytes(&self) -> u64 {
        let mut offset = self.offset;
        let mut sum = 0;
        for part in self.parts.get(self.at..).unwrap_or_default() {
            if matches!(part, Part::Extent(_) | Part::Source(_)) {
                sum += part.len().saturating_sub(offset);
            }
            offset = 0;
        }
        sum
    }

    /// Whether what follows the front part is at hand, so that the two may share a packet.
    pub(crate) fn continues_at_once(&self) -> bool {
        let next = self.parts.iter().skip(self.at + 1).find(|part| part.len() > 0);
        next.is_some_and(|part| !matches!(part, Part::Source(_)))
    }

    /// Tells that `bytes` of the front part have been handed over.
    pub(crate) fn advance(&mut self, bytes: usize) {
        let bytes = bytes as u64;
        if let Some(Part::Extent(_)) = self.parts.get(self.at) {
            self.warm = self.warm.saturating_sub(bytes);
        }
        self.offset += bytes;
        self.remaining = self.remaining.saturating_sub(bytes);
        self.skip_finished();
    }

    fn skip_finished(&mut self) {
        while self.parts.get(self.at).is_some_and(|part| part.len() <= self.offset) {
            self.at += 1;
            self.offset = 0;
        }
    }
}

fn tail(bytes: &[u8], offset: u64) -> &[u8] {
    usize::try_from(offset).ok().and_then(|offset| bytes.get(offset..)).unwrap_or_default()
}
