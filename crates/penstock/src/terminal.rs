//! Output to the terminal. A closed pipe is the reader's choice, so a failed write is no error.

use std::io::{self, IsTerminal, Write};
use std::os::fd::AsFd;

const GREEN: &str = "\x1b[32m";
const PLAIN: &str = "\x1b[0m";

/// Prints a line to stdout.
pub(crate) fn say(line: &str) {
    drop(writeln!(io::stdout(), "{line}"));
}

/// Prints a line of success to stdout, green on a terminal.
pub(crate) fn say_well(line: &str) {
    if is_colourful(io::stdout().is_terminal()) {
        say(&format!("{GREEN}{line}{PLAIN}"));
    } else {
        say(line);
    }
}

/// Prints a question to stderr, and stays in its line.
pub(crate) fn ask(question: &str) {
    drop(write!(io::stderr(), "{question}"));
}

/// Prints a line to stderr.
pub(crate) fn complain(line: &str) {
    drop(writeln!(io::stderr(), "{line}"));
}

/// Whether to colour output, given whether it goes to a terminal (see <https://no-color.org>).
pub(crate) fn is_colourful(terminal: bool) -> bool {
    terminal && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

/// The width of the terminal that stdout goes to, in columns.
pub(crate) fn columns() -> Option<usize> {
    columns_of(&io::stdout())
}

/// The width of the terminal that a stream goes to, in columns.
pub(crate) fn columns_of(stream: &impl AsFd) -> Option<usize> {
    let columns = rustix::termios::tcgetwinsize(stream).ok()?.ws_col;
    (columns > 0).then_some(columns.into())
}
