//! The log of operations: one JSON line for each.

use std::net::{IpAddr, SocketAddr};

use jiff::Timestamp;
use penstock_keys::protocol::Opcode;
use penstock_tls::remote_key::KeyId;
use serde_json::json;

/// What a line says of one operation.
#[derive(Debug)]
pub(crate) struct Operation {
    pub(crate) time: Timestamp,
    pub(crate) client: String,
    pub(crate) peer: SocketAddr,
    pub(crate) opcode: Opcode,
    pub(crate) key: Option<KeyId>,
    pub(crate) key_name: Option<String>,
    pub(crate) server_name: Option<String>,
    pub(crate) client_address: Option<IpAddr>,
    pub(crate) result: &'static str,
    pub(crate) seconds: f64,
}

impl Operation {
    /// The operation as a line, with its line end.
    pub(crate) fn line(&self) -> Vec<u8> {
        let line = json!({
            "time": self.time.to_string(),
            "client": self.client,
            "peer": self.peer.to_string(),
            "operation": self.opcode.name(),
            "opcode": self.opcode.0,
            "key": self.key.map(|id| id.to_string()),
            "key_name": self.key_name,
            "server_name": self.server_name,
            "client_address": self.client_address.map(|address| address.to_string()),
            "result": self.result,
            "seconds": self.seconds,
        });
        format!("{line}\n").into_bytes()
    }
}
