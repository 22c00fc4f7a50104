//! The metrics of session tickets and their keys.

use crate::labels::{IgnoredTicketFile, TicketOutcome};
use crate::metric::{Kind, Metric, closed, timestamp};

const STATES: &[&str] = &["introduced", "sealing", "older"];

pub(super) const METRICS: &[Metric] = &[
    Metric {
        name: "penstock_tls_tickets_issued_total",
        kind: Kind::Counter,
        help: "Session tickets issued. A full TLS 1.3 handshake issues two, a resumed one issues one.",
        labels: &[],
        read: |from, out| out.sample(&[], from.metrics.sum(|shard| shard.tickets_issued.get())),
    },
    Metric {
        name: "penstock_tls_tickets_offered_total",
        kind: Kind::Counter,
        help: "Session tickets that clients offered. Only the accepted ones resumed a session.",
        labels: &[closed("outcome", TicketOutcome::LABELS)],
        read: |from, out| {
            out.each(|outcome: TicketOutcome| {
                from.metrics.sum(|shard| shard.tickets_offered[outcome as usize].get())
            })
        },
    },
    Metric {
        name: "penstock_tls_ticket_keys",
        kind: Kind::Gauge,
        help: "Keys that open session tickets. The `sealing` key seals new tickets, `introduced` keys will seal later.",
        labels: &[closed("state", STATES)],
        read: |from, out| {
            let keys = from.metrics.ticket_keys();
            for (state, count) in STATES.iter().zip([keys.introduced, 1, keys.older]) {
                out.sample(&[state], count as u64);
            }
        },
    },
    Metric {
        name: "penstock_tls_ticket_key_timestamp_seconds",
        kind: Kind::Gauge,
        help: "When the file of the sealing key was written, in seconds since 1970; absent if the key is random.",
        labels: &[],
        read: |from, out| {
            if let Some(modified) = from.metrics.ticket_keys().sealing_modified {
                out.sample(&[], timestamp(modified));
            }
        },
    },
    Metric {
        name: "penstock_tls_ticket_files_ignored",
        kind: Kind::Gauge,
        help: "Files in the directory of ticket keys that are not used, by reason.",
        labels: &[closed("reason", IgnoredTicketFile::LABELS)],
        read: |from, out| {
            let ignored = from.metrics.ticket_keys().ignored;
            out.each(|why: IgnoredTicketFile| ignored[why as usize] as u64);
        },
    },
];
