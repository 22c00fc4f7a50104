//! DASH descriptions (ISO/IEC 23009-1), as far as fetching needs them: `SegmentTemplate` with numbers and times,
//! `SegmentTimeline`, `SegmentList`, `SegmentBase`, several periods, live and on demand, and the service locations of content
//! steering.

mod index;
mod locations;
mod representation;
mod time;
mod timeline;
mod xml;

use std::sync::Arc;
use std::time::Duration;

use self::index::Subsegment;
#[cfg(any(test, feature = "fuzz"))]
#[doc(hidden)]
pub use self::index::fuzz_index;
pub(super) use self::index::{IndexSearch, SearchStep};
use self::locations::{Place, names};
use self::representation::{AvailabilityWindow, Representation};
use self::xml::Element;
use super::segments::{
    ByteBudget, ContentSteering, InitSegment, MediaSegment, SEGMENTS_MAX, SegmentList, Variant,
};
use crate::target::TargetUrl;

/// The most representations of a set that are read.
const REPRESENTATIONS_MAX: usize = 200;

/// The most periods that are read.
const PERIODS_MAX: usize = 1000;

/// The most memory of a description, and of the segments that it lists at one time.
const DESCRIPTION_BYTES_MAX: usize = 32 * 1024 * 1024;
const LIST_BYTES_MAX: usize = 32 * 1024 * 1024;

/// The shortest time between two requests for a live description.
const UPDATE_MIN: Duration = Duration::from_millis(500);

/// The time between requests if no period is given: the description never changes.
const NEVER: Duration = Duration::from_secs(365 * 86_400);

/// A presentation with all its renditions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Presentation {
    live: Option<Live>,
    periods: Vec<Period>,
    /// Renditions of one service location.
    levels: usize,
    /// Service locations between which a steering server chooses.
    locations: Vec<String>,
    steering: Option<ContentSteering>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Live {
    /// `availabilityStartTime`, since 1970.
    began: Duration,
    /// `timeShiftBufferDepth`: how long segments stay available.
    depth: Option<Duration>,
    update: Option<Duration>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Period {
    start: Duration,
    end: Option<Duration>,
    /// Those of each service location; one without content steering.
    sources: Vec<Source>,
}

/// The renditions of a period at one service location.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Source {
    /// By bandwidth, lowest first.
    videos: Vec<Representation>,
    audio: Option<Representation>,
}

/// Reads the description at `place`; `None` if it is none, or cannot be played.
pub fn parse(text: &str, place: &TargetUrl) -> Option<Presentation> {
    let root = Element::parse(text).filter(|root| root.name == "MPD")?;
    let steering = root.child("ContentSteering").map(|element| ContentSteering {
        server: element.text.clone(),
        pathway: element.get("defaultServiceLocation").map(str::to_owned),
    });
    // Without a steering server, the first of several base URLs is taken.
    let locations = if steering.is_some() { names(&root) } else { Vec::new() };
    let places = Place::all(place, &root, &locations)?;
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
    let mut budget = ByteBudget::new(DESCRIPTION_BYTES_MAX);
    let mut at = Duration::ZERO;
    for element in root.all("Period").take(PERIODS_MAX) {
        let start = length(element, "start").unwrap_or(at);
        if let Some(before) = periods.last_mut() {
            before.end = before.end.or(Some(start));
        }
        let end = length(element, "duration").map(|duration| start + duration);
        at = end.unwrap_or(start);
        periods.push(Period::new(element, &places, (start, end), &mut budget)?);
    }
    let last = periods.last_mut()?;
    last.end = last.end.or(total);
    if live.is_none() && last.end.is_none() && last.videos().any(Representation::is_by_clock) {
        return None;
    }
    let sources = periods.iter().flat_map(|period| &period.sources);
    let levels = sources.map(|source| source.videos.len()).min().filter(|levels| *levels > 0)?;
    Some(Presentation { live, periods, levels, locations, steering })
}

/// An index that must be read.
#[derive(Clone, Debug)]
pub(super) struct Unread {
    pub(super) from: Duration,
    pub(super) target: TargetUrl,
    pub(super) search: IndexSearch,
}

