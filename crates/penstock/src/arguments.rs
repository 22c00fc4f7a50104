//! The command line. Help, completions and manual pages are generated from it.

mod cache;
mod cluster;
mod config;
mod domain;
mod ech;
mod init;
mod load;
mod revoke;
mod sign;
mod tickets;
mod top;
mod values;

use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};
use clap_complete::Shell;
use penstock_config::AdminAddress;
use tracing_subscriber::filter::Targets;

pub(crate) use cache::{CacheArgs, CacheCommand, ListArgs, PurgeArgs, TierArgs};
pub(crate) use cluster::{ClusterArgs, ClusterCommand, LocateArgs, StatusArgs};
pub(crate) use config::{ConfigArgs, ConfigCommand};
pub(crate) use domain::DomainArgs;
pub(crate) use ech::{EchArgs, EchCommand};
pub(crate) use init::InitArgs;
pub(crate) use load::{
    CommonOptions, ConnectAddress, EndBy, Load, LoadCommand, ObjectOptions, OrderBy, OutputOptions,
    PlayedQuality, ProtocolName, ResumeBy, TlsOptions, TlsVersion,
};
pub(crate) use revoke::RevokeArgs;
pub(crate) use sign::{SignArgs, SignFormat, TokenPlace};
use values::{address, levels, workers};

pub(crate) use tickets::{TicketsArgs, TicketsCommand};
pub(crate) use top::{TopArgs, TopTab};

const EXAMPLES: &str = "\
Examples:
  penstock serve --root ./video                       https://localhost:8443/, no configuration
  penstock serve -c /etc/penstock/penstock.yaml       what a service runs
  penstock init                                       a first configuration
  penstock check -c /etc/penstock/penstock.yaml       before a reload (SIGHUP)

Exit codes: 0 fine, 2 wrong usage or configuration, 1 anything else.";

const SERVE_EXAMPLES: &str = "\
Examples:
  penstock serve -c penstock.yaml
  penstock serve --root ./video --listen 0.0.0.0:8443
  penstock serve --root ./video --listen 127.0.0.1:8080 --plain
  penstock serve --root /srv/site --domain example.com       ports 80 and 443, a certificate by itself
  penstock serve --root ./video --admin 127.0.0.1:9600 --workers 1

Signals: SIGTERM and SIGINT let running responses finish, then stop; a second one stops at once.
SIGHUP reads the configuration and the certificates again; if they have a fault, nothing changes.
SIGUSR1 opens the access log again, after logrotate has renamed it.
SIGUSR2 hands over to a new process of the program that lies at the same path: no connection is lost.";

const CHECK_EXAMPLES: &str = "\
Examples:
  penstock check -c penstock.yaml && systemctl reload penstock
  penstock check -c penstock.yaml --strict --json      in a pipeline
  render.sh | penstock check - --base /etc/penstock

It reads certificates and keys and looks at directories, as the server would, but opens no port.

Exit codes: 0 the server can use it, 2 it cannot, 1 a warning with --strict.";

const KEYSERVER_EXAMPLES: &str = "\
Examples:
  penstock keyserver -c /etc/penstock/keyserver.yaml
  penstock keyserver -c /etc/penstock/keyserver.yaml --check

Signals: SIGTERM and SIGINT answer what is under way, then stop; a second one stops at once.
SIGHUP reads the configuration again; if it has a fault, nothing changes. SIGUSR1 opens the access log again.";

const DOCTOR_EXAMPLES: &str = "\
Examples:
  penstock doctor
  penstock doctor --json | jq '.findings[] | select(.verdict != \"ok\")'
  penstock doctor --quick --strict      in a check that runs often
  penstock doctor -c penstock.yaml      with the warnings of a configuration on this machine

