//! The numbers that operators see: by site, by client, by title.

mod carried;
mod sites;
mod top;

use penstock_testkit::{Client, Server};
use serde_json::Value;

/// The answer of `/status.json`.
fn status(server: &Server) -> Value {
    let mut client = Client::connect(server.admin());
    client.ask("/status.json");
    serde_json::from_str(client.response().unwrap().text()).unwrap()
}
