//! HLS playlists (RFC 8216), as far as fetching needs them.

mod parts;

use std::time::Duration;

use self::parts::Parts;
use super::{Companion, Segment, Segments, Variant};

/// More lines are no playlist.
const LINES_MAX: usize = 200_000;

/// A live playlist is not asked for again sooner than half of this, whatever it says of its segments.
const TARGET_MIN: Duration = Duration::from_secs(1);

/// Longer pieces and larger numbers are no playlist: they could not be added up.
const TIME_MAX: Duration = Duration::from_secs(10_000_000);
const NUMBER_MAX: u64 = 1 << 62;

/// What a playlist is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Playlist {
    /// A choice of qualities, in the order written.
    Master(Vec<Variant>),
    /// A list of segments.
    Media(Box<Segments>),
}

/// Reads a playlist; `None` if it is none.
pub fn parse(text: &str) -> Option<Playlist> {
    let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    if lines.next()?.trim_start_matches('\u{feff}') != "#EXTM3U" {
        return None;
    }
    let mut reader = Reader::default();
    for line in lines.take(LINES_MAX) {
        match line.strip_prefix("#EXT") {
            Some(tag) => reader.tag(tag)?,
            None if line.starts_with('#') => {}
            None => reader.uri(line),
        }
    }
    reader.finish()
}

/// A rendition of the sound. Without a place of its own it is in the segments of the picture.
struct Sound {
    group: String,
    is_default: bool,
    uri: Option<String>,
}

#[derive(Default)]
struct Reader {
    variants: Vec<Variant>,
    /// Of the variant whose place comes next: its bandwidth and the group of its sound.
    variant: Option<(u64, Option<String>)>,
    sounds: Vec<Sound>,
    segments: Segments,
    target: Option<Duration>,
    duration: Option<Duration>,
    range: Option<(u64, Option<u64>)>,
    range_end: u64,
    map: Option<(String, Option<String>)>,
    parts: Parts,
}

impl Reader {
    fn tag(&mut self, tag: &str) -> Option<()> {
        let (name, value) = tag.split_once(':').unwrap_or((tag, ""));
        match name {
            "INF" => {
                self.duration = Some(time(value.split(',').next()?)?);
            }
            "-X-TARGETDURATION" => {
                self.target = Some(time(value)?);
            }
            "-X-MEDIA-SEQUENCE" => {
                self.segments.first = value.trim().parse().ok().filter(|first| *first < NUMBER_MAX)?;
            }
            "-X-ENDLIST" => self.segments.ended = true,
            "-X-BYTERANGE" => self.range = Some(length_and_start(value)?),
            "-X-MAP" => {
                let range = attribute(value, "BYTERANGE").and_then(length_and_start);
                let range = range.map(|(length, start)| shown_range(start.unwrap_or(0), length));
                self.map = Some((attribute(value, "URI")?.to_owned(), range));
            }
            "-X-PART" => self.parts.part(value, self.segments.list.len() as u64, self.before())?,
            "-X-PRELOAD-HINT" => self.parts.hint(value, self.before())?,
            "-X-PART-INF" => self.parts.target = seconds(value, "PART-TARGET"),
            "-X-SERVER-CONTROL" => {
                self.parts.can_block = attribute(value, "CAN-BLOCK-RELOAD") == Some("YES");
                self.parts.hold_back = seconds(value, "PART-HOLD-BACK");
                self.segments.hold_back = seconds(value, "HOLD-BACK");
            }
            "-X-STREAM-INF" => {
                let group = attribute(value, "AUDIO").map(str::to_owned);
                self.variant = Some((attribute(value, "BANDWIDTH")?.parse().ok()?, group));
            }
            "-X-MEDIA" if attribute(value, "TYPE") == Some("AUDIO") => self.sounds.push(Sound {
                group: attribute(value, "GROUP-ID").unwrap_or_default().to_owned(),
                is_default: attribute(value, "DEFAULT") == Some("YES"),
                uri: attribute(value, "URI").map(str::to_owned),
            }),
            _ => {}
        }
        Some(())
    }

    fn uri(&mut self, uri: &str) {
        if let Some((bandwidth, group)) = self.variant.take() {
            // The name of the group, until all groups are known.
            self.variants.push(Variant { bandwidth, uri: uri.to_owned(), sound: group });
        } else if let Some(duration) = self.duration.take() {
            // Without a start it begins where the one before ended (RFC 8216 §4.3.2.2).
            let range = self.range.take().map(|(length, start)| {
                let start = start.unwrap_or(self.range_end);
                self.range_end = start.saturating_add(length);
                shown_range(start, length)
            });
            let before = self.before();
            self.segments.list.push(Segment {
                uri: uri.to_owned(),
                range,
                duration,
                start: Duration::ZERO,
                before,
            });
        }
    }

    /// What has to be fetched before a segment that is named now.
    fn before(&self) -> Vec<Companion> {
        let map = self.map.clone();
        map.map(|(uri, range)| Companion { uri, range, once: true }).into_iter().collect()
    }

    fn finish(mut self) -> Option<Playlist> {
        if !self.variants.is_empty() {
            for variant in &mut self.variants {
                variant.sound = variant.sound.take().and_then(|group| heard(&self.sounds, &group));
            }
            return Some(Playlist::Master(self.variants));
        }
        self.segments.reload = self.target?.max(TARGET_MIN);
        self.segments.low_latency = self.parts.finish(self.segments.first);
        Some(Playlist::Media(Box::new(self.segments)))
    }
}

/// Where the rendition of a group is that is heard if nobody chooses.
fn heard(sounds: &[Sound], group: &str) -> Option<String> {
    let of_group = || sounds.iter().filter(|sound| sound.group == group);
    of_group().find(|sound| sound.is_default).or_else(|| of_group().next())?.uri.clone()
}

/// `LENGTH[@START]`.
fn length_and_start(text: &str) -> Option<(u64, Option<u64>)> {
    let text = text.trim();
    match text.split_once('@') {
        Some((length, start)) => Some((length.parse().ok()?, Some(start.parse().ok()?))),
        None => Some((text.parse().ok()?, None)),
    }
}

/// An attribute that is a time.
fn seconds(list: &str, wanted: &str) -> Option<Duration> {
    time(attribute(list, wanted)?)
}

/// Seconds with a fraction.
fn time(text: &str) -> Option<Duration> {
    let time = Duration::try_from_secs_f64(text.trim().parse().ok()?).ok()?;
    (time <= TIME_MAX).then_some(time)
}

fn shown_range(start: u64, length: u64) -> String {
    format!("{start}-{}", start.saturating_add(length).saturating_sub(1))
}

/// The value of an attribute (RFC 8216 §4.2), without its quotes.
fn attribute<'t>(list: &'t str, wanted: &str) -> Option<&'t str> {
    let mut rest = list;
    loop {
        let (name, after) = rest.split_once('=')?;
        let (value, next) = match after.strip_prefix('"') {
            Some(quoted) => {
                let (value, next) = quoted.split_once('"')?;
                (value, next.strip_prefix(',').unwrap_or(next))
            }
            None => after.split_once(',').unwrap_or((after, "")),
        };
        if name.trim() == wanted {
            return Some(value);
        }
        rest = next;
    }
}

#[cfg(test)]
mod tests;
