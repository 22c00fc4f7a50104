//! What is wrong, in words, with what helps.

mod growing;
mod present;

use std::collections::BTreeMap;
use std::time::{Duration, Instant, SystemTime};

use crate::metric::Sources;
use growing::Growth;

/// How soon a person has to act.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Viewers are affected, or would be with the next fault.
    Critical,
    /// It becomes worse, or is less than was configured.
    Warning,
}

impl Severity {
    /// Its name in `/status.json`.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::Critical => "critical",
            Self::Warning => "warning",
        }
    }
}

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

/// A condition that holds at this look.
#[derive(Debug)]
struct Condition {
    severity: Severity,
    subject: &'static str,
    /// Tells this condition from others; its words may change.
    identity: String,
    what: String,
    help: &'static str,
    /// How long it has to hold before it is a problem.
    patience: Duration,
}

/// Since when each condition holds. Bounded by what the configuration names and the table of counters.
#[derive(Debug, Default)]
pub(super) struct Problems {
    since: BTreeMap<String, (Instant, SystemTime)>,
    growth: Growth,
}

impl Problems {
    /// The problems of this look, the worst first, and of those the oldest first.
    pub(super) fn look(&mut self, from: &Sources<'_>, now: Instant, wall: SystemTime) -> Vec<Problem> {
        let mut conditions = present::conditions(from, wall);
        conditions.extend(self.growth.look(from, now));
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
