//! The log of operations: one JSON line for each.

use std::io;
use std::net::{IpAddr, SocketAddr};

use jiff::Timestamp;
use penstock_keys::protocol::Opcode;
use penstock_tls::remote_key::KeyId;
use serde_json::json;

/// The log of operations.
pub(crate) type AccessLog = penstock_access_log::AccessLog<Operation>;

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

impl penstock_access_log::Record for Operation {
    type Format = ();

    fn text_bytes(&self) -> usize {
        let optional = [&self.key_name, &self.server_name].into_iter().flatten();
        self.client.len() + optional.map(String::len).sum::<usize>()
    }

    fn write_line(&self, (): &(), lines: &mut Vec<u8>) -> io::Result<()> {
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
        serde_json::to_writer(&mut *lines, &line)?;
        lines.push(b'\n');
        Ok(())
    }
}
