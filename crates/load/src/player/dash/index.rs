//! The index inside a file of media (`sidx`, ISO/IEC 14496-12 §8.16.3): which bytes play when. It may name further
//! indexes, which are looked for in turn. What it says is believed only within bounds.

mod fuzz;

use std::time::Duration;

#[doc(hidden)]
pub use fuzz::fuzz_index;

/// More bytes are no index: one has at most 65,535 entries of 12 bytes.
const INDEX_BYTES_MAX: u64 = 1024 * 1024;
/// So much is fetched where it is not known how long an index is.
const LOOK_BYTES: u64 = 4096;
/// An index that names an index that names one, and so on.
const DEPTH_MAX: u8 = 4;
/// Boxes and further indexes that are looked at in one file.
const STEPS_MAX: u32 = 1000;
/// Requests for one index with all that it names.
const FETCHES_MAX: u32 = 64;
/// More pieces are never listed.
const PIECES_MAX: usize = 200_000;

/// A piece of a file and when it plays, by the media's own clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::player) struct Piece {
    pub(super) first: u64,
    pub(super) last: u64,
    pub(super) start: Duration,
    pub(super) duration: Duration,
}

/// Looks for the index of a file, by fetching parts of it.
#[derive(Clone, Debug)]
pub(in crate::player) struct Search {
    /// What is still to be looked at, the first of it last.
    todo: Vec<Todo>,
    found: Vec<Piece>,
    /// What was fetched last, and where in the file it begins.
    window: (u64, Vec<u8>),
    asked: Option<(u64, u64)>,
    /// Where to look if no index follows where it should.
    otherwise: Option<u64>,
    steps: u32,
    fetches: u32,
}

#[derive(Clone, Copy, Debug)]
enum Todo {
    Piece(Piece),
    /// An index is somewhere between these two.
    Index {
        at: u64,
        end: u64,
        depth: u8,
    },
}

/// How far a search is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::player) enum Progress {
    /// These bytes are needed, the last one included.
    Fetch(u64, u64),
    Done(Vec<Piece>),
    /// There is no index, or none that can be believed.
    Nothing,
}

/// What a box is.
enum Found {
    Index(Vec<Todo>),
    Other { end: u64 },
    Fetch(u64, u64),
    Nothing,
}

impl Search {
    /// In these bytes, or behind the initialisation.
    pub(super) fn new(range: Option<(u64, u64)>, init_end: Option<u64>) -> Self {
        let (at, end) = match range {
            Some((first, last)) => (first, last.saturating_add(1)),
            None => (init_end.unwrap_or(0), u64::MAX),
        };
        // Some count the index to the initialisation.
        let otherwise = (range.is_none() && at > 0).then_some(0);
        Self {
            todo: vec![Todo::Index { at, end, depth: 0 }],
            found: Vec::new(),
            window: (0, Vec::new()),
            asked: None,
            otherwise,
            steps: 0,
            fetches: 0,
        }
    }

    /// What was asked for has come.
    pub(in crate::player) fn take(&mut self, bytes: &[u8]) {
        if let Some((first, _)) = self.asked {
            self.window = (first, bytes.to_vec());
        }
    }

    /// Goes on as far as it can with what it has.
    pub(in crate::player) fn go_on(&mut self) -> Progress {
        while let Some(todo) = self.todo.pop() {
            let (at, end, depth) = match todo {
                Todo::Piece(piece) => {
                    self.found.push(piece);
                    continue;
                }
                Todo::Index { at, end, depth } => (at, end, depth),
            };
            self.steps += 1;
            if self.steps > STEPS_MAX {
                return Progress::Nothing;
            }
            match self.look(at, end, depth) {
                Found::Index(named) if self.todo.len() + named.len() + self.found.len() <= PIECES_MAX => {
                    self.todo.extend(named.into_iter().rev());
                }
                Found::Other { end: next } if next < end => {
                    self.todo.push(Todo::Index { at: next, end, depth })
                }
                Found::Fetch(first, last) => {
                    self.todo.push(todo);
                    self.fetches += 1;
                    // What came was less than asked for: there is no more.
                    if self.asked == Some((first, last)) || self.fetches > FETCHES_MAX {
                        return Progress::Nothing;
                    }
                    self.asked = Some((first, last));
                    return Progress::Fetch(first, last);
                }
                Found::Index(_) | Found::Other { .. } | Found::Nothing => match self.otherwise.take() {
                    Some(at) => self.todo = vec![Todo::Index { at, end: u64::MAX, depth: 0 }],
                    None => return Progress::Nothing,
                },
            }
        }
        if self.found.is_empty() {
            Progress::Nothing
        } else {
            Progress::Done(std::mem::take(&mut self.found))
        }
    }

