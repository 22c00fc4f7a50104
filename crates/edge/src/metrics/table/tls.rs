//! What is shown of handshakes and of TLS.

use penstock_egress::measure::{CIPHER_LABELS, CIPHERS};

use super::{closed, open};
use crate::chacha20::Cause;
use crate::metrics::exposition::{Kind, Metric};
use crate::metrics::labels::{Direction, HandshakePart, LastResponse, Signer};
use crate::metrics::lock;

pub(super) const METRICS: &[Metric] = &[
    Metric {
        name: "penstock_handshakes_total",
        kind: Kind::Counter,
        help: "TLS handshakes that ended. Failed ones agreed on nothing and carry `none` and `false`.",
        labels: &[
            open("version", "`TLSv1.2`, `TLSv1.3`; `TLSv1.0` and `TLSv1.1` where `tls.versions` names them"),
            open("cipher", "the IANA name of the cipher suite"),
            open("group", "the key exchange group"),
            closed("resumed", &["true", "false"]),
            closed("certificate", Signer::LABELS),
            closed("outcome", &["ok", "failed"]),
        ],
        read: |seen, out| {
            for (facts, count) in seen.tally(|shard| &shard.handshakes) {
                let resumed = if facts.resumed { "true" } else { "false" };
                let certificate = Signer::named(facts.certificate).label();
                out.sample(&[facts.version, facts.cipher, facts.group, resumed, certificate, "ok"], count);
            }
            out.sample(&["none", "none", "none", "false", "none", "failed"], seen.handshakes_failed());
        },
    },
    Metric {
        name: "penstock_handshake_failures_total",
        kind: Kind::Counter,
        help: "TLS handshakes that failed.",
        labels: &[open("reason", "a fixed set of short names, such as `no_shared_cipher`, `timeout`")],
        read: |seen, out| {
            for (reason, count) in seen.tally(|shard| &shard.handshake_failures) {
                out.sample(&[reason], count);
            }
        },
    },
    Metric {
        name: "penstock_handshake_seconds",
        kind: Kind::Histogram,
        help: "Duration of successful TLS handshakes, the client's part included.",
        labels: &[closed("resumed", &["true", "false"])],
        read: |seen, out| {
            out.distribution(&["false"], &seen.distribution(|shard| &shard.full_handshake_time));
            out.distribution(&["true"], &seen.distribution(|shard| &shard.resumed_handshake_time));
        },
    },
    Metric {
        name: "penstock_handshakes_queued_total",
        kind: Kind::Counter,
        help: "Full handshakes that waited for their turn to sign, because others had used up the round.",
        labels: &[],
        read: |seen, out| out.sample(&[], seen.sum(|shard| shard.policies.queued.get())),
    },
    Metric {
        name: "penstock_handshake_part_seconds",
        kind: Kind::Histogram,
        help: "What successful TLS handshakes spent their time on, by the kind of key that signed (docs/handshakes.md).",
        labels: &[closed("part", HandshakePart::LABELS), closed("certificate", Signer::LABELS)],
        read: |seen, out| {
            let other = Signer::Other.label();
            let others_signed =
                seen.tally(|shard| &shard.handshakes).iter().any(|(facts, _)| facts.certificate == other);
            for signer in Signer::ALL.iter().filter(|signer| **signer != Signer::Other || others_signed) {
                for part in HandshakePart::ALL {
                    let spent =
                        seen.distribution(|shard| &shard.handshake_parts[*signer as usize][*part as usize]);
                    out.distribution(&[part.label(), signer.label()], &spent);
                }
            }
        },
    },
    Metric {
        name: "penstock_handshakes_after_response_total",
        kind: Kind::Counter,
        help: "Successful TLS handshakes by the status of the last response that this client address was given.",
        labels: &[closed("status", LastResponse::LABELS), closed("resumed", &["true", "false"])],
        read: |seen, out| {
            for after in LastResponse::ALL {
                for (resumed, label) in ["false", "true"].into_iter().enumerate() {
                    let count = seen.sum(|shard| shard.handshakes_after[*after as usize][resumed].get());
                    out.sample(&[after.label(), label], count);
                }
            }
        },
    },
    Metric {
        name: "penstock_hello_retry_requests_total",
        kind: Kind::Counter,
        help: "Handshakes in which the client had to send a second ClientHello (RFC 8446 section 4.1.4), for want of a key share of a group we speak.",
        labels: &[],
        read: |seen, out| out.sample(&[], seen.sum(|shard| shard.policies.retried.get())),
    },
    Metric {
        name: "penstock_tls_alerts_total",
        kind: Kind::Counter,
        help: "TLS alerts.",
        labels: &[closed("direction", Direction::LABELS), open("alert", "the name in RFC 8446 section 6")],
        read: |seen, out| {
            for ((direction, alert), count) in seen.tally(|shard| &shard.alerts) {
                out.sample(&[direction.label(), alert], count);
            }
        },
    },
    Metric {
        name: "penstock_tls_key_updates_total",
        kind: Kind::Counter,
        help: "KeyUpdate messages received from clients.",
        labels: &[],
        read: |seen, out| out.sample(&[], seen.sum(|shard| shard.key_updates.get())),
    },
    Metric {
        name: "penstock_chacha20_mode",
        kind: Kind::Gauge,
        help: "Who gets ChaCha20-Poly1305: 1 for the mode in force, and who set it.",
        labels: &[
            closed("mode", &["client", "never", "auto"]),
            closed("set_by", &["configuration", "admin"]),
        ],
        read: |seen, out| {
            let status = seen.chacha20.status();
            let set_by = if status.ordered { "admin" } else { "configuration" };
            out.sample(&[status.mode.name(), set_by], 1);
        },
    },
    Metric {
        name: "penstock_chacha20_last_choice",
        kind: Kind::Gauge,
        help: "1 while only clients that offer nothing else get ChaCha20-Poly1305, 0 while those do that prefer it.",
        labels: &[],
        read: |seen, out| out.sample(&[], u64::from(seen.chacha20.status().is_last)),
    },
    Metric {
        name: "penstock_chacha20_switches_total",
        kind: Kind::Counter,
        help: "How often ChaCha20-Poly1305 became the last choice or came back.",
        labels: &[closed("cause", &Cause::LABELS)],
        read: |seen, out| {
            for cause in Cause::ALL {
                out.sample(&[cause.label()], seen.chacha20.switches(cause));
            }
        },
    },
    Metric {
        name: "penstock_cipher_seal_bytes_per_second",
        kind: Kind::Gauge,
        help: "What one core seals of full records in user space, measured once at the start.",
        labels: &[closed("cipher", &CIPHER_LABELS)],
        read: |seen, out| {
            let costs = *lock(&seen.costs);
            for (cipher, label) in CIPHERS.into_iter().zip(CIPHER_LABELS) {
                if let Some(rate) = costs.of(cipher).user_space_seal {
                    out.sample(&[label], rate.bytes_per_second().round());
                }
            }
        },
    },
];
