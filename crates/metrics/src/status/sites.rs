//! The section `sites` of `/status.json`.

use serde_json::{Map, Value as Json, json};

use super::quantiles;
use crate::cells::Distribution;
use crate::distinct::estimate;
use crate::labels::{CacheOutcome, ClientKind, HttpLabel, ShortReason, StatusClass};
use crate::players::{KindOfPlayer, PlayerCounters};
use crate::registry::Metrics;
use crate::shard::{CacheCounters, SiteOfWorkers};
use crate::titles::{BUFFERS, THROUGHPUTS};
use crate::viewers::viewers;

impl Metrics {
    /// The counts of each site that has had a request.
    pub(super) fn site_status(&self) -> Vec<Json> {
        let (rates, second) = (self.rates(), self.second());
        self.sites().iter().map(|site| site.status(&rates, second)).collect()
    }
}

impl SiteOfWorkers<'_> {
    fn status(&self, rates: &[u64], second: u64) -> Json {
        let measured = self.viewers();
        let of_class = |class: &StatusClass| self.sum(|counters| counters.requests[*class as usize].get());
        let by_class =
            StatusClass::ALL.iter().map(|class| (class.label().to_owned(), json!(of_class(class))));
        let short = ShortReason::ALL.iter().map(|why| {
            let count = self.sum(|counters| counters.short[*why as usize].get());
            (why.label().to_owned(), json!(count))
        });
        json!({
            "name": &*self.name,
            "requests": StatusClass::ALL.iter().map(of_class).sum::<u64>(),
            "by_class": by_class.collect::<Map<_, _>>(),
            "bytes": self.sum(|counters| counters.body_bytes.get()),
            "cache_requests": self.cached(|_| true, |cached| cached.requests.get()),
            "cache_bytes": self.cached(|_| true, |cached| cached.bytes.get()),
            "hit_requests": self.cached(CacheOutcome::is_hit, |cached| cached.requests.get()),
            "hit_bytes": self.cached(CacheOutcome::is_hit, |cached| cached.bytes.get()),
            "first_byte_seconds": quantiles(&self.distribution(|counters| &counters.first_byte)),
            "short": short.collect::<Map<_, _>>(),
            "players": players(&self.players()),
            "slow": rates.iter().enumerate().map(|(place, rate)| json!({
                "bytes_per_second": rate,
                "responses": self.sum(|counters| counters.slow[place].get()),
                "viewers": viewers(&measured, Some(place), second),
            })).collect::<Vec<_>>(),
            "measured": self.measured(),
            "measured_viewers": viewers(&measured, None, second),
        })
    }

    /// Responses whose delivery rate was measured.
    fn measured(&self) -> u64 {
        let of =
            |version: usize| self.distribution(|counters| &counters.carried[version].delivery_rate).count();
        (0..HttpLabel::ALL.len()).map(of).sum()
    }

    /// The sum over these cache statuses.
    fn cached(&self, wanted: fn(CacheOutcome) -> bool, count: fn(&CacheCounters) -> u64) -> u64 {
        let outcomes = CacheOutcome::ALL.iter().copied().filter(|outcome| wanted(*outcome));
        outcomes.map(|outcome| self.sum(|counters| count(&counters.cached[outcome as usize]))).sum()
    }
}

/// What players say; null if none has said anything.
fn players(heard: &[&PlayerCounters]) -> Option<Json> {
    let sum = |count: fn(&KindOfPlayer) -> u64| {
        heard.iter().flat_map(|players| &players.kinds).map(count).sum::<u64>()
    };
    let kinds = || heard.iter().flat_map(|players| &players.kinds);
    let buffer = Distribution::of(kinds().map(|kind| &kind.buffer));
    let throughput = Distribution::of(kinds().map(|kind| &kind.throughput));
    (!heard.is_empty()).then(|| {
        json!({
            "requests": sum(|kind| kind.requests.get()),
            "starved": sum(|kind| kind.starved.get()),
            "startup": sum(|kind| kind.startup.get()),
            "sessions": estimate(heard.iter().map(|players| &players.sessions)),
            "buffer": coarse(&buffer, &BUFFERS, "seconds_max"),
            "throughput": coarse(&throughput, &THROUGHPUTS, "ratio_max"),
            "clients": ClientKind::ALL.iter().filter_map(|kind| of_kind(heard, *kind)).collect::<Map<_, _>>(),
        })
    })
}

/// The requests in few buckets, whose bounds in thousandths are some of the histogram's. A bucket has its upper bound, the last one
/// none.
fn coarse(of: &Distribution, bounds: &[u64], unit: &str) -> Vec<Json> {
    let mut lower = 0.0;
    let mut bucket = |upper: Option<f64>| {
        let within = |bound: f64| bound > lower && upper.is_none_or(|upper| bound <= upper);
        let requests: u64 = of.buckets().filter(|(bound, _)| within(*bound)).map(|(_, count)| count).sum();
        lower = upper.unwrap_or(lower);
        json!({unit: upper, "requests": requests})
    };
    bounds.iter().map(|bound| Some(*bound as f64 / 1000.0)).chain([None]).map(&mut bucket).collect()
}

/// What players on one kind of client say, with its name; `None` if none has said anything.
fn of_kind(heard: &[&PlayerCounters], kind: ClientKind) -> Option<(String, Json)> {
    let players = || heard.iter().map(|players| &players.kinds[kind as usize]);
    let sum = |count: fn(&KindOfPlayer) -> u64| players().map(count).sum::<u64>();
    let requests = sum(|kind| kind.requests.get());
    (requests > 0).then(|| {
        let shown = json!({
            "requests": requests,
            "starved": sum(|kind| kind.starved.get()),
            "startup": sum(|kind| kind.startup.get()),
            "sessions": estimate(players().map(|kind| &kind.sessions)),
        });
        (kind.label().to_owned(), shown)
    })
}
