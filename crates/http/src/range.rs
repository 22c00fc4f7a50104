//! Which bytes of a representation a Range field asks for (RFC 9110 §14).

use std::ops::Range;

use crate::digits::saturating_decimal;

/// The bytes to send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ranges {
    /// All of them, as 200: there is no Range field, or it is to be ignored.
    Whole,
    /// None: 416 with `Content-Range: bytes */length`.
    Unsatisfiable,
    /// One range, not empty and within the representation: 206.
    One(Range<u64>),
    /// Two ranges or more, none empty, none overlapping or touching another, all within the
    /// representation: 206 as multipart/byteranges.
    Many(Vec<Range<u64>>),
}

/// Selects the bytes that `header`, the value of a Range field, asks for from a representation of
/// `length` bytes.
///
/// Ranges that overlap or touch are sent as one, in the place of the first of them; otherwise the
/// client's order is kept. A server may ignore any Range (RFC 9110 §14.2), so an unknown unit, a
/// malformed set and a set of more than `max_ranges` all give [`Ranges::Whole`]; so does a suffix of
/// an empty representation, which no Content-Range could express.
pub fn select(header: Option<&str>, length: u64, max_ranges: usize) -> Ranges {
    header.and_then(|header| parse(header, length, max_ranges)).unwrap_or(Ranges::Whole)
}

/// `None`: the field is to be ignored.
fn parse(header: &str, length: u64, max_ranges: usize) -> Option<Ranges> {
    let (unit, set) = header.split_once('=')?;
    if !unit.eq_ignore_ascii_case("bytes") {
        return None;
    }
    if !set.contains(',') && max_ranges > 0 {
        // Nearly every client sends one range, which needs no list.
        return Some(match spec(set.trim_ascii(), length)? {
            Some(range) => Ranges::One(range),
            None => Ranges::Unsatisfiable,
        });
    }
    let mut selected: Vec<Range<u64>> = Vec::new();
    let mut given = 0;
    for element in set.split(',').map(str::trim_ascii).filter(|element| !element.is_empty()) {
        given += 1;
        if given > max_ranges {
            return None;
        }
        if let Some(range) = spec(element, length)? {
            insert(&mut selected, range);
        }
    }
    if given == 0 {
        return None;
    }
    Some(match selected.len() {
        0 => Ranges::Unsatisfiable,
        1 => Ranges::One(selected.swap_remove(0)),
        _ => Ranges::Many(selected),
    })
}

/// One range-spec. The outer `None`: the whole field is to be ignored. The inner one: well-formed, but
/// selects nothing.
fn spec(element: &str, length: u64) -> Option<Option<Range<u64>>> {
    let (first, last) = element.split_once('-')?;
    if first.is_empty() {
        let suffix = saturating_decimal(last.as_bytes())?;
        return match (suffix, length) {
            (0, _) => Some(None),
            (_, 0) => None,
            _ => Some(Some(length.saturating_sub(suffix)..length)),
        };
    }
    let first = saturating_decimal(first.as_bytes())?;
    let end = match last {
        "" => length,
        last => {
            let last = saturating_decimal(last.as_bytes())?;
            if last < first {
                return None;
            }
            last.saturating_add(1).min(length)
        }
    };
    Some((first < end).then_some(first..end))
}

/// Adds a range, melting it with those that it overlaps or touches. `selected` stays disjoint.
fn insert(selected: &mut Vec<Range<u64>>, range: Range<u64>) {
    let meets = |a: &Range<u64>, b: &Range<u64>| a.start <= b.end && b.start <= a.end;
    let Some(place) = selected.iter().position(|held| meets(held, &range)) else {
        selected.push(range);
        return;
    };
    // The ranges held are disjoint, so one pass finds all that the melted range can meet: those that
    // met the new one.
    let mut melted = range;
    let mut at = place;
    while at < selected.len() {
        if meets(&selected[at], &melted) {
            let held = selected.remove(at);
            melted = melted.start.min(held.start)..melted.end.max(held.end);
        } else {
            at += 1;
        }
    }
    selected.insert(place, melted);
}

#[cfg(test)]
mod tests;
