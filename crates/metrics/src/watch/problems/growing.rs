//! Counters that should not grow. One that has grown is a problem for five minutes after its last growth.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use super::condition::{Condition, Severity};
use crate::lookup::{Which, sum_of, sums_by};
use crate::metric::Sources;

/// How long a growth stays a problem.
const SHOWN: Duration = Duration::from_secs(300);

/// A counter that should not grow.
#[derive(Debug)]
pub(super) struct Counter {
    metric: &'static str,
    which: Which,
    /// The label whose values are judged one by one.
    by: Option<&'static str>,
    severity: Severity,
    subject: &'static str,
    /// `{}` stands for the growth, `{name}` for the value of that label.
    pub(super) what: &'static str,
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

/// The counters, each as it was seen last, by row and value of the label. Bounded as the metrics are.
#[derive(Debug, Default)]
pub(super) struct Growth {
    counters: BTreeMap<(usize, String), Seen>,
    reloads: [Seen; RELOADS.len()],
}

impl Growth {
    pub(super) fn look(&mut self, from: &Sources<'_>, now: Instant) -> Vec<Condition> {
        let mut conditions = Vec::new();
        let before = std::mem::take(&mut self.counters);
        for (row, counter) in COUNTERS.iter().enumerate() {
            for (name, value) in counter.values(from) {
                let mut seen = before.get(&(row, name.clone())).copied().unwrap_or_default();
                seen.look(value, now);
                if seen.grew_within(SHOWN, now) {
                    conditions.push(counter.condition(&name, seen.value - seen.base));
                } else {
                    seen.base = seen.value;
                }
                self.counters.insert((row, name), seen);
            }
        }
        for (outcome, seen) in RELOADS.iter().zip(&mut self.reloads) {
            seen.look(sum_of(from, "penstock_reloads_total", *outcome), now);
        }
        let [applied, rejected] = self.reloads;
        if rejected.grew_at > applied.grew_at {
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

impl Counter {
    /// Its present values, by the label; one without a name if they are judged together.
    fn values(&self, from: &Sources<'_>) -> BTreeMap<String, f64> {
        match self.by {
            Some(label) => sums_by(from, self.metric, self.which, label),
            None => [(String::new(), sum_of(from, self.metric, self.which))].into(),
        }
    }

    fn condition(&self, name: &str, growth: f64) -> Condition {
        Condition {
            severity: self.severity,
            subject: self.subject,
            identity: format!("{} {name}", self.what),
            what: self.what.replacen("{}", &growth.to_string(), 1).replacen("{name}", name, 1),
            help: self.help,
            patience: Duration::ZERO,
        }
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

/// All of them.
pub(super) const COUNTERS: &[Counter] = &[
    Counter {
        metric: "penstock_worker_panics_total",
        which: Which::All,
        by: None,
        severity: Severity::Critical,
        subject: "workers",
        what: "connections that a panic ended, which is a bug of the program: {}",
        help: "report the lines that journalctl -u penstock -g 'panicked at' prints (SECURITY.md says where)",
    },
    Counter {
        metric: "penstock_connections_refused_total",
        which: reason(&[("reason", &["limit", "descriptors"])]),
        by: None,
        severity: Severity::Critical,
        subject: "clients",
        what: "connections refused, since the limit of connections or descriptors is reached: {}",
        help: "raise limits.connections, and LimitNOFILE of the service; penstock doctor shows both",
    },
    Counter {
        metric: "penstock_connections_refused_total",
        which: reason(&[("reason", &["handshakes", "network"])]),
        by: None,
        severity: Severity::Warning,
        subject: "clients",
        what: "connections refused, since a network or the handshakes under way are at their limit: {}",
        help: "limits.connections_per_network and limits.handshakes_in_flight bound them; penstock_connections_refused_total tells which",
    },
    Counter {
        metric: "penstock_accept_errors_total",
        which: Which::All,
        by: None,
        severity: Severity::Critical,
        subject: "clients",
        what: "connections that could not be accepted: {}",
        help: "penstock doctor shows the limit of descriptors; raise LimitNOFILE of the service",
    },
    Counter {
        metric: "penstock_short_responses_total",
        which: reason(&[("reason", &["origin", "truncated"])]),
        by: None,
        severity: Severity::Critical,
        subject: "origins",
        what: "responses cut short, because an origin or a file ended early: {}",
        help: "the log of the origin; sites.origin.timeouts bounds how long it may pause",
    },
    Counter {
        metric: "penstock_cache_refusals_total",
        which: Which::All,
        by: None,
        severity: Severity::Warning,
        subject: "cache",
        what: "slices that found no space in memory, so that their responses were not cached: {}",
        help: "raise cache.memory.size",
    },
    Counter {
        metric: "penstock_cache_disk_errors_total",
        which: Which::All,
        by: Some("directory"),
        severity: Severity::Critical,
        subject: "cache",
        what: "calls that failed on the disk {name} of the cache: {}",
        help: "dmesg and smartctl show whether the disk is failing",
    },
    Counter {
        metric: "penstock_cache_disk_slices_total",
        which: reason(&[("event", &["damaged"])]),
        by: Some("directory"),
        severity: Severity::Critical,
        subject: "cache",
        what: "damaged slices on the disk {name}, which are fetched again: {}",
        help: "smartctl shows whether the disk is failing; penstock cache verify -c FILE reads everything",
    },
    Counter {
        metric: "penstock_access_log_dropped_total",
        which: Which::All,
        by: None,
        severity: Severity::Warning,
        subject: "program",
        what: "lines of the access log that were dropped: {}",
        help: "the disk of log.access is full or too slow",
    },
    Counter {
        metric: "penstock_private_key_fallbacks_total",
        which: Which::All,
        by: None,
        severity: Severity::Warning,
        subject: "keys",
        what: "handshakes signed by the local copy of a key that is elsewhere: {}",
        help: "penstock doctor -c FILE has each keyserver and token sign once",
    },
    Counter {
        metric: "penstock_keyserver_operations_total",
        which: reason(&[("result", &["wrong_signature"])]),
        by: Some("server"),
        severity: Severity::Critical,
        subject: "keys",
        what: "wrong signatures of the keyserver {name}: {}",
        help: "the keyserver has another key than the certificate, or is not yours: penstock doctor -c FILE",
    },
    Counter {
        metric: "penstock_fleet_operations_total",
        which: reason(&[("outcome", &["forged"])]),
        by: None,
        severity: Severity::Critical,
        subject: "store",
        what: "entries of the store that were not sealed with the fleet's secret: {}",
        help: "another program writes to this database of the store, or an edge has another fleet.secret",
    },
    Counter {
        metric: "penstock_fleet_operations_total",
        which: reason(&[("outcome", &["full"])]),
        by: None,
        severity: Severity::Warning,
        subject: "store",
        what: "operations for which the store had no memory left: {}",
        help: "raise maxmemory of the store; redis-cli -u URL info memory shows what it has",
    },
    Counter {
        metric: "penstock_fleet_purges_missed_total",
        which: Which::All,
        by: None,
        severity: Severity::Warning,
        subject: "store",
        what: "purges of the whole cache, because purges were missed: {}",
        help: "docs/fleet.md tells how long an edge may be away; fleet.state keeps its position",
    },
    Counter {
        metric: "penstock_keyserver_operations_total",
        which: reason(&[("result", &["refused"])]),
        by: Some("server"),
        severity: Severity::Warning,
        subject: "keys",
        what: "operations that the keyserver {name} refused: {}",
        help: "its log names the keys that it lacks, or which this edge may not use; penstock doctor -c FILE has it sign with each",
    },
    Counter {
        metric: "penstock_keyserver_operations_total",
        which: reason(&[("result", &["timed_out"])]),
        by: Some("server"),
        severity: Severity::Warning,
        subject: "keys",
        what: "operations that the keyserver {name} did not answer in time: {}",
        help: "penstock doctor -c FILE shows how long it takes",
    },
    Counter {
        metric: "penstock_hsm_operations_total",
        which: reason(&[("result", &["timed_out", "unavailable"])]),
        by: Some("token"),
        severity: Severity::Critical,
        subject: "keys",
        what: "operations that the hardware module of the token {name} did not answer: {}",
        help: "the log of the module tells why; penstock doctor -c FILE has it sign once",
    },
    Counter {
        metric: "penstock_hsm_operations_total",
        which: reason(&[("result", &["refused", "wrong_signature"])]),
        by: Some("token"),
        severity: Severity::Critical,
        subject: "keys",
        what: "operations that the token {name} refused or signed wrong: {}",
        help: "its key is not that of the certificate, or may not sign: penstock doctor -c FILE",
    },
    Counter {
        metric: "penstock_fleet_revoked_ids_dropped_total",
        which: Which::All,
        by: None,
        severity: Severity::Critical,
        subject: "store",
        what: "revoked ids that were dropped, since this edge keeps no more of them, so that their tokens are accepted again: {}",
        help: "write longer lists into the file of sites.tokens.revoked; let ids end sooner with penstock revoke --expires",
    },
];
