//! A condition that holds at one look, and its words.

use std::time::Duration;

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

/// A condition that holds at this look.
#[derive(Debug)]
pub(super) struct Condition {
    pub(super) severity: Severity,
    pub(super) subject: &'static str,
    /// Tells this condition from others; its words may change.
    pub(super) identity: String,
    pub(super) what: String,
    pub(super) help: &'static str,
    /// How long it has to hold before it is a problem.
    pub(super) patience: Duration,
}

pub(super) fn critical(
    subject: &'static str,
    identity: String,
    what: String,
    help: &'static str,
) -> Condition {
    Condition { severity: Severity::Critical, subject, identity, what, help, patience: Duration::ZERO }
}

pub(super) fn warning(
    subject: &'static str,
    identity: String,
    what: String,
    help: &'static str,
) -> Condition {
    Condition { severity: Severity::Warning, ..critical(subject, identity, what, help) }
}

/// A number with the word for it.
pub(super) fn counted(count: u64, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}

/// A time in its largest unit.
pub(super) fn in_words(left: Duration) -> String {
    match left.as_secs() / (24 * 3600) {
        0 if left.as_secs() < 2 * 3600 => counted(left.as_secs() / 60, "minute", "minutes"),
        0 => format!("{} hours", left.as_secs() / 3600),
        days => counted(days, "day", "days"),
    }
}
