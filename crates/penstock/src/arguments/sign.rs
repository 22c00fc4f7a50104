//! Arguments of `penstock sign`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};

const EXAMPLES: &str = "\
Examples:
  (umask 077; openssl rand -hex 32 > url-2026a.key)         a new key
  penstock sign https://video.example.com/vod/123/film.mp4 --key-file url-2026a.key --key-id 2026a --expires 1h
  penstock sign https://video.example.com/vod/123/main.m3u8 --key-file url-2026a.key --key-id 2026a \\
      --expires 6h --prefix /vod/123/ --in path             for players: their relative URLs keep the token
  penstock sign / --key-file url-2026a.key --key-id 2026a --expires 12h --in cookie --parameter video_token

The format, for backends in any language: docs/caching.md.";

/// A signed URL.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct SignArgs {
    /// The URL, or just its path.
    pub(crate) url: String,

    /// The key's file, as in sites.signed_urls.keys.
    #[arg(long, value_name = "FILE")]
    pub(crate) key_file: PathBuf,

    /// The key's id there.
    #[arg(long, value_name = "ID")]
    pub(crate) key_id: String,

    /// Validity from now, such as 90s, 1h or 7d.
    #[arg(long, value_name = "TIME", value_parser = penstock_config::time)]
    pub(crate) expires: Duration,

    /// Sign everything below this path instead of the URL alone.
    #[arg(long, value_name = "PATH/")]
    pub(crate) prefix: Option<String>,

    /// Place of the token.
    #[arg(long = "in", value_name = "PLACE", value_enum, default_value_t = TokenPlace::Query)]
    pub(crate) place: TokenPlace,

    /// The parameter or cookie, as in sites.signed_urls.
    #[arg(long, value_name = "NAME", default_value = "token")]
    pub(crate) parameter: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum TokenPlace {
    /// In the query.
    Query,
    /// In front of the path.
    Path,
    /// In a cookie: the value of Set-Cookie is printed.
    Cookie,
}
