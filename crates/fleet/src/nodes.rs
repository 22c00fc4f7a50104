//! The nodes of a cluster, each an entry in the record of its edge.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard};

use penstock_sys::lock::Unpoisoned;
use serde_json::{Value as Json, json};

/// A node of a cluster, as its edge tells the others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeEntry {
    /// Its name in the cluster.
    pub name: String,
    /// Where other nodes reach it.
    pub address: SocketAddr,
    /// Its share relative to the others.
    pub weight: u32,
}

impl NodeEntry {
    pub(crate) fn to_json(&self) -> Json {
        json!({"name": self.name, "address": self.address.to_string(), "weight": self.weight})
    }

    /// Reads [`Self::to_json`]; `None` if the edge belongs to no cluster.
    pub(crate) fn from_json(json: &Json) -> Option<Self> {
        Some(Self {
            name: json["name"].as_str()?.to_owned(),
            address: json["address"].as_str()?.parse().ok()?,
            weight: json["weight"].as_u64().and_then(|weight| u32::try_from(weight).ok())?,
        })
    }
}

/// Takes in the nodes of a cluster.
pub trait NodeSink: Send + Sync + 'static {
    /// The nodes of all edges that are present, about once a second. Not called while the store does not answer.
    fn nodes(&self, nodes: Vec<NodeEntry>);
}

/// The entry of this edge, and what takes in those of the others.
#[derive(Default)]
pub(crate) struct NodeSharing(Mutex<Option<(NodeEntry, Arc<dyn NodeSink>)>>);

impl NodeSharing {
    pub(crate) fn set(&self, sharing: Option<(NodeEntry, Arc<dyn NodeSink>)>) {
        *self.lock() = sharing;
    }

    /// The entry of this edge.
    pub(crate) fn own(&self) -> Option<NodeEntry> {
        self.lock().as_ref().map(|(own, _)| own.clone())
    }

    pub(crate) fn sink(&self) -> Option<Arc<dyn NodeSink>> {
        self.lock().as_ref().map(|(_, sink)| Arc::clone(sink))
    }

    fn lock(&self) -> MutexGuard<'_, Option<(NodeEntry, Arc<dyn NodeSink>)>> {
        self.0.lock().unpoisoned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_is_read_as_it_was_written() {
        for address in ["192.0.2.1:8443", "[2001:db8::1]:8443"] {
            let node = NodeEntry { name: "e1".to_owned(), address: address.parse().unwrap(), weight: 7 };
            assert_eq!(NodeEntry::from_json(&node.to_json()), Some(node));
        }
        for wrong in [
            Json::Null,
            json!({"name": "e1", "address": "192.0.2.1:8443"}),
            json!({"name": "e1", "address": "here", "weight": 1}),
            json!({"name": "e1", "address": "192.0.2.1:8443", "weight": -1}),
            json!({"name": 1, "address": "192.0.2.1:8443", "weight": 1}),
        ] {
            assert_eq!(NodeEntry::from_json(&wrong), None, "{wrong}");
        }
    }
}
