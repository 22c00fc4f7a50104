//! Counters that should not grow. One that has grown is a problem for five minutes after its last growth.

use std::time::{Duration, Instant};

use super::{Condition, Severity};
use crate::lookup::{Which, sum_of};
use crate::metric::Sources;

/// How long a growth stays a problem.
const SHOWN: Duration = Duration::from_secs(300);

/// A counter that should not grow.
#[derive(Debug)]
struct Counter {
    metric: &'static str,
    which: Which,
    severity: Severity,
    subject: &'static str,
    /// `{}` stands for the growth.
    what: &'static str,
    help: &'static str,
}

/// What is known of a counter.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    /// At the last look.
    value: f64,
    /// Before the growth that is shown.
    base: f64,
    grew_at: Option<Instant>,
}

/// The counters, each as it was seen last.
#[derive(Debug)]
pub(super) struct Growth(Vec<Seen>);

impl Default for Growth {
    fn default() -> Self {
        Self(vec![Seen::default(); COUNTERS.len() + RELOADS.len()])
    }
}

impl Growth {
    pub(super) fn look(&mut self, from: &Sources<'_>, now: Instant) -> Vec<Condition> {
        let (counters, reloads) = self.0.split_at_mut(COUNTERS.len());
        let mut conditions = Vec::new();
        for (counter, seen) in COUNTERS.iter().zip(counters) {
            seen.look(sum_of(from, counter.metric, counter.which), now);
            if !seen.grew_within(SHOWN, now) {
                seen.base = seen.value;
                continue;
            }
            conditions.push(Condition {
                severity: counter.severity,
                subject: counter.subject,
                identity: counter.what.to_owned(),
                what: counter.what.replacen("{}", &(seen.value - seen.base).to_string(), 1),
                help: counter.help,
                patience: Duration::ZERO,
            });
        }
        for (outcome, seen) in RELOADS.iter().zip(&mut *reloads) {
            seen.look(sum_of(from, "penstock_reloads_total", *outcome), now);
        }
        if let [applied, rejected] = reloads
            && rejected.grew_at > applied.grew_at
        {
            conditions.push(Condition {
                severity: Severity::Warning,
                subject: "program",
                identity: "reload".to_owned(),
                what: "the last reload was rejected: the configuration before it is in force".to_owned(),
                help: "penstock check -c FILE names the lines; then send SIGHUP",
                patience: Duration::ZERO,
            });
        }
        conditions
    }
}

impl Seen {
    fn look(&mut self, value: f64, now: Instant) {
        if value > self.value {
            self.grew_at = Some(now);
        }
        self.value = value;
    }

    fn grew_within(&self, time: Duration, now: Instant) -> bool {
        self.grew_at.is_some_and(|grew| now.saturating_duration_since(grew) < time)
    }
}

/// Reloads that were applied, and those that were not.
const RELOADS: [Which; 2] =
    [Which::Only(&[("outcome", &["applied"])]), Which::Only(&[("outcome", &["rejected"])])];

const fn reason(reasons: &'static [(&'static str, &'static [&'static str])]) -> Which {
    Which::Only(reasons)
}

const COUNTERS: &[Counter] = &[
    Counter {
        metric: "penstock_worker_panics_total",
        which: Which::All,
        severity: Severity::Critical,
        subject: "workers",
        what: "connections that a panic ended, which is a bug of the program: {}",
        help: "report the lines with `panicked at` in the log (SECURITY.md says where)",
    },
    Counter {
        metric: "penstock_connections_refused_total",
        which: reason(&[("reason", &["limit", "descriptors"])]),
        severity: Severity::Critical,
        subject: "clients",
        what: "connections refused, since the limit of connections or descriptors is reached: {}",
        help: "raise limits.connections, and LimitNOFILE of the service; penstock doctor shows both",
    },
    Counter {
        metric: "penstock_connections_refused_total",
        which: reason(&[("reason", &["handshakes", "network"])]),
        severity: Severity::Warning,
        subject: "clients",
        what: "connections refused, since a network or the handshakes under way are at their limit: {}",
        help: "limits.connections_per_network and limits.handshakes_in_flight bound them; penstock_connections_refused_total tells which",
    },
    Counter {
        metric: "penstock_accept_errors_total",
        which: Which::All,
        severity: Severity::Critical,
        subject: "clients",
        what: "connections that could not be accepted: {}",
        help: "penstock doctor shows the limit of descriptors; raise LimitNOFILE of the service",
    },
    Counter {
        metric: "penstock_requests_total",
        which: reason(&[("status", &["5xx"])]),
        severity: Severity::Warning,
        subject: "requests",
        what: "responses with a status of 5xx: {}",
        help: "the access log names them: jq 'select(.status >= 500)'",
    },
    Counter {
        metric: "penstock_short_responses_total",
        which: reason(&[("reason", &["origin", "truncated"])]),
        severity: Severity::Critical,
        subject: "origins",
        what: "responses cut short, because an origin or a file ended early: {}",
        help: "the log of the origin; origin.timeouts bounds how long it may pause",
    },
    Counter {
        metric: "penstock_cache_refusals_total",
        which: Which::All,
        severity: Severity::Warning,
        subject: "cache",
        what: "slices that found no space in memory, so that their responses were not cached: {}",
        help: "raise cache.memory.size",
    },
    Counter {
        metric: "penstock_cache_disk_errors_total",
        which: Which::All,
        severity: Severity::Critical,
        subject: "cache",
        what: "calls that failed on disks of the cache: {}",
        help: "dmesg and smartctl show whether the disk is failing",
    },
    Counter {
        metric: "penstock_cache_disk_slices_total",
        which: reason(&[("event", &["damaged"])]),
        severity: Severity::Critical,
        subject: "cache",
        what: "damaged slices on disks, which are fetched again: {}",
        help: "smartctl shows whether the disk is failing; penstock cache verify -c FILE reads everything",
    },
    Counter {
        metric: "penstock_access_log_dropped_total",
        which: Which::All,
        severity: Severity::Warning,
        subject: "program",
        what: "lines of the access log that were dropped: {}",
        help: "the disk of log.access is full or too slow",
    },
    Counter {
        metric: "penstock_private_key_fallbacks_total",
        which: Which::All,
        severity: Severity::Warning,
        subject: "keys",
        what: "handshakes signed by the local copy of a key that is elsewhere: {}",
        help: "penstock doctor -c FILE has each keyserver and token sign once",
    },
    Counter {
        metric: "penstock_keyserver_operations_total",
        which: reason(&[("result", &["wrong_signature"])]),
        severity: Severity::Critical,
        subject: "keys",
        what: "wrong signatures of keyservers: {}",
        help: "the keyserver has another key than the certificate, or is not yours: penstock doctor -c FILE",
    },
    Counter {
        metric: "penstock_fleet_operations_total",
        which: reason(&[("outcome", &["forged"])]),
        severity: Severity::Critical,
        subject: "store",
        what: "entries of the store that were not sealed with the fleet's secret: {}",
        help: "another program writes to this database of the store, or an edge has another fleet.secret",
    },
    Counter {
        metric: "penstock_fleet_operations_total",
        which: reason(&[("outcome", &["full"])]),
        severity: Severity::Warning,
        subject: "store",
        what: "operations for which the store had no memory left: {}",
        help: "raise maxmemory of the store",
    },
    Counter {
        metric: "penstock_fleet_purges_missed_total",
        which: Which::All,
        severity: Severity::Warning,
        subject: "store",
        what: "purges of the whole cache, because purges were missed: {}",
        help: "docs/fleet.md tells how long an edge may be away; fleet.state keeps its position",
    },
];
