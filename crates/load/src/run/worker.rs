//! One thread with its share of the connections.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::{Arc, MutexGuard};
use std::time::{Duration, Instant};

use tokio::sync::watch;
use tokio::task::{JoinSet, LocalSet};

use super::Shared;
use super::starts::Starts;
use crate::drive;
use crate::failure::Failure;
use crate::net::{Connector, Link, Opening};
use crate::plan::{Mode, Plan};
use crate::schedule::Schedule;
use crate::tally::Tally;
use crate::target::Target;
use crate::workload::{Chooser, Request};

/// What is read at once from a connection.
const SCRATCH_BYTES: usize = 64 * 1024;

/// So many servers that manifests named are remembered.
const SERVERS_MAX: usize = 1000;

/// How long operations that have begun may take after the run's time is up.
const GRACE: Duration = Duration::from_secs(1);

/// What the operations of a thread share.
pub(crate) struct Worker {
    pub(crate) plan: Arc<Plan>,
    pub(crate) shared: Arc<Shared>,
    pub(crate) connector: Connector,
    pub(crate) chooser: RefCell<Chooser>,
    pub(crate) scratch: RefCell<Vec<u8>>,
    /// Where servers are that a manifest named.
    elsewhere: RefCell<HashMap<(String, u16), SocketAddr>>,
    starts: Starts,
    stop: watch::Receiver<bool>,
    index: usize,
    next_address: Cell<usize>,
    /// When the last operation ended, or the last bytes came.
    progressed: Cell<Instant>,
}

/// Runs a thread until everything is done or the time is up; returns when that was.
pub(super) fn run(
    plan: &Arc<Plan>,
    shared: &Arc<Shared>,
    index: usize,
    connector: Connector,
    stop: watch::Receiver<bool>,
) -> Result<Instant, String> {
    let schedule = plan.rate.map(|rate| Schedule::new(rate, index, plan.threads));
    let workload = Arc::new(plan.workload.clone());
    let worker = Rc::new(Worker {
        plan: Arc::clone(plan),
        shared: Arc::clone(shared),
        connector,
        chooser: RefCell::new(Chooser::new(workload, plan.seed, index, plan.threads)),
        scratch: RefCell::new(vec![0; SCRATCH_BYTES]),
        elsewhere: RefCell::default(),
        starts: Starts::new(schedule),
        stop,
        index,
        next_address: Cell::new(index),
        progressed: Cell::new(shared.began),
    });
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let result = match runtime {
        Ok(runtime) => {
            let local = LocalSet::new();
            local.block_on(&runtime, work(&worker)).map_err(|error| format!("cannot keep time: {error}"))
        }
        Err(error) => Err(format!("cannot start a runtime: {error}")),
    };
    let end = worker.end();
    worker.tally().punctuality = worker.starts.punctuality();
    shared.end(worker.starts.backlog());
    result.map(|()| end)
}

async fn work(worker: &Rc<Worker>) -> std::io::Result<()> {
    let mut tasks = JoinSet::new();
    let plan = &worker.plan;
    // The first threads take what cannot be shared evenly.
    let mine = plan.connections / plan.threads + usize::from(worker.index < plan.connections % plan.threads);
    for number in 0..mine {
        let worker = Rc::clone(worker);
        tasks.spawn_local(async move { drive::slot(&worker, number).await });
    }
    let all_done = async { while tasks.join_next().await.is_some() {} };
    let released = worker.starts.release(&worker.shared);
    let over = time_is_up(worker);
    tokio::pin!(all_done, released, over);
    let mut is_releasing = true;
    loop {
        tokio::select! {
            () = &mut all_done => return Ok(()),
            () = &mut over => return Ok(()),
            result = &mut released, if is_releasing => {
                is_releasing = false;
                result?;
            }
        }
    }
}

