//! The raw form of a cluster.

use crate::section::{Sections, Text, section};

section! {
    /// Penstock servers that share their caches. All of them have the same `nodes`.
    Cluster {
        /// The name of this server among `nodes`.
        own as "self": Text, "name", "required";
        /// All servers of the cluster, this one included.
        nodes: Sections<ClusterNode>, "list", "required";
        /// PEM file: the only authorities that may sign the certificates of nodes. Without it the nodes speak plain HTTP, and every machine that reaches their addresses is believed.
        ca: Text, "file", "plain HTTP";
        /// PEM file: the certificate of this node, then its intermediates. It has the node's name as a DNS name, and is for servers and clients.
        chain: Text, "file", "required with `ca`";
        /// PEM file: the private key of that certificate, not encrypted.
        key: Text, "file", "required with `ca`";
    }
}

section! {
    /// A server of a cluster.
    ClusterNode {
        /// Its name: lowercase letters, digits, `-` and `.`.
        name: Text, "name", "required";
        /// Where the others reach it. The node listens on it, for other nodes only.
        address: Text, "IP:port", "required";
        /// Its share of the objects relative to the others; 0 owns none, for a shield of other places.
        weight: Text, "number", "1";
    }
}
