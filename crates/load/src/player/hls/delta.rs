//! Playlist delta updates (RFC 8216bis §4.4.5.2, §6.2.5.1).

use std::sync::Arc;

use super::values::shown_range;
use crate::player::segments::{InitSegment, MediaSegment, SEGMENTS_MAX, SegmentList};

impl SegmentList {
    /// Completes a delta update with the segments of the playlist before it. Returns `None` if that playlist lacks one
    /// of the skipped segments.
    pub(crate) fn after(&self, before: &Self) -> Option<Self> {
        let skipped = usize::try_from(self.skipped).ok()?;
        let start = usize::try_from(self.first.checked_sub(before.first)?).ok()?;
        let mut list = before.list.get(start..start.checked_add(skipped)?)?.to_vec();
        if list.len() + self.list.len() > SEGMENTS_MAX {
            return None;
        }
        let mut whole = Self { skipped: 0, open_ranges: 0, ..self.clone() };
        if let Some(last) = list.last() {
            whole.continue_ranges(last, self.open_ranges)?;
            whole.continue_init(&last.before);
        }
        list.append(&mut whole.list);
        whole.list = list;
        Some(whole)
    }

    /// Moves the first ranges of the update behind the range of the last skipped segment.
    fn continue_ranges(&mut self, last: &MediaSegment, count: usize) -> Option<()> {
        if count == 0 {
            return Some(());
        }
        let end = bounds(last.range.as_deref()?)?.1.checked_add(1)?;
        for segment in self.list.iter_mut().take(count) {
            let (first, last) = bounds(segment.range.as_deref()?)?;
            segment.range = Some(shown_range(first.checked_add(end)?, last - first + 1));
        }
        Some(())
    }

    /// `EXT-X-MAP` stays in force until the next one, also if it was skipped.
    fn continue_init(&mut self, init: &[Arc<InitSegment>]) {
        let mut segments: Vec<&mut MediaSegment> = self.list.iter_mut().collect();
        if let Some(offer) = &mut self.low_latency {
            segments.extend(offer.parts.iter_mut().map(|part| &mut part.segment));
            segments.extend(&mut offer.hint);
        }
        for segment in segments.into_iter().filter(|segment| segment.before.is_empty()) {
            segment.before = init.to_vec();
        }
    }
}

/// The first and the last byte of `first-last`.
fn bounds(range: &str) -> Option<(u64, u64)> {
    let (first, last) = range.split_once('-')?;
    let (first, last) = (first.parse().ok()?, last.parse().ok()?);
    (first <= last).then_some((first, last))
}

#[cfg(test)]
mod tests {
    use crate::player::hls::{HlsPlaylist, parse};
    use crate::player::segments::SegmentList;

    fn list(text: &str) -> SegmentList {
        match parse(text) {
            Some(HlsPlaylist::Media(segments)) => *segments,
            other => panic!("no media playlist: {other:?}"),
        }
    }

    const HEAD: &str = "#EXTM3U\n#EXT-X-TARGETDURATION:4\n#EXT-X-PART-INF:PART-TARGET=1\n\
        #EXT-X-SERVER-CONTROL:CAN-BLOCK-RELOAD=YES,CAN-SKIP-UNTIL=24\n";

    /// Segments of a file by byte ranges, the end of the list, and parts of the next one.
    fn full(first: u64, end: u64, parts: u64) -> String {
        let mut text = format!("{HEAD}#EXT-X-MEDIA-SEQUENCE:{first}\n#EXT-X-MAP:URI=\"i.mp4\"\n");
        for number in first..end {
            let start = if number == first { format!("@{}", first * 100) } else { String::new() };
            text.push_str(&format!("#EXTINF:4,\n#EXT-X-BYTERANGE:100{start}\nf.mp4\n"));
        }
        text + &tail(end, parts)
    }

    fn delta(first: u64, skipped: u64, end: u64, parts: u64) -> String {
        let mut text =
            format!("{HEAD}#EXT-X-MEDIA-SEQUENCE:{first}\n#EXT-X-SKIP:SKIPPED-SEGMENTS={skipped}\n");
        for _ in first + skipped..end {
            text.push_str("#EXTINF:4,\n#EXT-X-BYTERANGE:100\nf.mp4\n");
        }
        text + &tail(end, parts)
    }

    fn tail(end: u64, parts: u64) -> String {
        let parts = (0..parts).map(|part| format!("#EXT-X-PART:DURATION=1,URI=\"p{end}.{part}.mp4\"\n"));
        parts.collect::<String>() + "#EXT-X-PRELOAD-HINT:TYPE=PART,URI=\"next.mp4\"\n"
    }

    #[test]
    fn a_delta_update_and_the_playlist_before_it_make_the_full_playlist() {
        for (before, first, skipped, end) in
            [((10, 20), 10, 8, 21), ((10, 20), 13, 4, 22), ((10, 20), 12, 8, 20), ((10, 20), 11, 0, 21)]
        {
            let merged = list(&delta(first, skipped, end, 2)).after(&list(&full(before.0, before.1, 3)));
            if skipped > 0 {
                assert_eq!(merged, Some(list(&full(first, end, 2))), "{first} {skipped} {end}");
            }
        }
    }

    #[test]
    fn a_delta_update_that_skips_segments_that_were_never_listed_does_not_fit() {
        let before = list(&full(10, 20, 0));
        for (first, skipped) in [(9, 3), (10, 11), (25, 2), (10, u64::MAX >> 3)] {
            assert_eq!(list(&delta(first, skipped, first + 2, 0)).after(&before), None, "{first} {skipped}");
        }
        let ranges = list(&delta(10, 10, 21, 0));
        let without = list(&full(10, 20, 0).replace("#EXT-X-BYTERANGE", "#X"));
        assert_eq!(ranges.after(&without), None, "a range that continues nothing");
    }

    #[test]
    fn a_new_init_segment_after_the_skipped_ones_counts_from_there() {
        let update = delta(10, 8, 20, 1).replace("#EXTINF", "#EXT-X-MAP:URI=\"j.mp4\"\n#EXTINF");
        let merged = list(&update).after(&list(&full(10, 18, 0))).unwrap();
        let inits: Vec<&str> = merged.list.iter().map(|segment| segment.before[0].uri.as_str()).collect();
        assert_eq!(inits[6..], ["i.mp4", "i.mp4", "j.mp4", "j.mp4"]);
        let part = &merged.low_latency.unwrap().parts[0];
        assert_eq!((part.at, part.segment.before[0].uri.as_str()), ((20, 0), "j.mp4"));
    }
}
