//! HLS playlists, as far as a cache reads them (RFC 8216 §4, and the tags for low latency of RFC 8216bis).

use std::time::Duration;

use super::Manifest;
use super::position::Position;
use crate::digits::decimal;
use crate::m3u8::{self, FIRST_LINE, Line, attribute};

/// The segments at the end whose number of parts is kept. Parts are listed for three target durations.
const SEGMENTS_WITH_PARTS: usize = 16;

/// How a position relates to a playlist.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// The playlist has it.
    Within,
    /// The playlist will have it soon.
    Next,
    /// No client that has seen this playlist requests it.
    TooFar,
}

/// A media playlist.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Playlist {
    /// The longest duration of a segment.
    pub target: Duration,
    /// The longest duration of a part; `None` without parts.
    pub part_target: Option<Duration>,
    /// Whether the playlist is final.
    pub ended: bool,
    /// Whether the server holds requests for later versions (`CAN-BLOCK-RELOAD`).
    pub can_block: bool,
    /// Number of the first segment that is neither listed nor skipped: the one that is being made.
    pub open_segment: u64,
    /// The number of its parts that are listed.
    pub open_parts: u64,
    /// URIs of segments, in the order of the list; byte ranges of one file count once.
    pub segments: Vec<String>,
    /// The number of parts of the last whole segments, newest last.
    parts_of_last: Vec<(u64, u64)>,
}

impl Playlist {
    /// How a position relates to this playlist. By RFC 8216bis §6.2.5.2 a part after the last of a whole segment is the first
    /// of the next one, and a client requests at most two segments ahead.
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
        // One after the open segment is two after the last one listed.
        if ahead > 1 || part.is_some_and(|part| part > limit) { Reach::TooFar } else { Reach::Next }
    }

    /// The parts that a client may be ahead: those of three seconds, and at least three.
    fn advance_parts(&self) -> u64 {
        let part = self.part_target.unwrap_or(Duration::from_secs(1)).max(Duration::from_millis(20));
        let in_three_seconds = Duration::from_secs(3).as_millis().div_ceil(part.as_millis().max(1));
        u64::try_from(in_three_seconds).unwrap_or(u64::MAX).max(3)
    }

    /// The longest time that a server holds a request: three target durations of at least one second.
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
    for line in m3u8::lines(body)? {
        match line {
            Line::Tag { name, value } => reader.tag(name, value),
            Line::Uri(uri) => reader.uri(uri),
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
    fn tag(&mut self, name: &[u8], value: &[u8]) {
        match name {
            b"EXT-X-STREAM-INF" | b"EXT-X-I-FRAME-STREAM-INF" | b"EXT-X-MEDIA" => self.has_variants = true,
            b"EXT-X-TARGETDURATION" => {
                self.has_target = true;
                self.playlist.target = seconds(value).unwrap_or_default();
            }
            b"EXT-X-PART-INF" => {
                self.playlist.part_target = attribute(value, b"PART-TARGET").and_then(seconds)
            }
            b"EXT-X-MEDIA-SEQUENCE" => self.first = decimal(value).unwrap_or(0),
            b"EXT-X-SKIP" => {
                let skipped = attribute(value, b"SKIPPED-SEGMENTS").and_then(decimal);
                self.count = self.count.saturating_add(skipped.unwrap_or(0));
            }
            b"EXT-X-SERVER-CONTROL" => {
                self.playlist.can_block = attribute(value, b"CAN-BLOCK-RELOAD") == Some(b"YES");
            }
            b"EXT-X-PART" => self.parts += 1,
            b"EXT-X-ENDLIST" => self.playlist.ended = true,
            // A playlist of this type never changes, even without an end tag.
            b"EXT-X-PLAYLIST-TYPE" => self.playlist.ended |= value == b"VOD",
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
        // Without the mandatory target duration it is fetched again soon.
        Manifest::Media(self.playlist)
    }
}

/// Byte ranges of one file count as one URI.
fn push(uris: &mut Vec<String>, uri: &[u8]) {
    let Ok(uri) = std::str::from_utf8(uri) else { return };
    if uris.last().is_none_or(|last| last != uri) {
        uris.push(uri.to_owned());
    }
}

fn seconds(text: &[u8]) -> Option<Duration> {
    let seconds = std::str::from_utf8(text).ok()?.trim().parse::<f64>().ok()?;
    Duration::try_from_secs_f64(seconds).ok()
}
