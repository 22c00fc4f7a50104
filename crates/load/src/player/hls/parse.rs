//! From the tokens of a playlist to segments.

use std::sync::Arc;
use std::time::Duration;

use penstock_http::m3u8::{self, Line};

use super::parts::PartSettings;
use super::values::{NUMBER_MAX, attribute, length_and_start, seconds, shown_range, time, utf8};
use crate::player::segments::{ContentSteering, InitSegment, MediaSegment, SegmentList, Variant};

/// The most lines of a playlist.
const LINES_MAX: usize = 200_000;

/// The most renditions of a multivariant playlist.
const RENDITIONS_MAX: usize = 1000;

/// The smallest target duration that is believed: a live playlist is fetched again after half of it.
const TARGET_MIN: Duration = Duration::from_secs(1);

/// A playlist.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HlsPlaylist {
    /// A multivariant playlist: renditions in the order written, and who chooses among pathways.
    Multivariant(Vec<Variant>, Option<ContentSteering>),
    /// A media playlist.
    Media(Box<SegmentList>),
}

/// Reads a playlist; `None` if it is none.
pub fn parse(text: &str) -> Option<HlsPlaylist> {
    let mut parser = PlaylistParser::default();
    for line in m3u8::lines(text.as_bytes())?.take(LINES_MAX) {
        match line {
            Line::Tag { name, value } => parser.tag(utf8(name), utf8(value))?,
            Line::Uri(uri) => parser.uri(utf8(uri)),
        }
    }
    parser.finish()
}

/// An audio rendition. Without a URI its media is in the segments of video.
struct AudioRendition {
    group: String,
    is_default: bool,
    uri: Option<Arc<str>>,
}

#[derive(Default)]
struct PlaylistParser {
    variants: Vec<Variant>,
    /// The variant whose URI follows.
    variant: Option<Variant>,
    steering: Option<ContentSteering>,
    renditions: Vec<AudioRendition>,
    segments: SegmentList,
    target: Option<Duration>,
    duration: Option<Duration>,
    range: Option<(u64, Option<u64>)>,
    /// The end of the last byte range in this playlist.
    range_end: u64,
    map: Option<Arc<InitSegment>>,
    parts: PartSettings,
}

impl PlaylistParser {
    fn tag(&mut self, name: &str, value: &str) -> Option<()> {
        match name {
            "EXTINF" => {
                self.duration = Some(time(value.split(',').next()?)?);
            }
            "EXT-X-TARGETDURATION" => {
                self.target = Some(time(value)?);
            }
            "EXT-X-MEDIA-SEQUENCE" => {
                self.segments.first = value.parse().ok().filter(|first| *first < NUMBER_MAX)?;
            }
            "EXT-X-ENDLIST" => self.segments.ended = true,
            "EXT-X-SKIP" => {
                let skipped = attribute(value, "SKIPPED-SEGMENTS")?.parse().ok();
                self.segments.skipped = skipped.filter(|skipped| *skipped < NUMBER_MAX)?;
            }
            "EXT-X-BYTERANGE" => self.range = Some(length_and_start(value)?),
            "EXT-X-MAP" => {
                let range = attribute(value, "BYTERANGE").and_then(length_and_start);
                let range = range.map(|(length, start)| shown_range(start.unwrap_or(0), length));
                let uri = attribute(value, "URI")?.to_owned();
                self.map = Some(Arc::new(InitSegment { uri, range, once: true }));
            }
            "EXT-X-PART" => {
                let number = self.segments.skipped.saturating_add(self.segments.list.len() as u64);
                self.parts.part(value, number, self.before())?;
            }
            "EXT-X-PRELOAD-HINT" => self.parts.hint(value, self.before())?,
            "EXT-X-PART-INF" => self.parts.target = seconds(value, "PART-TARGET"),
            "EXT-X-SERVER-CONTROL" => {
                self.parts.can_block = attribute(value, "CAN-BLOCK-RELOAD") == Some("YES");
                self.parts.hold_back = seconds(value, "PART-HOLD-BACK");
                self.segments.hold_back = seconds(value, "HOLD-BACK");
                self.segments.can_skip_until = seconds(value, "CAN-SKIP-UNTIL");
            }
            "EXT-X-STREAM-INF" | "EXT-X-MEDIA"
                if self.variants.len().max(self.renditions.len()) >= RENDITIONS_MAX =>
            {
                return None;
            }
            "EXT-X-STREAM-INF" => {
                self.variant = Some(Variant {
                    bandwidth: attribute(value, "BANDWIDTH")?.parse().ok()?,
                    uri: String::new(),
                    // The name of the group, until all groups are known.
                    audio: attribute(value, "AUDIO").map(Arc::from),
                    pathway: attribute(value, "PATHWAY-ID").map(str::to_owned),
                });
            }
            "EXT-X-CONTENT-STEERING" => {
                let server = attribute(value, "SERVER-URI")?.to_owned();
                let pathway = attribute(value, "PATHWAY-ID").map(str::to_owned);
                self.steering = Some(ContentSteering { server, pathway });
            }
            "EXT-X-MEDIA" if attribute(value, "TYPE") == Some("AUDIO") => {
                self.renditions.push(AudioRendition {
                    group: attribute(value, "GROUP-ID").unwrap_or_default().to_owned(),
                    is_default: attribute(value, "DEFAULT") == Some("YES"),
                    uri: attribute(value, "URI").map(Arc::from),
                })
            }
            _ => {}
        }
        Some(())
    }

    fn uri(&mut self, uri: &str) {
        if let Some(variant) = self.variant.take() {
            self.variants.push(Variant { uri: uri.to_owned(), ..variant });
        } else if let Some(duration) = self.duration.take() {
            let range = self.range.take().map(|(length, start)| {
                // Without an offset a range begins where the one before ended (RFC 8216 §4.3.2.2). In a delta update
                // that may be the range of a skipped segment.
                let is_open = start.is_none() && self.segments.open_ranges == self.segments.list.len();
                self.segments.open_ranges += usize::from(is_open && self.segments.skipped > 0);
                let start = start.unwrap_or(self.range_end);
                self.range_end = start.saturating_add(length);
                shown_range(start, length)
            });
            let before = self.before();
            let uri = uri.to_owned();
            self.segments.list.push(MediaSegment { uri, range, duration, start: Duration::ZERO, before });
        }
    }

    /// The init segment of the next segment.
    fn before(&self) -> Vec<Arc<InitSegment>> {
        self.map.iter().map(Arc::clone).collect()
    }

    fn finish(mut self) -> Option<HlsPlaylist> {
        if !self.variants.is_empty() {
            for variant in &mut self.variants {
                variant.audio =
                    variant.audio.take().and_then(|group| default_audio(&self.renditions, &group));
            }
            return Some(HlsPlaylist::Multivariant(self.variants, self.steering));
        }
        self.segments.reload = self.target?.max(TARGET_MIN);
        self.segments.low_latency = self.parts.finish(self.segments.first);
        Some(HlsPlaylist::Media(Box::new(self.segments)))
    }
}

/// The URI of the rendition of a group that plays without a choice by the viewer.
fn default_audio(renditions: &[AudioRendition], group: &str) -> Option<Arc<str>> {
    let of_group = || renditions.iter().filter(|audio| audio.group == group);
    of_group().find(|audio| audio.is_default).or_else(|| of_group().next())?.uri.clone()
}
