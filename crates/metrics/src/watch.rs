//! What has happened since the last look at the metrics: numbers for charts, and what is wrong, in words.

mod problems;
mod series;

use std::time::{Instant, SystemTime};

use serde_json::{Value as Json, json};

use crate::metric::Sources;
use crate::readings::Readings;
use crate::registry::Metrics;
use problems::Problems;
use series::{Before, SERIES};

pub use problems::{Problem, Severity};

/// Compares the metrics with those of the last look, which was about a second ago.
///
/// It holds one number or one histogram for each of [`Watch::series`], and a time for each present problem.
#[derive(Debug, Default)]
pub struct Watch {
    looked_at: Option<Instant>,
    before: Vec<Before>,
    problems: Problems,
    present: Vec<Problem>,
}

impl Watch {
    /// The names of the numbers of a look, each with its unit.
    #[must_use]
    pub fn series() -> Vec<&'static str> {
        SERIES.iter().map(|series| series.name).collect()
    }

    /// Looks at the metrics. Rates are per second since the last look; a number that cannot be known, such as a quantile of
    /// nothing or any rate at the first look, is NaN.
    pub fn look(
        &mut self,
        metrics: &Metrics,
        readings: &Readings,
        now: Instant,
        wall: SystemTime,
    ) -> Vec<f32> {
        let from = Sources { metrics, readings };
        let elapsed = self.looked_at.map(|before| now.saturating_duration_since(before).as_secs_f64());
        self.looked_at = Some(now);
        self.before.resize_with(SERIES.len(), Before::default);
        let rows = SERIES.iter().zip(&mut self.before);
        let values = rows.map(|(series, before)| series.value(&from, before, elapsed)).collect();
        self.present = self.problems.look(&from, now, wall);
        values
    }

    /// What was wrong at the last look, the worst first.
    #[must_use]
    pub fn problems(&self) -> &[Problem] {
        &self.present
    }

    /// The section `problems` of `/status.json`.
    #[must_use]
    pub fn status(&self) -> Json {
        self.present.iter().map(Problem::status).collect()
    }
}

impl Problem {
    fn status(&self) -> Json {
        let since = self.since.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        json!({
            "severity": self.severity.label(),
            "subject": self.subject,
            "what": self.what,
            "since_timestamp_seconds": since.as_secs(),
            "help": self.help,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::time::Duration;

    use super::*;
    use crate::labels::{Method, ShortReason};
    use crate::readings::{OriginServerReading, TierCounters};

    /// Looks twice, a second apart, with something in between.
    fn second(metrics: &Metrics, readings: &Readings, between: impl FnOnce()) -> (Vec<f32>, Watch) {
        let (mut watch, now) = (Watch::default(), Instant::now());
        watch.look(metrics, readings, now, SystemTime::now());
        between();
        let values = watch.look(metrics, readings, now + Duration::from_secs(1), SystemTime::now());
        (values, watch)
    }

    fn value(values: &[f32], name: &str) -> f32 {
        values[Watch::series().iter().position(|known| *known == name).unwrap()]
    }

    #[test]
    fn each_series_reads_a_metric_of_the_table_and_has_a_name_of_its_own() {
        let metrics = Metrics::new(1);
        let mut watch = Watch::default();
        let values = watch.look(&metrics, &Readings::default(), Instant::now(), SystemTime::now());
        let names: BTreeSet<_> = Watch::series().into_iter().collect();
        assert_eq!((values.len(), names.len()), (SERIES.len(), SERIES.len()));
        assert!(value(&values, "requests_per_second").is_nan(), "nothing is known of the time before");
    }

    #[test]
    fn a_rate_is_the_growth_of_a_second_and_a_quantile_is_that_of_its_requests() {
        let metrics = Metrics::new(1);
        let shard = metrics.shard(0);
        let ask = |status, milliseconds| {
            let took = Duration::from_millis(milliseconds);
            shard.request(Method::Get, status, took, Some(took));
        };
        for _ in 0..100 {
            ask(200, 9_000);
        }
        let (values, _) = second(&metrics, &Readings::default(), || {
            for _ in 0..8 {
                ask(200, 1);
            }
            ask(404, 1);
            ask(503, 1);
        });
        assert_eq!(value(&values, "requests_per_second"), 10.0);
        assert_eq!(value(&values, "responses_4xx_per_second"), 1.0);
        assert_eq!(value(&values, "responses_5xx_per_second"), 1.0);
        let p99 = value(&values, "first_byte_p99_seconds");
        assert!((0.0005..=0.001).contains(&p99), "{p99}: slow requests of the time before do not count");
        assert!(value(&values, "full_handshake_p50_seconds").is_nan());
    }

    #[test]
    fn what_is_not_there_is_no_zero() {
        let (values, _) = second(&Metrics::new(1), &Readings::default(), || ());
        assert!(value(&values, "memory_tier_bytes").is_nan());
        assert_eq!(value(&values, "http2_streams"), 0.0);
        let tier = TierCounters { bytes: 4096, in_service: true, ..TierCounters::default() };
        let readings = Readings { memory_tier: Some(tier), ..Readings::default() };
        let (values, _) = second(&Metrics::new(1), &readings, || ());
        assert_eq!(value(&values, "memory_tier_bytes"), 4096.0);
    }

    #[test]
    fn an_origin_that_is_out_is_a_problem_since_it_was_first_seen() {
        let server = |up| OriginServerReading {
            url: "http://b.example:80".to_owned(),
            up,
            fault: "timeout".to_owned(),
            ..OriginServerReading::default()
        };
        let readings = |up| Readings { origin_servers: vec![server(up)], ..Readings::default() };
        let (metrics, mut watch, now) = (Metrics::new(1), Watch::default(), Instant::now());
        let wall = |seconds| SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000 + seconds);
        let mut look = |up, seconds| {
            watch.look(&metrics, &readings(up), now + Duration::from_secs(seconds), wall(seconds));
            watch.problems().to_vec()
        };
        assert_eq!(look(true, 0), []);
        let seen = look(false, 1);
        assert_eq!(seen[0].what, "origin http://b.example:80 is out: timeout");
        assert_eq!((seen.len(), seen[0].severity, seen[0].since), (1, Severity::Critical, wall(1)));
        assert_eq!(look(false, 60)[0].since, wall(1), "the time of the first look stays");
        assert_eq!(look(true, 61), []);
        assert_eq!(look(false, 62)[0].since, wall(62));
    }

    #[test]
    fn a_counter_that_has_grown_is_a_problem_for_five_minutes() {
        let (metrics, mut watch, now) = (Metrics::new(1), Watch::default(), Instant::now());
        let mut look = |seconds| {
            watch.look(&metrics, &Readings::default(), now + Duration::from_secs(seconds), SystemTime::now());
            watch.problems().to_vec()
        };
        assert_eq!(look(0), []);
        (0..3).for_each(|_| metrics.shard(0).short_response(ShortReason::Origin));
        let seen = look(1);
        assert_eq!(seen.len(), 1);
        assert!(seen[0].what.ends_with("a file ended early: 3"), "{}", seen[0].what);
        assert_eq!(look(200).len(), 1);
        assert_eq!(look(302), []);
    }
}
