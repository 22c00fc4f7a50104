//! What a scrape shows: its form, and that it is the sum of what the workers counted.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::{Duration, UNIX_EPOCH};

use super::exposition::{Kind, Values};
use super::table::TABLE;
use penstock_egress::measure::{Cost, Rate};
use penstock_origin::directory::OpenFilesCounters;
use penstock_origin::residency::ResidencyCounters;
use penstock_tls::Timing;

use penstock_tls::tickets::{TicketFacts, TicketOutcome};
use serde_json::Value;

use penstock_tls::early_data::EarlyData;

use super::*;

const FACTS: HandshakeFacts = HandshakeFacts {
    version: "TLSv1.3",
    cipher: "TLS_AES_128_GCM_SHA256",
    group: "X25519MLKEM768",
    resumed: false,
    certificate: "ecdsa",
};

/// A scrape, taken apart by the rules of the text format; it panics where the text breaks them.
struct Scrape {
    kinds: BTreeMap<String, String>,
    samples: Vec<Sample>,
}

struct Sample {
    name: String,
    labels: BTreeMap<String, String>,
    value: f64,
}

impl Scrape {
    fn of(observatory: &Observatory) -> Self {
        let text = observatory.render();
        assert!(text.ends_with('\n'));
        let mut scrape = Self { kinds: BTreeMap::new(), samples: Vec::new() };
        let mut family = String::new();
        for line in text.lines() {
            if let Some(help) = line.strip_prefix("# HELP ") {
                family = help.split_once(' ').unwrap().0.to_owned();
            } else if let Some(kind) = line.strip_prefix("# TYPE ") {
                let (name, kind) = kind.split_once(' ').unwrap();
                assert_eq!(name, family, "HELP and TYPE belong together");
                assert!(
                    scrape.kinds.insert(name.to_owned(), kind.to_owned()).is_none(),
                    "{name} appears twice"
                );
            } else {
                let sample = Sample::parse(line);
                assert_eq!(scrape.family(&sample.name), family, "{line} stands in another family");
                scrape.samples.push(sample);
            }
        }
        scrape
    }

    /// The metric a sample belongs to: of a histogram, the samples have suffixes.
    fn family<'a>(&self, name: &'a str) -> &'a str {
        let base = ["_bucket", "_sum", "_count"].iter().find_map(|suffix| name.strip_suffix(suffix));
        match base {
            Some(base) if self.kinds.get(base).is_some_and(|kind| kind == "histogram") => base,
            _ => name,
        }
    }

    fn all(&self, name: &str) -> Vec<&Sample> {
        self.samples.iter().filter(|sample| sample.name == name).collect()
    }

    /// The value of the only sample with at least these labels.
    fn value(&self, name: &str, labels: &[(&str, &str)]) -> f64 {
        let wanted = |sample: &&&Sample| {
            labels.iter().all(|(label, value)| sample.labels.get(*label).is_some_and(|held| held == value))
        };
        let all = self.all(name);
        let found: Vec<_> = all.iter().filter(wanted).collect();
        assert_eq!(found.len(), 1, "{name} {labels:?}");
        found[0].value
    }
}

