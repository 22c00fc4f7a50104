//! The numbers that operators see: by site, by client, by title.

mod carried;
pub(crate) mod logs;
mod players;
mod sites;
mod top;
mod upstream;
mod work;

use penstock_testkit::{Client, Server};
use serde_json::Value;

/// The answer of `/status.json`.
fn status(server: &Server) -> Value {
    let mut client = Client::connect(server.admin());
    client.ask("/status.json");
    serde_json::from_str(client.response().unwrap().text()).unwrap()
}

/// The section of a site in `/status.json`; null if it has none.
fn section(server: &Server, name: &str) -> Value {
    let status = status(server);
    let found = status["sites"].as_array().unwrap().iter().find(|site| site["name"] == name).cloned();
    found.unwrap_or(Value::Null)
}

/// The entry of a key in a table of what is asked for most; null if it has none.
fn top_entry(server: &Server, table: &str, key: &str) -> Value {
    let status = status(server);
    let entries = status["top"][table].as_array().unwrap();
    entries.iter().find(|entry| entry["key"] == key).cloned().unwrap_or(Value::Null)
}
