//! Why the program ends with something other than 0, and how it says so.

use std::fmt;
use std::io;
use std::process::ExitCode;

use penstock_config::Fault;

use crate::terminal;

/// Wrong usage or configuration.
const WRONG_INPUT: u8 = 2;

/// Anything else.
const OTHER: u8 = 1;

/// Why the program ends. Reported once, in `main`.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The configuration, or what it names, is wrong.
    Config(Vec<Fault>),
    /// The machine did not give what it should.
    Machine {
        /// The action that failed, such as `start the signal handlers`.
        action: String,
        /// The system's error.
        source: io::Error,
    },
    /// An option cannot be used as it was typed.
    Usage(String),
    /// A load says nothing, or nothing of it succeeded.
    Load(String),
    /// Something in the cache is damaged.
    Damaged {
        /// How many slices, segments or tiers.
        count: u64,
    },
    /// The doctor found something, and was asked to fail then.
    Findings {
        /// How many things could be better.
        count: usize,
    },
}

impl Failure {
    /// An argument for `map_err`: an error of the machine during `action`.
    pub(crate) fn machine(action: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let action = action.into();
        move |source| Self::Machine { action, source }
    }

    /// Says it on stderr and gives the exit code.
    pub(crate) fn report(&self) -> u8 {
        terminal::complain(&self.to_string());
        match self {
            Self::Config(_) | Self::Usage(_) => WRONG_INPUT,
            Self::Machine { .. } | Self::Findings { .. } | Self::Damaged { .. } | Self::Load(_) => OTHER,
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Config(faults) => {
                let lines: Vec<String> = faults.iter().map(Fault::to_string).collect();
                f.write_str(&lines.join("\n"))
            }
            Self::Machine { action, source } => write!(f, "penstock: cannot {action}: {source}"),
            Self::Usage(fault) => write!(f, "penstock: {fault}"),
            Self::Load(fault) => write!(f, "penstock: {fault}"),
            Self::Damaged { count } => {
                write!(f, "penstock: {count} damaged; a server fetches them again on their next request")
            }
            Self::Findings { count: 1 } => f.write_str("penstock: 1 thing could be better"),
            Self::Findings { count } => write!(f, "penstock: {count} things could be better"),
        }
    }
}

/// Prints what clap has to say: help and version to stdout with 0, wrong usage to stderr with 2.
pub(crate) fn of_command_line(error: &clap::Error) -> ExitCode {
    // If the terminal is gone, the message has no reader.
    drop(error.print());
    if error.use_stderr() { ExitCode::from(WRONG_INPUT) } else { ExitCode::SUCCESS }
}