/// Ready when the run has to end, whatever is still under way.
async fn time_is_up(worker: &Worker) {
    let deadline = worker.shared.deadline();
    let grace = match worker.plan.mode {
        // Players leave by themselves, and then say how it was.
        Mode::Handshakes { .. } | Mode::Requests | Mode::Playback(_) => GRACE,
        Mode::Download { .. } => Duration::ZERO,
    };
    let passed = async {
        match deadline {
            Some(deadline) => tokio::time::sleep_until((deadline + grace).into()).await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        () = passed => {}
        () = worker.stopped() => {
            if let Mode::Playback(_) = worker.plan.mode {
                tokio::time::sleep(grace).await;
            }
        }
    }
}

impl Worker {
    /// This thread's counters. Must not be held over an `await`.
    pub(crate) fn tally(&self) -> MutexGuard<'_, Tally> {
        self.shared.tally(self.index)
    }

    /// Waits for the next start and says when it was due; `None` when there are no more.
    pub(crate) async fn next_start(&self) -> Option<Instant> {
        if *self.stop.borrow() {
            return None;
        }
        let due = self.starts.next(&self.shared).await?;
        self.tally().in_flight += 1;
        Some(due)
    }

    /// Ready when the run is ended from outside.
    pub(crate) async fn stopped(&self) {
        let mut stop = self.stop.clone();
        if stop.wait_for(|stopped| *stopped).await.is_err() {
            // Nobody is left who could end it.
            std::future::pending::<()>().await;
        }
    }

    /// Which share of all connections comes before number `number` of this thread.
    #[expect(clippy::cast_precision_loss, reason = "a share need not be exact")]
    pub(crate) fn place(&self, number: usize) -> f64 {
        let before = number * self.plan.threads + self.index;
        before as f64 / self.plan.connections as f64
    }

    /// Says that an operation is over whose parts were counted one by one.
    pub(crate) fn leave(&self) {
        self.tally().in_flight -= 1;
    }

    /// Says that something was done just now.
    pub(crate) fn progress(&self) {
        self.progressed.set(Instant::now());
    }

    /// When this thread's part was over. Waiting in vain for what had begun before the time was up belongs to no rate.
    fn end(&self) -> Instant {
        let now = Instant::now();
        match (self.plan.mode, self.shared.deadline()) {
            (Mode::Playback(_), _) => now,
            (_, None) if *self.stop.borrow() => now,
            (_, None) => self.progressed.get(),
            (_, Some(deadline)) => now.min(deadline.max(self.progressed.get())),
        }
    }

    /// Keeps where and how a request failed.
    pub(crate) fn blame(&self, address: SocketAddr, link: &Link, request: &Request, failure: Failure) {
        let protocol = link.protocol().unwrap_or("http/1.1");
        let path = request.object.trim_end();
        let mut tally = self.tally();
        match (failure, protocol) {
            (_, "http/1.1" | "http/1.0") => tally.blame(address, failure, &path),
            _ => tally.blame(
                address,
                failure,
                &format_args!("{path} over {protocol}, which this tool does not speak"),
            ),
        }
    }

    /// Says that an operation is over.
    pub(crate) fn finish(&self, due: Instant, outcome: Result<(), Failure>) {
        self.progress();
        let mut tally = self.tally();
        tally.in_flight -= 1;
        match outcome {
            Ok(()) => tally.finish(self.progressed.get().saturating_duration_since(due)),
            Err(failure) => tally.fail(failure),
        }
    }

    /// The addresses in turn, so that each gets its share.
    pub(crate) fn next_address(&self) -> SocketAddr {
        let place = self.next_address.get();
        self.next_address.set(place.wrapping_add(1));
        let addresses = &self.plan.addresses;
        addresses[place % addresses.len()]
    }

    /// The address of a server that is not the plan's.
    pub(crate) async fn look_up(&self, target: &Target) -> Result<SocketAddr, Failure> {
        let name = (target.host.clone(), target.port);
        if let Some(found) = self.elsewhere.borrow().get(&name) {
            return Ok(*found);
        }
        let found = match tokio::net::lookup_host((target.host.as_str(), target.port)).await {
            Ok(mut addresses) => addresses.next(),
            Err(_) => None,
        };
        let address = found.ok_or(Failure::ConnectFailed)?;
        let mut elsewhere = self.elsewhere.borrow_mut();
        if elsewhere.len() < SERVERS_MAX {
            elsewhere.insert(name, address);
        }
        Ok(address)
    }

    /// Opens a connection and counts what came of it.
    pub(crate) async fn connect(&self, address: SocketAddr) -> Result<(Link, Opening), Failure> {
        self.connect_to(None, address).await
    }

    /// The same to another server than the plan's.
    pub(crate) async fn connect_to(
        &self,
        elsewhere: Option<&Target>,
        address: SocketAddr,
    ) -> Result<(Link, Opening), Failure> {
        let mut opening = Opening::default();
        let opened = self.connector.open(elsewhere, address, &mut opening).await;
        self.progress();
        let mut tally = self.tally();
        if let Some(tcp) = opening.tcp {
            tally.connections += 1;
            tally.tcp.note(tcp);
        }
        tally.offered += u64::from(opening.offered);
        let at = tally.at(address);
        at.offered += u64::from(opening.offered);
        match opened {
            Ok(link) => {
                if let Some(tls) = opening.tls {
                    tally.tls.note(tls);
                }
                drop(tally);
                // With early data, what was agreed on shows only when the server has answered.
                if !opening.early_data {
                    self.note_handshake(address, &link, &opening);
                }
                Ok((link, opening))
            }
            Err((failure, detail)) => {
                tally.blame(address, failure, &detail);
                Err(failure)
            }
        }
    }

    /// Counts a handshake that is over.
    pub(crate) fn note_handshake(&self, address: SocketAddr, link: &Link, opening: &Opening) {
        let Some(facts) = link.facts() else { return };
        let mut tally = self.tally();
        tally.handshakes += 1;
        tally.resumed += u64::from(facts.resumed);
        tally.early_data_sent += u64::from(opening.early_data);
        tally.early_data_accepted += u64::from(facts.early_data_accepted);
        let at = tally.at(address);
        at.handshakes += 1;
        at.resumed += u64::from(facts.resumed);
        match tally.agreed.get_mut(&facts.agreed) {
            Some(count) => *count += 1,
            None => {
                tally.agreed.insert(facts.agreed, 1);
            }
        }
    }
}
