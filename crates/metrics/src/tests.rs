//! A scrape is well-formed, and shows the sum of the counters of all workers.

mod memory;
mod readings;
mod scrape;
mod sites;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, UNIX_EPOCH};

use serde_json::{Value, json};

use crate::metric::{Kind, Values};
use crate::table::TABLE;
use crate::{
    CertificateExpiry, Direction, FileCounts, HandshakeFacts, HttpLabel, LastResponse, ListenerId, LogLoss,
    Method, Metrics, OutletKind, Protocol, QuicPackets, RateId, Readings, Refusal, ReloadOutcome, Shard,
    ShortReason, SiteId, StapleReading, TicketKeysReading, TicketOutcome, Timing, limits,
};

use readings::full_readings;
use scrape::Scrape;
use sites::count_site;

const FACTS: HandshakeFacts = HandshakeFacts {
    version: "TLSv1.3",
    cipher: "TLS_AES_128_GCM_SHA256",
    group: "X25519MLKEM768",
    resumed: false,
    certificate: "ecdsa",
};

/// Counts one of each event in the shard of a worker.
fn count_all(shard: &Shard, listener: ListenerId, (site, rate): (SiteId, RateId)) {
    shard.connection_opened(listener);
    shard.connection_opened(listener);
    shard.connection_closed(listener);
    shard.refused(Refusal::Limit);
    shard.accept_error("aborted");
    let timing = Timing {
        signing: Duration::from_millis(2),
        rest: Duration::from_millis(1),
        signature: "ecdsa_sha256",
        ..Timing::default()
    };
    shard.handshake_done(&FACTS, &timing, LastResponse::ClientError);
    let resumed = HandshakeFacts { resumed: true, certificate: "none", ..FACTS };
    shard.handshake_done(
        &resumed,
        &Timing { signing: Duration::ZERO, signature: "", ..timing },
        LastResponse::None,
    );
    shard.hello_retried();
    shard.early_data("delayed", "replayed");
    shard.early_request("answered");
    shard.handshake_failed("timeout");
    shard.alert(Direction::Sent, "handshake_failure");
    shard.key_update();
    shard.tickets(3, Some(TicketOutcome::Expired));
    shard.request(Method::Get, 206, Duration::from_secs(2), Some(Duration::from_millis(1)));
    shard.request(Method::named("BREW"), 418, Duration::from_micros(5), None);
    shard.rejected("no_host");
    shard.connection_speaks(HttpLabel::H2);
    shard.request_of(HttpLabel::H2);
    shard.stream_opened();
    shard.stream_opened();
    shard.stream_closed();
    shard.stream_reset("client");
    shard.stream_refused("streams");
    shard.stalled(3);
    shard.http2_error("ping_flood");
    shard.http3_stream_opened();
    shard.http3_stream_opened();
    shard.http3_stream_closed();
    shard.http3_stream_reset("client");
    shard.quic_ended("idle");
    shard.quic_version("1");
    shard.quic_answered("retry");
    shard.quic_dropped("inbox");
    shard.quic_packets(&QuicPackets { received: 1, sent: 2, lost: 3, migrations: 4 });
    shard.cached("hit");
    shard.signed_url("accepted");
    shard.manifest("hls");
    shard.reload("held");
    shard.origin("answered");
    count_site(shard, (site, rate));
    shard.sent(OutletKind::UserSpace, 1 << 40);
    shard.egress(OutletKind::UserSpace, "kernel_lacks_tls");
    shard.egress_ended("no_rekey");
    shard.short_response(ShortReason::TooSlow);
    shard.files(&FileCounts { open: 7, hits: 1, page_cache_misses: 1, ..FileCounts::default() });
    shard.busy(Duration::ZERO, Duration::from_secs(1));
    shard.busy(Duration::from_millis(250), Duration::from_secs(2));
    shard.cpu_modes(Duration::from_millis(200), Duration::from_millis(50));
    shard.panicked();
}

