//! The metrics of TLS handshakes and ciphers.

use crate::labels::{ChaCha20Cause, Direction, HandshakePart, LastResponse, Signer};
use crate::metric::{Kind, Label, Metric, closed, open};
use crate::readings::Readings;

const OPERATION: &[Label] = &[
    open("part", "`key_exchange`, `signing`, `signing_remote`"),
    open("algorithm", "the group of the key exchange, or the signature, such as `ecdsa_sha256`"),
];

pub(super) const METRICS: &[Metric] = &[
    Metric {
        name: "penstock_handshakes_total",
        kind: Kind::Counter,
        help: "TLS handshakes that ended. Failed ones carry the labels `none` and `false`.",
        labels: &[
            open("version", "`TLSv1.2`, `TLSv1.3`; `TLSv1.0` and `TLSv1.1` if `tls.versions` names them"),
            open("cipher", "the IANA name of the cipher suite"),
            open("group", "the key exchange group"),
            closed("resumed", &["true", "false"]),
            closed("certificate", Signer::LABELS),
            closed("outcome", &["ok", "failed"]),
        ],
        read: |from, out| {
            for (facts, count) in from.metrics.sum_by_label(|shard| &shard.handshakes) {
                let resumed = if facts.resumed { "true" } else { "false" };
                let certificate = Signer::named(facts.certificate).label();
                out.sample(&[facts.version, facts.cipher, facts.group, resumed, certificate, "ok"], count);
            }
            out.sample(
                &["none", "none", "none", "false", "none", "failed"],
                from.metrics.handshakes_failed(),
            );
        },
    },
    Metric {
        name: "penstock_handshake_failures_total",
        kind: Kind::Counter,
        help: "TLS handshakes that failed.",
        labels: &[open("reason", "a fixed set of short names, such as `no_shared_cipher`, `timeout`")],
        read: |from, out| out.reasons(from, |shard| &shard.handshake_failures),
    },
    Metric {
        name: "penstock_handshake_seconds",
        kind: Kind::Histogram,
        help: "Duration of successful TLS handshakes, time spent waiting for the client included.",
        labels: &[closed("resumed", &["true", "false"])],
        read: |from, out| {
            out.distribution(&["false"], from.metrics.distribution(|shard| &shard.full_handshake_time));
            out.distribution(&["true"], from.metrics.distribution(|shard| &shard.resumed_handshake_time));
        },
    },
    Metric {
        name: "penstock_handshakes_queued_total",
        kind: Kind::Counter,
        help: "Full handshakes that waited for a permit to sign because the permits of the round were used up.",
        labels: &[],
        read: |from, out| out.sample(&[], from.metrics.sum(|shard| shard.handshakes_queued.get())),
    },
    Metric {
        name: "penstock_handshake_part_seconds",
        kind: Kind::Histogram,
        help: "Parts of the duration of successful TLS handshakes, by the kind of key that signed (docs/handshakes.md).",
        labels: &[closed("part", HandshakePart::LABELS), closed("certificate", Signer::LABELS)],
        read: |from, out| {
            let other = Signer::Other.label();
            let others_signed = from
                .metrics
                .sum_by_label(|shard| &shard.handshakes)
                .iter()
                .any(|(facts, _)| facts.certificate == other);
            for signer in Signer::ALL.iter().filter(|signer| **signer != Signer::Other || others_signed) {
                for part in HandshakePart::ALL {
                    let spent = from
                        .metrics
                        .distribution(|shard| &shard.handshake_parts[*signer as usize][*part as usize]);
                    out.distribution(&[part.label(), signer.label()], spent);
                }
            }
        },
    },
    Metric {
        name: "penstock_handshake_operations_total",
        kind: Kind::Counter,
        help: "Key exchanges and signatures of successful TLS handshakes, by algorithm. A suite of TLS 1.2 without forward secrecy has `rsa_decryption` in place of both.",
        labels: OPERATION,
        read: |from, out| {
            for ((part, algorithm), count) in from.metrics.sum_by_label(|shard| &shard.handshake_algorithms) {
                out.sample(&[part.label(), algorithm], count);
            }
        },
    },
    Metric {
        name: "penstock_handshake_operation_seconds_total",
        kind: Kind::Counter,
        help: "Time of the worker for these operations; of `signing_remote` the time from the request for a signature to the answer.",
        labels: OPERATION,
        read: |from, out| {
            let spent = from.metrics.sum_by_label(|shard| &shard.handshake_algorithm_time);
            for ((part, algorithm), nanoseconds) in spent {
                out.seconds(&[part.label(), algorithm], nanoseconds);
            }
        },
    },
    Metric {
        name: "penstock_handshakes_after_response_total",
        kind: Kind::Counter,
        help: "Successful TLS handshakes by the status of the last response to the same client address.",
        labels: &[closed("status", LastResponse::LABELS), closed("resumed", &["true", "false"])],
        read: |from, out| {
            for after in LastResponse::ALL {
                for (resumed, label) in ["false", "true"].into_iter().enumerate() {
                    let count =
                        from.metrics.sum(|shard| shard.handshakes_after[*after as usize][resumed].get());
                    out.sample(&[after.label(), label], count);
                }
            }
        },
    },
    Metric {
        name: "penstock_hello_retry_requests_total",
        kind: Kind::Counter,
        help: "Handshakes with a second ClientHello, because the first had no key share of a supported group (RFC 8446 section 4.1.4).",
        labels: &[],
        read: |from, out| out.sample(&[], from.metrics.sum(|shard| shard.hellos_retried.get())),
    },
    Metric {
        name: "penstock_tls_alerts_total",
        kind: Kind::Counter,
        help: "TLS alerts sent and received.",
        labels: &[closed("direction", Direction::LABELS), open("alert", "the name in RFC 8446 section 6")],
        read: |from, out| {
            for ((direction, alert), count) in from.metrics.sum_by_label(|shard| &shard.alerts) {
                out.sample(&[direction.label(), alert], count);
            }
        },
    },
    Metric {
        name: "penstock_tls_key_updates_total",
        kind: Kind::Counter,
        help: "KeyUpdate messages received from clients.",
        labels: &[],
        read: |from, out| out.sample(&[], from.metrics.sum(|shard| shard.key_updates.get())),
    },
    Metric {
        name: "penstock_chacha20_mode",
        kind: Kind::Gauge,
        help: "Always 1; the labels say how ChaCha20-Poly1305 is chosen and whether the configuration or the admin listener set the mode.",
        labels: &[
            closed("mode", &["client", "never", "auto"]),
            closed("set_by", &["configuration", "admin"]),
        ],
        read: |from, out| {
            if let Some(chacha20) = &from.readings.chacha20 {
                let set_by = if chacha20.set_by_admin { "admin" } else { "configuration" };
                out.sample(&[chacha20.mode, set_by], 1);
            }
        },
    },
    Metric {
        name: "penstock_chacha20_last_choice",
        kind: Kind::Gauge,
        help: "1 while ChaCha20-Poly1305 is used only with clients that offer no other cipher, 0 while clients that prefer it get it.",
        labels: &[],
        read: |from, out| {
            if let Some(chacha20) = &from.readings.chacha20 {
                out.sample(&[], u64::from(chacha20.is_last_choice));
            }
        },
    },
    Metric {
        name: "penstock_chacha20_switches_total",
        kind: Kind::Counter,
        help: "Changes of `penstock_chacha20_last_choice`, by cause.",
        labels: &[closed("cause", ChaCha20Cause::LABELS)],
        read: |from, out| {
            if let Some(chacha20) = &from.readings.chacha20 {
                out.each(|cause: ChaCha20Cause| chacha20.switches[cause as usize]);
            }
        },
    },
    Metric {
        name: "penstock_cipher_seal_bytes_per_second",
        kind: Kind::Gauge,
        help: "Speed at which one core seals full records in user space, measured once at the start.",
        labels: &[closed("cipher", &Readings::CIPHERS)],
        read: |from, out| {
            for (cipher, bytes_per_second) in &from.readings.seal_rates {
                out.sample(&[cipher], bytes_per_second.round());
            }
        },
    },
];
