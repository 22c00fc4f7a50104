//! What is shown of session tickets and their keys.

use penstock_tls::tickets::TicketOutcome;
use penstock_tls::tickets::directory::Why;

use super::{closed, timestamp};
use crate::metrics::exposition::{Kind, Metric};
use crate::metrics::lock;

const STATES: &[&str] = &["introduced", "sealing", "older"];

pub(super) const METRICS: &[Metric] = &[
    Metric {
        name: "penstock_tls_tickets_issued_total",
        kind: Kind::Counter,
        help: "Session tickets made for clients: two for each handshake of TLS 1.3.",
        labels: &[],
        read: |seen, out| out.sample(&[], seen.sum(|shard| shard.tickets.issued.get())),
    },
    Metric {
        name: "penstock_tls_tickets_offered_total",
        kind: Kind::Counter,
        help: "Session tickets that clients offered. All but the accepted ones led to a full handshake.",
        labels: &[closed("outcome", TicketOutcome::LABELS)],
        read: |seen, out| {
            for outcome in TicketOutcome::ALL {
                let count = seen.sum(|shard| shard.tickets.offered[*outcome as usize].get());
                out.sample(&[outcome.label()], count);
            }
        },
    },
    Metric {
        name: "penstock_tls_ticket_keys",
        kind: Kind::Gauge,
        help: "Keys that open session tickets. The sealing one makes new ones; introduced ones will do so soon.",
        labels: &[closed("state", STATES)],
        read: |seen, out| {
            let keys = *lock(&seen.ticket_keys);
            for (state, count) in STATES.iter().zip([keys.introduced, 1, keys.older]) {
                out.sample(&[state], count as u64);
            }
        },
    },
    Metric {
        name: "penstock_tls_ticket_key_timestamp_seconds",
        kind: Kind::Gauge,
        help: "When the file of the sealing key was written, in seconds since 1970. A random key shows none.",
        labels: &[],
        read: |seen, out| {
            if let Some(modified) = lock(&seen.ticket_keys).sealing_modified {
                out.sample(&[], timestamp(modified));
            }
        },
    },
    Metric {
        name: "penstock_tls_ticket_files_ignored",
        kind: Kind::Gauge,
        help: "Files in the directory of ticket keys that are not used.",
        labels: &[closed("reason", Why::LABELS)],
        read: |seen, out| {
            let ignored = lock(&seen.ticket_keys).ignored;
            for (reason, count) in Why::LABELS.iter().zip(ignored) {
                out.sample(&[reason], count as u64);
            }
        },
    },
];
