//! Arguments of `penstock config`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

const EXAMPLES: &str = "\
Example:
  penstock config from-nginx /etc/nginx/nginx.conf > penstock.yaml
  penstock check -c penstock.yaml

See docs/moving-from-nginx.md.";

/// Make configurations.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ConfigArgs {
    #[command(subcommand)]
    pub(crate) command: ConfigCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ConfigCommand {
    /// Print the translation of a configuration of nginx, with remarks on what could not be translated and why.
    FromNginx {
        /// The file, such as /etc/nginx/nginx.conf; files that it includes are read too.
        #[arg(value_name = "FILE")]
        file: PathBuf,
    },
}
