//! Which certificate is shown to whom, where certificates come from, and those of clients.
#![expect(clippy::unwrap_used, reason = "in a test it is the assertion")]

mod choice;
mod clients;
mod directory;
#[path = "../harness/mod.rs"]
mod harness;

use harness::{Finished, Server, Setup, Tool, until};
use rustix::process::Signal;

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

/// Puts another configuration in force.
fn reload(server: &Server, setup: &Setup) {
    let applied = || server.metrics().sum("penstock_reloads_total", &["outcome=\"applied\""]);
    let before = applied();
    server.configure(setup);
    server.signal(Signal::HUP);
    until("the reload", || (applied() > before).then_some(()));
}
