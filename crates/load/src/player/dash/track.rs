//! One representation in one period: where its segments are, and when.

use std::time::Duration;

use super::super::{Companion, LONGEST, SEGMENTS_MAX, Segment, time};
use super::index::{self, Search};
use super::xml::Element;
use crate::target::Target;

/// Of a live stream only so many are looked at: players stay near its edge.
const LIVE_SEGMENTS: u64 = 100;

/// Where something is, and which bytes of it.
type Piece = (String, Option<String>);

/// Where the segments of a representation are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Track {
    base: Target,
    id: String,
    bandwidth: u64,
    init: Option<Piece>,
    addressing: Addressing,
    timescale: u64,
    /// In units of the timescale.
    offset: u64,
    start_number: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Addressing {
    /// All as long as the first, in units of the timescale; numbered.
    Even { template: String, duration: u64 },
    /// Start and length of each, in units of the timescale. The last may repeat to the end.
    Timeline { template: String, entries: Vec<(u64, u64)>, repeats: Option<(u64, u64)> },
    /// Each with its own place.
    List { pieces: Vec<Piece>, duration: u64 },
    /// All in one file, which says itself what lies where: in these bytes of it, if that is known. `None` until that
    /// has been read.
    Indexed { range: Option<(u64, u64)>, pieces: Option<Vec<index::Piece>> },
}

/// The period that a track belongs to, and which part of it can be fetched now. All relative to the presentation.
#[derive(Clone, Copy, Debug)]
pub(super) struct Window {
    /// When the period begins.
    pub(super) start: Duration,
    /// When it ends, if that is known.
    pub(super) end: Option<Duration>,
    /// Segments that end later are not there yet.
    pub(super) edge: Option<Duration>,
    /// Segments that end earlier are gone.
    pub(super) tail: Option<Duration>,
}

