//! Arguments of `penstock serve` for a site with a domain.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;

use super::values::address;

/// A site with a domain, whose certificate is ordered from an authority.
#[derive(Args, Debug)]
pub(crate) struct DomainArgs {
    /// A domain that leads to this machine, which may be given several times. Its certificate is ordered from Let's Encrypt
    /// and renewed; using this option agrees to the terms of the authority.
    #[arg(long, value_name = "NAME", requires = "root", conflicts_with_all = ["config", "plain"])]
    pub(crate) domain: Vec<String>,

    /// Address and port of plain HTTP, which the authority reaches as port 80; other requests are redirected to HTTPS. The
    /// default is port 80 of all addresses.
    #[arg(long, value_name = "ADDR", requires = "domain", value_parser = address)]
    pub(crate) http: Vec<SocketAddr>,

    /// Where the authority may write to about its terms or a problem.
    #[arg(long, value_name = "ADDRESS", requires = "domain")]
    pub(crate) email: Option<String>,

    /// Where the account, certificates and keys are kept. The default is /var/lib/penstock/acme.
    #[arg(long, value_name = "DIR", requires = "domain")]
    pub(crate) storage: Option<PathBuf>,

    /// URL of the directory of another authority.
    #[arg(long, value_name = "URL", requires = "domain")]
    pub(crate) acme_directory: Option<String>,

    /// The root authorities of that authority's own server (PEM).
    #[arg(long, value_name = "FILE", requires = "domain")]
    pub(crate) acme_ca: Option<PathBuf>,
}
