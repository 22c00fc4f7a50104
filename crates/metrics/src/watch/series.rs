//! The numbers of each second, from the table of metrics.

use crate::cells::Distribution;
use crate::labels::CacheOutcome;
use crate::lookup::{Which, look_up, sum_of, values_of};
use crate::metric::Sources;

/// One number of each second.
#[derive(Debug)]
pub(super) struct Series {
    /// Its name, which ends in the unit.
    pub(super) name: &'static str,
    source: Source,
}

/// How a number follows from a metric.
#[derive(Debug)]
enum Source {
    /// Growth of the sum of a counter per second.
    Rate(&'static str, Which),
    /// Growth of the sum of a histogram's durations per second, in seconds.
    Spent(&'static str, Which),
    /// Quantile of the durations since the last look.
    Quantile(&'static str, Which, f64),
    /// Growth of these samples as a part of that of all.
    Part(&'static str, Which),
    /// Sum of a gauge.
    Sum(&'static str, Which),
    /// Mean of a gauge.
    Mean(&'static str),
    /// Highest value of a gauge.
    Highest(&'static str),
}

/// What the last look saw.
#[derive(Debug, Default)]
pub(super) struct Before {
    number: f64,
    whole: f64,
    distribution: Option<Distribution>,
}

impl Series {
    /// The number, and what the next look needs.
    #[expect(clippy::cast_possible_truncation, reason = "a chart needs seven digits")]
    pub(super) fn value(&self, from: &Sources<'_>, before: &mut Before, elapsed: Option<f64>) -> f32 {
        let mut rate = |total: f64| {
            let grown = (total - before.number).max(0.0);
            before.number = total;
            elapsed.filter(|elapsed| *elapsed > 0.0).map_or(f64::NAN, |elapsed| grown / elapsed)
        };
        let value = match self.source {
            Source::Rate(name, which) => rate(sum_of(from, name, which)),
            Source::Spent(name, which) => {
                rate(distribution(from, name, which).map_or(0.0, |total| total.sum()))
            }
            Source::Quantile(name, which, share) => {
                let total = distribution(from, name, which);
                let grown = match (&total, &before.distribution) {
                    (Some(total), Some(before)) => Some(total.since(before)),
                    _ => total.clone(),
                };
                before.distribution = total;
                elapsed.and(grown).and_then(|grown| grown.quantile(share)).unwrap_or(f64::NAN)
            }
            Source::Part(name, which) => {
                let (part, whole) = (sum_of(from, name, which), sum_of(from, name, Which::All));
                let grown = (part - before.number, whole - before.whole);
                (before.number, before.whole) = (part, whole);
                if elapsed.is_some() && grown.1 > 0.0 { grown.0 / grown.1 } else { f64::NAN }
            }
            Source::Sum(name, which) => {
                let values = values_of(from, name, which);
                if values.is_empty() { f64::NAN } else { values.iter().sum() }
            }
            Source::Mean(name) => {
                let values = values_of(from, name, Which::All);
                values.iter().sum::<f64>() / values.len() as f64
            }
            Source::Highest(name) => values_of(from, name, Which::All).into_iter().fold(f64::NAN, f64::max),
        };
        value as f32
    }
}

/// The sum of the distributions that count; `None` if there are none.
fn distribution(from: &Sources<'_>, name: &str, which: Which) -> Option<Distribution> {
    let (metric, samples) = look_up(from, name);
    let taken = samples.distributions.iter().filter(|(labels, _)| which.takes(metric, labels));
    taken.map(|(_, one)| one.clone()).reduce(|mut total, one| {
        total.add(&one);
        total
    })
}

const fn series(name: &'static str, source: Source) -> Series {
    Series { name, source }
}

const OK: (&str, &[&str]) = ("outcome", &["ok"]);
const FULL: Which = Which::Only(&[("resumed", &["false"])]);
const RESUMED: Which = Which::Only(&[("resumed", &["true"])]);
const SIGNING: Which = Which::Only(&[("part", &["signing", "signing_remote", "key_exchange"])]);

macro_rules! work {
    ($name:literal) => {
        Source::Part("penstock_worker_work_samples_total", Which::Only(&[("work", &[$name])]))
    };
}

const HITS: Which = Which::Only(&[("outcome", CacheOutcome::HITS)]);

/// Outcomes of requests to origins that are no fault of the origin.
const NO_FAULTS: &[&str] =
    &["answered", "not_modified", "abandoned", "no_readers", "changed", "no_room", "unsendable"];

/// All numbers of a second. Names only grow in number: dashboards read them.
pub(super) const SERIES: &[Series] = &[
    series("sent_bytes_per_second", Source::Rate("penstock_sent_bytes_total", Which::All)),
    series("requests_per_second", Source::Rate("penstock_requests_total", Which::All)),
    series(
        "responses_4xx_per_second",
        Source::Rate("penstock_requests_total", Which::Only(&[("status", &["4xx"])])),
    ),
    series(
        "responses_5xx_per_second",
        Source::Rate("penstock_requests_total", Which::Only(&[("status", &["5xx"])])),
    ),
    series("rejections_per_second", Source::Rate("penstock_request_rejections_total", Which::All)),
    series("connections", Source::Sum("penstock_connections", Which::All)),
    series("new_connections_per_second", Source::Rate("penstock_connections_total", Which::All)),
    series("refused_connections_per_second", Source::Rate("penstock_connections_refused_total", Which::All)),
    series("http2_streams", Source::Sum("penstock_http2_streams", Which::All)),
    series("http3_streams", Source::Sum("penstock_http3_streams", Which::All)),
    series(
        "first_byte_p50_seconds",
        Source::Quantile("penstock_time_to_first_byte_seconds", Which::All, 0.5),
    ),
    series(
        "first_byte_p99_seconds",
        Source::Quantile("penstock_time_to_first_byte_seconds", Which::All, 0.99),
    ),
    series("request_p99_seconds", Source::Quantile("penstock_request_seconds", Which::All, 0.99)),
    series(
        "full_handshakes_per_second",
        Source::Rate("penstock_handshakes_total", Which::Only(&[OK, ("resumed", &["false"])])),
    ),
    series(
        "resumed_handshakes_per_second",
        Source::Rate("penstock_handshakes_total", Which::Only(&[OK, ("resumed", &["true"])])),
    ),
    series(
        "failed_handshakes_per_second",
        Source::Rate("penstock_handshakes_total", Which::Only(&[("outcome", &["failed"])])),
    ),
    series("full_handshake_p50_seconds", Source::Quantile("penstock_handshake_seconds", FULL, 0.5)),
    series("full_handshake_p99_seconds", Source::Quantile("penstock_handshake_seconds", FULL, 0.99)),
    series("resumed_handshake_p50_seconds", Source::Quantile("penstock_handshake_seconds", RESUMED, 0.5)),
    series("signing_seconds_per_second", Source::Spent("penstock_handshake_part_seconds", SIGNING)),
    series("queued_handshakes_per_second", Source::Rate("penstock_handshakes_queued_total", Which::All)),
    series("cache_requests_per_second", Source::Rate("penstock_cache_requests_total", Which::All)),
    series("cache_hits_per_second", Source::Rate("penstock_cache_requests_total", HITS)),
    series("origin_bytes_per_second", Source::Rate("penstock_origin_received_bytes_total", Which::All)),
    series("origin_requests_per_second", Source::Rate("penstock_origin_requests_total", Which::All)),
    series(
        "origin_errors_per_second",
        Source::Rate("penstock_origin_requests_total", Which::Not("outcome", NO_FAULTS)),
    ),
    series("memory_tier_bytes", Source::Sum("penstock_cache_bytes", Which::All)),
    series("disk_tier_bytes", Source::Sum("penstock_cache_disk_bytes", Which::All)),
    series("evictions_per_second", Source::Rate("penstock_cache_evictions_total", Which::All)),
    series(
        "disk_written_bytes_per_second",
        Source::Rate("penstock_cache_disk_written_bytes_total", Which::All),
    ),
    series("workers_busy_mean_ratio", Source::Mean("penstock_worker_busy_ratio")),
    series("workers_busy_max_ratio", Source::Highest("penstock_worker_busy_ratio")),
    series(
        "slow_clients_per_second",
        Source::Rate("penstock_short_responses_total", Which::Only(&[("reason", &["too_slow", "idle"])])),
    ),
    series("short_responses_per_second", Source::Rate("penstock_short_responses_total", Which::All)),
    series("window_stalls_per_second", Source::Rate("penstock_http2_flow_control_stalls_total", Which::All)),
    series("lost_packets_per_second", Source::Rate("penstock_quic_packets_lost_total", Which::All)),
    series("cpu_seconds_per_second", Source::Rate("process_cpu_seconds_total", Which::All)),
    series("resident_bytes", Source::Sum("process_resident_memory_bytes", Which::All)),
    series("open_descriptors", Source::Sum("process_open_fds", Which::All)),
    series("handshake_rate_limit", Source::Sum("penstock_handshake_rate_limit", Which::All)),
    series("work_handshakes_ratio", work!("handshakes")),
    series("work_sealing_ratio", work!("sealing")),
    series("work_sending_ratio", work!("sending")),
    series("work_filling_ratio", work!("filling")),
];
