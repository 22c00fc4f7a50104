//! Arguments of `penstock top`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use penstock_config::AdminAddress;

const EXAMPLES: &str = "\
Examples:
  penstock top -c /etc/penstock/penstock.yaml
  penstock top --admin 127.0.0.1:9600
  penstock top -c penstock.yaml --once            as text, for scripts; exit code 1 if something critical is wrong
  penstock top -c penstock.yaml --once --show titles

Keys: 1 to 7 choose a tab (overview, titles, players, certificates, nodes, keys, store), Tab, Left and Right go to the next one, p pauses,
q or Escape ends. It reads /status.json and /history.json of the admin listener once a second.
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

    /// The tab to begin with, or to print.
    #[arg(long, value_name = "TAB", value_enum, default_value_t = TopTab::Overview)]
    pub(crate) show: TopTab,
}

/// A part of what is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum TopTab {
    /// Numbers with their last minutes, tiers and origins.
    Overview,
    /// What is asked for most, by bytes and by requests.
    Titles,
    /// What players say of themselves, by site, and the titles that starve.
    Players,
    /// Certificates by their ends, and those that are ordered.
    Certificates,
    /// The nodes of the cluster.
    Nodes,
    /// Keyservers and hardware tokens.
    Keys,
    /// The store of the fleet, and its edges.
    Store,
}

impl TopTab {
    /// All, in the order of their keys.
    pub(crate) const ALL: [Self; 7] = [
        Self::Overview,
        Self::Titles,
        Self::Players,
        Self::Certificates,
        Self::Nodes,
        Self::Keys,
        Self::Store,
    ];

    /// Its name on the screen.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Overview => "overview",
            Self::Titles => "titles",
            Self::Players => "players",
            Self::Certificates => "certificates",
            Self::Nodes => "nodes",
            Self::Keys => "keys",
            Self::Store => "store",
        }
    }
}
