//! Shares that are too high. A problem begins above one level and ends below a lower one, so that it does not come and go.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use super::condition::{Condition, warning};
use crate::lookup::{Which, look_up, sum_of, sums_by};
use crate::metric::Sources;

/// Between which levels a share is a problem.
#[derive(Clone, Copy, Debug)]
struct Bounds {
    begins: f64,
    ends: f64,
    /// A share of fewer events says nothing.
    least: f64,
    /// Nor does one of which fewer events are the part.
    least_part: f64,
}

const HANDSHAKES: Bounds = Bounds { begins: 0.2, ends: 0.1, least: 20.0, least_part: 0.0 };
// A small site that serves nothing else has few responses.
const SERVER_ERRORS: Bounds = Bounds { begins: 0.01, ends: 0.005, least: 0.0, least_part: 5.0 };
const FIRST_BYTE: Bounds = Bounds { begins: 0.01, ends: 0.005, least: 100.0, least_part: 0.0 };
const PLAYERS: Bounds = Bounds { begins: 0.02, ends: 0.01, least: 50.0, least_part: 0.0 };
const BUSY: Bounds = Bounds { begins: 0.95, ends: 0.85, least: 0.0, least_part: 0.0 };
const DESCRIPTORS: Bounds = Bounds { begins: 0.9, ends: 0.8, least: 0.0, least_part: 0.0 };

/// How long workers have to be busy.
const BUSY_PATIENCE: Duration = Duration::from_secs(10);

/// A first byte that takes longer is slow, in seconds. A bound of the histogram.
const SLOW: f64 = 1.0;

/// The time in which the weight of an event falls to a third (1 / e), in seconds.
const MEMORY: f64 = 60.0;

/// The growth of a counter in about the last minute; before the first look it was 0, as the program begins to count.
#[derive(Clone, Copy, Debug, Default)]
struct Recent {
    before: f64,
    sum: f64,
}

impl Recent {
    fn look(&mut self, total: f64, kept: f64) {
        self.sum = self.sum * kept + (total - self.before).max(0.0);
        self.before = total;
    }
}

/// Whether a share is too high.
#[derive(Clone, Copy, Debug, Default)]
struct Level(bool);

impl Level {
    fn is_high(&mut self, share: f64, bounds: Bounds) -> bool {
        self.0 = share > if self.0 { bounds.ends } else { bounds.begins };
        self.0
    }
}

/// A share of the events of about the last minute.
#[derive(Clone, Copy, Debug, Default)]
struct RecentShare {
    part: Recent,
    whole: Recent,
    level: Level,
}

impl RecentShare {
    /// The share in percent, if it is too high.
    fn look(&mut self, (part, whole): (f64, f64), kept: f64, bounds: Bounds) -> Option<f64> {
        self.part.look(part, kept);
        self.whole.look(whole, kept);
        let needed = if self.level.0 { 0.25 } else { 1.0 };
        let is_enough = |seen: Recent, least: f64| seen.sum >= least * needed;
        let enough = is_enough(self.whole, bounds.least) && is_enough(self.part, bounds.least_part);
        let enough = enough && self.whole.sum > 0.0;
        let share = if enough { self.part.sum / self.whole.sum } else { 0.0 };
        self.level.is_high(share, bounds).then_some(100.0 * share)
    }
}

/// The shares, as they were seen last. Bounded as the metrics are.
#[derive(Debug, Default)]
pub(super) struct Levels {
    looked_at: Option<Instant>,
    handshakes: RecentShare,
    failures: BTreeMap<String, Recent>,
    server_errors: RecentShare,
    first_byte: RecentShare,
    players: BTreeMap<String, RecentShare>,
    busy: Level,
    descriptors: Level,
}

impl Levels {
    pub(super) fn look(&mut self, from: &Sources<'_>, now: Instant) -> Vec<Condition> {
        let elapsed = self.looked_at.map_or(Duration::ZERO, |then| now.saturating_duration_since(then));
        self.looked_at = Some(now);
        let kept = (-elapsed.as_secs_f64() / MEMORY).exp();
        let mut found = Vec::new();
        self.handshakes(from, kept, &mut found);
        self.server_errors(from, kept, &mut found);
        self.first_byte(from, kept, &mut found);
        self.players(from, kept, &mut found);
        self.workers(from, &mut found);
        self.descriptors(from, &mut found);
        found
    }

