//! The state of the program as JSON: `/status.json`.

use serde_json::{Map, Value, json};

use crate::cells::{Counter, CounterVec, Distribution};
use crate::certificates::CertificateExpiry;
use crate::exposition::seconds;
use crate::facts::HandshakeFacts;
use crate::labels::{
    FileLookup, HandshakePart, LastResponse, LogLoss, Method, OfferedTicket, OutletKind, Refusal,
    ReloadOutcome, ShortReason, Signer, StatusClass,
};
use crate::readings::{RemoteKeysReading, SignerReading};
use crate::registry::{ListenerConnections, Metrics};
use crate::shard::Shard;

impl Metrics {
    /// The state of the program as JSON: `/status.json`.
    ///
    /// Keys name their unit. Counts begin at the start of the program. Shares are from 0 to 1, and null if nothing was
    /// counted.
    #[must_use]
    pub fn status(&self) -> Value {
        json!({
            "version": env!("CARGO_PKG_VERSION"),
            "uptime_seconds": self.started.elapsed().as_secs(),
            "workers": self.workers(),
            "connections": self.connections(),
            "handshakes": self.handshakes(),
            "tickets": {
                "issued": self.sum(|shard| shard.tickets_issued.get()),
                "offered": counts(OfferedTicket::ALL, OfferedTicket::label, |outcome| {
                    self.sum(|shard| shard.tickets_offered[outcome as usize].get())
                }),
            },
            "requests": self.requests(),
            "sent_bytes": counts(OutletKind::ALL, OutletKind::label, |kind| {
                self.sum(|shard| shard.sent[kind as usize].get())
            }),
            "egress": self.egress(),
            "files": {
                "open": self.sum(|shard| shard.open_files.get()),
                "lookups": counts(FileLookup::ALL, FileLookup::label, |result| {
                    self.sum(|shard| shard.file_lookups[result as usize].get())
                }),
                "page_cache_misses": self.sum(|shard| shard.page_cache_misses.get()),
            },
            "certificates": self.certificate_list(),
            "reloads": counts(ReloadOutcome::ALL, ReloadOutcome::label, |outcome| self.reloads(outcome)),
            "access_log": {
                "written": self.access_log.total_written(),
                "dropped": counts(LogLoss::ALL, LogLoss::label, |why| self.access_log.total_lost(why)),
            },
        })
    }

    fn workers(&self) -> Vec<Value> {
        let describe = |shard: &std::sync::Arc<Shard>| {
            json!({
                "busy_ratio": shard.busy.ratio(),
                "busy_seconds": seconds(shard.busy.total_nanoseconds.get()),
                "panics": shard.panics.get(),
            })
        };
        self.shards.iter().map(describe).collect()
    }

    fn connections(&self) -> Value {
        let listeners = self.listener_connections();
        json!({
            "open": listeners.iter().map(ListenerConnections::open).sum::<u64>(),
            "total": listeners.iter().map(|listener| listener.opened).sum::<u64>(),
            "refused": counts(Refusal::ALL, Refusal::label, |why| {
                self.sum(|shard| shard.refused[why as usize].get())
            }),
            "accept_errors": self.reasons(|shard| &shard.accept_errors),
            "listeners": listeners.iter().map(|listener| json!({
                "address": listener.address,
                "protocol": listener.protocol.label(),
                "open": listener.open(),
                "total": listener.opened,
            })).collect::<Vec<_>>(),
        })
    }

    fn handshakes(&self) -> Value {
        let agreed = self.sum_by_label(|shard| &shard.handshakes);
        let ok = agreed.iter().map(|(_, count)| count).sum();
        let resumed = agreed.iter().filter(|(facts, _)| facts.resumed).map(|(_, count)| count).sum();
        let signed_by = |kind: &str| {
            agreed.iter().filter(|(facts, _)| facts.certificate == kind).map(|(_, count)| count).sum()
        };
        json!({
            "ok": ok,
            "failed": self.handshakes_failed(),
            "failures": self.reasons(|shard| &shard.handshake_failures),
            "resumed": resumed,
            "resumed_share": share(resumed, ok),
            "versions": shares(&agreed, ok, |facts| facts.version),
            "ciphers": shares(&agreed, ok, |facts| facts.cipher),
            "groups": shares(&agreed, ok, |facts| facts.group),
            "certificates": shares(&agreed, ok, |facts| facts.certificate),
            "rsa_share": share(signed_by("rsa"), ok),
            "hello_retry_requests": self.sum(|shard| shard.hellos_retried.get()),
            "seconds": {
                "full": quantiles(&self.distribution(|shard| &shard.full_handshake_time)),
                "resumed": quantiles(&self.distribution(|shard| &shard.resumed_handshake_time)),
            },
            "parts_seconds": self.handshake_parts(),
            "after_response": counts(LastResponse::ALL, LastResponse::label, |after| {
                self.sum(|shard| shard.handshakes_after[after as usize].iter().map(Counter::get).sum())
            }),
        })
    }