/// Two workers that counted each event once.
fn busy_metrics() -> Arc<Metrics> {
    let metrics = Metrics::new(2);
    let listener = metrics.listener("127.0.0.1:8443", Protocol::Https);
    let site = (metrics.site("video.example"), metrics.rate(500_000).unwrap());
    for worker in 0..2 {
        count_all(&metrics.shard(worker), listener, site);
    }
    let expiry = |subject: &str| CertificateExpiry {
        subject: subject.to_owned(),
        kind: "ecdsa",
        not_after_seconds: 9,
        late_seconds: 8,
    };
    metrics.set_certificates(vec![expiry("video.example"), expiry("say \"a\\b\"\nplease")]);
    metrics.set_certificate_faults(vec![("no_key", 1)]);
    metrics.reloaded(ReloadOutcome::Applied, UNIX_EPOCH + Duration::from_secs(1_700_000_000));
    metrics.reloaded(ReloadOutcome::Rejected, UNIX_EPOCH);
    metrics.set_prefetches(Arc::default());
    metrics.given_up().set_handshake_rate(Some(123.0));
    metrics.access_log().written(5);
    metrics.access_log().lost(LogLoss::QueueFull, 2);
    metrics.set_ticket_keys(TicketKeysReading {
        older: 2,
        introduced: 1,
        sealing_modified: Some(UNIX_EPOCH + Duration::from_secs(1_600_000_000)),
        ignored: [0, 4, 0],
    });
    metrics
}

fn full_scrape() -> Scrape {
    Scrape::parse(&busy_metrics().render(&full_readings()))
}

#[test]
fn a_scrape_is_well_formed_and_shows_every_metric_of_the_table() {
    let scrape = full_scrape();
    for metric in TABLE.iter().flat_map(|section| section.metrics) {
        assert_eq!(scrape.kinds.get(metric.name).map(String::as_str), Some(metric.kind.label()));
        let shown = scrape.samples.iter().any(|sample| scrape.family(&sample.name) == metric.name);
        assert!(shown, "{} has no sample though each event was counted", metric.name);
    }
    assert_eq!(scrape.kinds.len(), TABLE.iter().map(|section| section.metrics.len()).sum::<usize>());
}

#[test]
fn no_two_samples_have_the_same_name_and_labels() {
    let scrape = full_scrape();
    let distinct: BTreeSet<_> = scrape.samples.iter().map(|sample| (&sample.name, &sample.labels)).collect();
    assert_eq!(distinct.len(), scrape.samples.len());
}

#[test]
fn names_follow_the_conventions_of_prometheus() {
    for metric in TABLE.iter().flat_map(|section| section.metrics) {
        let name = metric.name;
        assert!(name.starts_with("penstock_") || name.starts_with("process_"), "{name}");
        assert_eq!(name.ends_with("_total"), metric.kind == Kind::Counter, "{name}");
        let units = ["_seconds", "_bytes_per_second", "_ratio"];
        assert!(metric.kind != Kind::Histogram || units.iter().any(|unit| name.ends_with(unit)), "{name}");
        assert!(!name.contains("milli") && !name.contains("_ms") && !name.contains("kilo"), "{name}");
        assert!(metric.help.ends_with('.') && !metric.help.contains('|'), "{name}: {}", metric.help);
    }
}

#[test]
fn labels_have_only_the_values_the_table_allows() {
    let scrape = full_scrape();
    for sample in &scrape.samples {
        let name = scrape.family(&sample.name);
        let metric =
            TABLE.iter().flat_map(|section| section.metrics).find(|metric| metric.name == name).unwrap();
        let expected: BTreeSet<_> = metric.labels.iter().map(|label| label.name).collect();
        let shown: BTreeSet<_> =
            sample.labels.keys().map(String::as_str).filter(|label| *label != "le").collect();
        assert_eq!(shown, expected, "{name}");
        for label in metric.labels {
            if let Values::Closed(values) = label.values {
                assert!(values.contains(&sample.labels[label.name].as_str()), "{name} {:?}", sample.labels);
            }
        }
    }
}

/// A metric, some of its labels, and the value of the sample with these labels.
type Expected<'a> = (&'a str, &'a [(&'a str, &'a str)], f64);

