//! HLS playlists, line by line (RFC 8216 §4, and the tags for low latency of its second edition).

use std::time::Duration;

use super::Manifest;
use crate::digits::decimal;

pub(super) const FIRST_LINE: &[u8] = b"#EXTM3U";

/// Of how many segments at the end the number of parts is remembered. Parts are listed for three target durations.
const SEGMENTS_WITH_PARTS: usize = 16;

/// A place in a stream: all of a segment, or a part of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position {
    /// Media sequence number.
    pub segment: u64,
    /// Number of the part, from zero; `None` is the whole segment.
    pub part: Option<u64>,
}

/// How a position lies to what a playlist has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// It has it.
    Within,
    /// It will have it soon.
    Next,
    /// No player that has seen this playlist asks for it.
    TooFar,
}

/// A media playlist.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Playlist {
    /// No segment is longer.
    pub target: Duration,
    /// No part is longer; `None` if there are no parts.
    pub part_target: Option<Duration>,
    /// Whether nothing will be added.
    pub ended: bool,
    /// Whether its server holds back requests for what is not there yet (`CAN-BLOCK-RELOAD`).
    pub can_block: bool,
    /// Number of the first segment that is not listed and not skipped: the one that is being made.
    pub open_segment: u64,
    /// Parts of that segment that are listed.
    pub open_parts: u64,
    /// Segments, as URIs in the order of the list; those that are byte ranges of one file once.
    pub segments: Vec<String>,
    /// Parts, likewise.
    pub parts: Vec<String>,
    /// Number of parts of the last whole segments, the newest last.
    parts_of_last: Vec<(u64, u64)>,
}

impl Playlist {
    /// How a position lies to what this playlist has. By the second edition of RFC 8216 §6.2.5.2: a part behind the
    /// last of a whole segment is the first of the next, and a player asks at most two segments ahead.
    pub fn reach(&self, wanted: Position) -> Reach {
        let Position { segment, part } = wanted;
        let Some(part) = part else {
            return self.reach_of(segment, None);
        };
        if segment >= self.open_segment {
            return self.reach_of(segment, Some(part));
        }
        match self.parts_of_last.iter().find(|(number, _)| *number == segment) {
            Some((_, parts)) if part >= *parts => self.reach_of(segment + 1, Some(0)),
            Some(_) | None => Reach::Within,
        }
    }

    fn reach_of(&self, segment: u64, part: Option<u64>) -> Reach {
        let ahead = match segment.checked_sub(self.open_segment) {
            None => return Reach::Within,
            Some(0) if part.is_some_and(|part| part < self.open_parts) => return Reach::Within,
            Some(ahead) => ahead,
        };
        let listed = if ahead == 0 { self.open_parts } else { 0 };
        let limit = listed + self.advance_parts();
        // One behind the open segment is two behind the last that is listed.
        if ahead > 1 || part.is_some_and(|part| part > limit) { Reach::TooFar } else { Reach::Next }
    }

    /// How many parts a player may be ahead: what fits into three seconds, and at least three.
    fn advance_parts(&self) -> u64 {
        let part = self.part_target.unwrap_or(Duration::from_secs(1)).max(Duration::from_millis(20));
        let in_three_seconds = Duration::from_secs(3).as_millis().div_ceil(part.as_millis().max(1));
        u64::try_from(in_three_seconds).unwrap_or(u64::MAX).max(3)
    }

    /// How long a server may hold back a request at most: three target durations, of which there is at least one
    /// second.
    pub fn longest_hold(&self) -> Duration {
        3 * self.target.clamp(Duration::from_secs(1), Duration::from_secs(60))
    }
}

pub(super) fn begins(start: &[u8]) -> bool {
    let compared = start.len().min(FIRST_LINE.len());
    start[..compared] == FIRST_LINE[..compared]
}

pub(super) fn parse(body: &[u8]) -> Option<Manifest> {
    let mut reader = Reader::default();
    let mut lines = body.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii);
    // `#EXTM3U8` is something else.
    if lines.next()? != FIRST_LINE {
        return None;
    }
    for line in lines.filter(|line| !line.is_empty()) {
        match line.strip_prefix(b"#EXT") {
            Some(tag) => reader.tag(tag),
            None if line.starts_with(b"#") => {}
            None => reader.uri(line),
        }
    }
    Some(reader.finish())
}

