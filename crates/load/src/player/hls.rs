//! HLS playlists (RFC 8216), as far as fetching needs them.

use std::time::Duration;

use super::{Companion, Segment, Segments, Variant};

/// More lines are no playlist.
const LINES_MAX: usize = 200_000;

/// What a playlist is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Playlist {
    /// A choice of qualities, in the order written.
    Master(Vec<Variant>),
    /// A list of segments.
    Media(Segments),
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
}

impl Reader {
    fn tag(&mut self, tag: &str) -> Option<()> {
        let (name, value) = tag.split_once(':').unwrap_or((tag, ""));
        match name {
            "INF" => {
                let seconds = value.split(',').next()?.trim().parse::<f64>().ok()?;
                self.duration = Some(Duration::try_from_secs_f64(seconds).ok()?);
            }
            "-X-TARGETDURATION" => {
                self.target = Some(Duration::try_from_secs_f64(value.trim().parse().ok()?).ok()?);
            }
            "-X-MEDIA-SEQUENCE" => self.segments.first = value.trim().parse().ok()?,
            "-X-ENDLIST" => self.segments.ended = true,
            "-X-BYTERANGE" => self.range = Some(length_and_start(value)?),
            "-X-MAP" => {
                let range = attribute(value, "BYTERANGE").and_then(length_and_start);
                let range = range.map(|(length, start)| shown_range(start.unwrap_or(0), length));
                self.map = Some((attribute(value, "URI")?.to_owned(), range));
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
            let before = self.map.clone().map(|(uri, range)| Companion { uri, range, once: true });
            self.segments.list.push(Segment {
                uri: uri.to_owned(),
                range,
                duration,
                start: Duration::ZERO,
                before: before.into_iter().collect(),
            });
        }
    }

    fn finish(mut self) -> Option<Playlist> {
        if !self.variants.is_empty() {
            for variant in &mut self.variants {
                variant.sound = variant.sound.take().and_then(|group| heard(&self.sounds, &group));
            }
            return Some(Playlist::Master(self.variants));
        }
        self.segments.reload = self.target?;
        Some(Playlist::Media(self.segments))
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
mod tests {
    use super::*;

    #[test]
    fn a_master_playlist_is_a_choice_of_qualities() {
        let text = "#EXTM3U\n#EXT-X-STREAM-INF:CODECS=\"avc1,mp4a\",BANDWIDTH=800000,RESOLUTION=640x360\nlow.m3u8\n\
            #EXT-X-MEDIA:TYPE=AUDIO,URI=\"a.m3u8\"\n#EXT-X-STREAM-INF:BANDWIDTH=3000000\r\nhigh/index.m3u8\n";
        let Some(Playlist::Master(variants)) = parse(text) else { panic!("no master playlist") };
        let found: Vec<_> = variants.iter().map(|one| (one.bandwidth, one.uri.as_str())).collect();
        assert_eq!(found, [(800_000, "low.m3u8"), (3_000_000, "high/index.m3u8")]);
    }

    #[test]
    fn a_quality_is_heard_with_the_default_sound_of_its_group() {
        let media = |group: &str, rest: &str| {
            format!("#EXT-X-MEDIA:TYPE=AUDIO,GROUP-ID=\"{group}\",NAME=\"x\"{rest}\n")
        };
        let stream = |rest: &str| format!("#EXT-X-STREAM-INF:BANDWIDTH=1{rest}\nv.m3u8\n");
        let text = [
            "#EXTM3U\n".to_owned(),
            media("a", ",URI=\"first.m3u8\""),
            media("a", ",DEFAULT=YES,URI=\"default.m3u8\""),
            "#EXT-X-MEDIA:TYPE=SUBTITLES,GROUP-ID=\"b\",NAME=\"x\",URI=\"words.m3u8\"\n".to_owned(),
            stream(",AUDIO=\"a\""),
            stream(",AUDIO=\"b\""),
            stream(",AUDIO=\"inside\""),
            stream(",AUDIO=\"nowhere\""),
            stream(""),
            media("b", ",DEFAULT=NO,URI=\"only.m3u8\""),
            media("inside", ",DEFAULT=YES"),
        ];
        let Some(Playlist::Master(variants)) = parse(&text.concat()) else { panic!("no master playlist") };
        let found: Vec<_> = variants.iter().map(|one| one.sound.as_deref()).collect();
        assert_eq!(found, [Some("default.m3u8"), Some("only.m3u8"), None, None, None]);
    }

    #[test]
    fn a_media_playlist_is_a_list_of_segments() {
        let text = "#EXTM3U\n#EXT-X-VERSION:3\n#EXT-X-TARGETDURATION:6\n#EXT-X-MEDIA-SEQUENCE:41\n\
            #EXTINF:5.96,\na.ts\n#EXTINF:6,title\n# a comment\nb.ts\n#EXT-X-ENDLIST\n";
        let Some(Playlist::Media(segments)) = parse(text) else { panic!("no media playlist") };
        assert_eq!((segments.first, segments.ended), (41, true));
        assert_eq!(segments.reload, Duration::from_secs(6));
        let found: Vec<_> =
            segments.list.iter().map(|one| (one.uri.as_str(), one.duration.as_millis())).collect();
        assert_eq!(found, [("a.ts", 5960), ("b.ts", 6000)]);
    }

    #[test]
    fn byte_ranges_follow_each_other_and_maps_apply_to_what_comes_after() {
        let text = "#EXTM3U\n#EXT-X-TARGETDURATION:4\n#EXT-X-MAP:URI=\"f.mp4\",BYTERANGE=\"600@0\"\n\
            #EXTINF:4,\n#EXT-X-BYTERANGE:1000@600\nf.mp4\n#EXTINF:4,\n#EXT-X-BYTERANGE:500\nf.mp4\n";
        let Some(Playlist::Media(segments)) = parse(text) else { panic!("no media playlist") };
        let ranges: Vec<_> = segments.list.iter().map(|one| one.range.as_deref().unwrap()).collect();
        assert_eq!(ranges, ["600-1599", "1600-2099"]);
        let map = Companion { uri: "f.mp4".to_owned(), range: Some("0-599".to_owned()), once: true };
        assert_eq!(segments.list[1].before, [map]);
        assert!(!segments.ended);
    }

    #[test]
    fn what_is_no_playlist_is_none() {
        for text in [
            "",
            "<MPD/>",
            "#EXTM3U\n#EXTINF:x,\na.ts\n",
            "#EXTM3U\n#EXTINF:4,\na.ts\n",
            "#EXTM3U\n#EXTINF:-1,\na\n",
        ] {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
