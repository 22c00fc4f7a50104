//! DASH descriptions (ISO/IEC 23009-1), as far as fetching needs them: `SegmentTemplate` by number and by time,
//! `SegmentTimeline`, `SegmentList`, `SegmentBase`, several periods, live and on demand.

mod index;
mod time;
mod track;
mod xml;

use std::time::Duration;

use self::index::Piece as IndexPiece;
#[doc(hidden)]
pub use self::index::fuzz_index;
pub(super) use self::index::{Progress, Search};
use self::track::{Track, Window};
use self::xml::Element;
use super::{Companion, SEGMENTS_MAX, Segment, Segments, Variant};
use crate::target::Target;

/// More periods are not looked at.
const PERIODS_MAX: usize = 1000;

/// A live description is not asked for more often than this.
const UPDATE_MIN: Duration = Duration::from_millis(500);

/// Where no period of updating is given, a description never changes.
const NEVER: Duration = Duration::from_secs(365 * 86_400);

/// A film or a live stream, in all its qualities.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Presentation {
    live: Option<Live>,
    periods: Vec<Period>,
    levels: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Live {
    /// When it began, since 1970.
    began: Duration,
    /// How long segments stay.
    depth: Option<Duration>,
    update: Option<Duration>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Period {
    start: Duration,
    end: Option<Duration>,
    /// By bandwidth, the smallest first.
    pictures: Vec<Track>,
    sound: Option<Track>,
}

/// Reads the description at `place`; `None` if it is none, or none that can be played.
pub fn parse(text: &str, place: &Target) -> Option<Presentation> {
    let root = Element::parse(text).filter(|root| root.name == "MPD")?;
    let base = based(place, &root)?;
    let length = |element: &Element, name: &str| element.get(name).and_then(time::duration);
    let total = length(&root, "mediaPresentationDuration");
    let live = match root.get("type") {
        Some("dynamic") => Some(Live {
            began: root.get("availabilityStartTime").and_then(time::moment)?,
            depth: length(&root, "timeShiftBufferDepth"),
            update: length(&root, "minimumUpdatePeriod"),
        }),
        _ => None,
    };
    let mut periods: Vec<Period> = Vec::new();
    let mut at = Duration::ZERO;
    for element in root.all("Period").take(PERIODS_MAX) {
        let start = length(element, "start").unwrap_or(at);
        if let Some(before) = periods.last_mut() {
            before.end = before.end.or(Some(start));
        }
        let end = length(element, "duration").map(|duration| start + duration);
        at = end.unwrap_or(start);
        periods.push(Period::new(element, &base, start, end)?);
    }
    let last = periods.last_mut()?;
    last.end = last.end.or(total);
    if live.is_none() && last.end.is_none() && last.pictures.iter().any(Track::is_by_clock) {
        return None;
    }
    let levels = periods.iter().map(|period| period.pictures.len()).min().filter(|levels| *levels > 0)?;
    Some(Presentation { live, periods, levels })
}

/// An index that has to be read.
#[derive(Clone, Debug)]
pub(super) struct Unread {
    pub(super) from: Duration,
    pub(super) target: Target,
    pub(super) search: Search,
}

impl Period {
    /// What is fetched of it in this quality.
    fn needed(&self, level: usize) -> impl Iterator<Item = &Track> {
        self.pictures.get(level).into_iter().chain(self.sound.as_ref())
    }

    fn new(element: &Element, base: &Target, start: Duration, end: Option<Duration>) -> Option<Self> {
        let base = based(base, element)?;
        let sets: Vec<&Element> = element.all("AdaptationSet").collect();
        let kind_is = |set: &Element, kind: &str| {
            let of_parts = set.child("Representation").and_then(|one| one.get("mimeType"));
            let said = [set.get("contentType"), set.get("mimeType"), of_parts];
            said.into_iter().flatten().any(|said| said.starts_with(kind))
        };
        let of_kind = |kind: &str| sets.iter().copied().find(|set| kind_is(set, kind));
        let main = of_kind("video").or_else(|| sets.first().copied())?;
        let sound = of_kind("audio").filter(|set| !std::ptr::eq(*set, main));
        let mut pictures = tracks(element, main, &base)?;
        pictures.sort_by_key(Track::bandwidth);
        let sound = sound.and_then(|set| tracks(element, set, &base)).and_then(|mut tracks| tracks.pop());
        Some(Self { start, end, pictures, sound })
    }
}

fn tracks(period: &Element, set: &Element, base: &Target) -> Option<Vec<Track>> {
    let base = based(base, set)?;
    let tracks = set.all("Representation").map(|representation| {
        Track::new(based(&base, representation)?, representation, &[period, set, representation])
    });
    tracks.collect()
}

/// Where what is inside an element starts from.
fn based(base: &Target, element: &Element) -> Option<Target> {
    match element.child("BaseURL") {
        Some(url) => base.join(&url.text).ok(),
        None => Some(base.clone()),
    }
}

impl Presentation {
    /// Its qualities. Their own manifests are this one.
    pub fn variants(&self) -> Vec<Variant> {
        let first = self.periods.first().map(|period| &period.pictures[..self.levels]).unwrap_or_default();
        let variant =
            |track: &Track| Variant { bandwidth: track.bandwidth(), uri: String::new(), sound: None };
        first.iter().map(variant).collect()
    }

    /// Whether the clock alone tells which segments there are, so that the description need not be asked for again.
    pub fn is_by_clock(&self) -> bool {
        self.live.is_some()
            && self.periods.last().is_some_and(|period| period.pictures.iter().all(Track::is_by_clock))
    }

    /// When the segment after this one is there, since 1970, if the clock alone tells.
    pub fn due_after(&self, segment: &Segment) -> Option<Duration> {
        let live = self.live.filter(|_| self.is_by_clock())?;
        Some(live.began + segment.start + 2 * segment.duration)
    }

    /// The first period that ends after `position` and whose index, or that of its sound, has not been read.
    fn unread_period(&self, level: usize, position: Option<Duration>) -> Option<usize> {
        let is_over = |period: &Period| period.end.zip(position).is_some_and(|(end, at)| end <= at);
        let is_unread = |period: &Period| period.needed(level).any(|track| track.unread().is_some());
        self.periods.iter().position(|period| !is_over(period) && is_unread(period))
    }

    /// From when on segments can be told only once an index has been read, and the search for it. What was played
    /// up to `position` is not needed.
    pub(super) fn unread(&self, level: usize, position: Option<Duration>) -> Option<Unread> {
        let period = &self.periods[self.unread_period(level, position)?];
        let (target, search) = period.needed(level).find_map(Track::unread)?;
        Some(Unread { from: period.start, target, search })
    }

    /// What that search found.
    pub(super) fn read(&mut self, level: usize, position: Option<Duration>, found: Vec<IndexPiece>) {
        let Some(period) = self.unread_period(level, position) else { return };
        let Period { pictures, sound, .. } = &mut self.periods[period];
        let mut tracks = pictures.get_mut(level).into_iter().chain(sound.as_mut());
        if let Some(track) = tracks.find(|track| track.unread().is_some()) {
            track.read(found);
        }
    }

    /// The segments of a quality that can be fetched at this moment since 1970, with the sound that belongs to them.
    /// They are numbered from 0.
    pub fn segments(&self, level: usize, moment: Duration) -> Segments {
        let passed = self.live.map(|live| moment.saturating_sub(live.began));
        let tail = self.live.and_then(|live| Some(passed?.saturating_sub(live.depth?)));
        let mut list = Vec::new();
        for period in &self.periods {
            let window = Window { start: period.start, end: period.end, edge: passed, tail };
            let Some(track) = period.pictures.get(level) else { continue };
            let mut pictures = track.segments(window);
            if let Some(sound) = &period.sound {
                let mut sounds = sound.segments(window).into_iter().peekable();
                for picture in &mut pictures {
                    let end = picture.start + picture.duration;
                    while let Some(one) = sounds.next_if(|one| one.start + one.duration / 2 < end) {
                        picture.before.extend(one.before);
                        picture.before.push(Companion { uri: one.uri, range: one.range, once: false });
                    }
                }
            }
            list.append(&mut pictures);
            if list.len() >= SEGMENTS_MAX {
                list.truncate(SEGMENTS_MAX);
                break;
            }
        }
        let reload = match self.live {
            Some(live) => live.update.map_or(NEVER, |update| update.max(UPDATE_MIN)),
            None => NEVER,
        };
        Segments { first: 0, list, ended: self.live.is_none(), reload, ..Segments::default() }
    }
}

#[cfg(test)]
#[path = "dash/tests.rs"]
mod tests;
