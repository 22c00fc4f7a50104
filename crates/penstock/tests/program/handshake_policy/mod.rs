//! How handshakes are chosen, put off and turned away: under pressure, and by what clients offer.

use penstock_testkit::{Finished, Server, Tool};

mod ciphers;
mod groups;
mod ja4;
mod limits;
mod signing;

/// The output of `openssl s_client`, which requests `/`.
pub(crate) fn fetch(server: &Server, arguments: &[&str]) -> Finished {
    let request = b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    Tool::s_client(server).arg("-ign_eof").args(arguments).run_with_input(request)
}
