//! A representation in one period: the locations and times of its segments.

use std::sync::Arc;
use std::time::Duration;

use super::index::{self, IndexSearch};
use super::timeline::Timeline;
use super::xml::Element;
use crate::player::segments::{ByteBudget, InitSegment, MediaSegment, SEGMENTS_MAX, TIME_MAX, time};
use crate::target::TargetUrl;

/// The most segments of a live stream that are listed: players stay near its edge.
const LIVE_SEGMENTS: u64 = 100;
const LIVE_TIMELINE_SEGMENTS: usize = 1000;

/// A URI and a byte range.
type Location = (String, Option<String>);

/// A representation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Representation {
    base: TargetUrl,
    id: String,
    bandwidth: u64,
    init: Option<Location>,
    addressing: Addressing,
    timescale: u64,
    /// In units of the timescale.
    offset: u64,
    start_number: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Addressing {
    /// Numbered segments of equal duration, in units of the timescale.
    Even { template: String, duration: u64 },
    /// Segments of a timeline.
    Timeline { template: String, timeline: Timeline },
    /// Segments with their own locations.
    List { pieces: Vec<Location>, duration: u64 },
    /// Subsegments of one file by its index, at `range` if that is known. `pieces` is `None` until the index was read.
    Indexed { range: Option<(u64, u64)>, pieces: Option<Vec<index::Subsegment>> },
}

/// The period of a representation, and the part of it that is available. All relative to the presentation.
#[derive(Clone, Copy, Debug)]
pub(super) struct AvailabilityWindow {
    /// The start of the period.
    pub(super) start: Duration,
    /// The end of the period, if known.
    pub(super) end: Option<Duration>,
    /// Segments that end later are not available yet.
    pub(super) edge: Option<Duration>,
    /// Segments that end earlier are not available any more.
    pub(super) tail: Option<Duration>,
}

impl Representation {
    /// Reads the elements that describe segments, outermost first.
    pub(super) fn new(base: TargetUrl, representation: &Element, levels: &[&Element]) -> Option<Self> {
        let id = representation.get("id").unwrap_or_default().to_owned();
        let bandwidth = representation.number("bandwidth").unwrap_or(0);
        for kind in ["SegmentTemplate", "SegmentList", "SegmentBase"] {
            let said: Vec<&Element> = levels.iter().filter_map(|level| level.child(kind)).collect();
            if said.is_empty() {
                continue;
            }
            // The innermost element takes precedence.
            let get = |name: &str| said.iter().rev().find_map(|element| element.get(name));
            let number = |name: &str| said.iter().rev().find_map(|element| element.number(name));
            let child = |name: &'static str| said.iter().rev().find_map(|element| element.child(name));
            let timescale = number("timescale").unwrap_or(1).max(1);
            let track = |init, addressing| Self {
                base: base.clone(),
                id: id.clone(),
                bandwidth,
                init,
                addressing,
                timescale,
                offset: number("presentationTimeOffset").unwrap_or(0),
                start_number: number("startNumber").unwrap_or(1),
            };
            let piece = |element: &Element, uri: &str, range: &str| {
                (element.get(uri).unwrap_or_default().to_owned(), element.get(range).map(str::to_owned))
            };
            if kind == "SegmentBase" {
                let range = match get("indexRange") {
                    Some(range) => Some(bounds(range)?),
                    None => None,
                };
                let init = child("Initialization").map(|one| piece(one, "sourceURL", "range"));
                return Some(track(init, Addressing::Indexed { range, pieces: None }));
            }
            if kind == "SegmentList" {
                let pieces = said
                    .iter()
                    .rev()
                    .find(|element| element.child("SegmentURL").is_some())?
                    .all("SegmentURL");
                let pieces = pieces.map(|one| piece(one, "media", "mediaRange")).collect();
                let init = child("Initialization").map(|one| piece(one, "sourceURL", "range"));
                return Some(track(init, Addressing::List { pieces, duration: number("duration")? }));
            }
            let template = get("media")?.to_owned();
            let init = get("initialization").map(|init| (init.to_owned(), None));
            let addressing = match (child("SegmentTimeline"), number("duration")) {
                (Some(timeline), _) => Addressing::Timeline { template, timeline: Timeline::read(timeline)? },
                (None, Some(duration)) if duration > 0 => Addressing::Even { template, duration },
                _ => return None,
            };
            return Some(track(init, addressing));
        }
        None
    }

