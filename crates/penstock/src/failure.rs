//! Why the program ends with something other than 0, and how it says so.

use std::fmt;
use std::io;
use std::path::Path;
use std::process::ExitCode;

use penstock_config::Fault;
use rustix::io::Errno;

use crate::logging;

/// Wrong usage or configuration.
const WRONG_INPUT: u8 = 2;

/// Anything else.
const OTHER: u8 = 1;

/// Why the program ends. Reported once, in `main`.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The configuration, or what it names, is wrong.
    Config(Vec<Fault>),
    /// The configuration names a resource that the machine does not have at the moment, such as an address or space on a disk.
    Resource(Vec<Fault>),
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
    /// The configuration is wrong, which was said on stdout.
    Refused {
        /// The number of errors.
        count: usize,
    },
    /// The doctor or the check found something, and was asked to fail then.
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

    /// An argument for `map_err`: the file that an option names cannot be written.
    pub(crate) fn to_write(file: &Path) -> impl FnOnce(io::Error) -> Self {
        move |error| {
            let action = format!("write {}", file.display());
            let directory = file.parent().filter(|directory| !directory.as_os_str().is_empty());
            let missing = directory.filter(|directory| !directory.exists());
            let source = match missing {
                Some(missing) => {
                    let missing = missing.display();
                    io::Error::other(format!(
                        "the directory {missing} does not exist; make it: mkdir -p {missing}"
                    ))
                }
                None => error,
            };
            Self::Machine { action, source }
        }
    }

    /// A fault of the configuration, or of the machine if its cause is an error that may be gone at the next start.
    pub(crate) fn of_start(fault: Fault, cause: Option<&io::Error>) -> Self {
        match cause.is_some_and(is_transient) {
            true => Self::Resource(vec![fault]),
            false => Self::Config(vec![fault]),
        }
    }

    /// Says it on stderr and gives the exit code.
    pub(crate) fn report(&self) -> u8 {
        logging::complain(&self.to_string());
        self.code()
    }

    fn code(&self) -> u8 {
        match self {
            Self::Config(_) | Self::Refused { .. } | Self::Usage(_) => WRONG_INPUT,
            Self::Resource(_)
            | Self::Machine { .. }
            | Self::Findings { .. }
            | Self::Damaged { .. }
            | Self::Load(_) => OTHER,
        }
    }
}

/// Whether the next start may succeed without another configuration: a service manager then starts the program again. A port that
/// is in use is not one of these errors, since a second server must not wait for the first one to end.
fn is_transient(error: &io::Error) -> bool {
    let by_kind = matches!(
        error.kind(),
        io::ErrorKind::AddrNotAvailable | io::ErrorKind::StorageFull | io::ErrorKind::OutOfMemory
    );
    by_kind
        || matches!(Errno::from_io_error(error), Some(Errno::MFILE | Errno::NFILE | Errno::IO | Errno::DQUOT))
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Config(faults) | Self::Resource(faults) => {
                let lines: Vec<String> = faults.iter().map(Fault::to_string).collect();
                f.write_str(&lines.join("\n"))
            }
            Self::Machine { action, source } => write!(f, "penstock: cannot {action}: {source}"),
            Self::Usage(fault) => write!(f, "penstock: {fault}"),
            Self::Load(fault) => write!(f, "penstock: {fault}"),
            Self::Damaged { count } => {
                write!(f, "penstock: {count} damaged; a server fetches them again on their next request")
            }
            Self::Refused { count: 1 } => f.write_str("penstock: 1 error in the configuration"),
            Self::Refused { count } => write!(f, "penstock: {count} errors in the configuration"),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_may_be_gone_at_the_next_start_is_1_and_what_only_the_operator_changes_is_2() {
        for (errno, code) in [
            (Errno::ADDRNOTAVAIL, OTHER),
            (Errno::NOSPC, OTHER),
            (Errno::DQUOT, OTHER),
            (Errno::MFILE, OTHER),
            (Errno::NFILE, OTHER),
            (Errno::NOMEM, OTHER),
            (Errno::IO, OTHER),
            (Errno::ADDRINUSE, WRONG_INPUT),
            (Errno::ACCESS, WRONG_INPUT),
            (Errno::NOENT, WRONG_INPUT),
        ] {
            let file = std::path::PathBuf::new();
            let fault = Fault { file, line: 0, column: 0, what: String::new(), instead: String::new() };
            assert_eq!(Failure::of_start(fault, Some(&errno.into())).code(), code, "{errno:?}");
        }
    }
}
