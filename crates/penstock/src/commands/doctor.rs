//! `penstock doctor`: examines the machine and says what to change.

mod auto;
mod certificates;
mod examine;
mod facts;
mod finding;
#[cfg(test)]
mod fixtures;
mod json;
mod logind;
mod paint;
mod quic;
mod report;
mod table;
#[cfg(test)]
mod tests;

use std::env;
use std::io::{self, IsTerminal};

use crate::arguments::DoctorArgs;
use crate::failure::Failure;
use crate::given_config::GivenConfig;
use crate::terminal;

use facts::Facts;
use paint::Style;
use report::Report;

/// Columns of a report that goes into a file.
const COLUMNS: usize = 96;

pub(crate) fn run(arguments: &DoctorArgs) -> Result<(), Failure> {
    let given = arguments.config.as_deref().map(|path| GivenConfig::read(path, &arguments.base));
    let report = Report::of(Facts::gather(!arguments.quick, given.as_ref()));
    if arguments.json {
        terminal::say(&format!("{:#}", json::document(&report)));
    } else {
        terminal::say(table::render(&report, &style()).trim_end_matches('\n'));
    }
    match report.faults() {
        count if count > 0 && arguments.strict => Err(Failure::Findings { count }),
        _ => Ok(()),
    }
}

fn style() -> Style {
    let is_terminal = io::stdout().is_terminal();
    let columns = if is_terminal { terminal::columns() } else { None };
    Style::new(terminal::is_colourful(is_terminal), shows_unicode(), columns.unwrap_or(COLUMNS))
}

/// Whether the locale can show more than ASCII. Terminals nearly always can if no locale is set, as in containers.
fn shows_unicode() -> bool {
    let locale = ["LC_ALL", "LC_CTYPE", "LANG"]
        .into_iter()
        .find_map(|name| env::var(name).ok().filter(|value| !value.is_empty()));
    locale.is_none_or(|locale| {
        let locale = locale.to_ascii_lowercase();
        locale.contains("utf-8") || locale.contains("utf8")
    })
}