#[test]
fn the_counters_of_all_workers_are_summed() {
    let scrape = Scrape::of(&busy_metrics());
    let listener = [("listener", "127.0.0.1:8443"), ("protocol", "https")];
    let sums: &[Expected<'_>] = &[
        ("penstock_connections_total", &listener, 4.0),
        ("penstock_connections", &listener, 2.0),
        ("penstock_connections_refused_total", &[("reason", "limit")], 2.0),
        ("penstock_connections_refused_total", &[("reason", "draining")], 0.0),
        ("penstock_accept_errors_total", &[("reason", "aborted")], 2.0),
        ("penstock_handshakes_total", &[("outcome", "ok"), ("resumed", "true")], 2.0),
        ("penstock_handshakes_total", &[("outcome", "failed")], 2.0),
        ("penstock_handshake_failures_total", &[("reason", "timeout")], 2.0),
        ("penstock_handshake_seconds_sum", &[("resumed", "false")], 0.006),
        ("penstock_handshake_part_seconds_sum", &[("part", "signing"), ("certificate", "ecdsa")], 0.004),
        ("penstock_handshake_part_seconds_count", &[("part", "waiting"), ("certificate", "none")], 2.0),
        ("penstock_handshake_part_seconds_count", &[("part", "rest"), ("certificate", "rsa")], 0.0),
        ("penstock_handshakes_after_response_total", &[("status", "4xx"), ("resumed", "false")], 2.0),
        ("penstock_handshakes_after_response_total", &[("status", "none"), ("resumed", "true")], 2.0),
        ("penstock_handshakes_after_response_total", &[("status", "2xx"), ("resumed", "true")], 0.0),
        ("penstock_hello_retry_requests_total", &[], 2.0),
        ("penstock_tls_alerts_total", &[("direction", "sent"), ("alert", "handshake_failure")], 2.0),
        ("penstock_tls_key_updates_total", &[], 2.0),
        ("penstock_tls_tickets_issued_total", &[], 6.0),
        ("penstock_tls_tickets_offered_total", &[("outcome", "expired")], 2.0),
        ("penstock_tls_tickets_offered_total", &[("outcome", "forged")], 0.0),
        ("penstock_tls_ticket_keys", &[("state", "older")], 2.0),
        ("penstock_tls_ticket_key_timestamp_seconds", &[], 1_600_000_000.0),
        ("penstock_tls_ticket_files_ignored", &[("reason", "not_a_key")], 4.0),
        ("penstock_requests_total", &[("status", "2xx"), ("method", "GET")], 2.0),
        ("penstock_requests_total", &[("status", "4xx"), ("method", "other")], 2.0),
        ("penstock_request_rejections_total", &[("reason", "no_host")], 2.0),
        ("penstock_http_connections_total", &[("version", "h2")], 2.0),
        ("penstock_http_connections_total", &[("version", "h1")], 0.0),
        ("penstock_http_requests_total", &[("version", "h2")], 2.0),
        ("penstock_http2_streams", &[], 2.0),
        ("penstock_http2_resets_total", &[("cause", "client")], 2.0),
        ("penstock_http2_streams_refused_total", &[("reason", "streams")], 2.0),
        ("penstock_http2_flow_control_stalls_total", &[], 6.0),
        ("penstock_http2_connection_errors_total", &[("reason", "ping_flood")], 2.0),
        ("penstock_http3_streams", &[], 2.0),
        ("penstock_http3_resets_total", &[("cause", "client")], 2.0),
        ("penstock_quic_connection_ends_total", &[("reason", "idle")], 2.0),
        ("penstock_quic_versions_total", &[("version", "1")], 2.0),
        ("penstock_quic_answered_datagrams_total", &[("answer", "retry")], 2.0),
        ("penstock_quic_dropped_datagrams_total", &[("reason", "inbox")], 2.0),
        ("penstock_quic_packets_received_total", &[], 2.0),
        ("penstock_quic_packets_sent_total", &[], 4.0),
        ("penstock_quic_packets_lost_total", &[], 6.0),
        ("penstock_quic_migrations_total", &[], 8.0),
        ("penstock_request_seconds_count", &[], 4.0),
        ("penstock_request_seconds_sum", &[], 4.00001),
        ("penstock_time_to_first_byte_seconds_count", &[], 2.0),
        ("penstock_sent_bytes_total", &[("outlet", "user_space")], 2_199_023_255_552.0),
        ("penstock_egress_connections_total", &[("kind", "user_space"), ("reason", "kernel_lacks_tls")], 2.0),
        ("penstock_egress_ended_total", &[("reason", "no_rekey")], 2.0),
        ("penstock_short_responses_total", &[("reason", "too_slow")], 2.0),
        ("penstock_open_files", &[], 14.0),
        ("penstock_open_file_lookups_total", &[("result", "hit")], 2.0),
        ("penstock_page_cache_misses_total", &[], 2.0),
        ("penstock_worker_busy_ratio", &[("worker", "1")], 0.25),
        ("penstock_worker_busy_seconds_total", &[("worker", "1")], 0.25),
        ("penstock_worker_panics_total", &[("worker", "0")], 1.0),
        ("penstock_reloads_total", &[("outcome", "rejected")], 1.0),
        ("penstock_config_loaded_timestamp_seconds", &[], 1_700_000_000.0),
        ("penstock_access_log_written_total", &[], 5.0),
        ("penstock_access_log_dropped_total", &[("reason", "queue_full")], 2.0),
    ];
    for (name, labels, expected) in sums {
        assert_eq!(scrape.value(name, labels), *expected, "{name} {labels:?}");
    }
}