#[derive(Default)]
struct Reader {
    playlist: Playlist,
    has_target: bool,
    has_variants: bool,
    first: u64,
    count: u64,
    parts: u64,
}

impl Reader {
    fn tag(&mut self, tag: &[u8]) {
        let colon = memchr::memchr(b':', tag).unwrap_or(tag.len());
        let (name, value) = (&tag[..colon], tag.get(colon + 1..).unwrap_or_default());
        match name {
            b"-X-STREAM-INF" | b"-X-I-FRAME-STREAM-INF" | b"-X-MEDIA" => self.has_variants = true,
            b"-X-TARGETDURATION" => {
                self.has_target = true;
                self.playlist.target = seconds(value).unwrap_or_default();
            }
            b"-X-PART-INF" => self.playlist.part_target = attribute(value, b"PART-TARGET").and_then(seconds),
            b"-X-MEDIA-SEQUENCE" => self.first = decimal(value.trim_ascii()).unwrap_or(0),
            b"-X-SKIP" => {
                let skipped = attribute(value, b"SKIPPED-SEGMENTS").and_then(decimal);
                self.count = self.count.saturating_add(skipped.unwrap_or(0));
            }
            b"-X-SERVER-CONTROL" => {
                self.playlist.can_block = attribute(value, b"CAN-BLOCK-RELOAD") == Some(b"YES");
            }
            b"-X-PART" => {
                self.parts += 1;
                if let Some(uri) = attribute(value, b"URI") {
                    push(&mut self.playlist.parts, uri);
                }
            }
            b"-X-ENDLIST" => self.playlist.ended = true,
            // A playlist of this type never changes, even if its writer forgot the end.
            b"-X-PLAYLIST-TYPE" => self.playlist.ended |= value.trim_ascii() == b"VOD",
            _ => {}
        }
    }

    fn uri(&mut self, uri: &[u8]) {
        push(&mut self.playlist.segments, uri);
        let last = &mut self.playlist.parts_of_last;
        if self.parts > 0 {
            if last.len() == SEGMENTS_WITH_PARTS {
                last.remove(0);
            }
            last.push((self.first.saturating_add(self.count), self.parts));
        }
        self.count = self.count.saturating_add(1);
        self.parts = 0;
    }

    fn finish(mut self) -> Manifest {
        if self.has_variants && !self.has_target {
            return Manifest::Multivariant;
        }
        self.playlist.open_segment = self.first.saturating_add(self.count);
        self.playlist.open_parts = self.parts;
        // Without a target duration, which is against the rules, it is read again soon and not never.
        Manifest::Media(self.playlist)
    }
}

/// Byte ranges of one file are one URI.
fn push(uris: &mut Vec<String>, uri: &[u8]) {
    let Ok(uri) = std::str::from_utf8(uri) else { return };
    if uris.last().is_none_or(|last| last != uri) {
        uris.push(uri.to_owned());
    }
}

/// The value of an attribute, without its quotes (RFC 8216 §4.2).
fn attribute<'v>(mut list: &'v [u8], name: &[u8]) -> Option<&'v [u8]> {
    loop {
        let equals = memchr::memchr(b'=', list)?;
        let found = list[..equals].trim_ascii();
        let rest = &list[equals + 1..];
        let (value, after) = match rest.strip_prefix(b"\"") {
            Some(quoted) => {
                let end = memchr::memchr(b'"', quoted)?;
                let after = &quoted[end + 1..];
                (&quoted[..end], memchr::memchr(b',', after).map(|comma| &after[comma + 1..]))
            }
            None => match memchr::memchr(b',', rest) {
                Some(comma) => (rest[..comma].trim_ascii(), Some(&rest[comma + 1..])),
                None => (rest.trim_ascii(), None),
            },
        };
        if found == name {
            return Some(value);
        }
        list = after?;
    }
}

fn seconds(text: &[u8]) -> Option<Duration> {
    let seconds = std::str::from_utf8(text).ok()?.trim().parse::<f64>().ok()?;
    Duration::try_from_secs_f64(seconds).ok()
}
