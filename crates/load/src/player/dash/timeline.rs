//! `SegmentTimeline`: start and duration of segments, in runs of equal duration.
//!
//! Runs stay runs. A description of a few hundred bytes may stand for 200,000 segments in each of its renditions.

use super::xml::Element;
use crate::player::segments::SEGMENTS_MAX;

/// A timeline, in units of its timescale.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Timeline {
    runs: Vec<Run>,
    /// Start and duration of the first segment of a run without an end.
    endless: Option<(u64, u64)>,
}

/// Consecutive segments of one duration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Run {
    time: u64,
    duration: u64,
    count: u64,
}

impl Timeline {
    /// Reads the element; `None` if it breaks the rules or has too many segments.
    pub(super) fn read(element: &Element) -> Option<Self> {
        let elements: Vec<&Element> = element.all("S").collect();
        let mut runs = Vec::new();
        let (mut time, mut total) = (0_u64, 0_u64);
        for (place, element) in elements.iter().enumerate() {
            time = element.number("t").unwrap_or(time);
            let duration = element.number("d").filter(|duration| *duration > 0)?;
            let repeat: i64 = element.get("r").unwrap_or("0").trim().parse().ok()?;
            let next = elements.get(place + 1).map(|next| next.number("t"));
            let count = match (u64::try_from(repeat), next) {
                (Ok(repeat), _) => repeat.saturating_add(1),
                // A negative number repeats until the next element, or to the end.
                (Err(_), Some(Some(next))) => next.saturating_sub(time).div_ceil(duration),
                (Err(_), Some(None)) => return None,
                (Err(_), None) => return Some(Self { runs, endless: Some((time, duration)) }),
            };
            total = total.saturating_add(count);
            if total > SEGMENTS_MAX as u64 {
                return None;
            }
            runs.push(Run { time, duration, count });
            time = time.checked_add(duration.checked_mul(count)?)?;
        }
        Some(Self { runs, endless: None })
    }

    /// Bytes of memory beside its own size.
    pub(super) fn bytes(&self) -> usize {
        self.runs.capacity() * size_of::<Run>()
    }

    /// Index, start and duration of the last segments, at most `most`. A run without an end has the segments whose
    /// start `is_before_end`.
    pub(super) fn last(&self, most: usize, is_before_end: impl Fn(u64) -> bool) -> Vec<(u64, u64, u64)> {
        let listed: u64 = self.runs.iter().map(|run| run.count).sum();
        let endless = self.endless.map(|(time, duration)| {
            // The predicate holds up to some segment and for none after it.
            let start = |number: u64| time.saturating_add(duration.saturating_mul(number));
            let (mut low, mut high) = (0, SEGMENTS_MAX as u64);
            while low < high {
                let middle = low.midpoint(high);
                if is_before_end(start(middle)) { low = middle + 1 } else { high = middle }
            }
            Run { time, duration, count: low }
        });
        let total = listed + endless.map_or(0, |run| run.count);
        let first = total.saturating_sub(most as u64);
        let mut segments = Vec::new();
        let mut index = 0;
        for run in self.runs.iter().copied().chain(endless) {
            for number in first.saturating_sub(index).min(run.count)..run.count {
                let start = run.time.saturating_add(run.duration.saturating_mul(number));
                segments.push((index + number, start, run.duration));
            }
            index += run.count;
        }
        segments
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn timeline(text: &str) -> Option<Timeline> {
        Timeline::read(&Element::parse(text).unwrap())
    }

    #[test]
    fn the_last_segments_keep_their_numbers_and_times() {
        let found = timeline("<X><S t='10' d='2' r='2'/><S d='5'/><S t='30' d='1' r='-1'/></X>").unwrap();
        let all = found.last(100, |time| time < 33);
        assert_eq!(all, [(0, 10, 2), (1, 12, 2), (2, 14, 2), (3, 16, 5), (4, 30, 1), (5, 31, 1), (6, 32, 1)]);
        for most in 0..=7 {
            assert_eq!(found.last(most, |time| time < 33), all[7 - most..], "{most}");
        }
        assert_eq!(found.last(100, |_| false), all[..4]);
        assert_eq!(found.last(usize::MAX, |_| true).len(), 4 + SEGMENTS_MAX);
    }

    #[test]
    fn a_timeline_takes_memory_by_what_is_written_and_not_by_what_it_repeats() {
        let long = timeline(&format!("<X><S t='0' d='1' r='{}'/></X>", SEGMENTS_MAX - 1)).unwrap();
        assert!(long.bytes() < 1000, "{}", long.bytes());
        assert_eq!(long.last(usize::MAX, |_| false).len(), SEGMENTS_MAX);
        for wrong in [
            format!("<X><S t='0' d='1' r='{SEGMENTS_MAX}'/></X>"),
            "<X><S t='0' d='1' r='9223372036854775807'/></X>".to_owned(),
            "<X><S t='0' d='0'/></X>".to_owned(),
            "<X><S t='18446744073709551615' d='9'/></X>".to_owned(),
            "<X><S t='0' d='1' r='-1'/><S d='1'/></X>".to_owned(),
        ] {
            assert_eq!(timeline(&wrong), None, "{wrong}");
        }
    }
}