It changes no setting and needs no privileges. As root its probes may make the kernel load its modules for TLS.";

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
    /// Log level of stderr: off, error, warn, info, debug, trace; or by crate: info,penstock_tls=debug.
    #[arg(long, global = true, env = "PENSTOCK_LOG", default_value = "info", value_name = "LEVEL", value_parser = levels)]
    pub(crate) log_level: Targets,

    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Serve, from a configuration file or just a directory.
    Serve(ServeArgs),

    /// Sign TLS handshakes of other servers with private keys that stay on this machine.
    Keyserver(KeyserverArgs),

    /// Write a first configuration: five questions, or none with --yes.
    Init(InitArgs),

    /// Check a configuration file: print each fault with its line and a remedy.
    Check(CheckArgs),

    /// Translate a configuration of nginx.
    Config(ConfigArgs),

    /// Examine this machine: kernel TLS, ciphers, sockets, limits, files, and commands that improve them.
    Doctor(DoctorArgs),

    /// Rotate and show the session ticket keys that servers share as files.
    Tickets(TicketsArgs),

    /// Make keys for Encrypted ClientHello, and print their DNS record.
    Ech(EchArgs),

    /// List and verify cached objects, and purge them from a running server.
    Cache(CacheArgs),

    /// Show the nodes of a cluster, and which of them owns an object.
    Cluster(ClusterArgs),

    /// Show what a running server does, in a terminal.
    Top(TopArgs),

    /// Sign a URL for a site with tokens.
    Sign(SignArgs),

    /// Revoke tokens by their ids, on every edge of a fleet.
    Revoke(RevokeArgs),

    /// Put load on an HTTPS server and report latencies, failures and resumption.
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
        /// The directory for penstock.1, penstock-serve.1 and so on.
        #[arg(value_name = "DIR")]
        directory: Option<PathBuf>,
    },
}

#[derive(Args, Debug)]
#[command(after_help = SERVE_EXAMPLES)]
pub(crate) struct ServeArgs {
    #[command(flatten)]
    pub(crate) from: ServeInput,

    #[command(flatten)]
    pub(crate) domain: DomainArgs,

    /// Address and port, which may be given several times; port 0 lets the system choose. The default is port 8443 of
    /// 127.0.0.1 and, where there is IPv6, of ::1; with --domain it is port 443 of all addresses.
    #[arg(long, value_name = "ADDR", conflicts_with = "config", value_parser = address)]
    pub(crate) listen: Vec<SocketAddr>,

    /// Plain HTTP. The default is HTTPS with a self-signed certificate.
    #[arg(long, conflicts_with = "config")]
    pub(crate) plain: bool,

    /// Worker threads; one for each core if not given.
    #[arg(long, value_name = "N", conflicts_with = "config", value_parser = workers)]
    pub(crate) workers: Option<NonZeroUsize>,

    /// Address of the admin listener: status page, /healthz and /metrics. It may be unix: and a path.
    #[arg(long, value_name = "ADDR", conflicts_with = "config")]
    pub(crate) admin: Option<AdminAddress>,
}

#[derive(Args, Debug)]
#[group(required = true, multiple = false)]
pub(crate) struct ServeInput {
    /// The configuration file (YAML).
    #[arg(short, long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,

    /// Serve the files below this directory, without a configuration file.
    #[arg(long, value_name = "DIR")]
    pub(crate) root: Option<PathBuf>,
}

#[derive(Args, Debug)]
#[command(after_help = CHECK_EXAMPLES)]
pub(crate) struct CheckArgs {
    /// The configuration file (YAML); - is standard input.
    #[arg(value_name = "FILE", required_unless_present = "config")]
    pub(crate) file: Option<PathBuf>,

    /// The same.
    #[arg(short, long, value_name = "FILE", conflicts_with = "file")]
    pub(crate) config: Option<PathBuf>,

    /// Where relative paths start in a configuration from standard input.
    #[arg(long, value_name = "DIR", default_value = ".", hide_default_value = true)]
    pub(crate) base: PathBuf,

    /// Exit with 1 if there is a warning.
    #[arg(long)]
    pub(crate) strict: bool,

    /// Print JSON for programs instead of lines.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args, Debug)]
#[command(after_help = KEYSERVER_EXAMPLES)]
pub(crate) struct KeyserverArgs {
    /// The configuration file (YAML).
    #[arg(short, long, value_name = "FILE")]
    pub(crate) config: PathBuf,

    /// Only check the configuration file, and print each fault with its line and a remedy.
    #[arg(long)]
    pub(crate) check: bool,
}

#[derive(Args, Debug)]
#[command(after_help = DOCTOR_EXAMPLES)]
pub(crate) struct DoctorArgs {
    /// Print JSON for programs instead of a table.
    #[arg(long)]
    pub(crate) json: bool,

    /// Examine this configuration (YAML) as well; - is standard input.
    #[arg(short, long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,

    /// Where relative paths start in a configuration from standard input.
    #[arg(long, value_name = "DIR", default_value = ".", hide_default_value = true)]
    pub(crate) base: PathBuf,

    /// Do not measure the ciphers, which takes about a second.
    #[arg(long)]
    pub(crate) quick: bool,

    /// Exit with 1 if any finding asks for a change.
    #[arg(long)]
    pub(crate) strict: bool,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Arguments::command().debug_assert();
    }
}