impl Track {
    /// From the elements that may say where segments are, the outermost first.
    pub(super) fn new(base: Target, representation: &Element, levels: &[&Element]) -> Option<Self> {
        let id = representation.get("id").unwrap_or_default().to_owned();
        let bandwidth = representation.number("bandwidth").unwrap_or(0);
        for kind in ["SegmentTemplate", "SegmentList", "SegmentBase"] {
            let said: Vec<&Element> = levels.iter().filter_map(|level| level.child(kind)).collect();
            if said.is_empty() {
                continue;
            }
            // The innermost word counts.
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
                (Some(timeline), _) => {
                    let (entries, repeats) = entries(timeline)?;
                    Addressing::Timeline { template, entries, repeats }
                }
                (None, Some(duration)) if duration > 0 => Addressing::Even { template, duration },
                _ => return None,
            };
            return Some(track(init, addressing));
        }
        None
    }

    /// Its bits per second.
    pub(super) fn bandwidth(&self) -> u64 {
        self.bandwidth
    }

    /// Whether the clock alone tells which segments there are.
    pub(super) fn is_by_clock(&self) -> bool {
        matches!(self.addressing, Addressing::Even { .. })
    }

    /// Where its index has to be looked for, if it has one that has not been read.
    pub(super) fn unread(&self) -> Option<(Target, Search)> {
        let Addressing::Indexed { range, pieces: None } = &self.addressing else { return None };
        // An initialisation in another file says nothing about this one.
        let init_end = self.init.as_ref().filter(|(uri, _)| uri.is_empty());
        let init_end = init_end.and_then(|(_, range)| Some(bounds(range.as_ref()?)?.1.saturating_add(1)));
        Some((self.base.clone(), Search::new(*range, init_end)))
    }

    /// The index has been read.
    pub(super) fn read(&mut self, found: Vec<index::Piece>) {
        if let Addressing::Indexed { pieces, .. } = &mut self.addressing {
            *pieces = Some(found);
        }
    }

    /// The segments that an index named.
    fn indexed(&self, window: Window, pieces: &[index::Piece]) -> Vec<Segment> {
        let offset = self.seconds(self.offset);
        let before: Vec<Companion> = self.initialisation().into_iter().collect();
        let segment = |piece: &index::Piece| Segment {
            uri: self.base.to_string(),
            range: Some(format!("{}-{}", piece.first, piece.last)),
            duration: piece.duration,
            start: window.start + piece.start.saturating_sub(offset),
            before: before.clone(),
        };
        pieces.iter().map(segment).collect()
    }

    fn initialisation(&self) -> Option<Companion> {
        let (uri, range) = self.init.as_ref()?;
        Some(Companion { uri: self.placed(&self.filled(uri, 0, 0)), range: range.clone(), once: true })
    }

    /// The segments of a window.
    pub(super) fn segments(&self, window: Window) -> Vec<Segment> {
        let times: Vec<(u64, u64, u64)> = match &self.addressing {
            Addressing::Even { duration, .. } => self.even(window, *duration),
            Addressing::List { pieces, duration } => (0..pieces.len() as u64)
                .map(|index| (index, index.saturating_mul(*duration), *duration))
                .collect(),
            Addressing::Timeline { entries, repeats, .. } => self.listed(window, entries, *repeats),
            Addressing::Indexed { pieces, .. } => {
                return self.indexed(window, pieces.as_deref().unwrap_or_default());
            }
        };
        let before: Vec<Companion> = self.initialisation().into_iter().collect();
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
            // A timeline lists what there is; only numbers need the clock.
            let is_gone = self.is_by_clock() && window.tail.is_some_and(|tail| end < tail);
            if !is_gone {
                let before = before.clone();
                segments.push(Segment { uri: self.placed(&uri), range, duration, start, before });
            }
        }
        segments
    }

    /// Times of a timeline have the offset in them, numbers have not.
    fn offset_of_times(&self) -> u64 {
        if matches!(self.addressing, Addressing::Timeline { .. }) { self.offset } else { 0 }
    }

    /// Index, start and length of segments that are all equally long.
    fn even(&self, window: Window, duration: u64) -> Vec<(u64, u64, u64)> {
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

    fn listed(
        &self,
        window: Window,
        entries: &[(u64, u64)],
        repeats: Option<(u64, u64)>,
    ) -> Vec<(u64, u64, u64)> {
        let mut all = entries.to_vec();
        let until = window.end.or(window.edge).map(|end| end.saturating_sub(window.start).as_secs_f64());
        if let (Some((mut time, duration)), Some(until)) = (repeats, until) {
            while all.len() < SEGMENTS_MAX
                && self.seconds(time.saturating_sub(self.offset)).as_secs_f64() + 1e-6 < until
            {
                all.push((time, duration));
                time = time.saturating_add(duration);
            }
        }
        all.into_iter().zip(0..).map(|((time, duration), index)| (index, time, duration)).collect()
    }

    #[expect(clippy::cast_precision_loss, reason = "times of a film are far below 2^53 units")]
    fn seconds(&self, units: u64) -> Duration {
        time(units as f64 / self.timescale as f64).unwrap_or(LONGEST)
    }

    fn placed(&self, uri: &str) -> String {
        if uri.is_empty() {
            return self.base.to_string();
        }
        self.base.join(uri).map_or_else(|_| uri.to_owned(), |target| target.to_string())
    }

    /// A template with its names replaced (ISO/IEC 23009-1 §5.3.9.4.4).
    fn filled(&self, template: &str, number: u64, time: u64) -> String {
        let mut text = String::new();
        for (place, part) in template.split('$').enumerate() {
            // Every second part stands between two dollar signs.
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

/// Start and length of each `S`, and those of the last one's next if it repeats to the end.
type Entries = (Vec<(u64, u64)>, Option<(u64, u64)>);

fn entries(timeline: &Element) -> Option<Entries> {
    let elements: Vec<&Element> = timeline.all("S").collect();
    let mut entries = Vec::new();
    let mut time = 0;
    for (place, element) in elements.iter().enumerate() {
        time = element.number("t").unwrap_or(time);
        let duration = element.number("d").filter(|duration| *duration > 0)?;
        let repeat: i64 = element.get("r").unwrap_or("0").trim().parse().ok()?;
        let next = elements.get(place + 1).map(|next| next.number("t"));
        let count = match (u64::try_from(repeat), next) {
            (Ok(repeat), _) => repeat.saturating_add(1),
            // A negative one means until the next, or to the end.
            (Err(_), Some(Some(next))) => next.saturating_sub(time).div_ceil(duration),
            (Err(_), Some(None)) => return None,
            (Err(_), None) => return Some((entries, Some((time, duration)))),
        };
        if count > SEGMENTS_MAX as u64 || entries.len() > SEGMENTS_MAX {
            return None;
        }
        for _ in 0..count {
            entries.push((time, duration));
            time = time.checked_add(duration)?;
        }
    }
    Some((entries, None))
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "it is made positive and bounded"
)]
fn whole(number: f64) -> u64 {
    number.clamp(0.0, 1e15) as u64
}
