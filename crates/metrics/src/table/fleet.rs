//! The metrics of the store that edges share.

use crate::labels::{FleetLoss, FleetOperation, FleetOutcome};
use crate::limits;
use crate::metric::{Family, Kind, Metric, Sources, closed, open};
use crate::readings::{FleetEdgeReading, FleetReading};

pub(super) const METRICS: &[Metric] = &[
    Metric {
        name: "penstock_fleet_up",
        kind: Kind::Gauge,
        help: "Whether there is a connection with the store of the fleet.",
        labels: &[],
        read: |from, out| number(from, out, |fleet| u64::from(fleet.is_up)),
    },
    Metric {
        name: "penstock_fleet_circuit_open",
        kind: Kind::Gauge,
        help: "Whether handshakes do without the store, because it did not answer in time.",
        labels: &[],
        read: |from, out| number(from, out, |fleet| u64::from(fleet.is_circuit_open)),
    },
    Metric {
        name: "penstock_fleet_connections_lost_total",
        kind: Kind::Counter,
        help: "Connections with the store that were not made (`unreachable`: no connection or login) or were given up. `unanswered`: no answer in time; `replica`: it takes no entries; `too_large`: it sent more than can be an answer.",
        labels: &[closed("reason", FleetLoss::LABELS)],
        read: |from, out| {
            if let Some(fleet) = &from.readings.fleet {
                out.each(|why: FleetLoss| fleet.losses[why as usize]);
            }
        },
    },
    Metric {
        name: "penstock_fleet_latency_seconds",
        kind: Kind::Gauge,
        help: "Time from question to answer of the last probe, which is made about ten times a second.",
        labels: &[],
        read: |from, out| out.optional(from.readings.fleet.as_ref().map(|fleet| fleet.latency.as_secs_f64())),
    },
    Metric {
        name: "penstock_fleet_operations_in_flight",
        kind: Kind::Gauge,
        help: "Handshakes that wait for the store.",
        labels: &[],
        read: |from, out| number(from, out, |fleet| fleet.under_way),
    },
    Metric {
        name: "penstock_fleet_operations_total",
        kind: Kind::Counter,
        help: "Operations on the store. `miss`: not found, or a ClientHello recorded before; `skipped`: not asked, because there is no connection, the circuit is open or too much is under way; `forged`: not sealed with the fleet's secret; `full`: the store has no memory left; `abandoned`: the client left first.",
        labels: &[closed("operation", FleetOperation::LABELS), closed("outcome", FleetOutcome::LABELS)],
        read: |from, out| {
            if let Some(fleet) = &from.readings.fleet {
                for (operation, counts) in FleetOperation::LABELS.iter().zip(&fleet.operations) {
                    for (outcome, count) in FleetOutcome::LABELS.iter().zip(counts) {
                        out.sample(&[operation, outcome], *count);
                    }
                }
            }
        },
    },
    Metric {
        name: "penstock_fleet_purges_applied_total",
        kind: Kind::Counter,
        help: "Purges of other edges that were applied here.",
        labels: &[],
        read: |from, out| number(from, out, |fleet| fleet.purges_applied),
    },
    Metric {
        name: "penstock_fleet_purges_missed_total",
        kind: Kind::Counter,
        help: "How often the whole cache was purged, because this edge missed purges that were no longer in the store.",
        labels: &[],
        read: |from, out| number(from, out, |fleet| fleet.purges_missed),
    },
    Metric {
        name: "penstock_fleet_purges_waiting",
        kind: Kind::Gauge,
        help: "Purges ordered here that other edges do not know yet, because the store does not answer.",
        labels: &[],
        read: |from, out| number(from, out, |fleet| fleet.purges_waiting),
    },
    Metric {
        name: "penstock_fleet_revoked_ids",
        kind: Kind::Gauge,
        help: "Ids of revoked tokens that this edge knows, by `penstock revoke`. Requests that are refused for it count in `penstock_signed_urls_total` as `revoked`.",
        labels: &[],
        read: |from, out| number(from, out, |fleet| fleet.revoked_ids),
    },
    Metric {
        name: "penstock_fleet_revoked_ids_waiting",
        kind: Kind::Gauge,
        help: "Those of them that other edges may not know yet, because the store does not have them.",
        labels: &[],
        read: |from, out| number(from, out, |fleet| fleet.revoked_waiting),
    },
    Metric {
        name: "penstock_fleet_revoked_ids_dropped_total",
        kind: Kind::Counter,
        help: "Ids of revoked tokens that were not kept, because there were too many. Those that end first are dropped, and their tokens accepted again.",
        labels: &[],
        read: |from, out| number(from, out, |fleet| fleet.revoked_dropped),
    },
    Metric {
        name: "penstock_fleet_edges",
        kind: Kind::Gauge,
        help: "Edges of the fleet that use the store now, this one included.",
        labels: &[],
        read: |from, out| number(from, out, |fleet| fleet.members),
    },
    Metric {
        name: "penstock_fleet_edge_purges_missing",
        kind: Kind::Gauge,
        help: "Purges that another edge of the fleet has yet to apply, as it said last: of those that this edge has read since its start, and at least 1 if there are older ones. An edge that is away is forgotten after a day.",
        labels: &[open("edge", "its name; the first 1,000 edges")],
        read: |from, out| {
            let edges = from.readings.fleet.iter().flat_map(|fleet| &fleet.edges);
            let others = edges.filter(|edge| !edge.is_own).take(limits::FLEET_EDGES);
            others.for_each(|FleetEdgeReading { name, purges_missing, .. }| {
                out.sample(&[name], *purges_missing)
            });
        },
    },
    Metric {
        name: "penstock_fleet_edges_with_other_secret",
        kind: Kind::Gauge,
        help: "Edges that use the same database of the store with another secret. Nothing is shared with them.",
        labels: &[],
        read: |from, out| number(from, out, |fleet| fleet.strangers),
    },
    Metric {
        name: "penstock_fleet_edges_with_this_name",
        kind: Kind::Gauge,
        help: "Other edges of the fleet that have the name of this one. They overwrite each other's entries.",
        labels: &[],
        read: |from, out| number(from, out, |fleet| fleet.namesakes),
    },
];

/// A number of the store, if the program has one.
fn number(from: &Sources<'_>, out: &mut Family<'_>, number: fn(&FleetReading) -> u64) {
    out.optional(from.readings.fleet.as_ref().map(number));
}
