//! Arguments of `penstock cache`.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use penstock_edge::PurgeTarget;

const PURGE_EXAMPLES: &str = "\
Examples:
  penstock cache purge -c penstock.yaml --url https://video.example.com/vod/123/main.m3u8
  penstock cache purge -c penstock.yaml --prefix https://video.example.com/vod/123/
  penstock cache purge -c penstock.yaml --tag film-123 --soft
  penstock cache purge -c penstock.yaml --url /vod/123/poster.jpg          this path on every site
  penstock cache purge -c penstock.yaml --tag film-123 --fleet             wait for the other edges

It sends the purge to the admin listener of the running server. When it returns, the purge is in force in all workers,
also after a restart. In a fleet every edge applies it; --fleet waits for those that are there, says how many have, and
exits with 1 if one has not. There is no confirmation prompt. See docs/caching.md.";

const LOOK_EXAMPLES: &str = "\
Examples:
  penstock cache ls -c penstock.yaml                       the 100 largest objects
  penstock cache ls -c penstock.yaml --url /vod/ --limit 1000
  penstock cache stat -c penstock.yaml --json
  penstock cache verify -c penstock.yaml                   reads everything; exit code 1 if something is damaged

They read the directories that the configuration names and change nothing, whether a server runs or not. Purged objects
stay listed until their next request. See docs/cache.md.";

/// The cache of a server.
#[derive(Args, Debug)]
pub(crate) struct CacheArgs {
    #[command(subcommand)]
    pub(crate) command: CacheCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum CacheCommand {
    /// Purge a URL, a prefix, a tag or the whole cache of the running server.
    #[command(after_help = PURGE_EXAMPLES)]
    Purge(PurgeArgs),

    /// List the objects in memory and on disks, the largest first.
    #[command(after_help = LOOK_EXAMPLES)]
    Ls(ListArgs),

    /// Print how full the tiers are.
    #[command(after_help = LOOK_EXAMPLES)]
    Stat(TierArgs),

    /// Verify all checksums.
    #[command(after_help = LOOK_EXAMPLES)]
    Verify(TierArgs),
}

#[derive(Args, Debug)]
pub(crate) struct TierArgs {
    /// The configuration of the server, for the directories of its tiers.
    #[arg(short, long, value_name = "FILE")]
    pub(crate) config: PathBuf,

    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args, Debug)]
pub(crate) struct ListArgs {
    #[command(flatten)]
    pub(crate) tiers: TierArgs,

    /// Only objects whose URL at the origin contains this text.
    #[arg(long, value_name = "PART")]
    pub(crate) url: Option<String>,

    /// The most objects to list.
    #[arg(long, value_name = "N", default_value_t = 100)]
    pub(crate) limit: usize,
}

#[derive(Args, Debug)]
pub(crate) struct PurgeArgs {
    /// The configuration of the server, for the address of its admin listener.
    #[arg(short, long, value_name = "FILE")]
    pub(crate) config: PathBuf,

    #[command(flatten)]
    pub(crate) target: TargetArgs,

    /// Only make objects stale: they are served while newer ones are fetched, if the origin allows that.
    #[arg(long)]
    pub(crate) soft: bool,

    /// Wait until the other edges of the fleet have applied it, and say how many have.
    #[arg(long)]
    pub(crate) fleet: bool,
}

#[derive(Args, Debug)]
#[group(required = true, multiple = false)]
pub(crate) struct TargetArgs {
    /// One URL, or a path for that path on every site.
    #[arg(long, value_name = "URL")]
    pub(crate) url: Option<String>,

    /// All URLs that begin with this text.
    #[arg(long, value_name = "URL")]
    pub(crate) prefix: Option<String>,

    /// All objects with this tag from the origin's Surrogate-Key or Cache-Tag.
    #[arg(long, value_name = "TAG")]
    pub(crate) tag: Option<String>,

    /// The whole cache.
    #[arg(long)]
    pub(crate) everything: bool,
}

impl TargetArgs {
    /// The target. Exactly one of the arguments is there.
    pub(crate) fn target(&self) -> PurgeTarget {
        match (&self.url, &self.prefix, &self.tag) {
            (Some(url), ..) => PurgeTarget::Url(url.clone()),
            (_, Some(prefix), _) => PurgeTarget::Prefix(prefix.clone()),
            (.., Some(tag)) => PurgeTarget::Tag(tag.clone()),
            (None, None, None) => PurgeTarget::Everything,
        }
    }
}
