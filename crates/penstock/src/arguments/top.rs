//! Arguments of `penstock top`.

use std::path::PathBuf;

use clap::Args;
use penstock_config::AdminAddress;

const EXAMPLES: &str = "\
Examples:
  penstock top -c /etc/penstock/penstock.yaml
  penstock top --admin 127.0.0.1:9600
  penstock top -c penstock.yaml --once            as text, for scripts; exit code 1 if something critical is wrong

Keys: q or Escape ends, p pauses. It reads /status.json and /history.json of the admin listener once a second.
The page of the admin listener shows more. See docs/observability.md.";

/// What a running server does, in a terminal.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct TopArgs {
    /// The configuration of the server, for the address and the token of its admin listener.
    #[arg(short, long, value_name = "FILE", required_unless_present = "admin")]
    pub(crate) config: Option<PathBuf>,

    /// Address of an admin listener without a token, such as 127.0.0.1:9600 or unix:/run/penstock/admin.sock.
    #[arg(long, value_name = "ADDR", conflicts_with = "config")]
    pub(crate) admin: Option<AdminAddress>,

    /// Print the numbers once as text and end.
    #[arg(long)]
    pub(crate) once: bool,
}
