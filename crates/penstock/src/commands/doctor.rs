//! `penstock doctor`: what this machine can do, and what is in the way.

mod auto;
mod examine;
mod facts;
mod finding;
#[cfg(test)]
mod fixtures;
mod json;
mod paint;
mod table;
#[cfg(test)]
mod tests;

use std::env;
use std::io::{self, IsTerminal};

use crate::arguments::Doctor;
use crate::failure::Failure;
use crate::terminal;

use examine::examine;
use facts::Facts;
use finding::{Finding, Verdict};
use paint::Look;

/// Columns of a report that goes into a file.
const COLUMNS: usize = 96;

/// What is shown.
struct Report {
    facts: Facts,
    findings: Vec<Finding>,
}

impl Report {
    fn of(facts: Facts) -> Self {
        Self { findings: examine(&facts), facts }
    }

    /// How many things are not as they should be.
    fn faults(&self) -> usize {
        let is_fault = |one: &&Finding| matches!(one.verdict, Verdict::Better(_) | Verdict::Problem(_));
        self.findings.iter().filter(is_fault).count()
    }
}

pub(crate) fn run(arguments: &Doctor) -> Result<(), Failure> {
    let report = Report::of(Facts::gather(!arguments.quick));
    if arguments.json {
        terminal::say(&format!("{:#}", json::document(&report)));
    } else {
        terminal::say(table::render(&report, &look()).trim_end_matches('\n'));
    }
    match report.faults() {
        count if count > 0 && arguments.strict => Err(Failure::Findings { count }),
        _ => Ok(()),
    }
}

fn look() -> Look {
    let is_terminal = io::stdout().is_terminal();
    let columns = if is_terminal { terminal::columns() } else { None };
    Look::new(terminal::is_colourful(is_terminal), shows_unicode(), columns.unwrap_or(COLUMNS))
}

/// Whether the locale can show more than ASCII. Where none is set, as in containers, terminals nearly always can.
fn shows_unicode() -> bool {
    let locale = ["LC_ALL", "LC_CTYPE", "LANG"]
        .into_iter()
        .find_map(|name| env::var(name).ok().filter(|value| !value.is_empty()));
    locale.is_none_or(|locale| {
        let locale = locale.to_ascii_lowercase();
        locale.contains("utf-8") || locale.contains("utf8")
    })
}
