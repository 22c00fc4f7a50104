//! Which certificate is shown to whom, where certificates come from, and those of clients.

mod choice;
mod clients;
mod directory;

use penstock_testkit::{Finished, Server, Tool};

/// `openssl s_client` with these arguments; it asks for nothing once it is connected.
fn connect(server: &Server, arguments: &[&str]) -> Finished {
    Tool::s_client(server).args(arguments).run()
}

/// The common name of the certificate that `openssl s_client` was shown.
#[track_caller]
fn shown(server: &Server, arguments: &[&str]) -> String {
    let text = connect(server, arguments).ok().text();
    let line = text.lines().find_map(|line| line.strip_prefix("subject=CN = "));
    line.unwrap_or_else(|| panic!("no subject in {text}")).to_owned()
}
