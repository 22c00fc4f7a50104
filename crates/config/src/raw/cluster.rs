//! The raw form of a cluster.

use crate::section::{Sections, Text, section};

section! {
    /// Penstock servers that share their caches. Their list is one of `nodes`, `valkey` and `dns`, the same for all.
    Cluster {
        /// The name of this server, by which the others know it. With `dns` it is the target of its SRV record, or its IP address.
        own as "self": Text, "name", "host name of this machine";
        /// All servers of the cluster, this one included.
        nodes: Sections<ClusterNode>, "list", "required without `valkey` and `dns`";
        /// Whether the nodes are those whose entries are in the store of `fleet`. Each renews its own about once a second.
        valkey: Text, "`true`, `false`", "false";
        /// A name whose records are the nodes, asked for every 2 seconds: A and AAAA records with the port of `address`, or SRV records if it begins with `_`.
        dns: Text, "name", "off";
        /// The DNS server to ask for SRV records.
        resolver: Text, "IP:port", "those of /etc/resolv.conf";
        /// Where the other nodes reach this one: the address of a listener for other nodes only.
        address: Text, "IP:port", "required with `valkey` and `dns`";
        /// The share of this node relative to the others with `valkey`; 0 owns none. SRV records have weights of their own.
        weight: Text, "number", "1";
        /// Of the memory of the cache, the part that copies of what other nodes own may have while others need the space, in percent. They go to no disk.
        copies_percent: Text, "number", "25";
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
