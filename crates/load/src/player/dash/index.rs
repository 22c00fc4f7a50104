//! The index of a media file (`sidx`, ISO/IEC 14496-12 §8.16.3): byte ranges and times. An index may name further
//! indexes, which are read in turn. All numbers are checked against limits.

#[cfg(any(test, feature = "fuzz"))]
mod fuzz;

use std::time::Duration;

#[cfg(any(test, feature = "fuzz"))]
#[doc(hidden)]
pub use fuzz::fuzz_index;

/// The largest index: 65,535 entries of 12 bytes.
const INDEX_BYTES_MAX: u64 = 1024 * 1024;
/// The bytes that are fetched if the length of an index is unknown.
const LOOK_BYTES: u64 = 4096;
/// The most levels of indexes.
const DEPTH_MAX: u8 = 4;
/// The most boxes and further indexes that are read in one file.
const STEPS_MAX: u32 = 1000;
/// The most requests for an index with all that it names.
const FETCHES_MAX: u32 = 64;
/// The most subsegments that are listed.
const SUBSEGMENTS_MAX: usize = 200_000;

/// A byte range of a file and its time on the media's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::player) struct Subsegment {
    pub(super) first: u64,
    pub(super) last: u64,
    pub(super) start: Duration,
    pub(super) duration: Duration,
}

/// Searches the index of a file by fetching parts of it.
#[derive(Clone, Debug)]
pub(in crate::player) struct IndexSearch {
    /// The rest to read, in reverse order.
    todo: Vec<Pending>,
    found: Vec<Subsegment>,
    /// The bytes that were fetched last, and their position in the file.
    window: (u64, Vec<u8>),
    asked: Option<(u64, u64)>,
    /// The position to search if the first one has no index.
    otherwise: Option<u64>,
    steps: u32,
    fetches: u32,
}

#[derive(Clone, Copy, Debug)]
enum Pending {
    Subsegment(Subsegment),
    /// An index lies between these positions.
    Index {
        at: u64,
        end: u64,
        depth: u8,
    },
}

/// The state of a search.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::player) enum SearchStep {
    /// These bytes are needed, the last one included.
    Fetch(u64, u64),
    Done(Vec<Subsegment>),
    /// There is no valid index.
    NotFound,
}

/// The content of a box.
enum BoxContent {
    Index(Vec<Pending>),
    Other { end: u64 },
    Fetch(u64, u64),
    NotFound,
}

impl IndexSearch {
    /// Searches this byte range, or after the init segment.
    pub(super) fn new(range: Option<(u64, u64)>, init_end: Option<u64>) -> Self {
        let (at, end) = match range {
            Some((first, last)) => (first, last.saturating_add(1)),
            None => (init_end.unwrap_or(0), u64::MAX),
        };
        // Some descriptions count the index to the init segment.
        let otherwise = (range.is_none() && at > 0).then_some(0);
        Self {
            todo: vec![Pending::Index { at, end, depth: 0 }],
            found: Vec::new(),
            window: (0, Vec::new()),
            asked: None,
            otherwise,
            steps: 0,
            fetches: 0,
        }
    }

    /// Takes the bytes that were requested.
    pub(in crate::player) fn take(&mut self, bytes: &[u8]) {
        if let Some((first, _)) = self.asked {
            self.window = (first, bytes.to_vec());
        }
    }

    /// Continues as far as the bytes at hand allow.
    pub(in crate::player) fn go_on(&mut self) -> SearchStep {
        while let Some(todo) = self.todo.pop() {
            let (at, end, depth) = match todo {
                Pending::Subsegment(piece) => {
                    self.found.push(piece);
                    continue;
                }
                Pending::Index { at, end, depth } => (at, end, depth),
            };
            self.steps += 1;
            if self.steps > STEPS_MAX {
                return SearchStep::NotFound;
            }
            match self.look(at, end, depth) {
                BoxContent::Index(named)
                    if self.todo.len() + named.len() + self.found.len() <= SUBSEGMENTS_MAX =>
                {
                    self.todo.extend(named.into_iter().rev());
                }
                BoxContent::Other { end: next } if next < end => {
                    self.todo.push(Pending::Index { at: next, end, depth })
                }
                BoxContent::Fetch(first, last) => {
                    self.todo.push(todo);
                    self.fetches += 1;
                    // Fewer bytes arrived than requested: the file ends there.
                    if self.asked == Some((first, last)) || self.fetches > FETCHES_MAX {
                        return SearchStep::NotFound;
                    }
                    self.asked = Some((first, last));
                    return SearchStep::Fetch(first, last);
                }
                BoxContent::Index(_) | BoxContent::Other { .. } | BoxContent::NotFound => {
                    match self.otherwise.take() {
                        Some(at) => self.todo = vec![Pending::Index { at, end: u64::MAX, depth: 0 }],
                        None => return SearchStep::NotFound,
                    }
                }
            }
        }
        if self.found.is_empty() {
            SearchStep::NotFound
        } else {
            SearchStep::Done(std::mem::take(&mut self.found))
        }
    }