    /// Bits per second.
    pub(super) fn bandwidth(&self) -> u64 {
        self.bandwidth
    }

    /// Whether the clock alone says which segments exist.
    pub(super) fn is_by_clock(&self) -> bool {
        matches!(self.addressing, Addressing::Even { .. })
    }

    /// The search for its index, if it has one that was not read.
    pub(super) fn unread(&self) -> Option<(TargetUrl, IndexSearch)> {
        let Addressing::Indexed { range, pieces: None } = &self.addressing else { return None };
        // An init segment in another file says nothing about this one.
        let init_end = self.init.as_ref().filter(|(uri, _)| uri.is_empty());
        let init_end = init_end.and_then(|(_, range)| Some(bounds(range.as_ref()?)?.1.saturating_add(1)));
        Some((self.base.clone(), IndexSearch::new(*range, init_end)))
    }

    /// Takes the index.
    pub(super) fn read(&mut self, found: Vec<index::Subsegment>) {
        if let Addressing::Indexed { pieces, .. } = &mut self.addressing {
            *pieces = Some(found);
        }
    }

    /// The segments of an index, within the budget.
    fn indexed(
        &self,
        window: AvailabilityWindow,
        pieces: &[index::Subsegment],
        budget: &mut ByteBudget,
    ) -> Vec<MediaSegment> {
        let offset = self.seconds(self.offset);
        let before: Vec<Arc<InitSegment>> = self.init_segment().into_iter().collect();
        let segment = |piece: &index::Subsegment| MediaSegment {
            uri: self.base.to_string(),
            range: Some(format!("{}-{}", piece.first, piece.last)),
            duration: piece.duration,
            start: window.start + piece.start.saturating_sub(offset),
            before: before.clone(),
        };
        pieces.iter().map(segment).take_while(|segment| budget.take(segment.bytes())).collect()
    }

    fn init_segment(&self) -> Option<Arc<InitSegment>> {
        let (uri, range) = self.init.as_ref()?;
        let uri = self.placed(&self.filled(uri, 0, 0));
        Some(Arc::new(InitSegment { uri, range: range.clone(), once: true }))
    }

    /// How many bytes of memory it takes.
    pub(super) fn bytes(&self) -> usize {
        let of = |location: &Location| location.0.len() + location.1.as_ref().map_or(0, String::len) + 48;
        let addressing = match &self.addressing {
            Addressing::Even { template, .. } => template.len(),
            Addressing::Timeline { template, timeline } => template.len() + timeline.bytes(),
            Addressing::List { pieces, .. } => pieces.iter().map(of).sum(),
            Addressing::Indexed { .. } => 0,
        };
        let base = self.base.host.len() + self.base.path.len();
        size_of::<Self>() + self.id.len() + base + self.init.as_ref().map_or(0, of) + addressing
    }

    /// The segments of a window, as long as they fit into the budget.
    pub(super) fn segments(&self, window: AvailabilityWindow, budget: &mut ByteBudget) -> Vec<MediaSegment> {
        let times: Vec<(u64, u64, u64)> = match &self.addressing {
            Addressing::Even { duration, .. } => self.even(window, *duration),
            Addressing::List { pieces, duration } => (0..pieces.len() as u64)
                .map(|index| (index, index.saturating_mul(*duration), *duration))
                .collect(),
            Addressing::Timeline { timeline, .. } => self.listed(window, timeline),
            Addressing::Indexed { pieces, .. } => {
                return self.indexed(window, pieces.as_deref().unwrap_or_default(), budget);
            }
        };
        let before: Vec<Arc<InitSegment>> = self.init_segment().into_iter().collect();
        let mut segments = Vec::new();
        for (index, time, duration) in times {
            let (uri, range) = match &self.addressing {
                Addressing::List { pieces, .. } => {
                    let Some(piece) = usize::try_from(index).ok().and_then(|place| pieces.get(place)) else {
                        break;
                    };
                    piece.clone()
                }
                Addressing::Even { template, .. } | Addressing::Timeline { template, .. } => {
                    (self.filled(template, self.start_number.saturating_add(index), time), None)
                }
                Addressing::Indexed { .. } => break,
            };
            let start = window.start + self.seconds(time.saturating_sub(self.offset_of_times()));
            let duration = self.seconds(duration);
            let end = start + duration;
            // A timeline lists the available segments; numbers depend on the clock.
            let is_gone = self.is_by_clock() && window.tail.is_some_and(|tail| end < tail);
            if !is_gone {
                let (uri, before) = (self.placed(&uri), before.clone());
                let segment = MediaSegment { uri, range, duration, start, before };
                if !budget.take(segment.bytes()) {
                    break;
                }
                segments.push(segment);
            }
        }
        segments
    }

