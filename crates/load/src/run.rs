//! A run: threads, intervals, and the result.

mod result;
mod stop;
mod thread;

use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

pub use self::result::{Interval, RunResult};
pub use self::stop::StopSignal;
use crate::latencies::Latencies;
use crate::net::{Connector, SessionPool, server_name};
use crate::plan::Plan;
use crate::tally::Tally;
use crate::worker::RunState;

/// The length of an interval.
const TICK: Duration = Duration::from_secs(1);

/// A shorter rest belongs to the interval before it.
const SHORT: Duration = Duration::from_millis(100);

/// The most intervals that are kept: a day and a half.
const INTERVALS_MAX: usize = 131_072;

/// Carries out a plan. `observe` gets each interval, its latencies, and the counters so far.
///
/// # Errors
/// Says what about the plan is impossible, and which option to change.
pub fn run(
    plan: Plan,
    stop: &StopSignal,
    mut observe: impl FnMut(&Interval, &Latencies, &Tally),
) -> Result<RunResult, String> {
    let name = server_name(&plan.tls, &plan.target.host).to_owned();
    let sessions = Arc::new(SessionPool::default());
    if let Some(file) = &plan.sessions {
        // A file that cannot be written is reported before the run.
        let kept = sessions.load(file, &name).and_then(|()| sessions.save(file, &name));
        kept.map_err(|error| format!("--sessions {}: {error}", file.display()))?;
    }
    let plan = Arc::new(plan);
    let connectors = (0..plan.threads).map(|_| Connector::new(&plan, Arc::clone(&sessions)));
    let connectors = connectors.collect::<Result<Vec<_>, String>>()?;
    // Reading authorities takes time, which must not delay starts.
    let cpu_before = process_cpu();
    let shared = Arc::new(RunState::new(&plan));
    let mut threads = Vec::new();
    for (index, connector) in connectors.into_iter().enumerate() {
        let (plan, shared, watch) = (Arc::clone(&plan), Arc::clone(&shared), stop.watch());
        let spawned = std::thread::Builder::new()
            .name(format!("load-{index}"))
            .spawn(move || thread::run(&plan, &shared, index, connector, watch));
        threads.push(spawned.map_err(|error| format!("cannot start a thread: {error}"))?);
    }
    let mut progress = IntervalRecorder::new(&shared);
    while !threads.iter().all(std::thread::JoinHandle::is_finished) {
        shared.wait_for_end(TICK, plan.threads);
        if progress.at.elapsed() >= SHORT {
            let (interval, recent) = progress.tick(&shared);
            observe(&interval, &recent, &progress.last);
        }
    }
    let mut ended = shared.began;
    for thread in threads {
        let end = thread
            .join()
            .map_err(|_| "a thread of the generator broke off; this is a fault in it".to_owned())?;
        ended = ended.max(end?);
    }
    let (interval, recent) = progress.tick(&shared);
    if recent.count() > 0 {
        observe(&interval, &recent, &progress.last);
    }
    let tally = shared.sum();
    if let Some(file) = &plan.sessions {
        sessions.save(file, &name).map_err(|error| format!("--sessions {}: {error}", file.display()))?;
    }
    Ok(RunResult {
        elapsed: ended - shared.began,
        cpu: process_cpu().saturating_sub(cpu_before),
        intervals: progress.intervals,
        unfinished: tally.in_flight + shared.backlog(),
        void: tally.punctuality.fault(),
        tally,
    })
}

fn process_cpu() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(u64::try_from(time.tv_sec).unwrap_or(0), u32::try_from(time.tv_nsec).unwrap_or(0))
}

/// Cuts a run into intervals.
struct IntervalRecorder {
    at: Instant,
    cpu: Duration,
    last: Tally,
    intervals: Vec<Interval>,
}

impl IntervalRecorder {
    fn new(shared: &RunState) -> Self {
        Self { at: shared.began, cpu: process_cpu(), last: Tally::default(), intervals: Vec::new() }
    }

    /// Returns the time since the last interval as an interval, with its latencies.
    fn tick(&mut self, shared: &RunState) -> (Interval, Latencies) {
        let now = Instant::now();
        let length = now - self.at;
        let (tally, recent, distance) = shared.look();
        let cpu = process_cpu();
        let interval = Interval {
            at: now - shared.began,
            length,
            operations: recent.count(),
            errors: tally.errors_total() - self.last.errors_total(),
            bytes: tally.bytes - self.last.bytes,
            cpu: cpu.saturating_sub(self.cpu),
            p50: recent.percentile(50.0),
            p99: recent.percentile(99.0),
            stalls: tally.playback.stalls - self.last.playback.stalls,
            stalled: tally.playback.stalled_now,
            live_distance: distance.percentile(50.0),
        };
        (self.at, self.cpu, self.last) = (now, cpu, tally);
        let is_full = self.intervals.len() >= INTERVALS_MAX;
        match self.intervals.last_mut() {
            Some(last) if length < SHORT => last.add_rest(&interval),
            _ if is_full => {}
            _ => self.intervals.push(interval.clone()),
        }
        (interval, recent)
    }
}