    /// Reads the box at this position.
    fn look(&self, at: u64, end: u64, depth: u8) -> BoxContent {
        let span = end.saturating_sub(at);
        if span == 0 {
            return BoxContent::NotFound;
        }
        let here = at.checked_sub(self.window.0).and_then(|place| usize::try_from(place).ok());
        let bytes = here.and_then(|place| self.window.1.get(place..)).unwrap_or_default();
        let last = |length: u64| at.saturating_add(length).min(end).saturating_sub(1);
        // An index with a known end is fetched whole.
        let look = if depth == 0 && span <= INDEX_BYTES_MAX { span } else { LOOK_BYTES };
        let Some((kind, length, header)) = head(bytes) else { return BoxContent::Fetch(at, last(look)) };
        let Some(box_end) = at.checked_add(length).filter(|_| length >= header) else {
            return BoxContent::NotFound;
        };
        match &kind {
            b"sidx" if length <= INDEX_BYTES_MAX && box_end <= end => {}
            // Only media follows these boxes.
            b"sidx" | b"moof" | b"mdat" => return BoxContent::NotFound,
            _ => return BoxContent::Other { end: box_end },
        }
        let body = usize::try_from(header).ok().zip(usize::try_from(length).ok());
        match body.and_then(|(header, length)| bytes.get(header..length)) {
            None => BoxContent::Fetch(at, last(length)),
            Some(body) => entries(body, box_end, depth).map_or(BoxContent::NotFound, BoxContent::Index),
        }
    }
}

/// Type, length and header length of a box; `None` if bytes are missing.
fn head(bytes: &[u8]) -> Option<([u8; 4], u64, u64)> {
    let mut reader = BoxReader(bytes);
    let length = reader.number(4)?;
    let kind = reader.take(4)?.try_into().ok()?;
    // Length 1: the length follows in eight bytes. Length 0, to the end of the file, is rejected as too short.
    if length == 1 { Some((kind, reader.number(8)?, 16)) } else { Some((kind, length, 8)) }
}

/// The entries of an index, whose offsets count from its end; `None` if they are invalid.
fn entries(body: &[u8], anchor: u64, depth: u8) -> Option<Vec<Pending>> {
    let mut reader = BoxReader(body);
    let version = reader.number(1)?;
    let width = match version {
        0 => 4,
        1 => 8,
        _ => return None,
    };
    // Flags and the number of the track.
    reader.take(7)?;
    let timescale = reader.number(4).filter(|timescale| *timescale > 0)?;
    let mut time = reader.number(width)?;
    let mut first = anchor.checked_add(reader.number(width)?)?;
    reader.take(2)?;
    let mut named = Vec::new();
    for _ in 0..reader.number(2)? {
        let kind_and_size = reader.number(4)?;
        let duration = reader.number(4)?;
        // Stream access points.
        reader.take(4)?;
        let size = kind_and_size & 0x7fff_ffff;
        let next = first.checked_add(size).filter(|_| size > 0)?;
        let end = time.checked_add(duration)?;
        if kind_and_size == size {
            let (start, end) = (seconds(time, timescale), seconds(end, timescale));
            let duration = end.saturating_sub(start);
            named.push(Pending::Subsegment(Subsegment { first, last: next - 1, start, duration }));
        } else if depth < DEPTH_MAX {
            named.push(Pending::Index { at: first, end: next, depth: depth + 1 });
        } else {
            return None;
        }
        (first, time) = (next, end);
    }
    Some(named)
}

/// Converts to time; `timescale` has 32 bits and is not 0.
fn seconds(units: u64, timescale: u64) -> Duration {
    let nanoseconds = u128::from(units % timescale) * 1_000_000_000 / u128::from(timescale);
    // A bound far beyond any media.
    Duration::from_secs((units / timescale).min(1 << 40))
        + Duration::from_nanos(u64::try_from(nanoseconds).unwrap_or(0))
}

/// Reads big-endian numbers.
struct BoxReader<'b>(&'b [u8]);

impl<'b> BoxReader<'b> {
    fn take(&mut self, count: usize) -> Option<&'b [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    /// Reads a number of at most eight bytes.
    fn number(&mut self, width: usize) -> Option<u64> {
        Some(self.take(width)?.iter().fold(0, |number, byte| number << 8 | u64::from(*byte)))
    }
}

#[cfg(test)]
#[path = "index/tests.rs"]
mod tests;
