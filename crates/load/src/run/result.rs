//! The result of a run.

use std::time::Duration;

use crate::tally::Tally;

/// The result of a run.
#[derive(Clone, Debug)]
pub struct RunResult {
    /// The counters.
    pub tally: Tally,
    /// From the first start to the last end.
    pub elapsed: Duration,
    /// The CPU time of this process.
    pub cpu: Duration,
    /// One interval per second.
    pub intervals: Vec<Interval>,
    /// Operations that were cut off by the end of the run.
    pub unfinished: u64,
    /// Why the run is void, if it is: the figures then say nothing about the server.
    pub void: Option<String>,
}

/// About one second of a run.
#[derive(Clone, Debug)]
pub struct Interval {
    /// Its end, relative to the start of the run.
    pub at: Duration,
    /// Its length.
    pub length: Duration,
    /// Operations that ended.
    pub operations: u64,
    /// Failures.
    pub errors: u64,
    /// Bytes of bodies.
    pub bytes: u64,
    /// The CPU time of this process.
    pub cpu: Duration,
    /// The median of the latencies.
    pub p50: Duration,
    /// The 99th percentile of the latencies.
    pub p99: Duration,
    /// Stalls of players that began.
    pub stalls: u64,
    /// Players that are stalled at its end.
    pub stalled: u64,
    /// The median distance of players from the live edge; zero without live streams.
    pub live_distance: Duration,
}

impl Interval {
    /// Adds an interval that is too short for itself.
    pub(super) fn add_rest(&mut self, rest: &Self) {
        self.at = rest.at;
        self.length += rest.length;
        self.operations += rest.operations;
        self.errors += rest.errors;
        self.bytes += rest.bytes;
        self.cpu += rest.cpu;
        self.stalls += rest.stalls;
        self.stalled = rest.stalled;
    }
}
