//! What can be typed. Help, completions and manual pages are made from this.

mod cache;
mod ech;
mod load;
mod sign;
mod tickets;

use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};
use clap_complete::Shell;
use penstock_config::limits;
use tracing_subscriber::filter::{LevelFilter, Targets};

pub(crate) use cache::{Cache, CacheCommand, List, Look, Purge};
pub(crate) use ech::{Ech, EchCommand};
pub(crate) use load::{
    Address, Common, Load, LoadCommand, Objects, OrderBy, Output, PlayedQuality, ResumeBy, TlsOptions,
    TlsVersion,
};
pub(crate) use sign::{Sign, TokenPlace};
pub(crate) use tickets::{Keys, Tickets, TicketsCommand};

const EXAMPLES: &str = "\
Examples:
  penstock serve --root ./video                       https://localhost:8443/, no configuration
  penstock serve -c /etc/penstock/penstock.yaml       what a service runs
  penstock check -c /etc/penstock/penstock.yaml       before a reload (SIGHUP)

Exit codes: 0 fine, 2 wrong usage or configuration, 1 anything else.";

const SERVE_EXAMPLES: &str = "\
Examples:
  penstock serve -c penstock.yaml
  penstock serve --root ./video --listen 0.0.0.0:8443
  penstock serve --root ./video --listen 127.0.0.1:8080 --plain
  penstock serve --root ./video --admin 127.0.0.1:9600 --workers 1

Signals: SIGTERM and SIGINT let running responses finish, then stop; a second one stops at once.
SIGHUP reads the configuration and the certificates again; if something is wrong with them, nothing changes.";

const CHECK_EXAMPLES: &str = "\
Example:
  penstock check -c penstock.yaml && systemctl reload penstock

It reads certificates and keys and looks at directories, as the server would, but opens no port.";

const DOCTOR_EXAMPLES: &str = "\
Examples:
  penstock doctor
  penstock doctor --json | jq '.findings[] | select(.verdict != \"ok\")'
  penstock doctor --quick --strict      in a check that runs often

It changes no setting and needs no privileges. As root it may load the kernel's modules for TLS, by asking for them.";

const COMPLETIONS_EXAMPLES: &str = "\
Examples:
  penstock completions bash > /etc/bash_completion.d/penstock
  penstock completions zsh > \"${fpath[1]}/_penstock\"
  penstock completions fish > ~/.config/fish/completions/penstock.fish";

const MAN_EXAMPLES: &str = "\
Examples:
  penstock man | man -l -
  penstock man /usr/local/share/man/man1";

/// An HTTPS edge server for video.
///
/// Penstock terminates TLS and sends files from the page cache with as little work per byte as the machine allows.
#[derive(Debug, Parser)]
#[command(name = "penstock", version = env!("PENSTOCK_VERSION"), after_help = EXAMPLES, max_term_width = 110)]
pub(crate) struct Arguments {
    /// What is logged to stderr: off, error, warn, info, debug, trace; or by part: info,penstock_tls=debug.
    #[arg(long, global = true, env = "PENSTOCK_LOG", default_value = "info", value_name = "LEVEL", value_parser = levels)]
    pub(crate) log_level: Targets,

    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Serve, from a configuration file or just a directory.
    Serve(Serve),

    /// Say what is wrong with a configuration file, with the line and what to write instead.
    Check(Check),

    /// Say what this machine can do for Penstock, and what is in the way.
    Doctor(Doctor),

    /// Rotate and show the session ticket keys that servers share as files.
    Tickets(Tickets),

    /// Make keys of encrypted ClientHellos, and what DNS says about them.
    Ech(Ech),

    /// Look at what is cached, and tell a running server what to forget.
    Cache(Cache),

    /// Sign a URL for a site with signed_urls.
    Sign(Sign),

    /// Put load on an HTTPS server and say how it took it.
    Load(Box<Load>),

    /// Print the completions of a shell.
    #[command(after_help = COMPLETIONS_EXAMPLES)]
    Completions {
        /// The shell.
        shell: Shell,
    },

    /// Print the manual page, or write the pages of all commands into a directory.
    #[command(after_help = MAN_EXAMPLES)]
    Man {
        /// Where to write penstock.1, penstock-serve.1 and so on.
        #[arg(value_name = "DIR")]
        directory: Option<PathBuf>,
    },
}

#[derive(Args, Debug)]
#[command(after_help = SERVE_EXAMPLES)]
pub(crate) struct Serve {
    #[command(flatten)]
    pub(crate) from: From,

    /// Where to listen; port 0 lets the system choose.
    #[arg(
        long,
        value_name = "ADDR",
        default_value = "127.0.0.1:8443",
        conflicts_with = "config",
        value_parser = address,
    )]
    pub(crate) listen: SocketAddr,

    /// Plain HTTP. Otherwise HTTPS with a certificate made for this run.
    #[arg(long, conflicts_with = "config")]
    pub(crate) plain: bool,

    /// Worker threads; one for each core if not given.
    #[arg(long, value_name = "N", conflicts_with = "config", value_parser = workers)]
    pub(crate) workers: Option<NonZeroUsize>,

    /// Where to answer /healthz and /metrics.
    #[arg(long, value_name = "ADDR", conflicts_with = "config", value_parser = address)]
    pub(crate) admin: Option<SocketAddr>,
}

#[derive(Args, Debug)]
#[group(required = true, multiple = false)]
pub(crate) struct From {
    /// The configuration file (YAML).
    #[arg(short, long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,

    /// Serve the files below this directory, without a configuration file.
    #[arg(long, value_name = "DIR")]
    pub(crate) root: Option<PathBuf>,
}

#[derive(Args, Debug)]
#[command(after_help = CHECK_EXAMPLES)]
pub(crate) struct Check {
    /// The configuration file (YAML).
    #[arg(short, long, value_name = "FILE")]
    pub(crate) config: PathBuf,
}

pub(super) fn workers(text: &str) -> Result<NonZeroUsize, String> {
    let number = text.parse().ok().filter(|number: &NonZeroUsize| number.get() <= limits::WORKERS_MAX);
    number.ok_or_else(|| format!("write a number from 1 to {}", limits::WORKERS_MAX))
}

#[derive(Args, Debug)]
#[command(after_help = DOCTOR_EXAMPLES)]
pub(crate) struct Doctor {
    /// Print JSON for programs instead of a table.
    #[arg(long)]
    pub(crate) json: bool,

    /// Do not measure the ciphers, which takes about a second.
    #[arg(long)]
    pub(crate) quick: bool,

    /// Exit with 1 if anything could be better.
    #[arg(long)]
    pub(crate) strict: bool,
}

fn address(text: &str) -> Result<SocketAddr, String> {
    text.parse().map_err(|_| "write an IP address and a port, such as 127.0.0.1:8443 or [::]:8443".to_owned())
}

/// `Targets` alone would take a misspelt level for the name of a part and log all of that, which is nothing.
fn levels(text: &str) -> Result<Targets, String> {
    let misspelt = |part: &&str| !part.contains('=') && part.parse::<LevelFilter>().is_err();
    match (text.split(',').find(misspelt), text.parse()) {
        (None, Ok(levels)) => Ok(levels),
        _ => Err("write off, error, warn, info, debug or trace, or info,penstock_tls=debug".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_contradicts_itself_nowhere() {
        Arguments::command().debug_assert();
    }
}
