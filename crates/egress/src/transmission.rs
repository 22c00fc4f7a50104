//! One response while it is sent: a description of the bytes that are left.

use std::fmt;
use std::sync::Arc;

use penstock_sys::file::{Extent, OpenFile};

use crate::socket_source::SocketSource;

/// A piece of a response.
#[derive(Debug)]
pub enum Part {
    /// Bytes made for this response: its head, the heads of multipart ranges.
    Owned(Vec<u8>),
    /// Bytes in memory that many responses share: compressed manifests, status pages.
    Shared(Arc<[u8]>),
    /// Bytes in memory with another owner.
    External(ExternalBytes),
    /// Bytes of a file.
    Extent(Extent),
    /// Bytes that arrive on another socket.
    Source(SocketSource),
}

/// Bytes in memory with another owner, such as a piece of an origin's response. They are dropped once they are sent.
pub struct ExternalBytes(Box<dyn AsRef<[u8]> + Send + Sync>);

impl ExternalBytes {
    /// Bytes that stay the same until this is dropped.
    pub fn new(bytes: impl AsRef<[u8]> + Send + Sync + 'static) -> Self {
        Self(Box::new(bytes))
    }

    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        (*self.0).as_ref()
    }
}

impl fmt::Debug for ExternalBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ExternalBytes").field("len", &self.bytes().len()).finish_non_exhaustive()
    }
}

impl Part {
    fn len(&self) -> u64 {
        match self {
            Self::Owned(bytes) => bytes.len() as u64,
            Self::Shared(bytes) => bytes.len() as u64,
            Self::External(external) => external.bytes().len() as u64,
            Self::Extent(extent) => extent.len,
            Self::Source(source) => source.len(),
        }
    }
}

/// The next bytes to send.
pub(crate) enum Front<'a> {
    Memory(&'a [u8]),
    /// Bytes of a file that are known to be in the page cache; never empty.
    Warm(Warm<'a>),
    /// Bytes of a file come next, and reading them could block.
    Cold,
    /// Bytes of another socket come next; see [`Transmission::source`].
    Source,
}

/// The bytes that a transmission can give at once.
#[derive(Debug)]
pub enum Available {
    /// So many, at least one.
    Bytes(usize),
    /// None before these are in memory; see [`Step::Cold`](crate::Step::Cold).
    Cold(Extent),
    /// None, and nothing tells how many will come: a frame needs a length.
    Unknown,
    /// None are left.
    Done,
}

/// Bytes of a file that can be read without blocking.
#[derive(Clone, Copy)]
pub(crate) struct Warm<'a> {
    pub(crate) file: &'a OpenFile,
    pub(crate) offset: u64,
    pub(crate) len: u64,
}