#[test]
fn the_time_of_workers_is_summed_by_mode_and_that_of_handshakes_by_algorithm() {
    let scrape = Scrape::of(&busy_metrics());
    let (modes, operations) =
        ("penstock_worker_busy_mode_seconds_total", "penstock_handshake_operations_total");
    let sums: &[Expected<'_>] = &[
        (modes, &[("worker", "1"), ("mode", "user")], 0.2),
        (modes, &[("worker", "1"), ("mode", "system")], 0.05),
        (operations, &[("part", "signing"), ("algorithm", "ecdsa_sha256")], 2.0),
        (operations, &[("part", "key_exchange"), ("algorithm", "X25519MLKEM768")], 4.0),
        ("penstock_handshake_operation_seconds_total", &[("part", "signing")], 0.004),
    ];
    for (name, labels, expected) in sums {
        assert_eq!(scrape.value(name, labels), *expected, "{name} {labels:?}");
    }
    assert_eq!(scrape.all(operations).len(), 2, "a resumed handshake has no signature");
}

#[test]
fn each_reading_is_shown_under_its_own_name() {
    let scrape = full_scrape();
    let disk = [("directory", "/disk")];
    let slices = |event| [("directory", "/disk"), ("event", event)];
    let server = [("target", "http://192.0.2.1")];
    let staple = [("subject", "video.example"), ("kind", "ecdsa")];
    let shown: &[Expected<'_>] = &[
        ("penstock_chacha20_mode", &[("mode", "auto"), ("set_by", "admin")], 1.0),
        ("penstock_chacha20_last_choice", &[], 1.0),
        ("penstock_chacha20_switches_total", &[("cause", "configuration")], 101.0),
        ("penstock_chacha20_switches_total", &[("cause", "pressure")], 103.0),
        ("penstock_cipher_seal_bytes_per_second", &[("cipher", "aes_128_gcm")], 7.8e9),
        ("penstock_cipher_seal_bytes_per_second", &[("cipher", "chacha20_poly1305")], 2.4e9),
        ("penstock_kernel_tls_connections", &[("sealer", "cpu")], 104.0),
        ("penstock_kernel_tls_connections", &[("sealer", "network_card")], 105.0),
        ("penstock_session_cache_sessions", &[], 106.0),
        ("penstock_session_cache_bytes", &[], 107.0),
        ("penstock_session_cache_stored_total", &[], 108.0),
        ("penstock_session_cache_lookups_total", &[("outcome", "hit")], 109.0),
        ("penstock_session_cache_lookups_total", &[("outcome", "miss")], 110.0),
        ("penstock_session_cache_lookups_total", &[("outcome", "expired")], 111.0),
        ("penstock_session_cache_evictions_total", &[], 112.0),
        ("penstock_staple_this_update_timestamp_seconds", &staple, 113.0),
        ("penstock_staple_next_update_timestamp_seconds", &staple, 114.0),
        ("penstock_origin_target_up", &server, 1.0),
        ("penstock_origin_target_connections", &server, 115.0),
        ("penstock_origin_target_waiting", &server, 116.0),
        ("penstock_origin_target_requests_total", &[("site", "video.example"), ("outcome", "timeout")], 1.0),
        (
            "penstock_origin_target_incomplete_total",
            &[("site", "video.example"), ("reason", "cut_short")],
            1.0,
        ),
        ("penstock_origin_target_connect_seconds_sum", &server, 0.02),
        ("penstock_origin_target_first_byte_seconds_sum", &server, 0.03),
        ("penstock_origin_target_response_seconds_sum", &server, 0.04),
        ("penstock_cache_bytes", &[], 117.0),
        ("penstock_cache_slices", &[], 118.0),
        ("penstock_cache_evicted_bytes", &[], 918.0),
        ("penstock_cache_copied_bytes", &[], 919.0),
        ("penstock_cache_evictions_total", &[], 119.0),
        ("penstock_cache_refusals_total", &[], 120.0),
        ("penstock_cache_bytes_max", &[], 136.0),
        ("penstock_cache_in_service", &[], 1.0),
        ("penstock_cache_waiting", &[], 1.0),
        ("penstock_cache_disk_in_service", &disk, 1.0),
        ("penstock_cache_disk_bytes", &disk, 121.0),
        ("penstock_cache_disk_bytes_max", &disk, 137.0),
        ("penstock_cache_disk_written_bytes_total", &disk, 122.0),
        ("penstock_cache_disk_scrubbed_bytes_total", &disk, 123.0),
        ("penstock_cache_disk_errors_total", &disk, 124.0),
        ("penstock_cache_disk_segments_dropped_total", &disk, 125.0),
        ("penstock_cache_disk_slices_total", &slices("written"), 126.0),
        ("penstock_cache_disk_slices_total", &slices("read"), 127.0),
        ("penstock_cache_disk_slices_total", &slices("promoted"), 128.0),
        ("penstock_cache_disk_slices_total", &slices("damaged"), 129.0),
        ("penstock_cache_disk_slices_total", &slices("busy"), 130.0),
        ("penstock_cache_disk_slices", &[], 131.0),
        ("penstock_cache_disk_index_bytes", &[], 132.0),
        ("penstock_cache_disk_waiting_bytes", &[], 133.0),
        ("penstock_cache_disk_skipped_total", &[], 134.0),
        ("penstock_cache_purge_list", &[], 135.0),
    ];
    for (name, labels, expected) in shown {
        assert_eq!(scrape.value(name, labels), *expected, "{name} {labels:?}");
    }
}

