//! Arguments of `penstock ech`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

const EXAMPLES: &str = "\
Example:
  penstock ech new --public-name public.example.com /etc/penstock/ech

The server loads the key within two seconds. Put the printed record into DNS when all servers have the key.
See docs/tls.md.";

/// Keys of encrypted ClientHellos (ECH, RFC 9849).
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct EchArgs {
    #[command(subcommand)]
    pub(crate) command: EchCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum EchCommand {
    /// Write a new key, readable by its owner only, and print the HTTPS record for DNS.
    New {
        /// The public name in the outer ClientHello; the server needs a certificate for it.
        #[arg(long, value_name = "NAME")]
        public_name: String,

        /// The directory, as in tls.ech.directory.
        #[arg(value_name = "DIR")]
        directory: PathBuf,
    },
}
