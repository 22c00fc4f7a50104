//! Resumption: sessions of TLS 1.2 without tickets, tickets of one server and of a fleet, early data.

use penstock_testkit::{Server, Setup};

pub(crate) mod early_data;
mod early_faults;
mod fleet;
mod names;
mod offered_tickets;
mod sessions;

const BODY: &str = "the bytes of a film\n";

/// A server with one small file.
fn start(setup: Setup) -> Server {
    let server = setup.start();
    server.write("a.mp4", BODY);
    server
}
