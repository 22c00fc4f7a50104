//! The choice of a rendition.

use std::time::Duration;

use crate::player::config::QualityChoice;
use crate::player::segments::Variant;

/// The share of the measured throughput that a rendition may need, in percent.
const THROUGHPUT_PERCENT: u64 = 80;

/// The renditions of a stream, and the one that is played.
#[derive(Clone, Debug)]
pub(super) struct Qualities {
    choice: QualityChoice,
    pub(super) variants: Vec<Variant>,
    pub(super) level: usize,
    /// The pathway that is played; `None` plays any.
    pathway: Option<String>,
    /// In bits per second.
    throughput: Option<u64>,
}

impl Qualities {
    pub(super) fn new(choice: QualityChoice) -> Self {
        Self { choice, variants: Vec::new(), level: 0, pathway: None, throughput: None }
    }

    /// The rendition to play now.
    pub(super) fn wanted(&self) -> usize {
        let by_bandwidth = |level: &usize| self.variants[*level].bandwidth;
        let is_on_pathway =
            |level: &usize| self.pathway.is_none() || self.pathway == self.variants[*level].pathway;
        let levels = (0..self.variants.len()).filter(is_on_pathway);
        let found = match self.choice {
            QualityChoice::Lowest => levels.min_by_key(by_bandwidth),
            QualityChoice::Highest => levels.max_by_key(by_bandwidth),
            QualityChoice::Auto => {
                let allowed = self.throughput.map_or(0, |throughput| throughput / 100 * THROUGHPUT_PERCENT);
                let carried =
                    levels.clone().filter(|level| by_bandwidth(level) <= allowed).max_by_key(by_bandwidth);
                carried.or_else(|| levels.min_by_key(by_bandwidth))
            }
        };
        found.unwrap_or(self.level)
    }

    /// Plays another pathway from the next segment on, if there is a rendition of it. Returns whether there is.
    pub(super) fn take_pathway(&mut self, pathway: &str) -> bool {
        let is_there = self.variants.iter().any(|variant| variant.pathway.as_deref() == Some(pathway));
        if is_there {
            self.pathway = Some(pathway.to_owned());
        }
        is_there
    }

    /// The pathway that is played.
    pub(super) fn pathway(&self) -> Option<&str> {
        self.pathway.as_deref()
    }

    /// Whether two renditions belong to the same pathway.
    pub(super) fn have_one_pathway(&self, one: usize, other: usize) -> bool {
        let pathway = |level: usize| self.variants.get(level).and_then(|variant| variant.pathway.as_ref());
        pathway(one) == pathway(other)
    }

    /// The measured throughput in bits per second.
    pub(super) fn throughput(&self) -> Option<u64> {
        self.throughput
    }

    /// Notes that this many bytes took this long.
    pub(super) fn measure(&mut self, bytes: u64, took: Duration) {
        let microseconds = took.as_micros().max(1);
        let found = u64::try_from(u128::from(bytes) * 8_000_000 / microseconds).unwrap_or(u64::MAX);
        // A moving average, half old and half new.
        self.throughput = Some(self.throughput.map_or(found, |old| old / 2 + found / 2));
    }
}