#[test]
fn parts_that_the_program_does_not_have_show_no_samples() {
    let scrape = Scrape::of(&Metrics::new(1));
    for name in [
        "penstock_chacha20_mode",
        "penstock_cipher_seal_bytes_per_second",
        "penstock_cache_bytes",
        "penstock_cache_disk_bytes",
        "penstock_cache_disk_slices",
        "penstock_cache_purge_list",
        "penstock_origin_target_up",
        "penstock_staple_this_update_timestamp_seconds",
    ] {
        assert!(scrape.kinds.contains_key(name), "{name}");
        assert!(scrape.all(name).is_empty(), "{name}");
    }
}

#[test]
fn of_two_staples_with_the_same_labels_the_first_to_expire_is_shown() {
    let staple = |seconds| StapleReading {
        subject: "video.example".to_owned(),
        kind: "rsa",
        this_update: UNIX_EPOCH,
        next_update: UNIX_EPOCH + Duration::from_secs(seconds),
    };
    let staples = vec![staple(30), staple(10), staple(20)];
    let readings = Readings { staples, ..Readings::default() };
    let scrape = Scrape::parse(&Metrics::new(1).render(&readings));
    assert_eq!(scrape.value("penstock_staple_next_update_timestamp_seconds", &[]), 10.0);
}

#[test]
fn label_values_are_escaped() {
    let metrics = busy_metrics();
    let expected = r#"{subject="say \"a\\b\"\nplease",kind="ecdsa"} 9"#;
    assert!(metrics.render(&Readings::default()).contains(expected));
    let scrape = Scrape::of(&metrics);
    let subject = ("subject", "say \"a\\b\"\nplease");
    assert_eq!(scrape.value("penstock_certificate_expiry_timestamp_seconds", &[subject]), 9.0);
    assert_eq!(scrape.value("penstock_certificate_late_timestamp_seconds", &[subject]), 8.0);
}

