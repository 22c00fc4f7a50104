//! What can be typed after `penstock cache`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

const PURGE_EXAMPLES: &str = "\
Examples:
  penstock cache purge -c penstock.yaml --url https://video.example.com/vod/123/main.m3u8
  penstock cache purge -c penstock.yaml --prefix https://video.example.com/vod/123/
  penstock cache purge -c penstock.yaml --tag film-123 --soft
  penstock cache purge -c penstock.yaml --url /vod/123/poster.jpg          this path on every site

It asks the running server through its admin listener. A purge holds in all workers when this returns, and after a
restart too. See docs/caching.md.";

const LOOK_EXAMPLES: &str = "\
Examples:
  penstock cache ls -c penstock.yaml                       the 100 largest objects
  penstock cache ls -c penstock.yaml --url /vod/ --limit 1000
  penstock cache stat -c penstock.yaml --json
  penstock cache verify -c penstock.yaml                   reads everything; exit code 1 if something is damaged

They read the directories that the configuration names and change nothing, whether a server runs or not. What is purged
and nobody has asked for since is still listed. See docs/cache.md.";

/// The cache of a server.
#[derive(Args, Debug)]
pub(crate) struct Cache {
    #[command(subcommand)]
    pub(crate) command: CacheCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum CacheCommand {
    /// Have the running server forget what it keeps of a URL, of all below a prefix, or with a tag.
    #[command(after_help = PURGE_EXAMPLES)]
    Purge(Purge),

    /// List the objects in memory and on disks, the largest first.
    #[command(after_help = LOOK_EXAMPLES)]
    Ls(List),

    /// Say how full the tiers are.
    #[command(after_help = LOOK_EXAMPLES)]
    Stat(Look),

    /// Compare all checksums.
    #[command(after_help = LOOK_EXAMPLES)]
    Verify(Look),
}

#[derive(Args, Debug)]
pub(crate) struct Look {
    /// The configuration of the server, for the directories of its tiers.
    #[arg(short, long, value_name = "FILE")]
    pub(crate) config: PathBuf,

    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args, Debug)]
pub(crate) struct List {
    #[command(flatten)]
    pub(crate) look: Look,

    /// Only objects with this in their URL, as the origin is asked for it.
    #[arg(long, value_name = "PART")]
    pub(crate) url: Option<String>,

    /// The most objects to list.
    #[arg(long, value_name = "N", default_value_t = 100)]
    pub(crate) limit: usize,
}

#[derive(Args, Debug)]
pub(crate) struct Purge {
    /// The configuration of the server, for the address of its admin listener.
    #[arg(short, long, value_name = "FILE")]
    pub(crate) config: PathBuf,

    #[command(flatten)]
    pub(crate) what: PurgeWhat,

    /// Only make it stale: it is still good while a newer one is fetched, if its origin allows that.
    #[arg(long)]
    pub(crate) soft: bool,
}

#[derive(Args, Debug)]
#[group(required = true, multiple = false)]
pub(crate) struct PurgeWhat {
    /// One URL, or a path for that path on every site.
    #[arg(long, value_name = "URL")]
    pub(crate) url: Option<String>,

    /// All URLs that begin so.
    #[arg(long, value_name = "URL")]
    pub(crate) prefix: Option<String>,

    /// All with this tag, as their origin gave it in Surrogate-Key or Cache-Tag.
    #[arg(long, value_name = "TAG")]
    pub(crate) tag: Option<String>,

    /// All there is.
    #[arg(long)]
    pub(crate) everything: bool,
}
