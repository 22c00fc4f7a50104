//! Arguments of `penstock cluster`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

const EXAMPLES: &str = "\
Examples:
  penstock cluster status -c penstock.yaml
  penstock cluster locate -c penstock.yaml https://video.example.com/vod/film.mp4
  penstock cluster locate -c penstock.yaml https://video.example.com/vod/film.mp4 --byte 1000000000

`status` asks the admin listener of the running server, and exits with 1 if a node is out. `locate` reads the configuration,
and asks the store or DNS for the nodes if they come from there. See docs/cluster.md.";

/// The cluster of a server.
#[derive(Args, Debug)]
pub(crate) struct ClusterArgs {
    #[command(subcommand)]
    pub(crate) command: ClusterCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ClusterCommand {
    /// Print the nodes as the running server sees them.
    #[command(after_help = EXAMPLES)]
    Status(StatusArgs),

    /// Print the owner of the object at a URL, and the nodes that take its place.
    #[command(after_help = EXAMPLES)]
    Locate(LocateArgs),
}

#[derive(Args, Debug)]
pub(crate) struct StatusArgs {
    /// The configuration of the server, for its admin listener.
    #[arg(short, long, value_name = "FILE")]
    pub(crate) config: PathBuf,

    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args, Debug)]
pub(crate) struct LocateArgs {
    /// The configuration of the server.
    #[arg(short, long, value_name = "FILE")]
    pub(crate) config: PathBuf,

    /// A byte of the object: a large one has an owner for each 64 MiB.
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    pub(crate) byte: u64,

    /// The URL that clients ask for.
    #[arg(value_name = "URL")]
    pub(crate) url: String,
}