    /// The box that begins there.
    fn look(&self, at: u64, end: u64, depth: u8) -> Found {
        let span = end.saturating_sub(at);
        if span == 0 {
            return Found::Nothing;
        }
        let here = at.checked_sub(self.window.0).and_then(|place| usize::try_from(place).ok());
        let bytes = here.and_then(|place| self.window.1.get(place..)).unwrap_or_default();
        let last = |length: u64| at.saturating_add(length).min(end).saturating_sub(1);
        // Where the end is known, all of it is fetched at once.
        let look = if depth == 0 && span <= INDEX_BYTES_MAX { span } else { LOOK_BYTES };
        let Some((kind, length, header)) = head(bytes) else { return Found::Fetch(at, last(look)) };
        let Some(box_end) = at.checked_add(length).filter(|_| length >= header) else {
            return Found::Nothing;
        };
        match &kind {
            b"sidx" if length <= INDEX_BYTES_MAX && box_end <= end => {}
            // Behind these only media follow.
            b"sidx" | b"moof" | b"mdat" => return Found::Nothing,
            _ => return Found::Other { end: box_end },
        }
        let body = usize::try_from(header).ok().zip(usize::try_from(length).ok());
        match body.and_then(|(header, length)| bytes.get(header..length)) {
            None => Found::Fetch(at, last(length)),
            Some(body) => entries(body, box_end, depth).map_or(Found::Nothing, Found::Index),
        }
    }
}

/// Kind and length of the box that begins here, and how long its own head is; `None` if there are too few bytes.
fn head(bytes: &[u8]) -> Option<([u8; 4], u64, u64)> {
    let mut reader = Reader(bytes);
    let length = reader.number(4)?;
    let kind = reader.take(4)?.try_into().ok()?;
    // 1: the length follows in eight bytes. 0, to the end of the file, is no length here, and shorter than the head.
    if length == 1 { Some((kind, reader.number(8)?, 16)) } else { Some((kind, length, 8)) }
}

/// What the body of an index names; its offsets count from its end. `None` if it is none.
fn entries(body: &[u8], anchor: u64, depth: u8) -> Option<Vec<Todo>> {
    let mut reader = Reader(body);
    let version = reader.number(1)?;
    let width = match version {
        0 => 4,
        1 => 8,
        _ => return None,
    };
    // Flags, and the number of the track.
    reader.take(7)?;
    let timescale = reader.number(4).filter(|timescale| *timescale > 0)?;
    let mut time = reader.number(width)?;
    let mut first = anchor.checked_add(reader.number(width)?)?;
    reader.take(2)?;
    let mut named = Vec::new();
    for _ in 0..reader.number(2)? {
        let kind_and_size = reader.number(4)?;
        let duration = reader.number(4)?;
        // Where a stream may be entered.
        reader.take(4)?;
        let size = kind_and_size & 0x7fff_ffff;
        let next = first.checked_add(size).filter(|_| size > 0)?;
        let end = time.checked_add(duration)?;
        if kind_and_size == size {
            let (start, end) = (seconds(time, timescale), seconds(end, timescale));
            let duration = end.saturating_sub(start);
            named.push(Todo::Piece(Piece { first, last: next - 1, start, duration }));
        } else if depth < DEPTH_MAX {
            named.push(Todo::Index { at: first, end: next, depth: depth + 1 });
        } else {
            return None;
        }
        (first, time) = (next, end);
    }
    Some(named)
}

/// The timescale is a number of 32 bits and not 0.
fn seconds(units: u64, timescale: u64) -> Duration {
    let nanoseconds = u128::from(units % timescale) * 1_000_000_000 / u128::from(timescale);
    // No one watches for longer than this.
    Duration::from_secs((units / timescale).min(1 << 40))
        + Duration::from_nanos(u64::try_from(nanoseconds).unwrap_or(0))
}

/// Numbers as they lie in a box, the most significant byte first.
struct Reader<'b>(&'b [u8]);

impl<'b> Reader<'b> {
    fn take(&mut self, count: usize) -> Option<&'b [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    /// Of at most eight bytes.
    fn number(&mut self, width: usize) -> Option<u64> {
        Some(self.take(width)?.iter().fold(0, |number, byte| number << 8 | u64::from(*byte)))
    }
}

#[cfg(test)]
#[path = "index/tests.rs"]
mod tests;
