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