#[test]
fn buckets_are_cumulative_and_end_with_the_count() {
    let metrics = Metrics::new(1);
    let shard = metrics.shard(0);
    for duration in [0, 99_999, 100_000, 100_001, 2_000_000_000, 3_600_000_000_000] {
        shard.request(Method::Get, 200, Duration::from_nanos(duration), None);
    }
    let scrape = Scrape::of(&metrics);
    let buckets = scrape.all("penstock_request_seconds_bucket");
    let bounds: Vec<f64> = buckets.iter().map(|sample| sample.labels["le"].parse().unwrap()).collect();
    assert!(bounds.is_sorted_by(|a, b| a < b) && bounds.last() == Some(&f64::INFINITY), "{bounds:?}");
    assert!(buckets.is_sorted_by_key(|sample| sample.value));
    let at = |bound: &str| scrape.value("penstock_request_seconds_bucket", &[("le", bound)]);
    assert_eq!(at("0.0001"), 3.0, "a bound belongs to its own bucket");
    assert_eq!(at("0.00025"), 4.0);
    assert_eq!(at("2.5"), 5.0);
    assert_eq!(at("300"), 5.0);
    assert_eq!(at("+Inf"), 6.0);
    assert_eq!(scrape.value("penstock_request_seconds_count", &[]), 6.0);
}

#[test]
fn a_listener_keeps_its_counters_over_a_reload() {
    let metrics = Metrics::new(1);
    let first = metrics.listener("[::]:443", Protocol::Https);
    let plain = metrics.listener("[::]:443", Protocol::Http);
    assert_eq!(metrics.listener("[::]:443", Protocol::Https), first);
    assert_ne!(plain, first);
}

#[test]
fn listeners_beyond_the_bound_are_counted_together() {
    let metrics = Metrics::new(1);
    let shard = metrics.shard(0);
    for port in 0..limits::LISTENERS + 10 {
        shard.connection_opened(metrics.listener(&format!("127.0.0.1:{port}"), Protocol::Http));
    }
    let scrape = Scrape::of(&metrics);
    assert_eq!(scrape.all("penstock_connections").len(), limits::LISTENERS);
    assert_eq!(scrape.value("penstock_connections", &[("listener", "other")]), 11.0);
    assert_eq!(scrape.value("penstock_connections", &[("listener", "127.0.0.1:62")]), 1.0);
}

#[test]
fn label_values_beyond_the_bound_are_counted_as_other() {
    let metrics = Metrics::new(1);
    let shard = metrics.shard(0);
    let reasons: Vec<&'static str> =
        (0..limits::LABEL_SETS + 20).map(|n| &*format!("reason_{n}").leak()).collect();
    for reason in reasons.iter().chain(&reasons) {
        shard.rejected(reason);
    }
    let scrape = Scrape::of(&metrics);
    let name = "penstock_request_rejections_total";
    assert_eq!(scrape.all(name).len(), limits::LABEL_SETS + 1);
    assert_eq!(scrape.value(name, &[("reason", "reason_0")]), 2.0);
    assert_eq!(scrape.value(name, &[("reason", "other")]), 40.0);
}

#[test]
fn the_busy_share_is_that_of_the_last_interval() {
    let metrics = Metrics::new(1);
    let shard = metrics.shard(0);
    let ratio = || Scrape::of(&metrics).value("penstock_worker_busy_ratio", &[]);
    shard.busy(Duration::from_millis(100), Duration::from_micros(10));
    assert_eq!(ratio(), 0.0, "the start was not within the first ten microseconds of reports");
    shard.busy(Duration::from_millis(1000), Duration::from_micros(1_000_010));
    assert_eq!(ratio(), 0.9);
    shard.busy(Duration::from_millis(1100), Duration::from_micros(2_000_010));
    assert_eq!(ratio(), 0.1);
    shard.busy(Duration::from_millis(1100), Duration::from_micros(2_000_010));
    assert_eq!(ratio(), 0.1, "a report at the same moment changes nothing");
    shard.busy(Duration::from_millis(9000), Duration::from_secs(3));
    assert_eq!(ratio(), 1.0, "clocks that disagree cannot make it more than the whole");
}

