//! Conditional requests (RFC 9110 §13).

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::date::parse as date;
use crate::{Method, Request};

/// Validators of one state of a representation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Validators<'v> {
    /// The entity tag as it stands in the ETag field, with its quotes (and `W/` if it is weak).
    pub etag: &'v str,
    /// The time of the last change; only its whole seconds count, as in Last-Modified.
    pub modified: SystemTime,
    /// Whether that time is a strong validator (RFC 9110 §8.8.2.2), by which parts may be combined.
    pub is_date_strong: bool,
}

/// Result of the conditions of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Precondition {
    /// Serve the representation. Range counts only if `ranges_allowed`; otherwise send all of it.
    Serve {
        /// Whether If-Range (or its absence) lets Range count.
        ranges_allowed: bool,
    },
    /// 304
    NotModified,
    /// 412
    Failed,
}

/// Evaluates the conditions of `request` in the order of RFC 9110 §13.2.2, for a representation that
/// exists and would be answered with 200.
///
/// A date that does not parse is as good as absent (§13.1.3); an If-Range that does not parse matches
/// nothing. OPTIONS selects no representation, so its conditions are ignored (§13.2.1).
pub fn evaluate(request: &Request<'_>, validators: &Validators<'_>) -> Precondition {
    if request.method() == Method::Options {
        return Precondition::Serve { ranges_allowed: false };
    }
    if request.if_match().is_some() {
        if !any_tag_matches(request.values("if-match"), validators.etag, Comparison::Strong) {
            return Precondition::Failed;
        }
    } else if let Some(date) = request.if_unmodified_since().and_then(date)
        && whole_seconds(validators.modified) > whole_seconds(date)
    {
        return Precondition::Failed;
    }

    let is_read = matches!(request.method(), Method::Get | Method::Head);
    if request.if_none_match().is_some() {
        if any_tag_matches(request.values("if-none-match"), validators.etag, Comparison::Weak) {
            return if is_read { Precondition::NotModified } else { Precondition::Failed };
        }
    } else if let Some(date) = request.if_modified_since().and_then(date)
        && is_read
        && whole_seconds(validators.modified) <= whole_seconds(date)
    {
        return Precondition::NotModified;
    }

    // Range has a meaning for GET only (§14.2).
    let ranges_allowed = request.method() == Method::Get
        && request.if_range().is_none_or(|condition| if_range_holds(condition, validators));
    Precondition::Serve { ranges_allowed }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Comparison {
    Strong,
    Weak,
}

/// RFC 9110 §13.1.5: an entity tag compared strongly, or exactly the date of the last change if that is strong.
fn if_range_holds(condition: &str, validators: &Validators<'_>) -> bool {
    if condition.starts_with('"') || condition.starts_with("W/") {
        return tags_match(condition.as_bytes(), validators.etag.as_bytes(), Comparison::Strong);
    }
    validators.is_date_strong
        && date(condition).is_some_and(|date| whole_seconds(date) == whole_seconds(validators.modified))
}

/// Whether `*` or one of the tags listed matches. A list is read up to its first fault.
fn any_tag_matches<'h>(
    mut lines: impl Iterator<Item = &'h [u8]>,
    etag: &str,
    comparison: Comparison,
) -> bool {
    lines.any(|line| {
        line == b"*" || Tags { rest: line }.any(|tag| tags_match(tag, etag.as_bytes(), comparison))
    })
}

/// RFC 9110 §8.8.3.2.
fn tags_match(a: &[u8], b: &[u8], comparison: Comparison) -> bool {
    match comparison {
        Comparison::Strong => a == b && a.starts_with(b"\""),
        Comparison::Weak => opaque(a) == opaque(b),
    }
}

fn opaque(tag: &[u8]) -> &[u8] {
    tag.strip_prefix(b"W/").unwrap_or(tag)
}

/// The entity tags of a comma-separated list. A comma inside the quotes belongs to the tag.
struct Tags<'h> {
    rest: &'h [u8],
}

impl<'h> Iterator for Tags<'h> {
    type Item = &'h [u8];

    fn next(&mut self) -> Option<&'h [u8]> {
        let separators = self.rest.iter().take_while(|byte| matches!(byte, b' ' | b'\t' | b',')).count();
        let list = &self.rest[separators..];
        let quote = if list.starts_with(b"W/") { 2 } else { 0 };
        let inner = list[quote..].strip_prefix(b"\"")?;
        let end = quote + 1 + memchr::memchr(b'"', inner)? + 1;
        let (tag, rest) = list.split_at(end);
        self.rest = rest;
        Some(tag)
    }
}

/// Times before 1970 count as 1970: no HTTP date can name them.
fn whole_seconds(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO).as_secs()
}

#[cfg(test)]
mod tests;
