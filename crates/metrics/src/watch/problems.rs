//! What is wrong, in words, with what helps.

mod condition;
mod growing;
mod levels;
mod present;
mod staples;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::time::{Instant, SystemTime};

use crate::metric::Sources;
use condition::Condition;
use growing::Growth;
use levels::Levels;
use staples::Staples;

pub use condition::Severity;

/// Something that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// How soon a person has to act.
    pub severity: Severity,
    /// The part that is concerned, which a page has a section for: `origins`, `certificates`, `cache` and others.
    pub subject: &'static str,
    /// The fault, in words.
    pub what: String,
    /// When it was seen first.
    pub since: SystemTime,
    /// The command or the key of the configuration that helps.
    pub help: &'static str,
}

/// Since when each condition holds. Bounded by what the configuration names and the table of counters.
#[derive(Debug, Default)]
pub(super) struct Problems {
    since: BTreeMap<String, (Instant, SystemTime)>,
    growth: Growth,
    levels: Levels,
    staples: Staples,
}

impl Problems {
    /// The problems of this look, the worst first, and of those the oldest first.
    pub(super) fn look(&mut self, from: &Sources<'_>, now: Instant, wall: SystemTime) -> Vec<Problem> {
        let mut conditions = present::conditions(from, wall);
        conditions.extend(self.growth.look(from, now));
        conditions.extend(self.levels.look(from, now));
        conditions.extend(self.staples.look(&from.readings.staples, wall));
        let before = std::mem::take(&mut self.since);
        let mut problems = Vec::new();
        for condition in conditions {
            let since = *before.get(&condition.identity).unwrap_or(&(now, wall));
            self.since.insert(condition.identity, since);
            if now.saturating_duration_since(since.0) < condition.patience {
                continue;
            }
            let Condition { severity, subject, what, help, .. } = condition;
            problems.push(Problem { severity, subject, what, since: since.1, help });
        }
        problems.sort_by_key(|problem| (problem.severity, problem.since));
        problems
    }
}