impl Period {
    fn new(
        element: &Element,
        places: &[Place<'_>],
        (start, end): (Duration, Option<Duration>),
        budget: &mut ByteBudget,
    ) -> Option<Self> {
        let sources = places.iter().map(|place| Source::new(element, &place.inside(element)?, budget));
        Some(Self { start, end, sources: sources.collect::<Option<_>>()? })
    }

    /// The renditions of the picture.
    fn videos(&self) -> impl Iterator<Item = &Representation> {
        self.sources.iter().flat_map(|source| &source.videos)
    }

    /// The representations that are fetched for this rendition of a source.
    fn needed(&self, (source, level): (usize, usize)) -> impl Iterator<Item = &Representation> {
        let source = self.sources.get(source).into_iter();
        source.flat_map(move |source| source.videos.get(level).into_iter().chain(source.audio.as_ref()))
    }
}

impl Source {
    fn new(element: &Element, place: &Place<'_>, budget: &mut ByteBudget) -> Option<Self> {
        let sets: Vec<&Element> = element.all("AdaptationSet").collect();
        let kind_is = |set: &Element, kind: &str| {
            let of_parts = set.child("Representation").and_then(|one| one.get("mimeType"));
            let said = [set.get("contentType"), set.get("mimeType"), of_parts];
            said.into_iter().flatten().any(|said| said.starts_with(kind))
        };
        let of_kind = |kind: &str| sets.iter().copied().find(|set| kind_is(set, kind));
        let main = of_kind("video").or_else(|| sets.first().copied())?;
        let audio = of_kind("audio").filter(|set| !std::ptr::eq(*set, main));
        let mut videos = representations(element, main, place, budget)?;
        videos.sort_by_key(Representation::bandwidth);
        let audio = audio
            .and_then(|set| representations(element, set, place, budget))
            .and_then(|mut representations| representations.pop());
        Some(Self { videos, audio })
    }
}

fn representations(
    period: &Element,
    set: &Element,
    place: &Place<'_>,
    budget: &mut ByteBudget,
) -> Option<Vec<Representation>> {
    let place = place.inside(set)?;
    let representations = set.all("Representation").take(REPRESENTATIONS_MAX).map(|element| {
        let found = Representation::new(place.inside(element)?.base, element, &[period, set, element])?;
        budget.take(found.bytes()).then_some(found)
    });
    representations.collect()
}

impl Presentation {
    /// The renditions, those of each service location behind those of the one before. All are in this description.
    pub fn variants(&self) -> Vec<Variant> {
        let sources = self.periods.first().map(|period| &*period.sources).unwrap_or_default();
        let of = |(number, source): (usize, &Source)| {
            let pathway = self.locations.get(number);
            let variant = |track: &Representation| Variant {
                bandwidth: track.bandwidth(),
                uri: String::new(),
                audio: None,
                pathway: pathway.cloned(),
            };
            source.videos[..self.levels].iter().map(variant).collect::<Vec<_>>()
        };
        sources.iter().enumerate().flat_map(of).collect()
    }

    /// Who chooses among the service locations.
    pub fn steering(&self) -> Option<ContentSteering> {
        self.steering.clone()
    }

    /// The source and the level in it of one of the variants.
    fn place(&self, variant: usize) -> (usize, usize) {
        (variant / self.levels, variant % self.levels)
    }

    /// Whether the clock alone says which segments exist, so that the description need not be fetched again.
    pub fn is_by_clock(&self) -> bool {
        self.live.is_some()
            && self.periods.last().is_some_and(|period| period.videos().all(Representation::is_by_clock))
    }

    /// When the segment after this one becomes available, since 1970, if the clock alone says.
    pub fn due_after(&self, segment: &MediaSegment) -> Option<Duration> {
        let live = self.live.filter(|_| self.is_by_clock())?;
        Some(live.began + segment.start + 2 * segment.duration)
    }

    /// The first period that ends after `position` and has an unread index.
    fn unread_period(&self, level: usize, position: Option<Duration>) -> Option<usize> {
        let is_over = |period: &Period| period.end.zip(position).is_some_and(|(end, at)| end <= at);
        let is_unread =
            |period: &Period| period.needed(self.place(level)).any(|track| track.unread().is_some());
        self.periods.iter().position(|period| !is_over(period) && is_unread(period))
    }

    /// The first index that must be read to list segments after `position`.
    pub(super) fn unread(&self, level: usize, position: Option<Duration>) -> Option<Unread> {
        let period = &self.periods[self.unread_period(level, position)?];
        let (target, search) = period.needed(self.place(level)).find_map(Representation::unread)?;
        Some(Unread { from: period.start, target, search })
    }

    /// Takes the result of that search.
    pub(super) fn read(&mut self, level: usize, position: Option<Duration>, found: Vec<Subsegment>) {
        let Some(period) = self.unread_period(level, position) else { return };
        let (source, level) = self.place(level);
        let Some(Source { videos, audio }) = self.periods[period].sources.get_mut(source) else { return };
        let mut representations = videos.get_mut(level).into_iter().chain(audio.as_mut());
        if let Some(track) = representations.find(|track| track.unread().is_some()) {
            track.read(found);
        }
    }

    /// The segments of a rendition that are available at `moment` since 1970, with their audio. They are numbered from 0.
    pub fn segments(&self, level: usize, moment: Duration) -> SegmentList {
        let passed = self.live.map(|live| moment.saturating_sub(live.began));
        let tail = self.live.and_then(|live| Some(passed?.saturating_sub(live.depth?)));
        let (source, level) = self.place(level);
        let mut list = Vec::new();
        let mut budget = ByteBudget::new(LIST_BYTES_MAX);
        for period in &self.periods {
            let window = AvailabilityWindow { start: period.start, end: period.end, edge: passed, tail };
            let Some(source) = period.sources.get(source) else { continue };
            let Some(track) = source.videos.get(level) else { continue };
            let mut videos = track.segments(window, &mut budget);
            if let Some(audio) = &source.audio {
                let mut audios = audio.segments(window, &mut budget).into_iter().peekable();
                for video in &mut videos {
                    let end = video.start + video.duration;
                    while let Some(one) = audios.next_if(|one| one.start + one.duration / 2 < end) {
                        video.before.extend(one.before);
                        let audio = InitSegment { uri: one.uri, range: one.range, once: false };
                        video.before.push(Arc::new(audio));
                    }
                }
            }
            list.append(&mut videos);
            if list.len() >= SEGMENTS_MAX {
                list.truncate(SEGMENTS_MAX);
                break;
            }
        }
        let reload = match self.live {
            Some(live) => live.update.map_or(NEVER, |update| update.max(UPDATE_MIN)),
            None => NEVER,
        };
        SegmentList { first: 0, list, ended: self.live.is_none(), reload, ..SegmentList::default() }
    }
}

#[cfg(test)]
#[path = "dash/tests.rs"]
mod tests;
