//! The metrics of the store that edges share.

use crate::exposition::Kind;
use crate::metric::{Metric, closed};
use crate::readings::FleetReading;

pub(super) const METRICS: &[Metric] = &[
    Metric {
        name: "penstock_fleet_up",
        kind: Kind::Gauge,
        help: "Whether there is a connection with the store of the fleet.",
        labels: &[],
        read: |from, out| each(from.readings.fleet.as_ref(), |fleet| out.sample(&[], u64::from(fleet.is_up))),
    },
    Metric {
        name: "penstock_fleet_circuit_open",
        kind: Kind::Gauge,
        help: "Whether handshakes do without the store, because it did not answer in time.",
        labels: &[],
        read: |from, out| {
            each(from.readings.fleet.as_ref(), |fleet| out.sample(&[], u64::from(fleet.is_circuit_open)));
        },
    },
    Metric {
        name: "penstock_fleet_connections_lost_total",
        kind: Kind::Counter,
        help: "Connections with the store that were not made (`unreachable`: no connection or login) or were given up. `unanswered`: no answer in time; `replica`: it takes no entries; `too_large`: it sent more than can be an answer.",
        labels: &[closed("reason", &FleetReading::LOSSES)],
        read: |from, out| {
            each(from.readings.fleet.as_ref(), |fleet| {
                for (reason, count) in FleetReading::LOSSES.iter().zip(fleet.losses) {
                    out.sample(&[reason], count);
                }
            });
        },
    },
    Metric {
        name: "penstock_fleet_latency_seconds",
        kind: Kind::Gauge,
        help: "Time from question to answer of the last probe, which is made about ten times a second.",
        labels: &[],
        read: |from, out| {
            each(from.readings.fleet.as_ref(), |fleet| out.sample(&[], fleet.latency.as_secs_f64()));
        },
    },
    Metric {
        name: "penstock_fleet_operations_in_flight",
        kind: Kind::Gauge,
        help: "Handshakes that wait for the store.",
        labels: &[],
        read: |from, out| each(from.readings.fleet.as_ref(), |fleet| out.sample(&[], fleet.under_way)),
    },
    Metric {
        name: "penstock_fleet_operations_total",
        kind: Kind::Counter,
        help: "Operations on the store. `miss`: not found, or a ClientHello recorded before; `skipped`: not asked, because there is no connection, the circuit is open or too much is under way; `forged`: not sealed with the fleet's secret; `full`: the store has no memory left; `abandoned`: the client left first.",
        labels: &[closed("operation", &FleetReading::OPERATIONS), closed("outcome", &FleetReading::OUTCOMES)],
        read: |from, out| {
            each(from.readings.fleet.as_ref(), |fleet| {
                for (operation, counts) in FleetReading::OPERATIONS.iter().zip(&fleet.operations) {
                    for (outcome, count) in FleetReading::OUTCOMES.iter().zip(counts) {
                        out.sample(&[operation, outcome], *count);
                    }
                }
            });
        },
    },
    Metric {
        name: "penstock_fleet_purges_applied_total",
        kind: Kind::Counter,
        help: "Purges of other edges that were applied here.",
        labels: &[],
        read: |from, out| each(from.readings.fleet.as_ref(), |fleet| out.sample(&[], fleet.purges_applied)),
    },
    Metric {
        name: "penstock_fleet_purges_missed_total",
        kind: Kind::Counter,
        help: "How often the whole cache was purged, because this edge missed purges that were no longer in the store.",
        labels: &[],
        read: |from, out| each(from.readings.fleet.as_ref(), |fleet| out.sample(&[], fleet.purges_missed)),
    },
    Metric {
        name: "penstock_fleet_purges_waiting",
        kind: Kind::Gauge,
        help: "Purges ordered here that other edges do not know yet, because the store does not answer.",
        labels: &[],
        read: |from, out| each(from.readings.fleet.as_ref(), |fleet| out.sample(&[], fleet.purges_waiting)),
    },
];

fn each(fleet: Option<&FleetReading>, show: impl FnOnce(&FleetReading)) {
    if let Some(fleet) = fleet {
        show(fleet);
    }
}