#[test]
fn scrapes_while_workers_count_never_go_backwards_and_end_exact() {
    const WORKERS: usize = 4;
    const CONNECTIONS: u32 = 5_000;
    let metrics = Metrics::new(WORKERS);
    let listener = metrics.listener("127.0.0.1:1", Protocol::Https);
    let finished = AtomicBool::new(false);
    thread::scope(|scope| {
        let writers: Vec<_> = (0..WORKERS)
            .map(|worker| {
                let shard = metrics.shard(worker);
                scope.spawn(move || {
                    for number in 0..CONNECTIONS {
                        shard.connection_opened(listener);
                        let timing =
                            Timing { rest: Duration::from_micros(u64::from(number)), ..Timing::default() };
                        shard.handshake_done(&FACTS, &timing, LastResponse::None);
                        shard.request(Method::Get, 200, Duration::from_micros(u64::from(number)), None);
                        shard.connection_closed(listener);
                    }
                })
            })
            .collect();
        let reader = scope.spawn(|| {
            let mut before = 0.0;
            while !finished.load(Relaxed) {
                let scrape = Scrape::of(&metrics);
                let handshakes: f64 = scrape.all("penstock_handshakes_total").iter().map(|s| s.value).sum();
                assert!(handshakes >= before);
                before = handshakes;
                assert!(scrape.value("penstock_connections", &[]) <= WORKERS as f64 * f64::from(CONNECTIONS));
            }
        });
        for writer in writers {
            writer.join().unwrap();
        }
        finished.store(true, Relaxed);
        reader.join().unwrap();
    });
    let scrape = Scrape::of(&metrics);
    let all = WORKERS as f64 * f64::from(CONNECTIONS);
    assert_eq!(scrape.value("penstock_connections", &[]), 0.0);
    assert_eq!(scrape.value("penstock_connections_total", &[]), all);
    assert_eq!(scrape.value("penstock_handshakes_total", &[("outcome", "ok")]), all);
    assert_eq!(scrape.value("penstock_request_seconds_count", &[]), all);
}

#[test]
fn two_shards_never_share_a_cache_line() {
    assert_eq!(align_of::<Shard>() % 128, 0);
}

#[cfg(debug_assertions)]
#[test]
fn counting_from_a_second_thread_is_caught_in_debug_builds() {
    let metrics = Metrics::new(1);
    let shard = metrics.shard(0);
    shard.key_update();
    let elsewhere = thread::spawn(move || shard.key_update());
    assert!(elsewhere.join().is_err());
}

#[test]
fn the_status_shows_the_shares_of_handshakes() {
    let status = busy_metrics().status();
    assert_eq!(status["version"], env!("CARGO_PKG_VERSION"));
    assert_eq!(status["workers"][1]["busy_ratio"], 0.25);
    assert_eq!(status["connections"]["open"], 2);
    assert_eq!(status["connections"]["listeners"][0]["protocol"], "https");
    assert_eq!(status["handshakes"]["ok"], 4);
    assert_eq!(status["handshakes"]["failures"]["timeout"], 2);
    assert_eq!(status["handshakes"]["resumed_share"], 0.5);
    assert_eq!(status["handshakes"]["ciphers"]["TLS_AES_128_GCM_SHA256"]["share"], 1.0);
    assert_eq!(status["handshakes"]["rsa_share"], 0.0);
    assert_eq!(status["handshakes"]["certificates"]["ecdsa"]["share"], 0.5);
    assert_eq!(status["handshakes"]["parts_seconds"]["ecdsa"]["signing"], 0.002);
    assert_eq!(status["handshakes"]["parts_seconds"]["rsa"], Value::Null);
    let signing = json!({"part": "signing", "algorithm": "ecdsa_sha256", "count": 2, "seconds": 0.004});
    assert!(status["handshakes"]["operations"].as_array().unwrap().contains(&signing), "{status}");
    assert_eq!(status["workers"][1]["system_seconds"], 0.05);
    assert_eq!(status["handshakes"]["after_response"]["4xx"], 2);
    assert_eq!(status["handshakes"]["seconds"]["full"]["p50"], 0.003_75);
    assert_eq!(status["requests"]["total"], 4);
    assert_eq!(status["requests"]["by_class"]["2xx"], 2);
    assert_eq!(status["requests"]["short"]["too_slow"], 2);
    assert_eq!(status["sent_bytes"]["user_space"], 2u64 << 40);
    assert_eq!(status["egress"][0]["reason"], "kernel_lacks_tls");
    assert_eq!(status["access_log"]["dropped"]["queue_full"], 2);
}

#[test]
fn the_status_of_an_idle_program_has_no_shares() {
    let status = Metrics::new(1).status();
    assert!(status["handshakes"]["resumed_share"].is_null());
    assert!(status["handshakes"]["rsa_share"].is_null());
    assert!(status["handshakes"]["seconds"]["resumed"]["p99"].is_null());
    assert_eq!(status["requests"]["total"], 0);
}
