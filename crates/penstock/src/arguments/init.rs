//! Arguments of `penstock init`.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;

use super::values::address;

const EXAMPLES: &str = "\
Examples:
  penstock init                                        asks five questions
  penstock init --yes --domain video.example.com --directory /srv/video
  penstock init --yes --domain vod.example.com --origin http://192.0.2.5:8080 --output /etc/penstock/penstock.yaml

What an option says is not asked. See docs/operations.md.";

/// Answers that are given on the command line.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct InitArgs {
    /// Ask nothing: what no option says becomes what would be proposed.
    #[arg(long)]
    pub(crate) yes: bool,

    /// The file to write.
    #[arg(short, long, value_name = "FILE", default_value = "penstock.yaml")]
    pub(crate) output: PathBuf,

    /// Replace the file if it exists.
    #[arg(long)]
    pub(crate) force: bool,

    /// The host name of the site.
    #[arg(long, value_name = "NAME")]
    pub(crate) domain: Option<String>,

    /// Serve the files below this directory.
    #[arg(long, value_name = "DIR", conflicts_with = "origin")]
    pub(crate) directory: Option<PathBuf>,

    /// Serve, and keep in a cache, what this HTTP server has.
    #[arg(long, value_name = "URL")]
    pub(crate) origin: Option<String>,

    /// The memory of the cache.
    #[arg(long, value_name = "SIZE")]
    pub(crate) memory: Option<String>,

    /// A directory of the cache on a disk, and the space it may take; or none.
    #[arg(long, value_name = "DIR SIZE")]
    pub(crate) disk: Option<String>,

    /// The certificate: an e-mail address, to order one by ACME and to agree to the terms of its authority; "self-signed"; or the
    /// PEM files of a chain and its key.
    #[arg(long, value_name = "CHAIN KEY")]
    pub(crate) certificate: Option<String>,

    /// The address of the admin listener, or none.
    #[arg(long, value_name = "ADDR")]
    pub(crate) admin: Option<String>,

    /// The only address for clients, with TLS. The default is port 443 of all addresses, and port 80 for redirects to it.
    #[arg(long, value_name = "ADDR", value_parser = address)]
    pub(crate) listen: Option<SocketAddr>,
}