    fn handshakes(&mut self, from: &Sources<'_>, kept: f64, found: &mut Vec<Condition>) {
        let read = |which| sum_of(from, "penstock_handshakes_total", which);
        let failed = read(Which::Only(&[("outcome", &["failed"])]));
        for (reason, total) in sums_by(from, "penstock_handshake_failures_total", Which::All, "reason") {
            self.failures.entry(reason).or_default().look(total, kept);
        }
        let Some(percent) = self.handshakes.look((failed, read(Which::All)), kept, HANDSHAKES) else {
            return;
        };
        let most = self.failures.iter().max_by(|(_, one), (_, other)| one.sum.total_cmp(&other.sum));
        let reason = most.map_or("unknown", |(reason, _)| reason.as_str());
        found.push(warning(
            "handshakes",
            "handshakes fail".to_owned(),
            format!("{percent:.0} % of the handshakes of the last minute failed, most of them: {reason}"),
            "docs/handshakes.md tells what each reason of penstock_handshake_failures_total means; penstock doctor -c FILE \
             examines certificates and keys",
        ));
    }

    fn server_errors(&mut self, from: &Sources<'_>, kept: f64, found: &mut Vec<Condition>) {
        let read = |which| sum_of(from, "penstock_requests_total", which);
        let numbers = (read(Which::Only(&[("status", &["5xx"])])), read(Which::All));
        let Some(percent) = self.server_errors.look(numbers, kept, SERVER_ERRORS) else { return };
        found.push(warning(
            "requests",
            "server errors".to_owned(),
            format!("{percent:.1} % of the responses of the last minute had a status of 5xx"),
            "the access log names them: jq 'select(.status >= 500)'",
        ));
    }

    /// Requests that wait for a part of a playlist wait as long as their players want.
    fn first_byte(&mut self, from: &Sources<'_>, kept: f64, found: &mut Vec<Condition>) {
        let (_, samples) = look_up(from, "penstock_time_to_first_byte_seconds");
        let all = || samples.distributions.iter().flat_map(|(_, one)| one.buckets());
        let whole: u64 = all().map(|(_, count)| count).sum();
        let slow: u64 = all().filter(|(bound, _)| *bound > SLOW).map(|(_, count)| count).sum();
        let held = sum_of(from, "penstock_playlist_reloads_total", Which::Only(&[("outcome", &["held"])]));
        let numbers = ((slow as f64 - held).max(0.0), whole as f64 - held);
        let Some(percent) = self.first_byte.look(numbers, kept, FIRST_BYTE) else { return };
        found.push(warning(
            "requests",
            "first byte".to_owned(),
            format!("{percent:.1} % of the responses of the last minute took longer than a second to their first byte"),
            "penstock top -c FILE shows whether origins, disks or workers are slow; sites.origin.timeouts bounds origins",
        ));
    }

    fn players(&mut self, from: &Sources<'_>, kept: f64, found: &mut Vec<Condition>) {
        let starved = sums_by(from, "penstock_player_starved_requests_total", Which::All, "site");
        for (site, whole) in sums_by(from, "penstock_player_requests_total", Which::All, "site") {
            let part = starved.get(&site).copied().unwrap_or_default();
            let seen = self.players.entry(site.clone()).or_default();
            let Some(percent) = seen.look((part, whole), kept, PLAYERS) else { continue };
            found.push(warning(
                "players",
                format!("players of {site}"),
                format!("players of the site {site} starve: their buffer was empty at {percent:.1} % of the requests of the last minute"),
                "the page names the titles that starve, and the clients that are slower than metrics.rates; penstock top -c FILE \
                 shows whether this edge is slow",
            ));
        }
    }

    fn workers(&mut self, from: &Sources<'_>, found: &mut Vec<Condition>) {
        let busy = from.metrics.busy_share();
        if !self.busy.is_high(busy, BUSY) {
            return;
        }
        found.push(Condition {
            patience: BUSY_PATIENCE,
            ..warning(
                "workers",
                "busy".to_owned(),
                format!("the workers are {:.0} % busy", 100.0 * busy),
                "add a machine, or workers if the machine has idle cores; penstock doctor shows what costs time",
            )
        });
    }

    fn descriptors(&mut self, from: &Sources<'_>, found: &mut Vec<Condition>) {
        let read = |name| sum_of(from, name, Which::All);
        let (open, most) = (read("process_open_fds"), read("process_max_fds"));
        if most > 0.0 && self.descriptors.is_high(open / most, DESCRIPTORS) {
            found.push(warning(
                "program",
                "descriptors".to_owned(),
                format!("{open} of {most} descriptors are in use"),
                "raise LimitNOFILE of the service, or lower limits.connections",
            ));
        }
    }
}
