//! Arguments of `penstock tickets`.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use penstock_config::limits;

const EXAMPLES: &str = "\
Examples:
  penstock tickets rotate /run/penstock/tickets             for cron, on one machine of a shared directory
  penstock tickets rotate keys --keep 4 && rsync -a --delete keys/ edge7:/run/penstock/tickets/
  penstock tickets list /run/penstock/tickets

The server loads the change within two seconds, without a signal. See docs/tickets.md.";

const ROTATE_EXAMPLES: &str = "\
Examples:
  penstock tickets rotate /run/penstock/tickets
  0 */12 * * *  penstock  penstock tickets rotate /run/penstock/tickets --keep 3      in /etc/cron.d";

const LIST_EXAMPLES: &str = "\
Examples:
  penstock tickets list /run/penstock/tickets
  penstock tickets list --fleet -c penstock.yaml            those in the store of the fleet, and which edge has them

NAME is the first part of each ticket of that key. The key itself is never shown.";

/// Rotate and show the session ticket keys that servers share as files or in a store.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct TicketsArgs {
    #[command(subcommand)]
    pub(crate) command: TicketsCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum TicketsCommand {
    /// Add a new key, and remove the oldest beyond those to keep.
    ///
    /// The file appears whole and readable by its owner only. The directory is made if it is missing. Other files stay.
    #[command(after_help = ROTATE_EXAMPLES)]
    Rotate(KeysArgs),

    /// Show the keys: name, age, kind and use.
    #[command(after_help = LIST_EXAMPLES)]
    List(ListKeysArgs),
}

#[derive(Args, Debug)]
pub(crate) struct KeysArgs {
    /// The directory, as in tls.tickets.directory.
    #[arg(value_name = "DIR")]
    pub(crate) directory: PathBuf,

    /// Keys that are kept, the newest included; the same as tls.tickets.keep.
    #[arg(long, value_name = "N", default_value_t = limits::TICKET_KEYS_KEPT, value_parser = keep)]
    pub(crate) keep: usize,
}

#[derive(Args, Debug)]
pub(crate) struct ListKeysArgs {
    /// The directory, as in tls.tickets.directory.
    #[arg(value_name = "DIR", required_unless_present = "fleet")]
    pub(crate) directory: Option<PathBuf>,

    /// Keys that are kept, the newest included; the same as tls.tickets.keep.
    #[arg(long, value_name = "N", default_value_t = limits::TICKET_KEYS_KEPT, value_parser = keep)]
    pub(crate) keep: usize,

    /// Show the keys in the store of the fleet instead, and the edges.
    #[arg(long, requires = "config", conflicts_with = "directory")]
    pub(crate) fleet: bool,

    /// The configuration of a server of the fleet.
    #[arg(short, long, value_name = "FILE", requires = "fleet")]
    pub(crate) config: Option<PathBuf>,
}

fn keep(text: &str) -> Result<usize, String> {
    let most = usize::try_from(limits::TICKET_KEYS_KEPT_MAX).unwrap_or(usize::MAX);
    let number = text.parse().ok().filter(|number| (1..=most).contains(number));
    number.ok_or_else(|| format!("write a number from 1 to {most}"))
}
