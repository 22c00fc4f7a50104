//! The program's own log, on stderr.

use std::env;
use std::io::{self, IsTerminal};

use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Layer, fmt, registry};

use crate::terminal;

/// Starts logging. Nothing is logged before, and nothing can change it afterwards.
pub(crate) fn start(levels: Targets) {
    let lines = fmt::layer()
        .with_writer(io::stderr)
        .with_target(false)
        .with_ansi(terminal::is_colourful(io::stderr().is_terminal()));
    // The journal stamps its lines itself.
    let lines =
        if env::var_os("JOURNAL_STREAM").is_some() { lines.without_time().boxed() } else { lines.boxed() };
    registry().with(lines.with_filter(levels)).init();
}
