//! The metrics of the other nodes of the cluster.

use crate::metric::{Family, Kind, Metric, Sources, open};
use crate::readings::PeerReading;

pub(super) const METRICS: &[Metric] = &[
    Metric {
        name: "penstock_cluster_peer_up",
        kind: Kind::Gauge,
        help: "1 for another node of the cluster that answers, 0 for one that is passed over.",
        labels: &[open("peer", "its name")],
        read: |from, out| peers(from, out, |peer| u64::from(peer.up)),
    },
    Metric {
        name: "penstock_cluster_peer_load",
        kind: Kind::Gauge,
        help: "Requests of other nodes that a node works on, as it said last.",
        labels: &[open("peer", "its name")],
        read: |from, out| peers(from, out, |peer| peer.load),
    },
    Metric {
        name: "penstock_cluster_purges_missed",
        kind: Kind::Gauge,
        help: "Purges of this node's operators that a node has yet to confirm; they are repeated once it answers.",
        labels: &[open("peer", "its name")],
        read: |from, out| peers(from, out, |peer| peer.purges_missed),
    },
    Metric {
        name: "penstock_cluster_requests_total",
        kind: Kind::Counter,
        help: "Requests for objects to other nodes, by outcome: `answered`, `refused` (it has another configuration or not the object, asks this node itself, or is too busy), `origin_failed` (the origin failed it), `failed` (it did not answer), `stalled` (it is alive, and took longer than the origin may).",
        labels: &[open("peer", "its name"), open("outcome", "see the meaning")],
        read: |from, out| {
            for peer in &from.readings.peers {
                for (outcome, count) in &peer.requests {
                    out.sample(&[&peer.name, outcome], *count);
                }
            }
        },
    },
];

/// A number of each node.
fn peers(from: &Sources<'_>, out: &mut Family<'_>, number: fn(&PeerReading) -> u64) {
    for peer in &from.readings.peers {
        out.sample(&[&peer.name], number(peer));
    }
}