impl Sample {
    fn parse(line: &str) -> Self {
        let end = line.find(['{', ' ']).unwrap();
        let (name, mut rest) = line.split_at(end);
        assert!(name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_'), "{line}");
        let mut labels = BTreeMap::new();
        if rest.starts_with('{') {
            while let Some(more) = rest.strip_prefix(['{', ',']) {
                let (label, value) = more.split_once("=\"").unwrap();
                let (value, more) = unquote(value);
                assert!(labels.insert(label.to_owned(), value).is_none(), "{line}");
                rest = more;
            }
            rest = rest.strip_prefix('}').unwrap();
        }
        let value = rest.strip_prefix(' ').unwrap().parse().unwrap();
        Self { name: name.to_owned(), labels, value }
    }
}

/// A label value up to its closing quote, and what follows.
fn unquote(text: &str) -> (String, &str) {
    let mut value = String::new();
    let mut characters = text.char_indices();
    while let Some((at, character)) = characters.next() {
        match character {
            '"' => return (value, &text[at + 1..]),
            '\\' => match characters.next().unwrap().1 {
                'n' => value.push('\n'),
                quoted @ ('\\' | '"') => value.push(quoted),
                other => panic!("no such escape: {other}"),
            },
            '\n' => panic!("a bare line end in a label value"),
            _ => value.push(character),
        }
    }
    panic!("no closing quote: {text}")
}

/// Counts one of everything in the shard of a worker.
fn count_all(shard: &Shard, listener: ListenerId) {
    shard.connection_opened(listener);
    shard.connection_opened(listener);
    shard.connection_closed(listener);
    shard.refused(Refusal::Limit);
    shard.accept_error("aborted");
    let timing =
        Timing { signing: Duration::from_millis(2), rest: Duration::from_millis(1), ..Timing::default() };
    shard.handshake_done(&FACTS, &timing, LastResponse::ClientError);
    let resumed = HandshakeFacts { resumed: true, certificate: "none", ..FACTS };
    shard.handshake_done(&resumed, &Timing { signing: Duration::ZERO, ..timing }, LastResponse::None);
    shard.hello_retried();
    shard.early_data(EarlyData::Delayed("replayed"));
    shard.early_request("answered");
    shard.handshake_failed("timeout");
    shard.alert(Direction::Sent, "handshake_failure");
    shard.key_update();
    shard.tickets(&TicketFacts { offered: Some(TicketOutcome::Expired), issued: 3 });
    shard.request(Method::Get, 206, Duration::from_secs(2), Some(Duration::from_millis(1)));
    shard.request(Method::named("BREW"), 418, Duration::from_micros(5), None);
    shard.rejected("no_host");
    shard.cached("hit");
    shard.signed_url("accepted");
    shard.manifest("hls");
    shard.reload("held");
    shard.origin("answered");
    shard.sent(OutletKind::UserSpace, 1 << 40);
    shard.egress(OutletKind::UserSpace, "kernel_lacks_tls");
    shard.egress_ended("no_rekey");
    shard.short_response(ShortReason::TooSlow);
    shard.files(
        &OpenFilesCounters { files: 7, hits: 1, ..OpenFilesCounters::default() },
        &ResidencyCounters { loaded: 1, ..ResidencyCounters::default() },
    );
    shard.busy(Duration::from_millis(250), Duration::from_secs(1));
    shard.panicked();
}

/// Two workers that both counted everything once.
fn busy_observatory() -> Arc<Observatory> {
    let observatory = Observatory::new(2);
    let listener = observatory.listener("127.0.0.1:8443", Protocol::Https);
    for worker in 0..2 {
        count_all(&observatory.shard(worker), listener);
    }
    let expiry = |subject: &str| CertificateExpiry {
        subject: subject.to_owned(),
        kind: "ecdsa",
        not_after_seconds: 9,
    };
    observatory.set_certificates(vec![expiry("video.example"), expiry("say \"a\\b\"\nplease")]);
    observatory.set_certificate_faults(vec![("no_key", 1)]);
    observatory.reloaded(ReloadOutcome::Applied, UNIX_EPOCH + Duration::from_secs(1_700_000_000));
    observatory.reloaded(ReloadOutcome::Rejected, UNIX_EPOCH);
    observatory.set_prefetches(Arc::default());
    observatory.access_log().written(5);
    observatory.access_log().lost(LogLoss::QueueFull, 2);
    let cost = |rate| Cost { user_space_seal: Rate::new(rate), ..Cost::default() };
    observatory.set_costs(Costs {
        aes_128_gcm: cost(7.8e9),
        aes_256_gcm: cost(6.5e9),
        chacha20_poly1305: cost(2.4e9),
    });
    observatory.set_ticket_keys(TicketKeysSeen {
        older: 2,
        introduced: 1,
        sealing_modified: Some(UNIX_EPOCH + Duration::from_secs(1_600_000_000)),
        ignored: [0, 4, 0],
    });
    observatory
}

/// How the names begin of what exists only with a cache or with a response that was checked; the tests of these look at
/// it.
const NEED_MORE: &[&str] = &[
    "penstock_cache_bytes",
    "penstock_cache_slices",
    "penstock_cache_evictions_total",
    "penstock_cache_refusals_total",
    "penstock_cache_purge_list",
    "penstock_cache_disk_",
    "penstock_origin_target_up",
    "penstock_origin_target_connections",
    "penstock_origin_target_waiting",
    "penstock_staple_this_update_timestamp_seconds",
    "penstock_staple_next_update_timestamp_seconds",
];

#[test]
fn a_scrape_is_well_formed_and_shows_every_metric_of_the_table() {
    let scrape = Scrape::of(&busy_observatory());
    for metric in TABLE.iter().flat_map(|section| section.metrics) {
        assert_eq!(scrape.kinds.get(metric.name).map(String::as_str), Some(metric.kind.label()));
        let shown = scrape.samples.iter().any(|sample| scrape.family(&sample.name) == metric.name);
        let shown = shown || NEED_MORE.iter().any(|name| metric.name.starts_with(name));
        assert!(shown, "{} has no sample though everything was counted", metric.name);
    }
    assert_eq!(scrape.kinds.len(), TABLE.iter().map(|section| section.metrics.len()).sum::<usize>());
}

#[test]
fn no_two_samples_have_the_same_name_and_labels() {
    let scrape = Scrape::of(&busy_observatory());
    let distinct: BTreeSet<_> = scrape.samples.iter().map(|sample| (&sample.name, &sample.labels)).collect();
    assert_eq!(distinct.len(), scrape.samples.len());
}

#[test]
fn names_follow_the_conventions_of_prometheus() {
    for metric in TABLE.iter().flat_map(|section| section.metrics) {
        let name = metric.name;
        assert!(name.starts_with("penstock_") || name.starts_with("process_"), "{name}");
        assert_eq!(name.ends_with("_total"), metric.kind == Kind::Counter, "{name}");
        assert!(metric.kind != Kind::Histogram || name.ends_with("_seconds"), "{name}");
        assert!(!name.contains("milli") && !name.contains("_ms") && !name.contains("kilo"), "{name}");
        assert!(metric.help.ends_with('.') && !metric.help.contains('|'), "{name}: {}", metric.help);
    }
}

#[test]
fn labels_have_only_the_values_the_table_allows() {
    let scrape = Scrape::of(&busy_observatory());
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

/// A metric, some of its labels, and the value that the sample with these labels must have.
type Expected<'a> = (&'a str, &'a [(&'a str, &'a str)], f64);

#[test]
fn what_the_workers_counted_is_summed() {
    let scrape = Scrape::of(&busy_observatory());
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
fn a_cipher_that_was_not_measured_has_no_sample() {
    let observatory = Observatory::new(1);
    assert!(Scrape::of(&observatory).all("penstock_cipher_seal_bytes_per_second").is_empty());
    let aes_128_gcm = Cost { user_space_seal: Rate::new(7.8e9), ..Cost::default() };
    observatory.set_costs(Costs { aes_128_gcm, ..Costs::default() });
    let scrape = Scrape::of(&observatory);
    let labels = [("cipher", "aes_128_gcm")];
    assert_eq!(scrape.value("penstock_cipher_seal_bytes_per_second", &labels), 7.8e9);
    assert_eq!(scrape.all("penstock_cipher_seal_bytes_per_second").len(), 1);
}

#[test]
fn label_values_are_escaped() {
    let observatory = busy_observatory();
    let expected = r#"{subject="say \"a\\b\"\nplease",kind="ecdsa"} 9"#;
    assert!(observatory.render().contains(expected));
    let scrape = Scrape::of(&observatory);
    let subject = ("subject", "say \"a\\b\"\nplease");
    assert_eq!(scrape.value("penstock_certificate_expiry_timestamp_seconds", &[subject]), 9.0);
}

#[test]
fn buckets_are_cumulative_and_end_with_the_count() {
    let observatory = Observatory::new(1);
    let shard = observatory.shard(0);
    for duration in [0, 99_999, 100_000, 100_001, 2_000_000_000, 3_600_000_000_000] {
        shard.request(Method::Get, 200, Duration::from_nanos(duration), None);
    }
    let scrape = Scrape::of(&observatory);
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
    let observatory = Observatory::new(1);
    let first = observatory.listener("[::]:443", Protocol::Https);
    let plain = observatory.listener("[::]:443", Protocol::Http);
    assert_eq!(observatory.listener("[::]:443", Protocol::Https), first);
    assert_ne!(plain, first);
}

#[test]
fn listeners_beyond_the_bound_are_counted_together() {
    let observatory = Observatory::new(1);
    let shard = observatory.shard(0);
    for port in 0..limits::METRICS_LISTENERS + 10 {
        shard.connection_opened(observatory.listener(&format!("127.0.0.1:{port}"), Protocol::Http));
    }
    let scrape = Scrape::of(&observatory);
    assert_eq!(scrape.all("penstock_connections").len(), limits::METRICS_LISTENERS);
    assert_eq!(scrape.value("penstock_connections", &[("listener", "other")]), 11.0);
    assert_eq!(scrape.value("penstock_connections", &[("listener", "127.0.0.1:62")]), 1.0);
}

#[test]
fn labels_that_do_not_fit_are_counted_as_other() {
    let observatory = Observatory::new(1);
    let shard = observatory.shard(0);
    let reasons: Vec<&'static str> =
        (0..limits::METRICS_LABEL_SETS + 20).map(|n| &*format!("reason_{n}").leak()).collect();
    for reason in reasons.iter().chain(&reasons) {
        shard.rejected(reason);
    }
    let scrape = Scrape::of(&observatory);
    let name = "penstock_request_rejections_total";
    assert_eq!(scrape.all(name).len(), limits::METRICS_LABEL_SETS + 1);
    assert_eq!(scrape.value(name, &[("reason", "reason_0")]), 2.0);
    assert_eq!(scrape.value(name, &[("reason", "other")]), 40.0);
}

#[test]
fn the_busy_share_is_that_of_the_last_interval() {
    let observatory = Observatory::new(1);
    let shard = observatory.shard(0);
    let ratio = || Scrape::of(&observatory).value("penstock_worker_busy_ratio", &[]);
    shard.busy(Duration::from_millis(900), Duration::from_secs(1));
    assert_eq!(ratio(), 0.9);
    shard.busy(Duration::from_millis(1000), Duration::from_secs(2));
    assert_eq!(ratio(), 0.1);
    shard.busy(Duration::from_millis(1000), Duration::from_secs(2));
    assert_eq!(ratio(), 0.1, "a report at the same moment says nothing");
    shard.busy(Duration::from_millis(9000), Duration::from_secs(3));
    assert_eq!(ratio(), 1.0, "clocks that disagree cannot make it more than the whole");
}

#[test]
fn scrapes_between_the_counting_of_many_workers_never_go_backwards_and_end_exact() {
    const WORKERS: usize = 4;
    const CONNECTIONS: u32 = 5_000;
    let observatory = Observatory::new(WORKERS);
    let listener = observatory.listener("127.0.0.1:1", Protocol::Https);
    let finished = AtomicBool::new(false);
    thread::scope(|scope| {
        let writers: Vec<_> = (0..WORKERS)
            .map(|worker| {
                let shard = observatory.shard(worker);
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
                let scrape = Scrape::of(&observatory);
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
    let scrape = Scrape::of(&observatory);
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
    let observatory = Observatory::new(1);
    let shard = observatory.shard(0);
    shard.key_update();
    let elsewhere = thread::spawn(move || shard.key_update());
    assert!(elsewhere.join().is_err());
}

#[test]
fn status_tells_the_shares_of_handshakes() {
    let status = busy_observatory().status();
    assert_eq!(status["version"], VERSION);
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
    let status = Observatory::new(1).status();
    assert!(status["handshakes"]["resumed_share"].is_null());
    assert!(status["handshakes"]["rsa_share"].is_null());
    assert!(status["handshakes"]["seconds"]["resumed"]["p99"].is_null());
    assert_eq!(status["requests"]["total"], 0);
}
