//! Operations on a running server: reload, drain, stop; and errors for a wrong configuration.
//!
//! The plain cases of signals are in `tests/cli`; these are the ones with clients in the middle of something.

mod admin_socket;
mod drain;
mod faults;
mod hand_over;
mod include;
mod lame_duck;
mod page;
pub(crate) mod players;
mod reload;
mod succession;

use std::io::{Read, Write};

use penstock_testkit::{Client, Server, Setup};

/// A file that no socket buffer on the way holds.
const LARGE: u64 = 64 << 20;

/// A client in the middle of a download that it has stopped reading.
fn downloading<S: Read + Write>(mut client: Client<S>) -> Client<S> {
    client.begin("/large.mp4");
    client
}

/// Reads such a download to its end.
fn finish<S: Read + Write>(client: &mut Client<S>) -> Vec<u8> {
    client.take(usize::try_from(LARGE).unwrap()).unwrap()
}

/// The configuration that this server runs with, to be changed.
fn text_of(setup: &Setup) -> String {
    setup.yaml("ADMIN")
}

/// The answer of the admin listener to a path: its status and its body.
fn ask_admin(server: &Server, path: &str) -> (u16, String) {
    let mut client = Client::connect(server.admin());
    client.ask(path);
    let answer = client.response().unwrap();
    (answer.status, answer.text().to_owned())
}