    /// The times of a timeline include the offset; numbers do not.
    fn offset_of_times(&self) -> u64 {
        if matches!(self.addressing, Addressing::Timeline { .. }) { self.offset } else { 0 }
    }

    /// Index, start and duration of segments of equal duration.
    fn even(&self, window: AvailabilityWindow, duration: u64) -> Vec<(u64, u64, u64)> {
        let each = self.seconds(duration).as_secs_f64().max(1e-3);
        let count = |length: Duration| length.as_secs_f64() / each;
        // The last one of a period may be shorter.
        let by_period =
            window.end.map(|end| whole(count(end.saturating_sub(window.start)) - 1e-6).saturating_add(1));
        let by_clock = window.edge.map(|edge| whole(count(edge.saturating_sub(window.start)) + 1e-6));
        let end = [by_period, by_clock].into_iter().flatten().min().unwrap_or(0);
        let first = match (window.edge, window.tail) {
            (None, _) => 0,
            (Some(_), tail) => {
                let gone = tail.map_or(0, |tail| whole(count(tail.saturating_sub(window.start))));
                gone.max(end.saturating_sub(LIVE_SEGMENTS))
            }
        };
        (first..end)
            .take(SEGMENTS_MAX)
            .map(|index| (index, index.saturating_mul(duration), duration))
            .collect()
    }

    fn listed(&self, window: AvailabilityWindow, timeline: &Timeline) -> Vec<(u64, u64, u64)> {
        let until = window.end.or(window.edge).map(|end| end.saturating_sub(window.start).as_secs_f64());
        let is_before_end = |time: u64| {
            let start = self.seconds(time.saturating_sub(self.offset)).as_secs_f64();
            until.is_some_and(|until| start + 1e-6 < until)
        };
        let most = if window.edge.is_some() { LIVE_TIMELINE_SEGMENTS } else { SEGMENTS_MAX };
        timeline.last(most, is_before_end)
    }

    #[expect(clippy::cast_precision_loss, reason = "times of a film are far below 2^53 units")]
    fn seconds(&self, units: u64) -> Duration {
        time(units as f64 / self.timescale as f64).unwrap_or(TIME_MAX)
    }

    fn placed(&self, uri: &str) -> String {
        if uri.is_empty() {
            return self.base.to_string();
        }
        self.base.join(uri).map_or_else(|_| uri.to_owned(), |target| target.to_string())
    }

    /// Replaces the identifiers of a template (ISO/IEC 23009-1 §5.3.9.4.4).
    fn filled(&self, template: &str, number: u64, time: u64) -> String {
        let mut text = String::new();
        for (place, part) in template.split('$').enumerate() {
            // Identifiers stand between two dollar signs.
            if place % 2 == 0 {
                text.push_str(part);
                continue;
            }
            let (name, width) = match part.split_once("%0") {
                Some((name, format)) => (name, format.trim_end_matches('d').parse().unwrap_or(1)),
                None => (part, 1_usize),
            };
            let width = width.min(20);
            match name {
                "RepresentationID" => text.push_str(&self.id),
                "Number" => text.push_str(&format!("{number:0width$}")),
                "Time" => text.push_str(&format!("{time:0width$}")),
                "Bandwidth" => text.push_str(&format!("{:0width$}", self.bandwidth)),
                _ => text.push('$'),
            }
        }
        text
    }
}

/// The first and the last byte of `first-last`.
fn bounds(range: &str) -> Option<(u64, u64)> {
    let (first, last) = range.trim().split_once('-')?;
    let (first, last) = (first.parse().ok()?, last.parse().ok()?);
    (first <= last).then_some((first, last))
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "it is made positive and bounded"
)]
fn whole(number: f64) -> u64 {
    number.clamp(0.0, 1e15) as u64
}