    /// The mean of each part, for each kind of key that has signed.
    fn handshake_parts(&self) -> Map<String, Value> {
        let mean = |signer: Signer, part: HandshakePart| {
            let spent = self.distribution(|shard| &shard.handshake_parts[signer as usize][part as usize]);
            let count: u64 = spent.buckets.iter().sum();
            (count > 0).then(|| seconds(spent.sum_nanoseconds / count))
        };
        let seen = Signer::ALL.iter().filter(|signer| mean(**signer, HandshakePart::Rest).is_some());
        seen.map(|signer| {
            let parts =
                HandshakePart::ALL.iter().map(|part| (part.label().to_owned(), json!(mean(*signer, *part))));
            (signer.label().to_owned(), Value::Object(parts.collect()))
        })
        .collect()
    }

    fn requests(&self) -> Value {
        let by_class = counts(StatusClass::ALL, StatusClass::label, |class| {
            self.sum(|shard| {
                Method::ALL.iter().map(|method| shard.requests[*method as usize][class as usize].get()).sum()
            })
        });
        json!({
            "total": by_class.values().filter_map(Value::as_u64).sum::<u64>(),
            "by_class": by_class,
            "rejections": self.reasons(|shard| &shard.rejections),
            "short": counts(ShortReason::ALL, ShortReason::label, |why| {
                self.sum(|shard| shard.short_responses[why as usize].get())
            }),
        })
    }

    fn egress(&self) -> Vec<Value> {
        self.sum_by_label(|shard| &shard.egress)
            .into_iter()
            .map(|((kind, reason), connections)| {
                json!({"kind": kind.label(), "reason": reason, "connections": connections})
            })
            .collect()
    }

    fn certificate_list(&self) -> Vec<Value> {
        let describe = |certificate: &CertificateExpiry| {
            json!({
                "subject": certificate.subject,
                "kind": certificate.kind,
                "not_after_timestamp_seconds": certificate.not_after_seconds,
            })
        };
        self.certificates.first_to_expire().iter().map(describe).collect()
    }

    fn reasons(&self, vec: impl Fn(&Shard) -> &CounterVec<&'static str>) -> Map<String, Value> {
        self.sum_by_label(vec).into_iter().map(|(reason, count)| (reason.to_owned(), json!(count))).collect()
    }
}

impl RemoteKeysReading {
    /// The section `private_keys` of `/status.json`.
    #[must_use]
    pub fn status(&self) -> Value {
        let signer = |signer: &SignerReading, name: &str, connections: &str| {
            let operations = SignerReading::RESULTS.iter().zip(signer.operations);
            let mean = signer.operation_time.as_secs_f64() / signer.operations[0] as f64;
            json!({
                name: signer.name,
                "up": signer.up,
                "circuit_open": signer.circuit_open,
                "under_way": signer.under_way,
                connections: signer.connections,
                "operations": operations.map(|(name, count)| ((*name).to_owned(), json!(count))).collect::<Map<_, _>>(),
                "mean_seconds": (signer.operations[0] > 0).then_some(mean),
            })
        };
        let keyserver = |reading| signer(reading, "address", "connections");
        let token = |reading| signer(reading, "name", "sessions");
        json!({
            "fallbacks": self.fallbacks,
            "under_way": self.under_way,
            "keyservers": self.keyservers.iter().map(keyserver).collect::<Vec<_>>(),
            "tokens": self.tokens.iter().map(token).collect::<Vec<_>>(),
        })
    }
}

fn counts<L: Copy>(all: &[L], label: fn(L) -> &'static str, count: impl Fn(L) -> u64) -> Map<String, Value> {
    all.iter().map(|value| (label(*value).to_owned(), json!(count(*value)))).collect()
}

/// The count and share of each value of one of the negotiated parameters.
fn shares(
    agreed: &[(HandshakeFacts, u64)],
    all: u64,
    fact: fn(&HandshakeFacts) -> &'static str,
) -> Map<String, Value> {
    let mut values: Vec<(&str, u64)> = Vec::new();
    for (facts, count) in agreed {
        match values.iter_mut().find(|(value, _)| *value == fact(facts)) {
            Some((_, total)) => *total += count,
            None => values.push((fact(facts), *count)),
        }
    }
    let describe = |count: u64| json!({"count": count, "share": share(count, all)});
    values.into_iter().map(|(value, count)| (value.to_owned(), describe(count))).collect()
}

fn quantiles(distribution: &Distribution) -> Value {
    let at = |share| distribution.quantile(share).map(|nanoseconds| nanoseconds / 1e9);
    json!({"p50": at(0.5), "p90": at(0.9), "p99": at(0.99)})
}

fn share(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}
