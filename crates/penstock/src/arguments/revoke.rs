//! Arguments of `penstock revoke`.

use std::path::PathBuf;

use clap::Args;

const EXAMPLES: &str = "\
Examples:
  penstock revoke -c penstock.yaml viewer-7 --expires 6h            the longest life of its tokens
  penstock revoke -c penstock.yaml viewer-7 --expires 1767225600    in seconds since 1970
  penstock revoke -c penstock.yaml viewer-7 --expires 6h --fleet    wait for the other edges
  xargs penstock revoke -c penstock.yaml --expires 6h -- < ids      a list

It sends the ids to the admin listener of the running server, which has to belong to a fleet. When it returns, that \
server refuses their tokens, also after a restart, and the other edges within a moment. --fleet waits for those that \
are there, says how many do, and exits with 1 if one does not. Nothing takes an id back. docs/signed-urls.md says what \
the id of a token is.";

/// Ids of tokens that are accepted no longer.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct RevokeArgs {
    /// The ids.
    #[arg(value_name = "ID", required = true, value_parser = id)]
    pub(crate) ids: Vec<String>,

    /// The configuration of the server, for the address of its admin listener.
    #[arg(short, long, value_name = "FILE")]
    pub(crate) config: PathBuf,

    /// Until when: the time from now on, such as 6h, or seconds since 1970. At least the end of the tokens.
    #[arg(long, value_name = "TIME")]
    pub(crate) expires: String,

    /// Wait until the other edges of the fleet have applied it, and say how many have.
    #[arg(long)]
    pub(crate) fleet: bool,
}

fn id(text: &str) -> Result<String, String> {
    if text.is_empty() { Err("an id is not empty".to_owned()) } else { Ok(text.to_owned()) }
}
