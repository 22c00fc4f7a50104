//! Threads and time: a run from its first connection to its outcome.

mod shared;
mod starts;
mod worker;

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};
use tokio::sync::watch;

use crate::net::{Connector, Sessions, server_name};
use crate::plan::Plan;
use crate::tally::{Latencies, Tally};

pub(crate) use shared::Shared;
pub(crate) use worker::Worker;

/// What came out.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Everything counted.
    pub tally: Tally,
    /// From the first start to the last end.
    pub elapsed: Duration,
    /// CPU time that this process spent meanwhile.
    pub cpu: Duration,
    /// One for each second.
    pub moments: Vec<Moment>,
    /// Operations that the end of the run cut off.
    pub unfinished: u64,
    /// Why the figures say nothing about the server, if so.
    pub void: Option<String>,
}

/// One second of a run, or a little more or less.
#[derive(Clone, Debug)]
pub struct Moment {
    /// When it ended, after the beginning.
    pub at: Duration,
    /// How long it was.
    pub length: Duration,
    /// Operations that ended in it.
    pub operations: u64,
    /// Failures in it.
    pub errors: u64,
    /// Bytes of bodies in it.
    pub bytes: u64,
    /// CPU time of this process in it.
    pub cpu: Duration,
    /// Median of the latencies.
    pub p50: Duration,
    /// Their 99th percentile.
    pub p99: Duration,
}

impl Moment {
    /// Adds what is too short to be a moment of its own.
    fn add_rest(&mut self, rest: &Self) {
        self.at = rest.at;
        self.length += rest.length;
        self.operations += rest.operations;
        self.errors += rest.errors;
        self.bytes += rest.bytes;
        self.cpu += rest.cpu;
    }
}

/// Ends a run from outside: its figures up to then are its outcome.
#[derive(Clone, Debug)]
pub struct Stop(watch::Sender<bool>);

impl Default for Stop {
    fn default() -> Self {
        Self(watch::Sender::new(false))
    }
}

impl Stop {
    /// Ends the run.
    pub fn stop(&self) {
        self.0.send_replace(true);
    }

    fn watch(&self) -> watch::Receiver<bool> {
        self.0.subscribe()
    }
}

/// How often progress is looked at.
const TICK: Duration = Duration::from_secs(1);

/// Less says nothing by itself: what is left at the end belongs to the moment before.
const SHORT: Duration = Duration::from_millis(100);

/// A day and a half of moments; a longer run has no plot of what comes after.
const MOMENTS_MAX: usize = 131_072;

/// Does what the plan says. `observe` is told of every second and its latencies.
///
/// # Errors
/// What about the plan cannot be done, and which option to change.
pub fn run(
    plan: Plan,
    stop: &Stop,
    mut observe: impl FnMut(&Moment, &Latencies, &Tally),
) -> Result<Outcome, String> {
    let name = server_name(&plan.tls, &plan.target.host).to_owned();
    let sessions = Arc::new(Sessions::default());
    if let Some(file) = &plan.sessions {
        // Writing them at once tells before the run, not after it, whether that can be done.
        let kept = sessions.load(file, &name).and_then(|()| sessions.save(file, &name));
        kept.map_err(|error| format!("--sessions {}: {error}", file.display()))?;
    }
    let plan = Arc::new(plan);
    let connectors = (0..plan.threads).map(|_| Connector::new(&plan, Arc::clone(&sessions)));
    let connectors = connectors.collect::<Result<Vec<_>, String>>()?;
    // Reading authorities takes its time, which belongs to no rate and delays no start.
    let cpu_before = process_cpu();
    let shared = Arc::new(Shared::new(&plan));
    let mut threads = Vec::new();
    for (index, connector) in connectors.into_iter().enumerate() {
        let (plan, shared, watch) = (Arc::clone(&plan), Arc::clone(&shared), stop.watch());
        let spawned = thread::Builder::new()
            .name(format!("load-{index}"))
            .spawn(move || worker::run(&plan, &shared, index, connector, watch));
        threads.push(spawned.map_err(|error| format!("cannot start a thread: {error}"))?);
    }
    let mut progress = Progress::new(&shared);
    while !threads.iter().all(thread::JoinHandle::is_finished) {
        shared.wait_for_end(TICK, plan.threads);
        if progress.at.elapsed() >= SHORT {
            let (moment, recent) = progress.tick(&shared);
            observe(&moment, &recent, &progress.last);
        }
    }
    let mut ended = shared.began;
    for thread in threads {
        let end = thread
            .join()
            .map_err(|_| "a thread of the generator broke off; this is a fault in it".to_owned())?;
        ended = ended.max(end?);
    }
    let (moment, recent) = progress.tick(&shared);
    if recent.count() > 0 {
        observe(&moment, &recent, &progress.last);
    }
    let tally = shared.sum();
    if let Some(file) = &plan.sessions {
        sessions.save(file, &name).map_err(|error| format!("--sessions {}: {error}", file.display()))?;
    }
    Ok(Outcome {
        elapsed: ended - shared.began,
        cpu: process_cpu().saturating_sub(cpu_before),
        moments: progress.moments,
        unfinished: tally.in_flight + shared.backlog(),
        void: tally.punctuality.fault(),
        tally,
    })
}

fn process_cpu() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(u64::try_from(time.tv_sec).unwrap_or(0), u32::try_from(time.tv_nsec).unwrap_or(0))
}

/// What was already told.
struct Progress {
    at: Instant,
    cpu: Duration,
    last: Tally,
    moments: Vec<Moment>,
}

impl Progress {
    fn new(shared: &Shared) -> Self {
        Self { at: shared.began, cpu: process_cpu(), last: Tally::default(), moments: Vec::new() }
    }

    /// The moment since the last one.
    fn tick(&mut self, shared: &Shared) -> (Moment, Latencies) {
        let now = Instant::now();
        let length = now - self.at;
        let (tally, recent) = shared.look();
        let cpu = process_cpu();
        let moment = Moment {
            at: now - shared.began,
            length,
            operations: recent.count(),
            errors: tally.errors_total() - self.last.errors_total(),
            bytes: tally.bytes - self.last.bytes,
            cpu: cpu.saturating_sub(self.cpu),
            p50: recent.percentile(50.0),
            p99: recent.percentile(99.0),
        };
        (self.at, self.cpu, self.last) = (now, cpu, tally);
        let is_full = self.moments.len() >= MOMENTS_MAX;
        match self.moments.last_mut() {
            Some(last) if length < SHORT => last.add_rest(&moment),
            _ if is_full => {}
            _ => self.moments.push(moment.clone()),
        }
        (moment, recent)
    }
}