/// A head and a body, and how far they have been sent.
#[derive(Debug, Default)]
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

    /// The files of this transmission, so that the caller can close them on a thread that may block.
    pub fn into_files(self) -> impl Iterator<Item = Arc<OpenFile>> {
        self.parts.into_iter().filter_map(|part| match part {
            Part::Extent(extent) => Some(extent.file),
            Part::Owned(_) | Part::Shared(_) | Part::External(_) | Part::Source(_) => None,
        })
    }

    /// Notes that the first `bytes` of the extent last reported as cold are in the page cache now.
    pub fn warmed(&mut self, bytes: u64) {
        self.warm = bytes;
    }

    /// Removes what is left of the body, so that its memory can be used for others, and returns its length in bytes. What
    /// is in front of the body stays. `None`, and nothing is removed, if other parts follow the body.
    pub fn give_up_body(&mut self) -> Option<u64> {
        let is_body = |part: &Part| matches!(part, Part::Extent(_) | Part::External(_));
        let Some(first) = self.parts.iter().skip(self.at).position(is_body) else { return Some(0) };
        let first = self.at + first;
        if !self.parts[first..].iter().all(is_body) {
            return None;
        }
        let mut given_up = self.parts[first..].iter().map(Part::len).sum::<u64>();
        self.parts.truncate(first);
        if first == self.at {
            given_up -= std::mem::take(&mut self.offset);
        }
        self.warm = 0;
        self.remaining -= given_up;
        Some(given_up)
    }

    /// The rest of the next extent, if it is unknown whether its first bytes can be read without blocking.
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

    /// How many of the next bytes can be read without blocking, up to `limit`.
    pub fn available(&self, limit: usize) -> Available {
        let (mut offset, mut warm, mut sum) = (self.offset, self.warm, 0);
        for part in self.parts.get(self.at..).unwrap_or_default() {
            let left = part.len().saturating_sub(offset);
            let ready = match part {
                Part::Owned(_) | Part::Shared(_) | Part::External(_) => left,
                Part::Extent(_) => std::mem::take(&mut warm).min(left),
                Part::Source(_) => 0,
            };
            sum += ready;
            if ready < left || sum >= limit as u64 {
                break;
            }
            offset = 0;
        }
        match usize::try_from(sum).map_or(limit, |sum| sum.min(limit)) {
            0 => self.nothing_available(),
            count => Available::Bytes(count),
        }
    }

    fn nothing_available(&self) -> Available {
        match self.parts.get(self.at) {
            None => Available::Done,
            Some(Part::Extent(_)) => self.cold().map_or(Available::Done, Available::Cold),
            Some(Part::Owned(_) | Part::Shared(_) | Part::External(_) | Part::Source(_)) => {
                Available::Unknown
            }
        }
    }

    /// Whether the file that is being sent has changed since its first bytes were sent. The first window is as fresh as
    /// the lookup of the file, so that small files cost no system call.
    pub fn has_changed_while_sent(&self) -> bool {
        match self.parts.get(self.at) {
            Some(Part::Extent(extent)) if self.offset > 0 => !extent.file.is_intact(),
            _ => false,
        }
    }

    pub(crate) fn front(&self) -> Option<Front<'_>> {
        Some(match self.parts.get(self.at)? {
            Part::Owned(bytes) => Front::Memory(tail(bytes, self.offset)),
            Part::Shared(bytes) => Front::Memory(tail(bytes, self.offset)),
            Part::External(external) => Front::Memory(tail(external.bytes(), self.offset)),
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
    pub fn source(&self) -> Option<&SocketSource> {
        match self.parts.get(self.at)? {
            Part::Source(source) => Some(source),
            Part::Owned(_) | Part::Shared(_) | Part::External(_) | Part::Extent(_) => None,
        }
    }

    /// The source at the front, and how many bytes of it are still to be sent.
    pub(crate) fn source_mut(&mut self) -> Option<(&mut SocketSource, u64)> {
        match self.parts.get_mut(self.at)? {
            Part::Source(source) => {
                let left = source.len() - self.offset;
                Some((source, left))
            }
            Part::Owned(_) | Part::Shared(_) | Part::External(_) | Part::Extent(_) => None,
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

    /// Whether the part behind the front one is available, so that the two may share a packet.
    pub(crate) fn continues_at_once(&self) -> bool {
        let next = self.parts.iter().skip(self.at + 1).find(|part| part.len() > 0);
        next.is_some_and(|part| !matches!(part, Part::Source(_)))
    }

    /// Notes that `bytes` of the front part were taken.
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

#[cfg(test)]
mod tests {
    use super::*;

    fn owned(length: usize) -> Part {
        Part::Owned(vec![1; length])
    }

    fn body(length: usize) -> Part {
        Part::External(ExternalBytes::new(vec![2; length]))
    }

    #[test]
    fn a_body_that_is_given_up_leaves_what_is_in_front_of_it() {
        let mut transmission = Transmission::new(vec![owned(10), body(20), body(5)]);
        transmission.advance(3);
        assert_eq!(transmission.give_up_body(), Some(25));
        assert_eq!(transmission.remaining(), 7);
        transmission.advance(7);
        assert!(transmission.front().is_none());

        let mut transmission = Transmission::new(vec![owned(10), body(20), body(5)]);
        transmission.advance(10);
        transmission.advance(19);
        assert_eq!(transmission.give_up_body(), Some(6), "what was sent does not count");
        assert_eq!((transmission.remaining(), transmission.front().is_none()), (0, true));
        assert_eq!(transmission.give_up_body(), Some(0), "nothing is left");
    }

    #[test]
    fn a_body_with_something_behind_it_is_not_given_up() {
        let mut transmission = Transmission::new(vec![owned(3), body(20), owned(2)]);
        assert_eq!(transmission.give_up_body(), None);
        assert_eq!(transmission.remaining(), 25);
        transmission.advance(3);
        transmission.advance(20);
        assert_eq!(transmission.give_up_body(), Some(0), "all of the body was sent");
        assert_eq!(transmission.remaining(), 2);
    }
}
